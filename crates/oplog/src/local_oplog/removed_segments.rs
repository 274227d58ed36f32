//! Removed segments, whose space goes back to the file system a little at a time.
//!
//! Truncation hands the files over, a background thread gives their space back. File systems that are mounted with `discard` hand on to the disk what is freed, and
//! a disk may do little else meanwhile: after 128 MiB at a time all reads of half a second were slow. A file that is held open loses its name at once
//! and its space when told, from the end. What is left when the process ends goes then.
//!
//! A reader inside such a segment is told that its position was truncated: it asks before it reads, and again before it calls what it has read damaged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use platform::File;

use crate::SpaceReturn;

/// Given back at a time.
const PIECE_BYTES: u64 = 2 << 20;
/// More at a time where more waits, so that all goes within so many pieces.
const PIECES_MAX: u64 = 64;

/// See the module's head.
#[derive(Default)]
pub(super) struct RemovedSegments {
    /// Whether somebody gives space back. Otherwise it goes with the file's name.
    are_taken: AtomicBool,
    files: Mutex<VecDeque<RemovedFile>>,
}

struct RemovedFile {
    file: Arc<dyn File>,
    bytes: u64,
}

impl RemovedSegments {
    /// Whether removed files are to be handed over.
    pub(super) fn are_taken(&self) -> bool {
        self.are_taken.load(Ordering::Acquire)
    }

    /// Takes a file that has no name any more.
    pub(super) fn push(&self, file: Arc<dyn File>) {
        // One whose length is not known goes at once.
        if let Ok(bytes) = file.length() {
            self.files.lock().push_back(RemovedFile { file, bytes });
        }
    }

    /// Gives some of the space back; `false` when none is left.
    pub(super) fn give_back(&self, how: SpaceReturn) -> bool {
        self.are_taken.store(true, Ordering::Release);
        let mut left = match how {
            SpaceReturn::Gradual => PIECE_BYTES.max(self.bytes() / PIECES_MAX),
            SpaceReturn::AtOnce => u64::MAX,
        };
        while left > 0 {
            let Some(RemovedFile { file, bytes }) = self.files.lock().pop_front() else { return false };
            let piece = bytes.min(left);
            left -= piece;
            // What cannot be shortened is closed, which gives all of it back.
            if piece < bytes && file.set_length(bytes - piece).is_ok() {
                self.files.lock().push_front(RemovedFile { file, bytes: bytes - piece });
            }
        }
        true
    }

    fn bytes(&self) -> u64 {
        self.files.lock().iter().map(|removed| removed.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use platform::{Disk, OpenMode, SimulatedDisk};

    use super::*;

    #[test]
    fn space_goes_from_the_end_a_piece_at_a_time() {
        let disk = SimulatedDisk::new(1);
        let removed = RemovedSegments::default();
        assert!(!removed.are_taken());
        assert!(!removed.give_back(SpaceReturn::Gradual));
        assert!(removed.are_taken());
        let files = ["one", "two"].map(|name| disk.open(Path::new(name), OpenMode::CreateNew).unwrap());
        for file in &files {
            file.set_length(2 * PIECE_BYTES + 1).unwrap();
            removed.push(file.clone());
        }
        let lengths = || [0, 1].map(|number: usize| files[number].length().unwrap());
        assert!(removed.give_back(SpaceReturn::Gradual));
        assert_eq!(lengths(), [PIECE_BYTES + 1, 2 * PIECE_BYTES + 1]);
        assert!(removed.give_back(SpaceReturn::Gradual));
        assert_eq!(lengths(), [1, 2 * PIECE_BYTES + 1]);
        // The rest of the first, which is closed, and the greatest part of a piece of the second.
        assert!(removed.give_back(SpaceReturn::Gradual));
        assert_eq!(lengths(), [1, PIECE_BYTES + 2]);
        assert_eq!(Arc::strong_count(&files[0]), 1);
        assert!(!removed.give_back(SpaceReturn::AtOnce));
        assert_eq!(Arc::strong_count(&files[1]), 1);
    }

    #[test]
    fn what_waits_goes_within_a_number_of_pieces() {
        let disk = SimulatedDisk::new(1);
        let removed = RemovedSegments::default();
        let file = disk.open(Path::new("one"), OpenMode::CreateNew).unwrap();
        file.set_length(4 * PIECES_MAX * PIECE_BYTES).unwrap();
        removed.push(file.clone());
        assert!(removed.give_back(SpaceReturn::Gradual));
        assert_eq!(file.length().unwrap(), (4 * PIECES_MAX - 4) * PIECE_BYTES);
    }
}
