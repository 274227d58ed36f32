//! The store's lives: opening, crashing, losing power at any operation (recovery included), and the errors that the disk
//! throws meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use oplog::OplogError;
use platform::{Disk, EncryptedDisk, InjectedError, Operation, OuterKey, Random, SeededRandom, is_encrypted};
use transaction::{Result, Store, StoreOptions};

use crate::errors::{Kind, kind};
use crate::following::Following;
use crate::simulation::{Health, Simulation};

/// Operations of the disk that can be made to fail.
const OPERATIONS: [Operation; 12] = [
    Operation::Open,
    Operation::CreateDirectory,
    Operation::Remove,
    Operation::Rename,
    Operation::List,
    Operation::SyncDirectory,
    Operation::Read,
    Operation::Write,
    Operation::Sync,
    Operation::SetLength,
    Operation::PunchHole,
    Operation::Allocate,
];

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    PowerLoss,
    ProcessCrash,
    Shutdown,
}

impl Simulation {
    pub(crate) fn try_open(&self) -> Result<Arc<Store>> {
        // Another seed for every life: collections of two lives must not get the same UUID.
        let random = Arc::new(SeededRandom::new(self.random.next_u64()));
        let options = StoreOptions { interleaving: self.interleaving(), ..self.plan.options.clone() };
        let (disk, clock) = (self.store_disk()?, self.clock.clone());
        let Some(following) = &self.following else { return Store::open(disk, clock, random, options) };
        self.open_following(following, disk.clone(), |join| {
            Store::open_caught_up(disk.clone(), clock, random, options, |oplog| join(oplog))
        })
    }

    /// What the store goes through: the disk, or one over it that encrypts.
    pub(crate) fn store_disk(&self) -> Result<Arc<dyn Disk>> {
        if !self.plan.is_encrypted {
            return Ok(self.disk.clone());
        }
        let failed = |cause: std::io::Error| OplogError::Io { action: "open the keys", cause: Arc::new(cause) };
        let (below, key) = (Arc::clone(&self.disk), OuterKey::new([7; 32]));
        let random = Arc::new(SeededRandom::new(self.random.next_u64()));
        let opened = match is_encrypted(&*below).map_err(failed)? {
            true => EncryptedDisk::open(below, &key, random),
            false => EncryptedDisk::create(below, &key, random),
        };
        Ok(Arc::new(opened.map_err(|error| failed(error.into()))?))
    }

    /// The first start, which the power may not survive either.
    pub(crate) fn open_first(&self) {
        self.open_through_failures();
        self.check_all("in a new store");
    }

    /// Opens the store; the power may fail while it opens, and the disk may.
    fn open_through_failures(&self) {
        for _ in 0..3 {
            if self.chance(0.2) && self.plan.crash_chance > 0.0 {
                self.arm_power_loss();
            } else if self.plan.trouble == crate::plan::Trouble::Errors && self.chance(0.2) {
                self.arm_error();
                self.segment_may_lack.store(true, Ordering::Relaxed);
            }
            match self.try_open() {
                // The power failed at something that opening can do without.
                Ok(_) if self.disk.is_down() => {}
                Ok(store) => {
                    self.settle(store);
                    return;
                }
                Err(error) => {
                    self.say(format_args!("opening failed: {error}"));
                    if !self.disk.is_down() && (kind(&error) != Kind::Disk || self.health() == Health::Good) {
                        self.fail(format_args!("the store cannot be opened: {error}"));
                    }
                }
            }
            self.end_troubles();
        }
        match self.try_open() {
            Ok(store) => self.settle(store),
            Err(error) => self.fail(format_args!("the store cannot be opened: {error}")),
        }
    }

    fn settle(&self, store: Arc<Store>) {
        // What was armed and has not fired must not fire during the checks.
        self.end_troubles();
        self.set_store(Some(store));
    }

    fn end_troubles(&self) {
        if self.disk.is_down() {
            self.say(format_args!("the power comes back"));
        }
        self.disk.power_on();
        self.disk.clear_faults();
        if self.health() != Health::Full {
            *self.health.lock() = Health::Good;
        }
    }

    /// Has the power fail at one of the next operations of the disk.
    pub(crate) fn arm_power_loss(&self) {
        let after = self.random.below(if self.chance(0.5) { 10 } else { 200 });
        self.say(format_args!("the power will fail after {after} operations"));
        self.disk.power_loss_after(after);
    }

    /// Ends this life in some way.
    pub(crate) fn crash_somehow(&self) {
        match self.random.below(10) {
            0..4 => self.arm_power_loss(),
            4..7 => self.restart(End::PowerLoss),
            7..9 => self.restart(End::ProcessCrash),
            _ => self.restart(End::Shutdown),
        }
    }

    /// The power failed at some operation; everything since was in vain.
    pub(crate) fn recover_from_power_loss(&self) {
        self.restart(End::PowerLoss);
    }

    fn restart(&self, end: End) {
        self.say(format_args!("{end:?}"));
        self.summary.lock().restarts += 1;
        self.readers.lock().clear();
        self.unacknowledged.lock().clear();
        if end == End::Shutdown {
            self.shut_down();
        }
        self.following.iter().for_each(Following::end_life);
        self.set_store(None);
        match end {
            // It has failed already, at an operation.
            End::PowerLoss if self.disk.is_down() => {}
            End::PowerLoss => self.disk.power_loss(),
            End::ProcessCrash | End::Shutdown => self.disk.process_crash(),
        }
        self.end_troubles();
        self.open_through_failures();
        self.check_recovered();
    }

    pub(crate) fn shut_down(&self) {
        let before = self.model.lock().last_logged();
        match self.store().shutdown() {
            Ok(()) => self.model.lock().set_durable(before),
            Err(error) => self.check_background_error(&error),
        }
    }

    fn check_recovered(&self) {
        let timestamp = self.store().visible_timestamp();
        let recovered = self.model.lock().recover(timestamp);
        let lost = recovered.unwrap_or_else(|problem| self.fail(format_args!("{problem}")));
        self.summary.lock().lost += lost as u64;
        self.say(format_args!("recovered up to {timestamp}; {lost} commits lost"));
        self.resume_index_builds();
        self.check_all("after recovery");
    }

    /// Has one operation of the disk fail soon.
    fn arm_error(&self) {
        let operation = match self.random.below(10) {
            0..3 => Operation::Write,
            3..6 => Operation::Sync,
            6..8 => Operation::Read,
            _ => OPERATIONS[self.random.below(OPERATIONS.len() as u64) as usize],
        };
        let after = self.random.below(if self.chance(0.5) { 3 } else { 40 });
        self.say(format_args!("{operation:?} will fail after {after} more"));
        self.summary.lock().faults += 1;
        *self.health.lock() = Health::Failing;
        match self.chance(0.8) {
            true => self.disk.fail_after(operation, after, InjectedError::InputOutput),
            false => self.disk.set_error_probability(operation, 0.05),
        }
    }

    /// A disk that works begins to fail; one that has failed gets a restart, sooner or later.
    pub(crate) fn toggle_errors(&self) {
        match self.health() {
            Health::Good => self.arm_error(),
            Health::Failing | Health::Stopped if self.chance(0.5) => {
                self.restart(if self.chance(0.5) { End::PowerLoss } else { End::ProcessCrash });
            }
            Health::Failing | Health::Stopped | Health::Full => {}
        }
    }

    /// The end of a run: one last crash, and everything must be there.
    pub(crate) fn finish(&self) {
        if self.health() == Health::Full {
            self.give_space_back();
        }
        self.restart_for_good(End::ProcessCrash);
        self.whole_checkpoint();
        self.restart_for_good(End::Shutdown);
        if self.plan.trouble == crate::plan::Trouble::BitFlips {
            self.change_a_little();
            self.flip_bits();
        }
    }

    /// The power may fail while index builds go on.
    fn restart_for_good(&self, end: End) {
        self.restart(end);
        while self.disk.is_down() {
            self.recover_from_power_loss();
        }
    }

    /// Something in the oplog that no checkpoint has, perhaps.
    fn change_a_little(&self) {
        for _ in 0..self.random.below(30) {
            self.client_operation(&[]);
            if self.chance(0.2) {
                self.background_step();
            }
            if self.disk.is_down() {
                self.recover_from_power_loss();
            }
        }
    }
}
