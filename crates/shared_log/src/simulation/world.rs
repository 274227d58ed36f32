//! One run: the members, the log with its faults, what clients were told, and the reckoning at the end.
//!
//! Called by the tests of `simulation`, with a seed.

use std::collections::{BTreeMap, BTreeSet};

use platform::{Random, SeededRandom};

use super::Stored;
use super::member::{Member, whole_entries};
use super::mistakes::MemberMistake;
use crate::{Faults, LogIdentity, MemoryLog, Place, SharedLog};

/// Where the set's oplog begins.
pub(super) const BEGINNING: Place = Place { position: 1_000, chain: 77 };

const MEMBERS: u64 = 3;
/// Within so many rounds without faults a write is acknowledged.
const ROUNDS_MAX: usize = 200;

pub(super) fn identity(log: &MemoryLog) -> LogIdentity {
    log.connect().identity().unwrap()
}

/// What clients know.
#[derive(Default)]
pub(super) struct Ledger {
    last_id: u64,
    /// Where acknowledged entries end, and their numbers.
    pub(super) acknowledged: Vec<(u64, u64)>,
}

/// What has happened, so that the tests know that it does.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) acknowledged: u64,
    pub(super) claims: u64,
    pub(super) crashes: u64,
    pub(super) step_downs: u64,
    pub(super) repeats: u64,
    pub(super) gaps: u64,
    pub(super) halves: u64,
    pub(super) late: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.acknowledged += other.acknowledged;
        self.claims += other.claims;
        self.crashes += other.crashes;
        self.step_downs += other.step_downs;
        self.repeats += other.repeats;
        self.gaps += other.gaps;
        self.halves += other.halves;
        self.late += other.late;
    }
}

pub(super) struct World<R> {
    random: SeededRandom,
    log: MemoryLog,
    members: Vec<Member<R>>,
    ledger: Ledger,
    tally: Tally,
}

impl<R: Stored> World<R> {
    pub(super) fn new(seed: u64, mistake: Option<MemberMistake>, beginning: impl Fn(&MemoryLog) -> R) -> World<R> {
        let random = SeededRandom::new(seed);
        let log = MemoryLog::new(random.next_u64());
        let members = (0..MEMBERS).map(|node| Member::new(node, &log, beginning(&log), mistake)).collect();
        log.set_faults(faults(&random));
        World { random, log, members, ledger: Ledger::default(), tally: Tally::default() }
    }

    pub(super) fn run(mut self) -> Result<Tally, String> {
        let steps = 100 + self.random.below(400);
        // The sooner, the more happens under a primary.
        self.members[0].claim();
        for _ in 0..steps {
            self.step()?;
        }
        self.settle()?;
        self.reckon()?;
        self.tally.acknowledged = self.ledger.acknowledged.len() as u64;
        Ok(self.tally)
    }

    fn step(&mut self) -> Result<(), String> {
        let chosen = self.random.below(MEMBERS) as usize;
        let member = &mut self.members[chosen];
        match self.random.below(1_000) {
            0..330 => {
                self.log.deliver();
            }
            330..480 => self.write(chosen),
            480..660 => member.send(&self.random),
            660..790 => member.take_answers(&mut self.ledger, &mut self.tally)?,
            790..930 => {
                member.read(&self.random, &mut self.ledger, &mut self.tally)?;
            }
            930..945 => member.connection.give_up(),
            945..958 => member.store(),
            958..968 => {
                member.crash(&self.log, &self.random);
                self.tally.crashes += 1;
            }
            968..980 => member.claim(),
            980..984 => member.step_down(Some(self.random.below(MEMBERS))),
            984..988 => member.beat(),
            988..991 => member.send_nonsense(),
            991..996 => member.connection.cut(self.random.chance(0.4)),
            _ => self.trim(),
        }
        Ok(())
    }

    fn write(&mut self, chosen: usize) {
        if self.members[chosen].is_leading() {
            self.ledger.last_id += 1;
            self.members[chosen].write(self.ledger.last_id, &self.random);
        }
    }

    fn trim(&self) {
        let needed = self.members.iter().map(Member::oldest_needed).min();
        // A member that is cut off cannot trim.
        let _ = needed.map(|needed| self.members[0].connection.trim_before(needed));
    }

    /// The faults end, and a last write must be acknowledged.
    fn settle(&mut self) -> Result<(), String> {
        self.log.set_faults(Faults::none());
        for member in &mut self.members {
            member.connection.cut(false);
            member.misreads = false;
        }
        let mut has_written = false;
        for _ in 0..ROUNDS_MAX {
            self.round()?;
            if has_written && self.members[0].is_leading() && !self.members[0].owes() {
                return self.read_all();
            }
            if self.members[0].is_follower() {
                self.members[0].claim();
                has_written = false;
            } else if self.members[0].is_leading() && !has_written {
                self.write(0);
                has_written = true;
            }
        }
        Err("without faults nothing is acknowledged any more".to_owned())
    }

    fn round(&mut self) -> Result<(), String> {
        self.log.deliver_all();
        for member in &mut self.members {
            member.connection.give_up();
            member.take_answers(&mut self.ledger, &mut self.tally)?;
            while member.read(&self.random, &mut self.ledger, &mut self.tally)? {}
            member.send(&self.random);
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), String> {
        self.log.deliver_all();
        for member in &mut self.members {
            while member.read(&self.random, &mut self.ledger, &mut self.tally)? {}
        }
        Ok(())
    }

    /// Everybody has the same, and all that clients were told of, once.
    fn reckon(&self) -> Result<(), String> {
        let entries = whole_entries(self.members[0].content())?;
        for (node, member) in self.members.iter().enumerate() {
            if member.content() != self.members[0].content() {
                return Err(format!("member {node} has other entries than member 0"));
            }
        }
        let ids: BTreeSet<u64> = entries.iter().map(|(_, id)| *id).collect();
        if ids.len() != entries.len() {
            return Err("an entry is there twice".to_owned());
        }
        let by_end: BTreeMap<u64, u64> = entries.into_iter().collect();
        for (end, id) in &self.ledger.acknowledged {
            if by_end.get(end) != Some(id) {
                return Err(format!("entry {id}, which was acknowledged, is not there"));
            }
        }
        Ok(())
    }
}

/// Another mixture in each run.
fn faults(random: &SeededRandom) -> Faults {
    let sometimes = |probability| if random.chance(0.5) { probability } else { 0.0 };
    Faults {
        is_slow: true,
        overtaking: sometimes(0.4),
        repeat: sometimes(0.2),
        lost_request: sometimes(0.1),
        lost_answer: sometimes(0.2),
        refusal: sometimes(0.05),
        failed_read: sometimes(0.1),
    }
}
