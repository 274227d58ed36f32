//! Checking a ring as a whole: every slot, the chain back, and the counts.
//!
//! Called by `collection`'s validation and by tests, while nobody writes to the ring.

use std::sync::Arc;

use super::reading::{AHEAD, Fetched, Window};
use super::{Ring, number_at, ring_key};
use crate::engine::Engine;
use crate::error::Result;

/// Slots between questions whether to go on.
const SLOTS_PER_QUESTION: u64 = 64;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RingReport {
    /// Live slots.
    pub slots: u64,
    /// What is wrong.
    pub errors: Vec<String>,
}

impl Engine {
    /// Checks a ring. Nobody else may write to it meanwhile: the caller has its lock. `None` when `is_stopped`, which is asked now and then,
    /// has ended it.
    ///
    /// # Errors
    /// `RingFile`; those of reading the ring's tree.
    pub fn verify_ring(&self, ring: &Arc<Ring>, is_stopped: &dyn Fn() -> bool) -> Result<Option<RingReport>> {
        let state = ring.state();
        let (mut window, mut report, mut value) = (Window::default(), RingReport::default(), Vec::new());
        let (mut documents, mut bytes, mut overrides) = (0, 0, 0);
        let (mut position, mut last) = (state.head, None);
        while position < state.tail {
            if report.slots % SLOTS_PER_QUESTION == 0 && is_stopped() {
                return Ok(None);
            }
            match ring.fetch(&mut window, position, AHEAD)? {
                Fetched::Slot(slot) => {
                    report.slots += 1;
                    if last.is_some_and(|(last, since)| position - slot.back != last || slot.timestamp <= since) {
                        report.errors.push(format!("ring position {position} does not follow the slot before"));
                    }
                    if self.get_latest(ring.tree, &ring_key(number_at(position)), &mut value)?.is_some() {
                        overrides += 1;
                        documents += u64::from(!value.is_empty());
                        bytes += value.len() as u64;
                    } else {
                        documents += 1;
                        bytes += window.document(position).len() as u64;
                    }
                    last = Some((position, slot.timestamp));
                    position += slot.bytes;
                }
                Fetched::Skip(to) => position = to,
                other => {
                    report.errors.push(format!("ring position {position} cannot be read: {other:?}"));
                    return Ok(Some(report));
                }
            }
        }
        if last.is_some_and(|(last, _)| last != state.last) {
            report.errors.push(format!("the newest slot is not at {}", state.last));
        }
        let counted = (report.slots, documents, bytes, overrides);
        let noted = (state.slots, state.documents, state.bytes, state.overrides);
        if counted != noted {
            report.errors.push(format!("slots, documents, bytes, overrides: {counted:?}, noted are {noted:?}"));
        }
        Ok(Some(report))
    }
}
