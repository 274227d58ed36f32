//! A member of the simulated set: follows the log, or leads, dies and goes on from what it has stored.
//!
//! Driven step by step by `World`. Its oplog is a vector of bytes; an entry is its length (2), a number of its own (8), and bytes
//! that follow from the number.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use platform::{Random, SeededRandom};

use super::Stored;
use super::mistakes::MemberMistake;
use super::world::{BEGINNING, Ledger, Tally};
use crate::record::{Record, RecordKind};
use crate::{
    Connection, Effect, Ignored, Leader, MemoryLog, Offset, Role, Sending, SharedLog, SharedLogError, Ticket, Writer,
};

const ENTRY_HEADER_BYTES: usize = 10;
/// Records read at a time, at most.
const READ_MAX: u64 = 12;

enum Part<R> {
    Follower(R),
    Writer(Box<Writer<R>>),
}

/// What survives its death.
struct Checkpoint<R> {
    reading: R,
    oplog: Vec<u8>,
    /// For those who wrongly go on with it.
    writer: Option<Box<Writer<R>>>,
}

pub(super) struct Member<R> {
    node: u64,
    incarnation: u64,
    pub(super) connection: Connection,
    part: Part<R>,
    oplog: Vec<u8>,
    /// Its own entries that were not acknowledged: where they end, and their numbers.
    own: VecDeque<(u64, u64)>,
    checkpoint: Checkpoint<R>,
    /// Where the ranges end that were sent.
    sent: BTreeMap<Ticket, u64>,
    mistake: Option<MemberMistake>,
    pub(super) misreads: bool,
}

impl<R: Stored> Member<R> {
    pub(super) fn new(node: u64, log: &MemoryLog, reading: R, mistake: Option<MemberMistake>) -> Member<R> {
        let checkpoint = Checkpoint { reading: reading.stored(), oplog: Vec::new(), writer: None };
        Member {
            node,
            incarnation: node,
            connection: log.connect(),
            part: Part::Follower(reading),
            oplog: Vec::new(),
            own: VecDeque::new(),
            checkpoint,
            sent: BTreeMap::new(),
            mistake,
            misreads: mistake == Some(MemberMistake::Misreads),
        }
    }

    pub(super) fn reading(&self) -> &R {
        match &self.part {
            Part::Follower(reading) => reading,
            Part::Writer(writer) => writer.reading(),
        }
    }

    pub(super) fn is_leading(&self) -> bool {
        matches!(&self.part, Part::Writer(writer) if *writer.role() == Role::Leading)
    }

    pub(super) fn is_follower(&self) -> bool {
        matches!(self.part, Part::Follower(_))
    }

    pub(super) fn owes(&self) -> bool {
        !self.own.is_empty()
    }

    /// What it would show to clients: whole entries that count.
    pub(super) fn content(&self) -> &[u8] {
        let length = (self.reading().whole().position - BEGINNING.position) as usize;
        &self.oplog[..length.min(self.oplog.len())]
    }

    /// The oldest record that it may need.
    pub(super) fn oldest_needed(&self) -> Offset {
        self.checkpoint.reading.next().min(self.reading().stored().next())
    }

    pub(super) fn claim(&mut self) {
        let leader = Leader { node: self.node, incarnation: self.incarnation, address: String::new() };
        if let Part::Follower(reading) = &self.part {
            self.part = Part::Writer(Box::new(Writer::claim(reading.clone(), leader).unwrap()));
        }
    }

    pub(super) fn step_down(&mut self, successor: Option<u64>) {
        if let Part::Writer(writer) = &mut self.part {
            writer.step_down(successor);
        }
    }

    pub(super) fn beat(&mut self) {
        if let Part::Writer(writer) = &mut self.part {
            writer.beat();
        }
    }

    /// A client writes.
    pub(super) fn write(&mut self, id: u64, random: &SeededRandom) {
        let length = ENTRY_HEADER_BYTES + random.below(30) as usize;
        self.oplog.extend_from_slice(&entry(id, length));
        self.own.push_back((BEGINNING.position + self.oplog.len() as u64, id));
    }

    /// Ships what is wanted, in pieces of any size, and sends some of what is to be sent.
    pub(super) fn send(&mut self, random: &SeededRandom) {
        let Part::Writer(writer) = &mut self.part else { return };
        while let Some(position) = writer.wanted() {
            let from = (position - BEGINNING.position) as usize;
            let Some(left) = self.oplog.len().checked_sub(from).filter(|left| *left > 0) else { break };
            let to = from + 1 + random.below(left.min(40) as u64) as usize;
            let whole = last_end(&self.oplog[..to]).saturating_sub(from);
            writer.ship(&self.oplog[from..to], whole).unwrap();
            if random.chance(0.3) {
                break;
            }
        }
        while let Some(sending) = writer.next_sending().unwrap() {
            let record = Record::parse(&sending.bytes, Offset(0)).unwrap().unwrap();
            if let RecordKind::Range { start, bytes, .. } = record.kind {
                self.sent.insert(sending.ticket, start + bytes.len() as u64);
            }
            self.connection.begin_append(&[sending]);
            if random.chance(0.2) {
                break;
            }
        }
    }

    /// Somebody's records get into the log.
    pub(super) fn send_nonsense(&self) {
        self.connection.begin_append(&[Sending { ticket: Ticket(0), bytes: b"nonsense"[..].into() }]);
    }

    /// Takes the answers of the log.
    pub(super) fn take_answers(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> Result<(), String> {
        for outcome in self.connection.outcomes(Duration::ZERO) {
            let Part::Writer(writer) = &mut self.part else { continue };
            let offset = outcome.result.as_ref().ok().copied();
            let next = writer.answered(outcome.ticket, outcome.result);
            if let Some(record) = next {
                self.judge(record.offset, &record.bytes, ledger, tally)?;
                continue;
            }
            let Some(offset) = offset else { continue };
            if self.mistake == Some(MemberMistake::BelievesAnswers)
                && let Some(end) = self.sent.get(&outcome.ticket).copied()
            {
                self.acknowledge(end, ledger);
            }
            if self.mistake == Some(MemberMistake::SkipsWhatOthersAppended) && offset > self.reading().next() {
                let records = self.connection.read(offset, 1, Duration::ZERO).unwrap_or_default();
                if let Some(record) = records.first() {
                    self.judge(offset, &record.bytes, ledger, tally)?;
                }
            }
        }
        Ok(())
    }

    /// Reads on; `false`: there was nothing, or it could not.
    pub(super) fn read(
        &mut self,
        random: &SeededRandom,
        ledger: &mut Ledger,
        tally: &mut Tally,
    ) -> Result<bool, String> {
        let records = match self.connection.read(self.reading().next(), usize::MAX, Duration::ZERO) {
            Err(error) if error.is_passing() => return Ok(false),
            result => result.map_err(|error| format!("member {}: {error}", self.node))?,
        };
        let some = 1 + random.below(READ_MAX) as usize;
        for record in records.iter().take(some) {
            let is_misread = self.misreads && random.chance(0.003);
            let bytes = if is_misread { b"nonsense" } else { &record.bytes[..] };
            self.judge(record.offset, bytes, ledger, tally)?;
        }
        Ok(!records.is_empty())
    }

    fn judge(&mut self, offset: Offset, bytes: &[u8], ledger: &mut Ledger, tally: &mut Tally) -> Result<(), String> {
        let effect = match &mut self.part {
            Part::Follower(reading) => reading.step(offset, bytes),
            Part::Writer(writer) => writer.read(offset, bytes),
        };
        let effect = effect.map_err(|error: SharedLogError| format!("member {} stops: {error}", self.node))?;
        if let Part::Writer(writer) = &self.part {
            let confirmed = writer.confirmed();
            self.acknowledge(confirmed, ledger);
        }
        self.apply(&effect, tally)?;
        if let Part::Writer(writer) = &self.part
            && matches!(writer.role(), Role::Lost { .. } | Role::SteppedDown { .. })
        {
            tally.step_downs += u64::from(matches!(writer.role(), Role::SteppedDown { .. }));
            self.part = Part::Follower(writer.reading().clone());
            self.own.clear();
        }
        Ok(())
    }

    /// Tells clients of all that ends before this.
    fn acknowledge(&mut self, confirmed: u64, ledger: &mut Ledger) {
        while let Some((end, id)) = self.own.pop_front_if(|(end, _)| *end <= confirmed) {
            ledger.acknowledged.push((end, id));
        }
    }

    fn apply(&mut self, effect: &Effect<'_>, tally: &mut Tally) -> Result<(), String> {
        match effect {
            Effect::Accepted { position, bytes, .. } => self.append_received(*position, bytes),
            Effect::Claimed { cut_at, .. } | Effect::Ended { cut_at, .. } => {
                tally.claims += u64::from(matches!(effect, Effect::Claimed { .. }));
                let kept = (cut_at - BEGINNING.position) as usize;
                tally.halves += u64::from(self.is_follower() && self.oplog.len() > kept);
                if self.mistake != Some(MemberMistake::KeepsItsTail) {
                    self.oplog.truncate(kept);
                }
                Ok(())
            }
            Effect::Ignored(reason) => {
                *match reason {
                    Ignored::Repeat => &mut tally.repeats,
                    Ignored::Gap => &mut tally.gaps,
                    Ignored::PastTerm | Ignored::LateClaim | Ignored::TermEnded => &mut tally.late,
                } += 1;
                Ok(())
            }
            Effect::Foreign | Effect::Alive | Effect::Restored { .. } => Ok(()),
        }
    }

    fn append_received(&mut self, position: u64, bytes: &[u8]) -> Result<(), String> {
        let at = (position - BEGINNING.position) as usize;
        let Some(own) = self.oplog.get(at..) else {
            return Err(format!("member {} lacks what is before {position}", self.node));
        };
        let known = own.len().min(bytes.len());
        if own[..known] != bytes[..known] && self.mistake != Some(MemberMistake::KeepsItsTail) {
            return Err(format!("member {} has other bytes at {position} than the log", self.node));
        }
        self.oplog.extend_from_slice(&bytes[known..]);
        Ok(())
    }

    /// Stores what counts, so that it need not begin anew.
    pub(super) fn store(&mut self) {
        let writer = match &self.part {
            Part::Writer(writer) if *writer.role() == Role::Leading => {
                // With what is stored beside it: no half of an entry.
                (writer.reading().end() == writer.reading().whole()).then(|| writer.clone())
            }
            _ => None,
        };
        let (reading, oplog) = (self.reading().stored(), self.content().to_vec());
        self.checkpoint = Checkpoint { reading, oplog, writer };
    }

    /// Dies, and goes on from its checkpoint. What it has sent stays on its way.
    pub(super) fn crash(&mut self, log: &MemoryLog, random: &SeededRandom) {
        self.connection = log.connect();
        if self.mistake != Some(MemberMistake::HasOneLife) {
            self.incarnation = random.next_u64();
        }
        let reading = match self.mistake {
            Some(MemberMistake::ForgetsToReadAgain) => self.reading().stored(),
            _ => self.checkpoint.reading.clone(),
        };
        self.part = match &self.checkpoint.writer {
            Some(writer) if self.mistake == Some(MemberMistake::GoesOnAfterRestart) => Part::Writer(writer.clone()),
            _ => Part::Follower(reading),
        };
        self.oplog.clone_from(&self.checkpoint.oplog);
        self.own.clear();
        self.sent.clear();
    }
}

fn entry(id: u64, length: usize) -> Vec<u8> {
    let mut bytes = (length as u16).to_le_bytes().to_vec();
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend((ENTRY_HEADER_BYTES..length).map(|at| (id as u8).wrapping_mul(31).wrapping_add(at as u8)));
    bytes
}

/// The entries in `bytes`: where each ends, and its number. Stops where there is none.
fn entries(bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header: &[u8; ENTRY_HEADER_BYTES] = bytes.get(at..)?.first_chunk()?;
        let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let id = u64::from_le_bytes(std::array::from_fn(|index| header[2 + index]));
        let whole = bytes.get(at..at + length)?;
        if length < ENTRY_HEADER_BYTES || whole != entry(id, length) {
            return None;
        }
        at += length;
        Some((at, id))
    })
}

fn last_end(bytes: &[u8]) -> usize {
    entries(bytes).last().map_or(0, |(end, _)| end)
}

/// Where each entry of a member's content ends, and its number; an error if there is anything else.
pub(super) fn whole_entries(content: &[u8]) -> Result<Vec<(u64, u64)>, String> {
    let found: Vec<(u64, u64)> = entries(content).map(|(end, id)| (BEGINNING.position + end as u64, id)).collect();
    let end = found.last().map_or(BEGINNING.position, |(end, _)| *end);
    if end != BEGINNING.position + content.len() as u64 {
        return Err(format!("what follows {end} is no entry"));
    }
    Ok(found)
}
