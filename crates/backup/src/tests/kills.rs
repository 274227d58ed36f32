//! Backups and restores that end at any moment: the next one goes on, and what is restored is right.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use platform::{Disk, InjectedError, Operation, SimulatedDisk};

use super::fixture::*;
use crate::*;

/// Stores so many objects, and then none.
struct Failing {
    objects: Arc<dyn ObjectStore>,
    left: AtomicI64,
}

impl ObjectStore for Failing {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            true => self.objects.put(name, bytes),
            false => Err(io::Error::other("killed")),
        }
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.objects.size(name)
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.objects.get(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.objects.list(folder)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.objects.delete(name)
    }
}

#[test]
fn a_backup_that_was_killed_is_no_backup_and_the_next_one_uses_what_is_there() {
    for stored in 0..9 {
        let fixture = Fixture::new();
        (0..80).for_each(|_| fixture.go_on());
        let failing: Arc<dyn ObjectStore> =
            Arc::new(Failing { objects: fixture.objects.clone(), left: AtomicI64::new(stored) });
        let is_stopped = || {
            fixture.go_on();
            false
        };
        let killed = make(&fixture.store, &failing, &random(), &options(), &Progress::default(), &is_stopped);
        if killed.is_ok() {
            assert!(stored > 5);
            return;
        }
        assert!(fixture.restore(&restore_options(Target::Newest)).is_err());
        let again = fixture.back_up(&options());
        // Its first objects are what says which store it is of, a chunk, and the chunk's index.
        assert_eq!(again.reused_bytes > 0, stored >= 3, "{stored}");
        assert_eq!(fixture.restore(&restore_options(Target::Newest)).unwrap().1, fixture.content());
    }
}

#[test]
fn a_restore_that_was_killed_is_done_again_in_the_same_directory() {
    let fixture = Fixture::new();
    (0..60).for_each(|_| fixture.go_on());
    fixture.back_up(&options());
    let options = RestoreOptions { standing: Some(b"there".to_vec()), ..restore_options(Target::Newest) };
    let expected = fixture.content();
    for operation in [Operation::Write, Operation::Sync, Operation::Rename, Operation::Remove] {
        for successes in 0.. {
            let disk = Arc::new(SimulatedDisk::new(5));
            disk.fail_after(operation, successes, InjectedError::InputOutput);
            let killed = restore_into(&*fixture.objects, &disk, &options, &fixture.clock);
            disk.clear_faults();
            if killed.is_ok() {
                break;
            }
            disk.power_loss();
            let has = |name: &str| disk.exists(Path::new(name)).unwrap();
            let is_whole = has(RESTORED_NOTE) && !has(UNFINISHED_NOTE);
            assert!(!is_whole || has(STANDING_FILE), "{operation:?} {successes}");
            let (_, content) = restore_into(&*fixture.objects, &disk, &options, &fixture.clock).unwrap();
            assert!(has(STANDING_FILE));
            assert_eq!(content, expected, "{operation:?} {successes}");
        }
    }
}
