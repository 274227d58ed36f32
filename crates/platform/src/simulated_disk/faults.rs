//! What can go wrong on the simulated disk, and how often each operation was asked for.
//!
//! Called by the simulated disk before every operation. A fault fires by count ("the next write") or by probability.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

use crate::{Random, SeededRandom};

/// An operation that can be made to fail, slowed down and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `Disk::open`
    Open,
    /// `Disk::create_directory`
    CreateDirectory,
    /// `Disk::remove`
    Remove,
    /// `Disk::rename` and `Disk::rename_new`
    Rename,
    /// `Disk::list` and `Disk::exists`
    List,
    /// `Disk::sync_directory`
    SyncDirectory,
    /// `File::read_at` and `File::read_exact_at`
    Read,
    /// `File::write_all_at`
    Write,
    /// `File::sync_data`
    Sync,
    /// `File::set_length`
    SetLength,
    /// `File::punch_hole`
    PunchHole,
    /// `File::allocate`
    Allocate,
}

/// The error that an injected fault reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedError {
    /// EIO: the device failed.
    InputOutput,
    /// ENOSPC: no space left.
    NoSpace,
    /// EACCES: not permitted.
    PermissionDenied,
    /// EMFILE: too many open files.
    TooManyOpenFiles,
    /// EOPNOTSUPP: the file system cannot do this.
    Unsupported,
}

impl InjectedError {
    pub(super) fn error(self) -> io::Error {
        let errno = match self {
            InjectedError::InputOutput => Errno::IO,
            InjectedError::NoSpace => Errno::NOSPC,
            InjectedError::PermissionDenied => Errno::ACCESS,
            InjectedError::TooManyOpenFiles => Errno::MFILE,
            InjectedError::Unsupported => Errno::OPNOTSUPP,
        };
        errno.into()
    }
}

/// How often operations were asked for (failed ones included) and how many bytes were moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    counts: BTreeMap<Operation, u64>,
    /// Bytes returned by reads.
    pub read_bytes: u64,
    /// Bytes taken by writes that succeeded.
    pub written_bytes: u64,
}

impl OperationCounts {
    /// How often `operation` was asked for.
    pub fn of(&self, operation: Operation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or(0)
    }
}

#[derive(Default)]
pub(super) struct Faults {
    pub(super) counts: OperationCounts,
    rules: BTreeMap<Operation, Rule>,
}

#[derive(Default)]
struct Rule {
    /// Operations to let through before `next` fires, and the error it fires with.
    next: Option<(u64, InjectedError)>,
    always: Option<InjectedError>,
    probability: f64,
    delay: Duration,
}

/// What a fault check found: wait this long, then fail with this.
pub(super) struct Verdict {
    pub(super) delay: Duration,
    pub(super) error: Option<io::Error>,
}

impl Faults {
    pub(super) fn fail_after(&mut self, operation: Operation, successes: u64, error: InjectedError) {
        self.rules.entry(operation).or_default().next = Some((successes, error));
    }

    pub(super) fn fail_always(&mut self, operation: Operation, error: InjectedError) {
        self.rules.entry(operation).or_default().always = Some(error);
    }

    pub(super) fn set_probability(&mut self, operation: Operation, probability: f64) {
        self.rules.entry(operation).or_default().probability = probability;
    }

    pub(super) fn set_delay(&mut self, operation: Operation, delay: Duration) {
        self.rules.entry(operation).or_default().delay = delay;
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn check(&mut self, operation: Operation, random: &SeededRandom) -> Verdict {
        *self.counts.counts.entry(operation).or_default() += 1;
        let Some(rule) = self.rules.get_mut(&operation) else {
            return Verdict { delay: Duration::ZERO, error: None };
        };
        Verdict { delay: rule.delay, error: rule.fire(random).map(InjectedError::error) }
    }
}

impl Rule {
    fn fire(&mut self, random: &SeededRandom) -> Option<InjectedError> {
        match &mut self.next {
            Some((0, error)) => {
                let error = *error;
                self.next = None;
                return Some(error);
            }
            Some((successes, _)) => *successes -= 1,
            None => {}
        }
        if self.probability > 0.0 && random.chance(self.probability) {
            return Some(InjectedError::InputOutput);
        }
        self.always
    }
}
