//! The primary's thread, as a function: what is logged goes to the shared log, and what every reader will find there is confirmed.
//!
//! Called in a loop by one thread, or by the simulator. It judges each record by the rule (`Writer`), believes no answer, and tells the store what is confirmed and
//! whether anything can be. A log that is silent holds writers: first by the commits that wait, then `STALLED_AFTER` refuses new ones. A term that is lost is lost
//! for good; the store is to be opened again.

use std::sync::Arc;
use std::time::Duration;

use oplog::{CanonicalReader, LocalOplog, Oplog, OplogPosition};
use platform::Clock;
use shared_log::{CHANCE, RANGE_BYTES_MAX, Refused, Role, Rule, SILENCE, SharedLog, Writer};
use transaction::{Leadership, Store};

use crate::error::{ReplicationError, Result};
use crate::joining::{Joined, READ_BYTES};
use crate::standing_file::StandingFile;

/// An idle primary shows itself so often.
const BEAT: Duration = Duration::from_millis(500);
/// After so long without anything read from the log though something was sent, nothing new is begun, and nobody is kept waiting: others may lead from then on, and
/// not before. A process that was stopped for a while has sent nothing meanwhile.
const STALLED_AFTER: Duration = SILENCE;
/// After so long without any answer of the log a primary does not show itself any more: it may be heard and hear nothing, and another one is to lead then.
/// Two heartbeats.
const DEAF_AFTER: Duration = BEAT.saturating_mul(2);
/// So soon another member leads that reaches the log, when a primary does not.
const OTHERS_LEAD_WITHIN: Duration = Duration::from_secs(8);
/// For the claim, and for what is written before clients are told.
const TAKING_OVER: Duration = BEAT;
const _: () = assert!(
    DEAF_AFTER.as_millis() + SILENCE.as_millis() + CHANCE.as_millis() + TAKING_OVER.as_millis()
        <= OTHERS_LEAD_WITHIN.as_millis()
);
/// How long is waited for the answer to the question whether the log is there, when there is nothing else to wait for.
const PROBE: Duration = Duration::from_secs(2);
/// Longest rest while answers are awaited, and while nothing is on its way.
const SHORT_REST: Duration = Duration::from_millis(1);
const LONG_REST: Duration = Duration::from_millis(100);

/// See the module's head.
pub struct Shipper {
    log: Arc<dyn SharedLog>,
    clock: Arc<dyn Clock>,
    writer: Writer,
    standing: StandingFile,
    reader: Option<CanonicalReader>,
    /// When something was last sent.
    sent_at: Duration,
    /// When the first was sent since something was read.
    unheard_since: Option<Duration>,
    /// When the log last gave an answer, whatever it was; and when it was last asked for one because none had come.
    answered_at: Duration,
    probed_at: Duration,
    told: u64,
    /// The lead is being given up: the store takes no writes.
    gives_up: bool,
    /// Somebody else says what becomes of the store when the lead is lost.
    hands_on: bool,
}

impl Shipper {
    /// Goes on for a member that leads. The store has been opened, and confirms what the log confirms from here on.
    pub fn begin(log: Arc<dyn SharedLog>, clock: Arc<dyn Clock>, joined: Joined, store: &Store) -> Shipper {
        store.begin_confirming(OplogPosition(joined.confirmed()));
        Shipper::go_on(log, clock, joined)
    }

    /// The same for a member whose store was open when it came to lead.
    pub(crate) fn go_on(log: Arc<dyn SharedLog>, clock: Arc<dyn Clock>, joined: Joined) -> Shipper {
        let Joined { writer, standing } = joined;
        let (now, told) = (clock.monotonic(), writer.confirmed());
        Shipper {
            log,
            clock,
            writer,
            standing,
            reader: None,
            sent_at: now,
            unheard_since: None,
            answered_at: now,
            probed_at: now,
            told,
            gives_up: false,
            hands_on: false,
        }
    }

    /// When the lead is lost, whoever calls this says what becomes of the store.
    pub(crate) fn hand_on(&mut self) {
        self.hands_on = true;
    }

    /// The store's writers are stopped: the lead is given up once everything is in the log. `false`: some of it is still to be shipped; to be called again.
    pub(crate) fn give_up(&mut self, store: &Store, successor: Option<u64>) -> bool {
        self.gives_up = true;
        let is_shipped = self.writer.wanted() == Some(store.oplog().end_position().0);
        if is_shipped {
            self.writer.step_down(successor);
        }
        is_shipped
    }

    /// How far it is known to have read the log.
    pub(crate) fn standing(&self) -> &StandingFile {
        &self.standing
    }

    /// What it has read, to go on as a follower.
    pub(crate) fn into_parts(self) -> (Writer, StandingFile) {
        (self.writer, self.standing)
    }

    /// What it writes with.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Whether it leads.
    pub fn leads(&self) -> bool {
        matches!(self.writer.role(), Role::Leading | Role::SteppingDown)
    }

    /// Does what there is to do. `false`: there was nothing.
    ///
    /// # Errors
    /// `Log`: what stops this member for good; the store takes no writes then. Others: of this machine's disk; the next turn tries again.
    pub fn step(&mut self, store: &Store) -> Result<bool> {
        self.try_step(store).inspect_err(|error| match error {
            // What the log says cannot be followed, and will not get better.
            ReplicationError::Log(_) => store.set_leadership(Leadership::Lost),
            // This machine's disk: it may be asked again.
            _ => self.reader = None,
        })
    }

    fn try_step(&mut self, store: &Store) -> Result<bool> {
        let mut did_something = self.hear()?;
        did_something |= self.ship(store.oplog())?;
        let now = self.clock.monotonic();
        if now.saturating_sub(self.sent_at) >= BEAT && !self.is_deaf(now) {
            self.writer.beat();
        }
        if self.send()? {
            did_something = true;
            // Some logs answer at once.
            self.hear()?;
        }
        self.tell(store);
        self.standing.keep_up(self.writer.reading(), store.oplog(), self.clock.monotonic())?;
        Ok(did_something)
    }

    /// Takes answers, and reads what they speak of.
    fn hear(&mut self) -> Result<bool> {
        let before = self.writer.reading().next();
        for outcome in self.log.outcomes(Duration::ZERO) {
            // What is not known is nothing that the log has said.
            if !matches!(outcome.result, Err(Refused::Unknown(_))) {
                self.answered_at = self.clock.monotonic();
            }
            if let Some(record) = self.writer.answered(outcome.ticket, outcome.result)
                && self.leads()
            {
                self.writer.read(record.offset, &record.bytes)?;
            }
        }
        self.probe()?;
        // What follows the end of the lead is a follower's to read.
        while self.leads() && self.writer.wants_to_read() {
            let records = match self.log.read(self.writer.reading().next(), READ_BYTES, Duration::ZERO) {
                Err(error) if error.is_passing() => break,
                records => records?,
            };
            if records.is_empty() {
                break;
            }
            self.answered_at = self.clock.monotonic();
            for record in records {
                self.writer.read(record.offset, &record.bytes)?;
                if !self.leads() {
                    break;
                }
            }
        }
        let has_heard = self.writer.reading().next() > before;
        if has_heard {
            self.unheard_since = None;
        }
        Ok(has_heard)
    }

    /// Whether the log has given no answer for so long that this member may be heard and hear nothing.
    fn is_deaf(&self, now: Duration) -> bool {
        now.saturating_sub(self.answered_at) >= DEAF_AFTER
    }

    /// Asks the log whether it is there if it has not answered for long. Waits no longer than until writers must be told that it does not answer.
    fn probe(&mut self) -> Result<()> {
        let now = self.clock.monotonic();
        if !self.leads() || !self.is_deaf(now) || now.saturating_sub(self.probed_at) < BEAT {
            return Ok(());
        }
        self.probed_at = now;
        let until_stalled = self.unheard_since.map(|since| (since + STALLED_AFTER).saturating_sub(now));
        let longest = until_stalled.filter(|left| !left.is_zero()).map_or(PROBE, |left| left.min(PROBE));
        match self.log.answers(longest) {
            Err(error) if error.is_passing() => {}
            answer => {
                answer?;
                self.answered_at = self.clock.monotonic();
            }
        }
        Ok(())
    }

    /// Gives the writer what the oplog has, as far as it wants more.
    fn ship(&mut self, oplog: &LocalOplog) -> Result<bool> {
        let mut has_shipped = false;
        while let Some(position) = self.writer.wanted() {
            let reader = match &mut self.reader {
                Some(reader) if reader.position().0 == position => reader,
                none => none.insert(oplog.read_canonical(OplogPosition(position))?),
            };
            let mut bytes = Vec::new();
            let whole = reader.read(&mut bytes, RANGE_BYTES_MAX)?;
            if bytes.is_empty() {
                break;
            }
            self.writer.ship(&bytes, whole)?;
            has_shipped = true;
        }
        Ok(has_shipped)
    }

    fn send(&mut self) -> Result<bool> {
        let mut batch = Vec::new();
        while let Some(sending) = self.writer.next_sending()? {
            batch.push(sending);
        }
        if batch.is_empty() {
            return Ok(false);
        }
        self.log.begin_append(&batch);
        self.sent_at = self.clock.monotonic();
        self.unheard_since.get_or_insert(self.sent_at);
        Ok(true)
    }

    fn tell(&mut self, store: &Store) {
        if self.writer.confirmed() > self.told {
            self.told = self.writer.confirmed();
            store.confirm(OplogPosition(self.told));
        }
        let silent = self.unheard_since.map_or(Duration::ZERO, |since| self.clock.monotonic().saturating_sub(since));
        let leadership = match (self.leads(), self.gives_up) {
            (false, _) if self.hands_on => return,
            (false, true) => return,
            (false, false) => Leadership::Lost,
            (true, _) if silent >= STALLED_AFTER => Leadership::Stalled,
            (true, true) => Leadership::Following,
            (true, false) => Leadership::Held,
        };
        if leadership != store.leadership() {
            match leadership {
                Leadership::Held => tracing::info!("the shared log answers again; writes are accepted"),
                Leadership::Stalled => {
                    tracing::error!("the shared log does not answer; writes are refused until it does")
                }
                Leadership::Following => {}
                Leadership::Lost => tracing::error!(role = ?self.writer.role(), "another member leads the replica set"),
            }
            store.set_leadership(leadership);
        }
    }

    /// Waits for something to do, not long.
    pub fn rest(&self, store: &Store) {
        match self.writer.wanted() {
            // Nothing is on its way, and all is shipped.
            Some(position) if self.told == position => {
                store.oplog().wait_appended(OplogPosition(position), LONG_REST);
            }
            _ => self.clock.sleep(SHORT_REST),
        }
    }
}
