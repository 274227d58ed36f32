//! A shared log in memory that behaves as badly as a shared log may: for tests and the simulator, which have one thread or many.
//!
//! Members reach it by connections. What a connection sends is on its way until it is delivered; with `Faults::none` that is at once,
//! otherwise when `deliver` is called, in any order, several times, never, or long after the sender has died. Everything random about it
//! comes from one seed, so a single-threaded run repeats exactly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Random, SeededRandom};

use crate::record::STORED_BYTES_MAX;
use crate::{
    AppendOutcome, Bounds, LogIdentity, Offset, Refused, Result, Sending, SharedLog, SharedLogError, StoredRecord,
    Ticket,
};

/// How often something goes wrong, each from 0 (never) to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// What is sent is on its way until `deliver` is called.
    pub is_slow: bool,
    /// Something that is on its way arrives before what was sent earlier.
    pub overtaking: f64,
    /// What arrives arrives again later.
    pub repeat: f64,
    /// What is sent never arrives, and nobody is told.
    pub lost_request: f64,
    /// What has arrived is not answered.
    pub lost_answer: f64,
    /// What arrives is refused, and the sender is told so.
    pub refusal: f64,
    /// A read fails.
    pub failed_read: f64,
}

impl Faults {
    /// Everything works, at once.
    pub fn none() -> Faults {
        Faults {
            is_slow: false,
            overtaking: 0.0,
            repeat: 0.0,
            lost_request: 0.0,
            lost_answer: 0.0,
            refusal: 0.0,
            failed_read: 0.0,
        }
    }

    /// Everything goes wrong so often, and is overtaken twice as often.
    pub fn at_rate(rate: f64) -> Faults {
        Faults {
            is_slow: true,
            overtaking: rate * 2.0,
            repeat: rate,
            lost_request: rate,
            lost_answer: rate,
            refusal: rate,
            failed_read: rate,
        }
    }
}

/// The log itself; clones are handles on the same one.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    random: SeededRandom,
    identity: LogIdentity,
}

struct State {
    faults: Faults,
    first: u64,
    records: Vec<Arc<[u8]>>,
    on_the_way: Vec<Request>,
    connections: BTreeMap<u64, Ends>,
    notices: BTreeMap<u64, Vec<u8>>,
    last_connection: u64,
}

struct Request {
    connection: u64,
    sending: Sending,
}

/// What the log knows of a connection.
#[derive(Default)]
struct Ends {
    is_cut: bool,
    waiting: Vec<Ticket>,
    outcomes: Vec<AppendOutcome>,
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    fn answer(&mut self, connection: u64, ticket: Ticket, result: std::result::Result<Offset, Refused>) {
        let Some(ends) = self.connections.get_mut(&connection).filter(|ends| !ends.is_cut) else { return };
        // What was given up has its outcome, and so has what was answered before a repeat arrived.
        if let Some(index) = ends.waiting.iter().position(|waiting| *waiting == ticket) {
            ends.waiting.swap_remove(index);
            ends.outcomes.push(AppendOutcome { ticket, result });
        }
    }
}

impl MemoryLog {
    /// An empty log without faults.
    pub fn new(seed: u64) -> MemoryLog {
        let random = SeededRandom::new(seed);
        let mut identity = [0; 16];
        random.fill(&mut identity);
        let state = State {
            faults: Faults::none(),
            first: 0,
            records: Vec::new(),
            on_the_way: Vec::new(),
            connections: BTreeMap::new(),
            notices: BTreeMap::new(),
            last_connection: 0,
        };
        MemoryLog { shared: Arc::new(Shared { state: Mutex::new(state), random, identity: LogIdentity(identity) }) }
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.state.lock().faults = faults;
    }

    /// A member connects. Dropping a connection, as a member that dies does, takes nothing back of what it has sent.
    pub fn connect(&self) -> Connection {
        let mut state = self.shared.state.lock();
        state.last_connection += 1;
        let number = state.last_connection;
        state.connections.insert(number, Ends::default());
        Connection { log: self.clone(), number }
    }

    /// One request arrives, or is lost; `false`: none is on its way.
    pub fn deliver(&self) -> bool {
        let (mut state, random) = (self.shared.state.lock(), &self.shared.random);
        if state.on_the_way.is_empty() {
            return false;
        }
        let overtakes = random.chance(state.faults.overtaking);
        let index = if overtakes { random.below(state.on_the_way.len() as u64) as usize } else { 0 };
        let Request { connection, sending } = state.on_the_way.remove(index);
        let faults = state.faults;
        if random.chance(faults.lost_request) {
            return true;
        }
        let ticket = sending.ticket;
        if random.chance(faults.refusal) {
            let refused = Refused::NotAppended(unreachable("it refused"));
            state.answer(connection, ticket, Err(refused));
            return true;
        }
        if random.chance(faults.repeat) {
            state.on_the_way.push(Request { connection, sending: sending.clone() });
        }
        let offset = Offset(state.end());
        state.records.push(sending.bytes);
        if !random.chance(faults.lost_answer) {
            state.answer(connection, ticket, Ok(offset));
        }
        true
    }

    /// All that is on its way arrives.
    pub fn deliver_all(&self) {
        while self.deliver() {}
    }

    /// Loses its newest records, as brokers do that had not written what they had acknowledged when the power failed.
    pub fn lose_newest(&self, count: usize) {
        let mut state = self.shared.state.lock();
        let kept = state.records.len().saturating_sub(count);
        state.records.truncate(kept);
    }
}

/// A member's connection.
pub struct Connection {
    log: MemoryLog,
    number: u64,
}

impl Connection {
    /// Cuts the connection, or heals it: requests are lost, and nothing is answered or read. What is on its way stays there.
    pub fn cut(&self, is_cut: bool) {
        if let Some(ends) = self.log.shared.state.lock().connections.get_mut(&self.number) {
            ends.is_cut = is_cut;
        }
    }

    /// The member waits no longer: the outcome of all that was not answered is unknown. It may still arrive.
    pub fn give_up(&self) {
        if let Some(ends) = self.log.shared.state.lock().connections.get_mut(&self.number) {
            let unknown = |ticket| AppendOutcome { ticket, result: Err(Refused::Unknown(unreachable("no answer"))) };
            let given_up: Vec<AppendOutcome> = ends.waiting.drain(..).map(unknown).collect();
            ends.outcomes.extend(given_up);
        }
    }

    fn check_reachable(&self, state: &State) -> Result<()> {
        match state.connections.get(&self.number) {
            Some(ends) if !ends.is_cut => Ok(()),
            _ => Err(unreachable("the connection is cut")),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.log.shared.state.lock().connections.remove(&self.number);
    }
}

impl SharedLog for Connection {
    fn identity(&self) -> Result<LogIdentity> {
        self.check_reachable(&self.log.shared.state.lock())?;
        Ok(self.log.shared.identity)
    }

    fn begin_append(&self, batch: &[Sending]) {
        let mut state = self.log.shared.state.lock();
        for sending in batch {
            let is_cut = self.check_reachable(&state).is_err();
            let Some(ends) = state.connections.get_mut(&self.number) else { return };
            let bytes = sending.bytes.len();
            if bytes > STORED_BYTES_MAX {
                let refused = Refused::NotAppended(SharedLogError::TooLarge { bytes, bytes_max: STORED_BYTES_MAX });
                ends.outcomes.push(AppendOutcome { ticket: sending.ticket, result: Err(refused) });
                continue;
            }
            ends.waiting.push(sending.ticket);
            if !is_cut {
                state.on_the_way.push(Request { connection: self.number, sending: sending.clone() });
            }
        }
        let is_slow = state.faults.is_slow;
        drop(state);
        if !is_slow {
            self.log.deliver_all();
        }
    }

    fn outcomes(&self, _longest: Duration) -> Vec<AppendOutcome> {
        let mut state = self.log.shared.state.lock();
        state.connections.get_mut(&self.number).map(|ends| std::mem::take(&mut ends.outcomes)).unwrap_or_default()
    }

    fn read(&self, from: Offset, bytes_max: usize, _longest: Duration) -> Result<Vec<StoredRecord>> {
        let state = self.log.shared.state.lock();
        self.check_reachable(&state)?;
        if self.log.shared.random.chance(state.faults.failed_read) {
            return Err(unreachable("a read failed"));
        }
        let (first, end) = (Offset(state.first), Offset(state.end()));
        if from < first {
            return Err(SharedLogError::Trimmed { offset: from, first });
        }
        if from > end {
            return Err(SharedLogError::Shorter { offset: from, end });
        }
        let mut found: Vec<StoredRecord> = Vec::new();
        let mut bytes = 0;
        for (index, record) in state.records.iter().enumerate().skip((from.0 - first.0) as usize) {
            if bytes >= bytes_max && !found.is_empty() {
                break;
            }
            bytes += record.len();
            found.push(StoredRecord { offset: Offset(state.first + index as u64), bytes: Arc::clone(record) });
        }
        Ok(found)
    }

    fn bounds(&self) -> Result<Bounds> {
        let state = self.log.shared.state.lock();
        self.check_reachable(&state)?;
        Ok(Bounds { first: Offset(state.first), end: Offset(state.end()) })
    }

    fn answers(&self, _longest: Duration) -> Result<()> {
        self.bounds().map(|_| ())
    }

    fn trim_before(&self, offset: Offset) -> Result<Offset> {
        let mut state = self.log.shared.state.lock();
        self.check_reachable(&state)?;
        let end = Offset(state.end());
        if offset > end {
            return Err(SharedLogError::Shorter { offset, end });
        }
        let given_up = offset.0.saturating_sub(state.first);
        state.records.drain(..given_up as usize);
        state.first += given_up;
        Ok(Offset(state.first))
    }

    fn post(&self, node: u64, notice: &[u8]) -> Result<()> {
        let mut state = self.log.shared.state.lock();
        self.check_reachable(&state)?;
        state.notices.insert(node, notice.to_vec());
        Ok(())
    }

    fn notices(&self) -> Result<Vec<Vec<u8>>> {
        let state = self.log.shared.state.lock();
        self.check_reachable(&state)?;
        Ok(state.notices.values().cloned().collect())
    }

    fn withdraw(&self, node: u64) -> Result<()> {
        let mut state = self.log.shared.state.lock();
        self.check_reachable(&state)?;
        state.notices.remove(&node);
        Ok(())
    }

    fn check(&self) -> Result<Vec<String>> {
        self.check_reachable(&self.log.shared.state.lock())?;
        Ok(Vec::new())
    }
}

fn unreachable(cause: &str) -> SharedLogError {
    SharedLogError::Unreachable { cause: cause.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(connection: &Connection, ticket: u64, bytes: &[u8]) {
        connection.begin_append(&[Sending { ticket: Ticket(ticket), bytes: bytes.into() }]);
    }

    fn read(connection: &Connection, from: u64) -> Vec<Vec<u8>> {
        let found = connection.read(Offset(from), usize::MAX, Duration::ZERO).unwrap();
        found.iter().map(|record| record.bytes.to_vec()).collect()
    }

    fn outcomes(connection: &Connection) -> Vec<(u64, Option<u64>)> {
        let told = connection.outcomes(Duration::ZERO);
        told.into_iter().map(|outcome| (outcome.ticket.0, outcome.result.ok().map(|offset| offset.0))).collect()
    }

    #[test]
    fn without_faults_everything_is_there_at_once() {
        let log = MemoryLog::new(1);
        let (one, other) = (log.connect(), log.connect());
        send(&one, 1, b"a");
        send(&other, 1, b"b");
        assert_eq!(read(&other, 0), [b"a", b"b"]);
        assert_eq!((outcomes(&one), outcomes(&other)), (vec![(1, Some(0))], vec![(1, Some(1))]));
        assert_eq!(one.identity().unwrap(), other.identity().unwrap());
        assert_eq!(one.trim_before(Offset(1)).unwrap(), Offset(1));
        assert!(matches!(other.read(Offset(0), 1, Duration::ZERO), Err(SharedLogError::Trimmed { .. })));
        assert_eq!(read(&other, 1), [b"b"]);
        assert!(matches!(other.trim_before(Offset(3)), Err(SharedLogError::Shorter { .. })));
    }

    #[test]
    fn what_was_given_up_may_arrive_late_and_twice() {
        let log = MemoryLog::new(1);
        log.set_faults(Faults { is_slow: true, repeat: 1.0, ..Faults::none() });
        let (one, other) = (log.connect(), log.connect());
        send(&one, 1, b"late");
        one.give_up();
        assert_eq!(outcomes(&one), [(1, None)]);
        drop(one);
        assert!(log.deliver() && log.deliver());
        assert_eq!(read(&other, 0), [b"late", b"late"]);
    }

    #[test]
    fn who_is_cut_off_reaches_nobody() {
        let log = MemoryLog::new(1);
        let one = log.connect();
        one.cut(true);
        send(&one, 1, b"a");
        assert!(one.read(Offset(0), 1, Duration::ZERO).unwrap_err().is_passing());
        assert!(outcomes(&one).is_empty());
        one.cut(false);
        assert!(read(&one, 0).is_empty());
        one.give_up();
        assert_eq!(outcomes(&one), [(1, None)]);
        send(&one, 2, b"b");
        log.lose_newest(1);
        assert!(matches!(one.read(Offset(1), 1, Duration::ZERO), Err(SharedLogError::Shorter { .. })));
    }
}
