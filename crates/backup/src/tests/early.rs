//! A restore that goes on beside the making of its backup: what was written early is not written again, and all the rest is there.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, SimulatedDisk};

use super::fixture::*;
use crate::*;

/// A restore of a backup that is about to be made; its progress.
struct Early {
    disk: Arc<SimulatedDisk>,
    pages: EarlyPages,
    progress: Progress,
    steps: usize,
}

impl Early {
    fn begin(disk: Arc<SimulatedDisk>, name: &str) -> Early {
        let plain: Arc<dyn Disk> = disk.clone();
        let pages = EarlyPages::begin((&plain, &*disk), name.to_owned()).unwrap();
        Early { disk, pages, progress: Progress::default(), steps: 0 }
    }

    fn step(&mut self, fixture: &Fixture) {
        while self.pages.step(&*fixture.objects, None, &self.progress).unwrap() {
            self.steps += 1;
        }
    }

    /// Content, and so many bytes of pages were written.
    fn go_on(self, fixture: &Fixture) -> (Content, u64) {
        let options = restore_options(Target::Newest);
        let times = (&*fixture.clock as &dyn platform::Clock, &random() as &dyn platform::Random);
        let notes = self.disk.clone();
        let restored = self.pages.go_on(&*fixture.objects, &*notes, times, &options, &self.progress).unwrap();
        (content_of_restored(&self.disk, &restored, &fixture.clock), self.progress.look().1)
    }
}

fn named(fixture: &Fixture) -> (BackupOptions, String) {
    let name = new_name(&*fixture.clock, &random());
    (BackupOptions { name: Some(name.clone()), ..options() }, name)
}

#[test]
fn pages_are_restored_beside_the_making_and_are_written_once() {
    let fixture = Fixture::new();
    (0..50).for_each(|_| fixture.go_on());
    fixture.insert_large(48);
    let (first, name) = named(&fixture);
    let mut early = Early::begin(Arc::new(SimulatedDisk::new(11)), &name);
    let made = fixture.back_up_beside(&first, || early.step(&fixture)).unwrap();
    let content = fixture.content();
    assert_eq!(made.id, name);
    assert!(early.steps >= 3, "{} chunks", early.steps);
    let (restored, written) = early.go_on(&fixture);
    assert!(restored == content, "another content");
    // Pages once, and what little the oplog has.
    assert!(written < made.page_bytes + made.page_bytes / 2, "{written} of {}", made.page_bytes);
    // The next one has most of its pages in the chunks of the first.
    (0..5).for_each(|_| fixture.go_on());
    let (second, name) = named(&fixture);
    let mut early = Early::begin(Arc::new(SimulatedDisk::new(12)), &name);
    let made = fixture.back_up_beside(&second, || early.step(&fixture)).unwrap();
    assert!(made.reused_bytes * 2 > made.page_bytes);
    let content = fixture.content();
    assert!(early.go_on(&fixture).0 == content, "another content");
}

#[test]
fn a_copy_that_is_given_up_for_another_one_leaves_nothing() {
    let fixture = Fixture::new();
    fixture.insert_large(48);
    let disk = Arc::new(SimulatedDisk::new(11));
    let (first, name) = named(&fixture);
    let mut early = Early::begin(disk.clone(), &name);
    let mut looks = 0;
    // The giver ends when two chunks are written.
    let killed = {
        let early = std::cell::RefCell::new(&mut early);
        let is_stopped = || {
            looks += 1;
            early.borrow_mut().step(&fixture);
            early.borrow().steps >= 2
        };
        let is_stopped = std::cell::RefCell::new(is_stopped);
        make(&fixture.store, &fixture.objects, &random(), &first, &Progress::default(), &|| is_stopped.borrow_mut()())
    };
    assert!(matches!(killed, Err(BackupError::Stopped)), "{looks} looks");
    drop(early);
    (0..20).for_each(|_| fixture.go_on());
    // It comes again, and makes another one of which some is there already.
    let (second, name) = named(&fixture);
    let mut early = Early::begin(disk.clone(), &name);
    let made = fixture.back_up_beside(&second, || early.step(&fixture)).unwrap();
    assert!(made.reused_bytes > 0);
    let content = fixture.content();
    assert!(early.go_on(&fixture).0 == content, "another content");
}

#[test]
fn what_was_begun_is_undone() {
    let fixture = Fixture::new();
    fixture.insert_large(24);
    let disk = Arc::new(SimulatedDisk::new(11));
    let (first, name) = named(&fixture);
    let mut early = Early::begin(disk.clone(), &name);
    fixture.back_up_beside(&first, || early.step(&fixture)).unwrap();
    assert!(early.steps > 0 && disk.exists(Path::new(UNFINISHED_NOTE)).unwrap());
    drop(early);
    undo(&*disk, &*disk).unwrap();
    assert!(
        disk.list(Path::new("")).unwrap().iter().all(|name| name == "oplog" || name == "rings" || name == "page_table")
    );
    undo(&*disk, &*disk).unwrap();
}
