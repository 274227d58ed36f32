//! What goes wrong with members of a set, and their background's work.
//!
//! Called by `world`. A process that is doomed or has lost its disk is buried between two steps, when nothing is under way.

use std::sync::Arc;

use oplog::{OplogPosition, peek_canonical};
use platform::{InjectedError, Operation, Random};
use replication::StandingFile;
use shared_log::{Offset, SharedLog, Window, window_begins};
use transaction::{CheckpointProgress, Leadership, TransactionError, Urgency};

use super::connection::Cut;
use super::machine::Running;
use super::world::{MEMBERS, World};

/// Operations of the disk that are made to fail.
const OPERATIONS: [Operation; 5] =
    [Operation::Write, Operation::Sync, Operation::Read, Operation::Rename, Operation::Open];

impl World {
    pub(super) fn cause_trouble(&self) {
        let place = self.troubled_place();
        let machine = &self.machines[place];
        match self.random.below(12) {
            0 | 1 => self.kill(place),
            2 => self.lose_power(place),
            3 => self.arm_power_loss(place),
            4 | 5 => {
                let turns = self.random.below(if self.chance(0.5) { 10 } else { 60 });
                self.say(format_args!("member {place} is stopped for {turns} turns"));
                machine.pause(turns);
            }
            6 | 7 => {
                let turns = 1 + self.random.below(if self.chance(0.5) { 10 } else { 60 });
                let cut = [Cut::Both, Cut::Both, Cut::Deaf, Cut::Mute][self.random.below(4) as usize];
                self.say(format_args!("member {place} is cut off for {turns} turns: {cut:?}"));
                machine.cut_off(turns, cut);
            }
            8 => self.step_down(place),
            9 => self.trim(),
            10 => self.shut_down(place),
            _ if self.plan.disks_fail => self.arm_error(place),
            _ => self.start_if_down(place),
        }
    }

    /// The power of a machine fails at one of the next operations of its disk.
    pub(super) fn arm_power_loss(&self, place: usize) {
        let after = self.random.below(if self.chance(0.5) { 10 } else { 200 });
        self.say(format_args!("member {place}: the power will fail after {after} operations"));
        self.machines[place].disk.power_loss_after(after);
    }

    fn arm_error(&self, place: usize) {
        let operation = OPERATIONS[self.random.below(OPERATIONS.len() as u64) as usize];
        let after = self.random.below(20);
        self.say(format_args!("member {place}: {operation:?} will fail after {after} more"));
        self.summary.lock().faults += 1;
        self.machines[place].spoil_disk();
        self.machines[place].disk.fail_after(operation, after, InjectedError::InputOutput);
    }

    /// The process ends; what it has written to files stays.
    pub(super) fn kill(&self, place: usize) {
        if let Some(running) = self.machines[place].take() {
            self.say(format_args!("member {place} is killed"));
            let is_flushed = self.chance(0.3);
            if is_flushed {
                let _ = oplog::Oplog::flush_step(running.store.oplog());
            }
            self.end_process(place, running);
            self.machines[place].disk.process_crash();
        }
    }

    fn lose_power(&self, place: usize) {
        self.say(format_args!("member {place} loses its power"));
        if let Some(running) = self.machines[place].take() {
            self.end_process(place, running);
        }
        self.machines[place].disk.power_loss();
        self.summary.lock().faults += 1;
    }

    /// Nobody has the store any more.
    fn end_process(&self, place: usize, running: Arc<Running>) {
        self.machines[place].pause(0);
        if Arc::strong_count(&running) > 1 {
            self.fail(format_args!("member {place} was ended while somebody used it"));
        }
    }

    /// Those whose end has come in the midst of something.
    pub(super) fn bury_the_dead(&self) {
        for place in 0..MEMBERS {
            let machine = &self.machines[place];
            if machine.disk.is_down() {
                self.lose_power(place);
                machine.disk.power_on();
            } else if machine.running().is_some_and(|running| running.is_doomed()) {
                self.kill(place);
                self.start(place);
            }
        }
    }

    fn shut_down(&self, place: usize) {
        let Some(running) = self.machines[place].idle() else { return };
        self.say(format_args!("member {place} shuts down"));
        if let Err(error) = self.machines[place].busily(|| running.store.shutdown()) {
            self.judge_error(place, &running, &error);
        }
        running.doom();
    }

    fn step_down(&self, place: usize) {
        let Some(running) = self.machines[place].idle() else { return };
        let Some(mut member) = running.member.try_lock() else { return };
        let successor = match self.random.below(MEMBERS as u64 + 1) {
            0 => None,
            node => Some(node),
        };
        if member.step_down(&running.store, successor) {
            self.say(format_args!("member {place} steps down for {successor:?}"));
        }
    }

    /// Gives up the beginning of the log that no member needs any more, and that is older than a window, as a primary does by itself.
    fn trim(&self) {
        let needs = self.machines.iter().map(|machine| {
            let standing = StandingFile::open(machine.disk.clone()).ok()?;
            Some(standing.stored().map_or(Offset(0), |stored| stored.next))
        });
        let Some(Some(least)) = needs.min() else { return };
        let connection = self.log.connect();
        let Ok(bounds) = connection.bounds() else { return };
        let window = self.window();
        let peek = |bytes: &[u8], position| {
            peek_canonical(bytes, OplogPosition(position)).map(|(timestamp, length)| (timestamp.0, length))
        };
        let begins = match window_begins(&connection, bounds.first..bounds.end, window, &peek) {
            Ok(begins) => begins,
            // Another look will do.
            Err(error) if error.is_passing() => return,
            Err(error) => self.fail(format_args!("{window:?} is not found in a whole log: {error}")),
        };
        self.terms.keep_up();
        if let Ok(first) = connection.trim_before(least.min(begins.first)) {
            self.say(format_args!("the log begins with record {first}, which keeps {window:?}"));
        }
    }

    /// How much of the log is kept for those who are away: some bytes, or what was logged in the last seconds before the newest commit of a member.
    fn window(&self) -> Window {
        let newest = self.machines[self.any_place()].running().map(|running| running.store.confirmed_end().0.0);
        match newest {
            Some(newest) if self.chance(0.5) => Window::Since(newest.saturating_sub(self.random.below(30) << 32)),
            _ => Window::Bytes(self.random.below(64 << 10)),
        }
    }

    /// A piece of what a server's other threads do.
    pub(super) fn background_step(&self, place: usize) {
        let Some(running) = self.machines[place].idle() else { return };
        let store = &running.store;
        let engine = store.engine().clone();
        let choice = self.random.below(12);
        let done: transaction::Result<()> = self.machines[place].busily(|| match choice {
            0..3 => oplog::Oplog::flush_step(store.oplog()).map(drop).map_err(TransactionError::Oplog),
            3..5 => store.advance_checkpoint(if self.chance(0.5) { Urgency::Now } else { Urgency::IfDue }).map(drop),
            5 => self.whole_checkpoint(store),
            6 => engine.evict_all().map(drop).map_err(TransactionError::from),
            7 => engine.reclaim_step().map(drop).map_err(TransactionError::from),
            8 => engine.clean_step().map(drop).map_err(TransactionError::from),
            9 => store.write_rings().map(drop),
            10 => {
                store.fill_received_builds();
                Ok(())
            }
            _ => self.resume_builds(store),
        });
        if let Err(error) = done {
            self.say(format_args!("member {place}: background {choice}"));
            self.judge_error(place, &running, &error);
        }
    }

    fn whole_checkpoint(&self, store: &transaction::Store) -> transaction::Result<()> {
        while store.advance_checkpoint(Urgency::Now)? == CheckpointProgress::Going {}
        Ok(())
    }

    /// Builds that another primary has begun.
    pub(super) fn resume_builds(&self, store: &Arc<transaction::Store>) -> transaction::Result<()> {
        if store.leadership() != Leadership::Held {
            return Ok(());
        }
        for collection in store.interrupted_builds() {
            match store.resume_index_builds(&collection, &|| false) {
                Ok(_) => {}
                // One that cannot be built, or whose collection is gone.
                Err(TransactionError::Collection(error)) => self.say(format_args!("  {error}")),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
