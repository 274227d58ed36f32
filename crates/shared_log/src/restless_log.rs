//! A connection to a log in memory on which things arrive while somebody waits, and which may be given up at any moment.
//!
//! For the simulator and tests that have one thread: nobody else calls `deliver` while a member asks. What happens comes from random
//! numbers of the connection's own.

use std::time::Duration;

use platform::{Random, SeededRandom};

use crate::{
    AppendOutcome, Bounds, Connection, LogIdentity, MemoryLog, Offset, Result, Sending, SharedLog, StoredRecord,
};

/// See the module's head.
pub struct RestlessLog {
    log: MemoryLog,
    connection: Connection,
    random: SeededRandom,
    /// Fewer than so many things arrive at a time.
    arrivals: u64,
    /// How often the connection is given up, from 0 (never) to 1.
    given_up: f64,
}

impl RestlessLog {
    /// A new connection.
    pub fn new(log: &MemoryLog, random: SeededRandom, arrivals: u64, given_up: f64) -> RestlessLog {
        RestlessLog { log: log.clone(), connection: log.connect(), random, arrivals, given_up }
    }

    /// What it goes through.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A moment passes.
    pub fn let_things_happen(&self) {
        for _ in 0..self.random.below(self.arrivals) {
            self.log.deliver();
        }
        if self.random.chance(self.given_up) {
            self.connection.give_up();
        }
    }
}

impl SharedLog for RestlessLog {
    fn identity(&self) -> Result<LogIdentity> {
        self.connection.identity()
    }

    fn begin_append(&self, batch: &[Sending]) {
        self.connection.begin_append(batch);
    }

    fn outcomes(&self, longest: Duration) -> Vec<AppendOutcome> {
        self.let_things_happen();
        self.connection.outcomes(longest)
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        self.let_things_happen();
        self.connection.read(from, bytes_max, longest)
    }

    fn bounds(&self) -> Result<Bounds> {
        self.connection.bounds()
    }

    fn answers(&self, longest: Duration) -> Result<()> {
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
