//! Whether the operating system is to keep in its memory what is written to the page file.
//!
//! Called by the reclaimer's thread. With much memory beside ours it is a second, slower cache, and most of what we evict is read from there again.
//! With little, and in a small control group above all, it must find something to drop for each page of the file that it takes in; what it finds is what was just
//! written and is not on the disk yet, and the kernel has the thread rest for a tenth of a second, while all who want to write wait for that thread.
//! What was read is kept in any case: it can be dropped at once.

use std::time::Duration;

use crate::cleaning_pace::WINDOW;

/// Time from one look to the next.
const LOOK_APART: Duration = WINDOW.saturating_mul(2);
/// Shares of the page file that must find room beside us, in percent: to begin again to keep, and to go on.
const KEPT_AGAIN_PERCENT: u64 = 50;
const KEPT_ABOVE_PERCENT: u64 = KEPT_AGAIN_PERCENT / 2;

/// What was decided last.
#[derive(Default)]
pub(crate) struct SystemMemory {
    looked_at: Option<Duration>,
    passes_by: bool,
}

impl SystemMemory {
    /// Looks again if it is time: `Some` when it changed, with whether to keep it. `left` is asked for the memory that we do not use.
    pub(crate) fn look(&mut self, now: Duration, file_bytes: u64, left: impl FnOnce() -> Option<u64>) -> Option<bool> {
        if self.looked_at.is_some_and(|at| now.saturating_sub(at) < LOOK_APART) {
            return None;
        }
        self.looked_at = Some(now);
        let percent = if self.passes_by { KEPT_AGAIN_PERCENT } else { KEPT_ABOVE_PERCENT };
        let passes_by = left()? < file_bytes / 100 * percent;
        let has_changed = std::mem::replace(&mut self.passes_by, passes_by) != passes_by;
        has_changed.then_some(!passes_by)
    }
}

/// Bytes of the machine, or of our control group, that this process does not use.
pub(crate) fn left_bytes() -> Option<u64> {
    Some(platform::machine_memory_bytes().ok()?.saturating_sub(platform::process_memory()?.resident_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_far_larger_than_what_is_left_is_not_kept() {
        let mut memory = SystemMemory::default();
        let mut look = |seconds, left| memory.look(Duration::from_secs(seconds), 1000, || Some(left));
        assert_eq!(look(0, 400), None);
        assert_eq!(look(1, 200), None);
        assert_eq!(look(5, 200), Some(false));
        assert_eq!(look(10, 400), None);
        assert_eq!(look(15, 500), Some(true));
        assert_eq!(look(20, 249), Some(false));
        assert!(left_bytes().is_some_and(|bytes| bytes > 0));
    }
}
