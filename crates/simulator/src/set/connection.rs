//! A member's connection to the log: things arrive while it asks, it is given up at any moment, and the network between may be cut.
//!
//! Made for each life of a member. What happens comes from random numbers of its own.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Random, SeededRandom};
use shared_log::{
    AppendOutcome, Bounds, LogIdentity, MemoryLog, Offset, RestlessLog, Result, Sending, SharedLog, SharedLogError,
    StoredRecord,
};

use super::mistakes::{Mistake, Terms, foreign};

/// Fewer than so many things arrive at a time, and how often what was sent is given up.
const ARRIVALS: u64 = 3;
const GIVEN_UP: f64 = 0.05;
/// How often a member that misses records does.
const MISSED: f64 = 0.01;

/// Where the network between a member and the log is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cut {
    /// Nowhere.
    #[default]
    Not,
    /// Nothing gets through.
    Both,
    /// What it sends arrives, and it hears nothing.
    Deaf,
    /// It hears, and what it appends does not arrive.
    Mute,
}

/// See the module's head.
pub(super) struct SetConnection {
    cut: Mutex<Cut>,
    connection: RestlessLog,
    /// For mistakes.
    random: SeededRandom,
    mistake: Option<Mistake>,
    terms: Arc<Terms>,
}

impl SetConnection {
    pub(super) fn new(
        log: &MemoryLog,
        random: SeededRandom,
        mistake: Option<Mistake>,
        terms: Arc<Terms>,
    ) -> SetConnection {
        let seed = if mistake.is_some() { random.next_u64() } else { 0 };
        let connection = RestlessLog::new(log, random, ARRIVALS, GIVEN_UP);
        SetConnection { cut: Mutex::default(), connection, random: SeededRandom::new(seed), mistake, terms }
    }

    /// Cuts it, or heals it.
    pub(super) fn cut(&self, cut: Cut) {
        *self.cut.lock() = cut;
        self.connection.connection().cut(cut == Cut::Both);
    }

    fn check_hears(&self) -> Result<()> {
        match *self.cut.lock() {
            Cut::Deaf => Err(SharedLogError::Unreachable { cause: "no answer comes".to_owned() }),
            _ => Ok(()),
        }
    }

    fn mistaken(&self, record: StoredRecord) -> StoredRecord {
        match self.mistake {
            Some(Mistake::PastTermsCount) => self.terms.renewed(record),
            Some(Mistake::MissesRecords) if self.random.chance(MISSED) => foreign(record),
            _ => record,
        }
    }
}

impl SharedLog for SetConnection {
    fn identity(&self) -> Result<LogIdentity> {
        self.check_hears()?;
        self.connection.identity()
    }

    fn begin_append(&self, batch: &[Sending]) {
        let is_mute = *self.cut.lock() == Cut::Mute;
        if is_mute {
            self.connection.connection().cut(true);
        }
        self.connection.begin_append(batch);
        if is_mute {
            self.connection.connection().cut(false);
        }
    }

    fn outcomes(&self, longest: Duration) -> Vec<AppendOutcome> {
        self.connection.let_things_happen();
        if self.check_hears().is_err() {
            return Vec::new();
        }
        self.connection.connection().outcomes(longest)
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        self.connection.let_things_happen();
        self.check_hears()?;
        let records = self.connection.connection().read(from, bytes_max, longest)?;
        Ok(records.into_iter().map(|record| self.mistaken(record)).collect())
    }

    fn bounds(&self) -> Result<Bounds> {
        self.check_hears()?;
        self.connection.bounds()
    }

    fn answers(&self, longest: Duration) -> Result<()> {
        self.check_hears()?;
        self.connection.answers(longest)
    }

    fn trim_before(&self, offset: Offset) -> Result<Offset> {
        self.connection.trim_before(offset)
    }

    fn post(&self, node: u64, notice: &[u8]) -> Result<()> {
        self.connection.post(node, notice)
    }

    fn notices(&self) -> Result<Vec<Vec<u8>>> {
        self.connection.notices()
    }

    fn withdraw(&self, node: u64) -> Result<()> {
        self.connection.withdraw(node)
    }

    fn check(&self) -> Result<Vec<String>> {
        self.connection.check()
    }
}
