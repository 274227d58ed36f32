//! Crashes: whatever happens, what survives is a prefix of what was appended and holds all that was acknowledged.

use proptest::prelude::*;

use super::*;
use crate::OplogError;
use platform::{InjectedError, Operation};

#[derive(Clone, Debug)]
enum Step {
    Append {
        length: usize,
    },
    Flush,
    /// What the write-ahead thread does while a flush is at its sync.
    WriteAhead,
    WaitForLast,
    PowerLoss,
    ProcessCrash,
    Truncate {
        percent: u64,
    },
    FailSync,
    FailWrite,
    FailDirectorySync,
    DiskFull {
        spare_bytes: u64,
    },
    SpaceReturns,
    ClockGoesBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_usize..600).prop_map(|length| Step::Append { length }),
        1 => (600_usize..9000).prop_map(|length| Step::Append { length }),
        4 => Just(Step::Flush),
        4 => Just(Step::WriteAhead),
        4 => Just(Step::WaitForLast),
        2 => Just(Step::PowerLoss),
        1 => Just(Step::ProcessCrash),
        1 => (0_u64..=100).prop_map(|percent| Step::Truncate { percent }),
        1 => Just(Step::FailSync),
        1 => Just(Step::FailWrite),
        1 => Just(Step::FailDirectorySync),
        1 => (0_u64..20_000).prop_map(|spare_bytes| Step::DiskFull { spare_bytes }),
        2 => Just(Step::SpaceReturns),
        1 => Just(Step::ClockGoesBack),
    ]
}

/// The log and what is known of it.
struct Model {
    machine: Machine,
    oplog: LocalOplog,
    appended: Vec<Written>,
    /// How many of `appended` were acknowledged as durable.
    acknowledged: usize,
    /// How many of `appended` survive a kill of the process; at least those acknowledged.
    written: usize,
}

impl Model {
    fn new(seed: u64) -> Model {
        let machine = Machine::new(seed, 1500);
        let oplog = machine.open();
        Model { machine, oplog, appended: Vec::new(), acknowledged: 0, written: 0 }
    }

    fn run(&mut self, step: &Step) {
        let disk = self.machine.disk.clone();
        match step {
            Step::Append { length } => self.append(*length),
            Step::Flush => self.flush(),
            Step::WriteAhead => self.write_ahead(),
            Step::WaitForLast => {
                if self.oplog.wait_durable(self.oplog.end_position()).is_ok() {
                    self.acknowledged = self.appended.len();
                }
            }
            Step::PowerLoss => self.crash(SimulatedDisk::power_loss),
            Step::ProcessCrash => {
                self.acknowledged = self.acknowledged.max(self.written);
                self.crash(SimulatedDisk::process_crash);
            }
            Step::Truncate { percent } => self.truncate(*percent),
            Step::FailSync => disk.fail_next(Operation::Sync, InjectedError::InputOutput),
            Step::FailWrite => disk.fail_next(Operation::Write, InjectedError::InputOutput),
            Step::FailDirectorySync => disk.fail_next(Operation::SyncDirectory, InjectedError::InputOutput),
            Step::DiskFull { spare_bytes } => disk.set_capacity_bytes(Some(disk.used_bytes() + spare_bytes)),
            Step::SpaceReturns => disk.set_capacity_bytes(None),
            Step::ClockGoesBack => {
                let now = self.machine.clock.wall_millis();
                self.machine.clock.set_wall_millis(now - 5_000);
            }
        }
    }

    fn append(&mut self, length: usize) {
        let bytes = payload(self.appended.len(), length);
        match append(&self.oplog, &bytes) {
            Ok(Appended { timestamp, position, .. }) => {
                assert!(self.appended.last().is_none_or(|last| last.timestamp < timestamp));
                self.appended.push(Written { position, timestamp, payload: bytes });
            }
            Err(OplogError::DiskFull | OplogError::Poisoned { .. }) => {}
            Err(error) => panic!("append: {error}"),
        }
    }

    fn flush(&mut self) {
        match self.oplog.flush_step() {
            Ok(flushed) => {
                assert_eq!(flushed.durable, self.oplog.end_position());
                self.acknowledged = self.appended.len();
            }
            Err(OplogError::DiskFull | OplogError::Poisoned { .. }) => {}
            Err(error) => panic!("flush: {error}"),
        }
    }

    fn write_ahead(&mut self) {
        let sync = self.oplog.shared.flushing.lock();
        let waiting = self.oplog.shared.tail.lock().has_switch();
        let written = self.oplog.write_ahead_step();
        drop(sync);
        match written {
            Ok(true) => self.written = self.appended.len(),
            Ok(false) => assert!(waiting || self.oplog.shared.tail.lock().buffered().is_empty() || self.is_full()),
            Err(OplogError::DiskFull | OplogError::Poisoned { .. }) => {}
            Err(error) => panic!("write ahead: {error}"),
        }
    }

    fn is_full(&self) -> bool {
        self.oplog.shared.writer.lock().retained.is_some()
    }

    fn truncate(&mut self, percent: u64) {
        let (first, end) = (self.oplog.first_position().0, self.oplog.durable_position().0);
        let target = OplogPosition(first + (end - first) * percent / 100);
        match self.oplog.truncate_before(target) {
            Ok(first) => {
                assert!(first <= target);
                self.forget_before(first);
            }
            // A failed directory sync closes the log; what is gone is seen after the restart.
            Err(OplogError::Poisoned { .. }) => self.crash(SimulatedDisk::process_crash),
            Err(error) => panic!("truncate: {error}"),
        }
    }

    /// Truncation removes entries from the front of the model.
    fn forget_before(&mut self, first: OplogPosition) {
        let gone = self.appended.iter().take_while(|written| written.position < first).count();
        self.appended.drain(..gone);
        self.acknowledged = self.acknowledged.saturating_sub(gone);
        self.written = self.written.saturating_sub(gone);
    }

    fn crash(&mut self, how: fn(&SimulatedDisk)) {
        how(&self.machine.disk);
        self.machine.disk.clear_faults();
        self.machine.disk.set_capacity_bytes(None);
        self.oplog = self.machine.open();
        self.forget_before(self.oplog.first_position());
        let survived = read_all(&self.oplog).unwrap();
        assert!(survived.len() >= self.acknowledged, "{} of {} survived", survived.len(), self.acknowledged);
        assert!(survived.len() <= self.appended.len());
        assert_eq!(survived, self.appended[..survived.len()], "what survives is a prefix");
        self.appended.truncate(survived.len());
        // Opening makes what it finds durable.
        self.acknowledged = survived.len();
        self.written = survived.len();
    }

    fn check(&self) {
        assert_eq!(read_all(&self.oplog).unwrap(), self.appended);
    }
}

fn run(seed: u64, steps: &[Step]) {
    let mut model = Model::new(seed);
    for step in steps {
        model.run(step);
        model.check();
    }
    model.crash(SimulatedDisk::power_loss);
    model.append(100);
    model.flush();
    model.check();
    assert_eq!(model.acknowledged, model.appended.len());
}

proptest! {
    #[test]
    fn survives_anything(seed: u64, steps in prop::collection::vec(step(), 1..80)) {
        run(seed, &steps);
    }
}

/// Many power losses while a log is written, with batches of every size.
#[test]
fn power_losses_at_random_points() {
    for seed in 0..100 {
        let random = platform::SeededRandom::new(seed);
        let below = |bound| platform::Random::below(&random, bound) as usize;
        let mut model = Model::new(seed);
        for _ in 0..10 {
            for _ in 0..below(40) {
                match below(8) {
                    0 => model.run(&Step::Flush),
                    1 | 2 => model.run(&Step::WriteAhead),
                    _ => model.run(&Step::Append { length: below(400) }),
                }
            }
            model.crash(SimulatedDisk::power_loss);
        }
    }
}

/// What was handed to the operating system while a sync took its time is there after a kill, and is durable with the next flush.
#[test]
fn a_kill_during_a_slow_sync_loses_nothing_that_was_written_ahead() {
    let mut model = Model::new(1);
    for length in [100, 200, 300] {
        model.run(&Step::Append { length });
        model.run(&Step::WriteAhead);
        assert_eq!((model.written, model.acknowledged), (model.appended.len(), 0));
    }
    model.run(&Step::Append { length: 50 });
    model.check();
    model.run(&Step::ProcessCrash);
    assert_eq!(model.appended.len(), 3);
    model.run(&Step::Append { length: 70 });
    model.run(&Step::WriteAhead);
    model.run(&Step::Flush);
    model.run(&Step::PowerLoss);
    assert_eq!(model.appended.len(), 4);
}

/// A crash in the middle of each file operation of a flush that changes segments.
#[test]
fn failures_at_every_operation_of_a_segment_change() {
    for seed in 0..10 {
        for operation in
            [Operation::Write, Operation::Sync, Operation::SetLength, Operation::Rename, Operation::SyncDirectory]
        {
            for successes in 0..4 {
                let mut model = Model::new(seed);
                for _ in 0..6 {
                    model.run(&Step::Append { length: 150 });
                }
                model.run(&Step::Flush);
                model.machine.disk.fail_after(operation, successes, InjectedError::InputOutput);
                for _ in 0..6 {
                    model.run(&Step::Append { length: 150 });
                }
                model.run(&Step::WaitForLast);
                model.check();
                model.crash(if seed % 2 == 0 { SimulatedDisk::power_loss } else { SimulatedDisk::process_crash });
                model.crash(SimulatedDisk::power_loss);
            }
        }
    }
}

/// What was cut off at one start never comes back at a later one, although new entries of the same sizes end where
/// the old ones began.
#[test]
fn entries_that_were_cut_off_stay_gone() {
    for seed in 0..100 {
        let mut model = Model::new(seed);
        for _ in 0..8 {
            (0..6).for_each(|_| model.run(&Step::Append { length: 300 }));
            model.crash(SimulatedDisk::power_loss);
            model.run(&Step::Append { length: 300 });
            model.run(&Step::Flush);
            model.crash(SimulatedDisk::power_loss);
        }
    }
}
