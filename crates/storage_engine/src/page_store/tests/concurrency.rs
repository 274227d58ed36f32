//! Everything at once: changes, eviction, reads, checkpoints, cleaning and verification in threads, then a power loss.
//!
//! The slots are a small page table with the rules that the engine keeps: one writer per part of the pages at a time, a
//! barrier around changes that freezing excludes, copies of frozen pages before their next change, and a loading state
//! in which nobody moves, changes or frees the page.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use platform::{Clock, Random, SeededRandom, SimulatedDisk, SystemClock};

use super::*;

const PARTS: usize = 2;
const SLOTS: usize = 400;
const CHECKPOINTS: u64 = 30;

#[derive(Clone, Copy, Default, Debug)]
struct Slot {
    in_use: bool,
    version: u64,
    /// The epoch of the oldest change that is not on disk; 0 when clean.
    dirty_epoch: u64,
    address: PageAddress,
    loading: bool,
}

struct Shared {
    store: PageStore,
    slots: Vec<Mutex<Slot>>,
    barrier: RwLock<()>,
    /// The writer lock of each part, and the copies that its next checkpoint write takes.
    writers: Vec<Mutex<()>>,
    copies: Vec<Mutex<Vec<(PageId, u64, u64)>>>,
    stop: AtomicBool,
    relocated: AtomicU64,
    reads: AtomicU64,
}

impl Shared {
    fn new(store: PageStore) -> Shared {
        Shared {
            store,
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            barrier: RwLock::new(()),
            writers: (0..PARTS).map(|_| Mutex::new(())).collect(),
            copies: (0..PARTS).map(|_| Mutex::default()).collect(),
            stop: AtomicBool::new(false),
            relocated: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    fn slot(&self, page: PageId) -> &Mutex<Slot> {
        &self.slots[page.0 as usize]
    }

    fn keep_for_checkpoint(&self, page: PageId, slot: &Slot) {
        if slot.dirty_epoch != 0 && slot.dirty_epoch < self.store.epoch() {
            self.copies[page.0 as usize % PARTS].lock().push((page, slot.version, slot.dirty_epoch));
        }
    }

    fn change(&self, page: PageId) {
        let _barrier = self.barrier.read();
        let mut slot = self.slot(page).lock();
        if slot.in_use && !slot.loading {
            self.keep_for_checkpoint(page, &slot);
            slot.version += 1;
            slot.dirty_epoch = self.store.epoch();
        }
    }

    fn create(&self) {
        let _barrier = self.barrier.read();
        let page = self.store.allocate_page_id().unwrap();
        if page.0 >= SLOTS as u64 {
            self.store.free_page(page);
            return;
        }
        let mut slot = self.slot(page).lock();
        assert!(!slot.in_use, "{page:?} was given out twice");
        *slot = Slot { in_use: true, version: slot.version + 1, dirty_epoch: self.store.epoch(), ..Slot::default() };
    }

    fn free(&self, page: PageId) {
        let _writer = self.writers[page.0 as usize % PARTS].lock();
        let _barrier = self.barrier.read();
        let mut slot = self.slot(page).lock();
        if slot.in_use && !slot.loading {
            self.keep_for_checkpoint(page, &slot);
            *slot = Slot { version: slot.version, ..Slot::default() };
            self.store.free_page(page);
        }
    }

    /// Writes dirty pages of a part that pass `wanted`, and its copies.
    fn write_part(&self, part: usize, count: usize, wanted: impl Fn(&Slot) -> bool) {
        let _writer = self.writers[part].lock();
        let mut batch = self.store.new_batch().unwrap();
        let copies = std::mem::take(&mut *self.copies[part].lock());
        for (page, version, epoch) in &copies {
            batch.push(*page, &image_of(*page, *version), *epoch, notes_of(*version));
        }
        let mut pushed = Vec::new();
        for page in (part..SLOTS).step_by(PARTS).map(|page| PageId(page as u64)) {
            let slot = *self.slot(page).lock();
            if slot.dirty_epoch != 0 && wanted(&slot) && pushed.len() < count {
                batch.push(page, &image_of(page, slot.version), slot.dirty_epoch, notes_of(slot.version));
                pushed.push((page, slot));
            }
        }
        let written = self.store.write(&mut batch).unwrap();
        for ((page, pushed), written) in pushed.iter().zip(&written[copies.len()..]) {
            let mut slot = self.slot(*page).lock();
            if slot.version == pushed.version && slot.dirty_epoch == pushed.dirty_epoch {
                slot.address = written.address;
                slot.dirty_epoch = 0;
            }
        }
    }

    fn read(&self, page: PageId) {
        let copy = {
            let mut slot = self.slot(page).lock();
            if !slot.in_use || slot.dirty_epoch != 0 || slot.loading {
                return;
            }
            slot.loading = true;
            *slot
        };
        assert_version(&self.store, page, copy.address, copy.version);
        self.slot(page).lock().loading = false;
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn clean(&self) {
        let outcome = self.store.clean_step(CleaningEffort::Thorough, &|page, old, new| {
            let Some(mut slot) = self.slot(page).try_lock() else { return false };
            let agrees = slot.in_use && !slot.loading && slot.dirty_epoch == 0 && slot.address == old;
            if agrees {
                slot.address = new;
                self.relocated.fetch_add(1, Ordering::Relaxed);
            }
            agrees
        });
        assert_eq!(outcome.unwrap().corrupt, []);
    }

    /// Makes a checkpoint and returns what it must hold.
    fn checkpoint(&self) -> BTreeMap<PageId, u64> {
        let (epoch, content) = {
            let _barrier = self.barrier.write();
            let slots = self.slots.iter().map(|slot| *slot.lock()).enumerate();
            let content = slots.filter(|(_, slot)| slot.in_use).map(|(page, slot)| (PageId(page as u64), slot.version));
            (self.store.freeze_epoch().unwrap(), content.collect())
        };
        loop {
            (0..PARTS).for_each(|part| self.write_part(part, SLOTS, |slot| slot.dirty_epoch <= epoch));
            let is_late = |slot: &Mutex<Slot>| (1..=epoch).contains(&slot.lock().dirty_epoch);
            let copies_left = self.copies.iter().any(|copies| !copies.lock().is_empty());
            if !copies_left && !self.slots.iter().any(is_late) {
                break;
            }
        }
        self.store.publish(&epoch.to_le_bytes()).unwrap();
        content
    }

    /// Stops all threads when the caller ends, in particular by a panic, so that a failure does not hang.
    fn stop_at_end(&self) -> impl Drop {
        StopAtEnd(&self.stop)
    }

    fn until_stopped(&self, seed: u64, step: impl Fn(&SeededRandom)) {
        let _stop = self.stop_at_end();
        let random = SeededRandom::new(seed);
        while !self.stop.load(Ordering::Relaxed) {
            step(&random);
        }
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn random_page(random: &SeededRandom) -> PageId {
    PageId(random.below(SLOTS as u64))
}

#[test]
fn threads_do_everything_at_once_and_the_last_checkpoint_survives() {
    let disk = SimulatedDisk::new(11);
    let shared = Shared::new(open_with(&disk, PageStoreOptions { space_slack_bytes: 0, ..small_options() }).unwrap());
    (0..SLOTS / 2).for_each(|_| shared.create());
    let (content, checkpoints) = std::thread::scope(|scope| {
        let shared = &shared;
        scope.spawn(move || {
            shared.until_stopped(1, |random| {
                match random.below(20) {
                    0 => shared.create(),
                    1 => shared.free(random_page(random)),
                    // A quarter of the pages stays as it is, among blocks that die.
                    _ => match random_page(random) {
                        page if page.0 % 4 == 0 => {}
                        page => shared.change(page),
                    },
                }
                // Leaves pages clean for a while, so that there is something to move and to read.
                SystemClock::new().sleep(std::time::Duration::from_micros(100));
            })
        });
        for part in 0..PARTS {
            scope.spawn(move || {
                shared.until_stopped(2, |random| {
                    let rest = random.below(3);
                    shared.write_part(part, 16, |slot| slot.version % 3 != rest);
                })
            });
        }
        scope.spawn(move || shared.until_stopped(3, |random| shared.read(random_page(random))));
        scope.spawn(move || shared.until_stopped(4, |_| shared.clean()));
        scope.spawn(move || shared.until_stopped(5, |_| assert_sound(&shared.store)));
        let _stop = shared.stop_at_end();
        let (mut content, mut checkpoints) = (BTreeMap::new(), 0);
        let enough = || shared.relocated.load(Ordering::Relaxed) > 100 && shared.reads.load(Ordering::Relaxed) > 100;
        while checkpoints < CHECKPOINTS || !enough() && checkpoints < 20 * CHECKPOINTS {
            content = shared.checkpoint();
            checkpoints += 1;
        }
        (content, checkpoints)
    });
    assert_sound(&shared.store);
    assert!(shared.relocated.load(Ordering::Relaxed) > 0, "nothing was relocated");
    assert!(shared.reads.load(Ordering::Relaxed) > 0, "nothing was read");
    disk.power_loss();
    let store = open(&disk);
    assert_eq!(store.recovered().unwrap().number, checkpoints);
    assert_durable(&store, &content);
    assert_sound(&store);
}
