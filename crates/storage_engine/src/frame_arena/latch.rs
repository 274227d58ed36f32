//! The optimistic latch of a frame: a version whose lowest bit means "exclusively held".
//!
//! Called by `frame_arena`. Knows no frames, so that a model checker can go through it with atomics of its own.
//!
//! ```text
//! reader: version (even) ── reads ── validate: still the same? good : thrown away
//! writer: even ── try_lock ──▶ odd ── writes ── unlock ──▶ next even, or the same when nothing was changed
//! ```
//!
//! What is guarded must be read and written through atomics (`FrameWords`), since readers go on while a writer writes.
//! Two fences make the version tell of it: one between taking the latch and the first write, one between the last read
//! and validation. A reader that saw any of the writes then also sees that the latch was taken.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The operations of an atomic number that the latch needs.
pub(super) trait LatchWord {
    fn load(&self, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    /// Whether the number was `current` and is `new` now.
    fn replace(&self, current: u64, new: u64, ordering: Ordering) -> bool;
    fn fence(ordering: Ordering);
}

impl LatchWord for AtomicU64 {
    #[inline]
    fn load(&self, ordering: Ordering) -> u64 {
        self.load(ordering)
    }

    #[inline]
    fn store(&self, value: u64, ordering: Ordering) {
        self.store(value, ordering);
    }

    #[inline]
    fn replace(&self, current: u64, new: u64, ordering: Ordering) -> bool {
        self.compare_exchange(current, new, ordering, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

/// A latch. All zeros is a free one.
#[repr(transparent)]
pub(super) struct Latch<W = AtomicU64>(W);

impl<W: LatchWord> Latch<W> {
    /// The version when nobody holds the latch.
    #[inline]
    pub(super) fn version(&self) -> Option<u64> {
        let version = self.0.load(Ordering::Acquire);
        (version & 1 == 0).then_some(version)
    }

    /// Whether nobody has changed anything since `version` was read. What was read before this call is then good.
    #[inline]
    pub(super) fn validate(&self, version: u64) -> bool {
        W::fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version
    }

    /// Takes the latch if it is still at `version`.
    #[inline]
    pub(super) fn try_lock(&self, version: u64) -> bool {
        debug_assert!(version & 1 == 0);
        let is_locked = self.0.replace(version, version + 1, Ordering::Acquire);
        // Nothing that is written from now on may be seen before the odd version: on some processors it could be.
        W::fence(Ordering::Release);
        is_locked
    }

    /// Gives the latch back at a version: the next even one, or that of before.
    #[inline]
    pub(super) fn unlock(&self, version: u64) {
        self.0.store(version, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as ModelWord;
    use loom::thread;

    use super::*;

    impl LatchWord for ModelWord {
        fn load(&self, ordering: Ordering) -> u64 {
            self.load(ordering)
        }

        fn store(&self, value: u64, ordering: Ordering) {
            self.store(value, ordering);
        }

        fn replace(&self, current: u64, new: u64, ordering: Ordering) -> bool {
            self.compare_exchange(current, new, ordering, Ordering::Relaxed).is_ok()
        }

        fn fence(ordering: Ordering) {
            loom::sync::atomic::fence(ordering);
        }
    }

    /// Two words that every writer leaves equal.
    struct Page {
        latch: Latch<ModelWord>,
        words: [ModelWord; 2],
    }

    impl Page {
        fn new() -> Arc<Self> {
            Arc::new(Self { latch: Latch(ModelWord::new(0)), words: [ModelWord::new(0), ModelWord::new(0)] })
        }

        fn read(&self) -> Option<[u64; 2]> {
            let version = self.latch.version()?;
            let read = [self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed)];
            self.latch.validate(version).then_some(read)
        }

        /// Knows the version, and looks at nothing: beside loads of the writer the model does not come to all orders.
        fn fill(&self) {
            assert!(self.latch.try_lock(0));
            self.words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
            self.latch.unlock(2);
        }

        fn increment(&self) -> bool {
            let Some(version) = self.latch.version() else { return false };
            if !self.latch.try_lock(version) {
                return false;
            }
            for word in &self.words {
                word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            self.latch.unlock(version + 2);
            true
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "loom has stacks of its own, which Miri does not know")]
    fn in_every_order_of_events_a_reader_sees_a_page_as_one_writer_left_it() {
        loom::model(|| {
            let page = Page::new();
            let written = page.clone();
            let writer = thread::spawn(move || written.fill());
            if let Some([first, second]) = page.read() {
                assert_eq!(first, second, "torn");
            }
            writer.join().unwrap();
            assert_eq!(page.read(), Some([1, 1]));
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "loom has stacks of its own, which Miri does not know")]
    fn in_every_order_of_events_writers_take_turns() {
        loom::model(|| {
            let page = Page::new();
            let writers = [page.clone(), page.clone()].map(|page| thread::spawn(move || page.increment()));
            let changes = writers.into_iter().map(|writer| u64::from(writer.join().unwrap())).sum();
            assert_eq!(page.read(), Some([changes, changes]));
        });
    }

    #[test]
    fn a_latch_given_back_unchanged_disturbs_no_reader() {
        let latch = Latch(AtomicU64::new(0));
        let version = latch.version().unwrap();
        assert!(latch.try_lock(version) && latch.version().is_none() && !latch.validate(version));
        assert!(!latch.try_lock(version), "held");
        latch.unlock(version);
        assert!(latch.validate(version));
    }
}
