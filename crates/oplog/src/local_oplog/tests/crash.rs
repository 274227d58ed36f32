//! Crashes: whatever happens, what survives is a prefix of what was appended and holds all that was acknowledged.

use proptest::prelude::*;

use super::*;
use crate::OplogError;
use platform::{InjectedError, Operation};

#[derive(Clone, Debug)]
enum Step {
    Append { length: usize },
    Flush,
    WaitForLast,
    PowerLoss,
    ProcessCrash,
    Truncate { percent: u64 },
    FailSync,
    FailWrite,
    FailDirectorySync,
    DiskFull { spare_bytes: u64 },
    SpaceReturns,
    ClockGoesBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_usize..600).prop_map(|length| Step::Append { length }),
        1 => (600_usize..9000).prop_map(|length| Step::Append { length }),
        4 => Just(Step::Flush),
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
}

impl Model {
    fn new(seed: u64) -> Model {
        let machine = Machine::new(seed, 1500);
        let oplog = machine.open();
        Model { machine, oplog, appended: Vec::new(), acknowledged: 0 }
    }

    fn run(&mut self, step: &Step) {
        let disk = self.machine.disk.clone();
        match step {
            Step::Append { length } => self.append(*length),
            Step::Flush => self.flush(),
            Step::WaitForLast => {
                if self.oplog.wait_durable(self.oplog.end_position()).is_ok() {
                    self.acknowledged = self.appended.len();
                }
            }
            Step::PowerLoss => self.crash(SimulatedDisk::power_loss),
            Step::ProcessCrash => self.crash(SimulatedDisk::process_crash),
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
                match below(6) {
                    0 => model.run(&Step::Flush),
                    _ => model.run(&Step::Append { length: below(400) }),
                }
            }
            model.crash(SimulatedDisk::power_loss);
        }
    }
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
