//! A member of a replica set, from its store's opening on: it follows whoever leads, takes the lead when nobody has it, and gives it up.
//!
//! Driven by one thread that calls `step` in a loop, or by the simulator. Nothing here has a thread, and all that is decided about who leads is decided by the
//! rule (`shared_log`), by what is read.
//!
//! ```text
//!             silence, or named as the successor              the claim counts: what is decided is committed
//! Following ───────────────────────────────────> Claiming ──────────────────────────────────────────────────> Leading
//!     ^ ^                                           │ another claim came first                                 │
//!     │ └───────────────────────────────────────────┘                                                          │
//!     └────────────────────── stepped down; or overtaken, with everything in the log ──────────────────────────┤
//!                                                                                                              v
//!                                       Over: overtaken, and the store has what the log has not. It is to be opened again.
//! ```

use std::sync::Arc;
use std::time::Duration;

use oplog::{Oplog, OplogPosition};
use platform::{Clock, Random};
use shared_log::{Candidacy, Effect, Leader, Offset, Reading, Role, Rule, SharedLog, Writer};
use transaction::{Leadership, Store};

use crate::error::{ReplicationError, Result};
use crate::half_entries::HalfEntries;
use crate::joining::{Entered, Follows, Joined, READ_BYTES};
use crate::shipper::Shipper;
use crate::standing_file::StandingFile;

/// A member that is no more than this behind has caught up.
const CLOSE: Duration = Duration::from_secs(1);
/// How long a follower waits at a time for news.
const REST: Duration = Duration::from_millis(20);

/// See the module's head.
pub struct Member {
    log: Arc<dyn SharedLog>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    me: Leader,
    state: State,
    half: HalfEntries,
    candidacy: Candidacy,
    /// Not a candidate before.
    frozen_until: Duration,
    /// The lead is being given up, for this one.
    giving_up: Option<Option<u64>>,
    distance: Distance,
    /// Called before anybody is refused because the lead is gone.
    leaving: Box<dyn Fn() + Send>,
}

enum State {
    Following(Reading, StandingFile),
    Claiming(Writer, StandingFile),
    Leading(Shipper),
    Over,
}

/// How far behind a member is, until it has caught up. Where others write all the time it never finds nothing to read.
enum Distance {
    /// Of this place it is known when it was the log's end.
    Until(Offset, Duration),
    Unknown,
    CaughtUp,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standpoint {
    /// It leads.
    Leads {
        /// Since this term.
        term: u64,
    },
    /// It follows.
    Follows {
        /// The newest term.
        term: u64,
        /// Who has claimed it last, and has not stepped down.
        leader: Option<Leader>,
    },
    /// Its store is to be opened again.
    IsOver,
}

impl Member {
    /// Goes on for a member whose store has been opened as `entered` says.
    pub fn begin(
        log: Arc<dyn SharedLog>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        me: Leader,
        entered: Entered,
        store: &Store,
    ) -> Member {
        let end = store.oplog().end_position();
        let state = match entered {
            Entered::Leads(joined) => {
                let mut shipper = Shipper::begin(log.clone(), clock.clone(), joined, store);
                shipper.hand_on();
                State::Leading(shipper)
            }
            Entered::Follows(Follows { reading, standing }) => {
                store.begin_confirming(end);
                State::Following(reading, standing)
            }
        };
        let candidacy = Candidacy::new(me.node);
        let half = HalfEntries::at(end.0);
        let (frozen_until, giving_up) = (Duration::ZERO, None);
        let leaving = Box::new(|| {});
        let distance = Distance::Unknown;
        Member { log, clock, random, me, state, half, candidacy, frozen_until, giving_up, distance, leaving }
    }

    /// Has `leaving` called each time before anybody is refused because the lead is gone: who is told so must know that it is news.
    pub fn call_when_leaving(&mut self, leaving: impl Fn() + Send + 'static) {
        self.leaving = Box::new(leaving);
    }

    /// What it is.
    pub fn standpoint(&self) -> Standpoint {
        let follows = |reading: &Reading| Standpoint::Follows {
            term: reading.term(),
            leader: reading.leader().filter(|leader| reading.ended().is_none() && **leader != self.me).cloned(),
        };
        match &self.state {
            State::Following(reading, _) => follows(reading),
            State::Claiming(writer, _) => follows(writer.reading()),
            State::Leading(shipper) => Standpoint::Leads { term: shipper.writer().term() },
            State::Over => Standpoint::IsOver,
        }
    }

    /// Does what there is to do. `false`: there was nothing.
    ///
    /// # Errors
    /// `Log`: what stops this member for good. Others: of this machine's disk or store; the next turn tries again.
    pub fn step(&mut self, store: &Store) -> Result<bool> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Following(reading, mut standing) => {
                let (reading, stepped) = self.follow(reading, store);
                self.look_at_distance(reading.next());
                let kept = stepped.and_then(|did_something| {
                    standing.keep_up(&reading, store.oplog(), self.clock.monotonic()).map(|()| did_something)
                });
                self.state = State::Following(reading, standing);
                let did_something = kept?;
                if !did_something {
                    self.claim_if_silent()?;
                }
                Ok(did_something)
            }
            State::Claiming(writer, standing) => self.go_on_claiming(writer, standing, store).map(|()| true),
            State::Leading(mut shipper) => {
                if self.giving_up.is_some_and(|successor| shipper.leads() && shipper.give_up(store, successor)) {
                    self.giving_up = None;
                }
                let stepped = shipper.step(store);
                if shipper.leads() {
                    self.state = State::Leading(shipper);
                } else {
                    self.hand_on(shipper, store);
                }
                stepped
            }
            State::Over => Ok(false),
        }
    }

    /// The record of the log from which it would read on if it were started again.
    pub fn needs(&self) -> Option<Offset> {
        let standing = match &self.state {
            State::Following(_, standing) | State::Claiming(_, standing) => standing,
            State::Leading(shipper) => shipper.standing(),
            State::Over => return None,
        };
        // One that has stored nothing reads from the beginning.
        Some(standing.stored().map_or(Offset(0), |stored| stored.next))
    }

    /// The record of the log that it reads next: it knows of everything before.
    pub fn next_record(&self) -> Option<Offset> {
        match &self.state {
            State::Following(reading, _) => Some(reading.next()),
            State::Claiming(writer, _) => Some(writer.reading().next()),
            State::Leading(shipper) => Some(shipper.writer().reading().next()),
            State::Over => None,
        }
    }

    /// Whether it leads, or was once at most a second behind the others.
    pub fn has_caught_up(&self) -> bool {
        matches!(self.state, State::Leading(_)) || matches!(self.distance, Distance::CaughtUp)
    }

    fn look_at_distance(&mut self, next: Offset) {
        let now = self.clock.monotonic();
        match self.distance {
            Distance::CaughtUp => {}
            Distance::Until(end, _) if next < end => {}
            Distance::Until(_, seen) if now.saturating_sub(seen) <= CLOSE => self.distance = Distance::CaughtUp,
            // A log that does not answer is asked again.
            Distance::Until(..) | Distance::Unknown => {
                let found = self.log.bounds().map(|bounds| Distance::Until(bounds.end, now));
                self.distance = found.unwrap_or(Distance::Unknown);
            }
        }
    }

    /// Waits for something to do, not long.
    pub fn rest(&self, store: &Store) {
        match &self.state {
            State::Leading(shipper) => shipper.rest(store),
            // Reading waits.
            State::Following(..) => {}
            _ => self.clock.sleep(REST),
        }
    }

    /// Gives up the lead, for `successor`, once everything is in the log. The store's writers are stopped at once. `false`: it does not lead, or a commit that
    /// had begun is not through, and it goes on.
    pub fn step_down(&mut self, store: &Store, successor: Option<u64>) -> bool {
        if !matches!(self.state, State::Leading(_)) || store.leadership() != Leadership::Held {
            return false;
        }
        (self.leaving)();
        if !store.follow() {
            store.set_leadership(Leadership::Held);
            return false;
        }
        tracing::info!(target: "replication", successor, "gives up the lead");
        self.giving_up = Some(successor);
        true
    }

    /// Not a candidate for so long; zero: at once again.
    pub fn freeze(&mut self, longest: Duration) {
        self.frozen_until = self.clock.monotonic() + longest;
        self.candidacy.begin_again();
    }

    /// Whether it would claim the lead if nobody had it.
    pub fn may_lead(&self) -> bool {
        self.clock.monotonic() >= self.frozen_until
    }

    fn follow(&mut self, mut reading: Reading, store: &Store) -> (Reading, Result<bool>) {
        let followed = self.try_follow(&mut reading, store);
        (reading, followed)
    }

    fn try_follow(&mut self, reading: &mut Reading, store: &Store) -> Result<bool> {
        // What a failure has left.
        self.half.apply(store)?;
        let records = match self.log.read(reading.next(), READ_BYTES, REST) {
            Err(error) if error.is_passing() => {
                self.candidacy.unreachable();
                self.clock.sleep(REST);
                return Ok(true);
            }
            records => records?,
        };
        for record in &records {
            let effect = reading.step(record.offset, &record.bytes)?;
            self.take(&effect, store)?;
        }
        Ok(!records.is_empty())
    }

    /// A record was read.
    fn take(&mut self, effect: &Effect<'_>, store: &Store) -> Result<()> {
        self.candidacy.judged(effect, self.random.next_u64());
        match effect {
            Effect::Accepted { bytes, whole, .. } => self.half.push(bytes, *whole),
            Effect::Claimed { cut_at, term, leader } => {
                self.half.cut(*cut_at);
                store.forget_undecided();
                tracing::info!(target: "replication", term, leader = leader.address, "a term has begun");
            }
            Effect::Ended { cut_at, .. } | Effect::Restored { cut_at, .. } => self.half.cut(*cut_at),
            Effect::Foreign | Effect::Ignored(_) | Effect::Alive => {}
        }
        self.half.apply(store)
    }

    fn claim_if_silent(&mut self) -> Result<()> {
        let now = self.clock.monotonic();
        let is_due = self.candidacy.reached_end(now);
        if !is_due || !self.may_lead() || !self.half.is_applied() {
            return Ok(());
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Following(reading, standing) => {
                tracing::info!(target: "replication", term = reading.term() + 1, "nobody leads: claims the lead");
                let writer = Writer::claim(reading, self.me.clone())?;
                self.state = State::Claiming(writer, standing);
            }
            other => self.state = other,
        }
        Ok(())
    }

    fn go_on_claiming(&mut self, mut writer: Writer, standing: StandingFile, store: &Store) -> Result<()> {
        let claimed = self.try_claiming(&mut writer, store);
        match writer.role() {
            Role::Leading if claimed.is_ok() && self.half.is_applied() => {
                // Before anybody writes here. What comes of it is shipped as what this member logs.
                if let Err(error) = store.take_over() {
                    self.state = State::Claiming(writer, standing);
                    return Err(error.into());
                }
                tracing::info!(target: "replication", term = writer.term(), "leads the replica set");
                store.set_leadership(Leadership::Held);
                let joined = Joined { writer, standing };
                let mut shipper = Shipper::go_on(self.log.clone(), self.clock.clone(), joined);
                shipper.hand_on();
                self.state = State::Leading(shipper);
            }
            Role::Lost { .. } => {
                self.candidacy.begin_again();
                self.state = State::Following(writer.into_reading(), standing);
            }
            _ => self.state = State::Claiming(writer, standing),
        }
        claimed
    }

    fn try_claiming(&mut self, writer: &mut Writer, store: &Store) -> Result<()> {
        self.half.apply(store)?;
        if *writer.role() != Role::Claiming {
            return Ok(());
        }
        if let Some(sending) = writer.next_sending()? {
            self.log.begin_append(&[sending]);
        }
        for outcome in self.log.outcomes(Duration::ZERO) {
            if let Some(record) = writer.answered(outcome.ticket, outcome.result)
                && *writer.role() == Role::Claiming
            {
                let effect = writer.read(record.offset, &record.bytes)?;
                self.take(&effect, store)?;
            }
        }
        if *writer.role() != Role::Claiming {
            return Ok(());
        }
        let records = match self.log.read(writer.reading().next(), READ_BYTES, REST) {
            Err(error) if error.is_passing() => return Ok(()),
            records => records?,
        };
        for record in records {
            let effect = writer.read(record.offset, &record.bytes)?;
            self.take(&effect, store)?;
            // What follows is read by what it is then.
            if *writer.role() != Role::Claiming {
                break;
            }
        }
        Ok(())
    }

    /// The lead is gone: what of the store is in the log decides how it goes on.
    fn hand_on(&mut self, shipper: Shipper, store: &Store) {
        self.giving_up = None;
        let (writer, standing) = shipper.into_parts();
        (self.leaving)();
        let is_through = store.follow();
        let reading = writer.into_reading();
        let whole = reading.whole().position;
        if is_through && store.oplog().end_position().0 == whole {
            tracing::info!(target: "replication", term = reading.term(), "follows from now on");
            store.confirm(OplogPosition(whole));
            self.half = HalfEntries::at(whole);
            self.candidacy.begin_again();
            if let Some(successor) = reading.ended() {
                let cut_at = whole;
                self.candidacy.judged(&Effect::Ended { successor, cut_at }, self.random.next_u64());
            }
            self.state = State::Following(reading, standing);
        } else {
            tracing::warn!(target: "replication", whole, "another member leads, and this one has logged what the set has not");
            store.set_leadership(Leadership::Lost);
        }
    }
}

impl ReplicationError {
    /// Whether the member cannot go on: what the log says cannot be followed, and will not get better.
    pub fn is_final(&self) -> bool {
        matches!(self, ReplicationError::Log(error) if !error.is_passing())
    }
}
