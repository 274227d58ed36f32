//! The collator that the command of this thread compares text by; none is byte order.
//!
//! A command holds the guard while it plans and runs, and its cursor's later batches take it up again. What must not
//! obey it, such as the planner's work with the bounds of another index, holds a guard of its own.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::collator::Collator;
use crate::work;

thread_local! {
    static COLLATOR: RefCell<Option<Arc<Collator>>> = const { RefCell::new(None) };
    /// Whether there is one: asked at every comparison of text.
    static IS_SET: Cell<bool> = const { Cell::new(false) };
    static SORT_KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The time during which a collator is in force; afterwards it is what was before.
#[must_use]
#[derive(Debug)]
pub struct InForce {
    before: Option<Arc<Collator>>,
}

/// Has this thread compare text by `collator`, or by bytes.
pub fn enter(collator: Option<Arc<Collator>>) -> InForce {
    IS_SET.set(collator.is_some());
    InForce { before: COLLATOR.replace(collator) }
}

impl Drop for InForce {
    fn drop(&mut self) {
        IS_SET.set(self.before.is_some());
        COLLATOR.set(self.before.take());
    }
}

/// The collator in force.
pub fn in_force() -> Option<Arc<Collator>> {
    if is_in_force() { COLLATOR.with_borrow(Clone::clone) } else { None }
}

/// Whether there is one.
#[inline]
pub fn is_in_force() -> bool {
    IS_SET.get()
}

/// Whether text that is ordered by `collator` is in the order that is in force.
pub fn agrees(collator: Option<&Arc<Collator>>) -> bool {
    match collator {
        None => !is_in_force(),
        Some(collator) => COLLATOR.with_borrow(|known| known.as_deref() == Some(&**collator)),
    }
}

/// Compares text as it is in force.
#[inline]
pub(crate) fn compare_text(left: &[u8], right: &[u8]) -> Ordering {
    if is_in_force() { compare_collated(left, right) } else { left.cmp(right) }
}

#[cold]
fn compare_collated(left: &[u8], right: &[u8]) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    work::count(work::of_bytes(left.len().min(right.len()).saturating_mul(COST)));
    COLLATOR.with_borrow(|collator| match collator {
        Some(collator) => collator.compare(left, right),
        None => left.cmp(right),
    })
}

/// Comparing by language takes about so many times what comparing bytes does.
const COST: usize = 16;

/// Feeds text to a hasher, such that what is equal hashes equally.
#[inline]
pub(crate) fn hash_text<H: Hasher>(text: &[u8], hasher: &mut H) {
    if is_in_force() { hash_collated(text, hasher) } else { text.hash(hasher) }
}

#[cold]
fn hash_collated<H: Hasher>(text: &[u8], hasher: &mut H) {
    work::count(work::of_bytes(text.len().saturating_mul(COST)));
    SORT_KEY.with_borrow_mut(|key| {
        key.clear();
        COLLATOR.with_borrow(|collator| match collator {
            Some(collator) => collator.append_sort_key(text, key),
            None => key.extend_from_slice(text),
        });
        key.hash(hasher);
        // A long text's key is not kept.
        key.shrink_to(SORT_KEY_KEPT_BYTES);
    });
}

const SORT_KEY_KEPT_BYTES: usize = 1024;
