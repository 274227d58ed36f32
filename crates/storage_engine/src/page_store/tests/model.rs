//! Random histories against a model: what was published is what is found after a crash, and what is current can be read
//! at any time.
//!
//! `Engine` plays the part of the page table and the frames: it keeps dirty pages and their epochs, copies pages of the
//! frozen epoch before their next change, and answers the cleaner.

use std::cell::RefCell;
use std::collections::BTreeMap;

use platform::{InjectedError, Operation, SimulatedDisk};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Create { count: u8, version: u64 },
    Change { pick: usize, count: u8, version: u64 },
    Write { count: usize },
    WriteAndChangeMeanwhile { count: usize, version: u64 },
    Free { pick: usize, count: u8 },
    Freeze,
    Publish,
    PublishWithFault { operation: Operation, after: u64 },
    Clean { refuse_every: usize },
    Verify,
    PowerLoss,
    ProcessCrash,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fault = prop_oneof![Just(Operation::Write), Just(Operation::Sync), Just(Operation::SyncDirectory)];
    let step = prop_oneof![
        4 => (1..12_u8, 0..1_000_u64).prop_map(|(count, version)| Step::Create { count, version }),
        6 => (any::<usize>(), 1..10_u8, 0..1_000_u64)
            .prop_map(|(pick, count, version)| Step::Change { pick, count, version }),
        6 => (1..20_usize).prop_map(|count| Step::Write { count }),
        2 => (1..6_usize, 0..1_000_u64).prop_map(|(count, version)| Step::WriteAndChangeMeanwhile { count, version }),
        3 => (any::<usize>(), 1..10_u8).prop_map(|(pick, count)| Step::Free { pick, count }),
        4 => Just(Step::Freeze),
        6 => Just(Step::Publish),
        1 => (fault, 0..4_u64).prop_map(|(operation, after)| Step::PublishWithFault { operation, after }),
        4 => (2..10_usize).prop_map(|refuse_every| Step::Clean { refuse_every }),
        1 => Just(Step::Verify),
        1 => Just(Step::PowerLoss),
        1 => Just(Step::ProcessCrash),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A page in memory that differs from what is on disk.
#[derive(Clone, Copy)]
struct Dirty {
    epoch: u64,
}

struct Engine {
    disk: SimulatedDisk,
    store: PageStore,
    /// Content of each page, as a reader sees it.
    current: BTreeMap<PageId, u64>,
    dirty: BTreeMap<PageId, Dirty>,
    /// Disk addresses of pages; of dirty ones meaningless.
    addresses: RefCell<BTreeMap<PageId, PageAddress>>,
    copies: Vec<(PageId, u64, u64)>,
    frozen: Option<BTreeMap<PageId, u64>>,
    published: BTreeMap<PageId, u64>,
    published_number: u64,
}

impl Engine {
    fn new(seed: u64) -> Engine {
        let disk = SimulatedDisk::new(seed);
        Engine {
            store: open(&disk),
            disk,
            current: BTreeMap::new(),
            dirty: BTreeMap::new(),
            addresses: RefCell::default(),
            copies: Vec::new(),
            frozen: None,
            published: BTreeMap::new(),
            published_number: 0,
        }
    }

    fn pick(&self, pick: usize, count: u8) -> Vec<PageId> {
        let pages: Vec<_> = self.current.keys().copied().collect();
        let start = pick % pages.len().max(1);
        pages.into_iter().skip(start).take(usize::from(count)).collect()
    }

    fn keep_for_checkpoint(&mut self, page: PageId) {
        if let Some(dirty) = self.dirty.get(&page).filter(|dirty| dirty.epoch < self.store.epoch()) {
            self.copies.push((page, self.current[&page], dirty.epoch));
        }
    }

    fn change(&mut self, page: PageId, version: u64) {
        self.keep_for_checkpoint(page);
        self.dirty.insert(page, Dirty { epoch: self.store.epoch() });
        self.current.insert(page, version);
    }

    fn create(&mut self, count: u8, version: u64) {
        for n in 0..u64::from(count) {
            let page = self.store.allocate_page_id().unwrap();
            assert!(!self.current.contains_key(&page), "{page:?} was given out twice");
            self.dirty.insert(page, Dirty { epoch: self.store.epoch() });
            self.current.insert(page, version + n);
        }
    }

    fn free(&mut self, page: PageId) {
        self.keep_for_checkpoint(page);
        self.dirty.remove(&page);
        self.current.remove(&page);
        self.addresses.borrow_mut().remove(&page);
        self.store.free_page(page);
    }

    fn write(&mut self, pages: &[PageId], changed_meanwhile: Option<u64>) {
        let mut batch = self.store.new_batch().unwrap();
        for page in pages {
            batch.push(
                *page,
                &image_of(*page, self.current[page]),
                self.dirty[page].epoch,
                notes_of(self.current[page]),
            );
        }
        let before = self.store.epoch();
        let written = self.store.write(&mut batch).unwrap();
        assert!(batch.is_empty() && self.store.epoch() == before);
        for written in written {
            assert!(!written.address.is_none());
            match changed_meanwhile {
                Some(version) => self.change(written.page, version),
                None => {
                    self.dirty.remove(&written.page);
                    self.addresses.borrow_mut().insert(written.page, written.address);
                }
            }
        }
    }

    fn write_some(&mut self, count: usize, changed_meanwhile: Option<u64>) {
        let pages: Vec<_> = self.dirty.keys().copied().take(count).collect();
        // A page that changes while it is written as part of the frozen epoch would have been copied first.
        let pages: Vec<_> = match changed_meanwhile {
            Some(_) => pages.into_iter().filter(|page| self.dirty[page].epoch == self.store.epoch()).collect(),
            None => pages,
        };
        self.write(&pages, changed_meanwhile);
    }

    fn freeze(&mut self) {
        if self.frozen.is_some() {
            assert!(matches!(self.store.freeze_epoch(), Err(PageStoreError::CheckpointOrder { .. })));
            return;
        }
        assert_eq!(self.store.freeze_epoch().unwrap(), self.published_number + 1);
        self.frozen = Some(self.current.clone());
    }

    fn write_frozen(&mut self) {
        let epoch = self.store.epoch();
        for (page, version, epoch) in std::mem::take(&mut self.copies) {
            write(&self.store, &[(page, version)], epoch).unwrap();
        }
        let frozen = self.dirty.iter().filter(|(_, dirty)| dirty.epoch < epoch);
        let pages: Vec<_> = frozen.map(|(page, _)| *page).collect();
        self.write(&pages, None);
    }

    fn publish(&mut self) {
        let Some(frozen) = self.frozen.take() else {
            assert!(matches!(self.store.publish(b""), Err(PageStoreError::CheckpointOrder { .. })));
            return;
        };
        self.write_frozen();
        self.store.publish(&mark_of(self.published_number + 1)).unwrap();
        self.published = frozen;
        self.published_number += 1;
    }

    /// A publish that fails somewhere, then a power loss: either checkpoint may be found.
    fn publish_with_fault(&mut self, operation: Operation, after: u64) {
        let Some(frozen) = self.frozen.take() else { return };
        self.write_frozen();
        self.disk.fail_after(operation, after, InjectedError::InputOutput);
        let result = self.store.publish(&mark_of(self.published_number + 1));
        self.disk.clear_faults();
        if result.is_err() {
            assert!(self.store.poisoned().is_some());
            let refused = write(&self.store, &[], self.store.epoch());
            assert!(matches!(refused, Err(PageStoreError::Poisoned { .. })));
        }
        self.check_current();
        self.disk.power_loss();
        self.store = open(&self.disk);
        let found = self.store.recovered().map_or(0, |recovered| recovered.number);
        if result.is_ok() || found == self.published_number + 1 {
            self.published = frozen;
            self.published_number += 1;
        }
        self.forget_unpublished();
    }

    fn clean(&mut self, refuse_every: usize) {
        let asked = RefCell::new(0);
        let outcome = self.store.clean_step(CleaningEffort::Thorough, &|page, old, new| {
            *asked.borrow_mut() += 1;
            let mut addresses = self.addresses.borrow_mut();
            let refuses = usize::is_multiple_of(*asked.borrow(), refuse_every) || self.dirty.contains_key(&page);
            if refuses || addresses.get(&page) != Some(&old) {
                return false;
            }
            addresses.insert(page, new);
            true
        });
        assert_eq!(outcome.unwrap().corrupt, []);
    }

    fn reopen(&mut self) {
        self.store = open(&self.disk);
        self.forget_unpublished();
    }

    fn forget_unpublished(&mut self) {
        let found = self.store.recovered().map_or((0, Vec::new()), |found| (found.number, found.mark.clone()));
        let expected = match self.published_number {
            0 => (0, Vec::new()),
            number => (number, mark_of(number)),
        };
        assert_eq!(found, expected);
        assert_durable(&self.store, &self.published);
        self.current = self.published.clone();
        self.dirty.clear();
        self.copies.clear();
        self.frozen = None;
        self.addresses = RefCell::new(self.store.durable_pages().collect());
        assert_sound(&self.store);
    }

    fn check_current(&self) {
        for (page, address) in self.addresses.borrow().iter().filter(|(page, _)| !self.dirty.contains_key(page)) {
            assert_eq!(self.store.current_address(*page), *address);
            assert_version(&self.store, *page, *address, self.current[page]);
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Create { count, version } => self.create(count, version),
            Step::Change { pick, count, version } => {
                self.pick(pick, count).into_iter().for_each(|page| self.change(page, version));
            }
            Step::Write { count } => self.write_some(count, None),
            Step::WriteAndChangeMeanwhile { count, version } => self.write_some(count, Some(version)),
            Step::Free { pick, count } => self.pick(pick, count).into_iter().for_each(|page| self.free(page)),
            Step::Freeze => self.freeze(),
            Step::Publish => self.publish(),
            Step::PublishWithFault { operation, after } => self.publish_with_fault(operation, after),
            Step::Clean { refuse_every } => self.clean(refuse_every),
            Step::Verify => {
                self.check_current();
                assert_sound(&self.store);
            }
            Step::PowerLoss => {
                self.disk.power_loss();
                self.reopen();
            }
            Step::ProcessCrash => {
                self.disk.process_crash();
                self.reopen();
            }
            Step::Close => {
                self.store.close().unwrap();
                assert!(matches!(self.store.publish(b""), Err(PageStoreError::Poisoned { .. })));
                self.check_current();
                self.reopen();
                assert!(self.store.was_clean_shutdown());
            }
        }
    }
}

fn mark_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 50)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn recovery_finds_exactly_what_was_published(seed in any::<u64>(), steps in steps()) {
        let mut engine = Engine::new(seed);
        steps.iter().for_each(|step| engine.run(step));
        engine.check_current();
        assert_sound(&engine.store);
        engine.disk.power_loss();
        engine.reopen();
    }
}
