//! The rule by which every reader of a shared log decides what counts. A pure state machine: a record in, its effect out.
//!
//! Used by followers, and by `Writer` for the primary: it believes nothing else, no answer of the log either. All readers of one log are in the same
//! state at the same offset, so they need not agree on anything.
//!
//! State: the term T, the end E of the bytes that count, and the end W of the last whole entry among them. In the order of offsets:
//!
//! - A *claim* counts if its term is T + 1. T rises, and E falls to W: half an entry is forgotten.
//! - A *range* counts if its term is T and `start <= E < start + length`; its bytes from E on are new.
//! - A *step-down* of term T ends the term: nothing of it counts any more, and E falls to W.
//! - *Restored*, the first record of a log that was made again, says with which T, E and W the others begin. Elsewhere it changes nothing.
//! - All else changes nothing: repeats, what stands behind a gap, what former primaries have sent, records of others.
//!
//! W never falls. So whatever a record's writer had found in the log before it sent the record must have been found by whoever reads that
//! record, and each record says what that was. A reader that has less stops (`Missed`), as does one whose bytes before a range have
//! another checksum, or that begins before its term (`Diverged`). Neither happens while everybody follows the rule and reads what was written.

use crate::record::{Leader, Record, RecordKind};
use crate::{LogIdentity, Offset, Result, SharedLogError, Standing};

/// A place in the oplog, with the checksum of everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// The position in the oplog.
    pub position: u64,
    /// CRC-32C of all its bytes before, since the set began.
    pub chain: u32,
}

impl Place {
    /// Behind more bytes.
    pub fn after(self, bytes: &[u8]) -> Place {
        let position = self.position.saturating_add(bytes.len() as u64);
        Place { position, chain: crc32c::crc32c_append(self.chain, bytes) }
    }
}

/// What a record has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<'b> {
    /// Nothing: it is no record of ours. To be counted and told.
    Foreign,
    /// Nothing.
    Ignored(Ignored),
    /// Bytes of the oplog follow.
    Accepted {
        /// Where the first of them belongs: the end so far.
        position: u64,
        /// The new ones.
        bytes: &'b [u8],
        /// The end of the last whole entry.
        whole: u64,
    },
    /// Somebody leads from here on.
    Claimed {
        /// The new term.
        term: u64,
        /// Who.
        leader: Leader,
        /// What lies behind this position is forgotten. Of the first claim: where the set's oplog begins.
        cut_at: u64,
    },
    /// The log was made again after it was lost, and what follows was another one's.
    Restored {
        /// The log that it continues.
        former: LogIdentity,
        /// Where the oplog begins that follows.
        cut_at: u64,
    },
    /// The primary is there.
    Alive,
    /// The primary has stepped down.
    Ended {
        /// Who is to claim next.
        successor: Option<u64>,
        /// What lies behind this position is forgotten.
        cut_at: u64,
    },
}

/// Why a record of ours does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// A former primary sent it.
    PastTerm,
    /// Another claim came first.
    LateClaim,
    /// Its bytes have been accepted.
    Repeat,
    /// Bytes before it are missing: it overtook them, and is sent again.
    Gap,
    /// Its writer has stepped down.
    TermEnded,
}

/// A rule by which readers decide. There is one, `Reading`; the tests have deliberately wrong ones.
pub trait Rule: Clone {
    /// Judges the record at `offset`, which must be that of `next`.
    ///
    /// # Errors
    /// What stops this reader for good; nothing was changed then.
    fn step<'b>(&mut self, offset: Offset, bytes: &'b [u8]) -> Result<Effect<'b>>;

    /// The record that is to be judged next.
    fn next(&self) -> Offset;

    /// The term; 0 before the first claim.
    fn term(&self) -> u64;

    /// The end of the bytes that count.
    fn end(&self) -> Place;

    /// The end of the last whole entry.
    fn whole(&self) -> Place;
}

/// A reader's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    log: LogIdentity,
    next: Offset,
    term: u64,
    leader: Option<Leader>,
    /// The primary has stepped down, for this successor.
    ended: Option<Option<u64>>,
    end: Place,
    whole: Place,
    /// Where the term began, as far as is known: its primary ships from there.
    term_begins: u64,
    /// The record that brought the first byte behind `whole`; `None`: `end` is there.
    half_from: Option<Offset>,
}

impl Reading {
    /// A reader at the beginning of a log, of a member that has the oplog up to `place`. Whoever makes the first claim
    /// makes this the beginning of the set's.
    pub fn new(log: LogIdentity, place: Place) -> Reading {
        Reading {
            log,
            next: Offset::default(),
            term: 0,
            leader: None,
            ended: None,
            end: place,
            whole: place,
            term_begins: 0,
            half_from: None,
        }
    }

    /// A reader that goes on where another one was. Its member has the oplog up to `standing.whole`, and nothing behind that.
    pub fn resumed(standing: Standing) -> Reading {
        let Standing { log, next, term, leader, ended, whole } = standing;
        Reading { log, next, term, leader, ended, end: whole, whole, term_begins: 0, half_from: None }
    }

    /// What to store in order to go on from here, by a member that has stored the oplog up to `whole`. Of half an entry nothing is
    /// stored: the records that brought it are read again.
    pub fn standing(&self) -> Standing {
        Standing {
            log: self.log,
            next: self.half_from.unwrap_or(self.next),
            term: self.term,
            leader: self.leader.clone(),
            ended: self.ended,
            whole: self.whole,
        }
    }

    /// Who leads, or has led until he stepped down.
    pub fn leader(&self) -> Option<&Leader> {
        self.leader.as_ref()
    }

    /// Whether the primary has stepped down, and for whom.
    pub fn ended(&self) -> Option<Option<u64>> {
        self.ended
    }

    /// The log that is read.
    pub fn log(&self) -> LogIdentity {
        self.log
    }

    /// What the record's writer had found in the log is what this reader has found.
    fn check_known(&self, offset: Offset, record: &Record<'_>) -> Result<()> {
        if matches!(record.kind, RecordKind::Restored { .. }) {
            return Ok(());
        }
        let is_claim = matches!(record.kind, RecordKind::Claim(_));
        let term = if is_claim { record.term.saturating_sub(1) } else { record.term };
        // The first claim says where the oplog begins.
        let is_first = self.term == 0 && is_claim;
        if term > self.term || (record.confirmed > self.whole.position && !is_first) {
            return Err(SharedLogError::Missed {
                offset,
                term,
                position: record.confirmed,
                own_term: self.term,
                own_position: self.whole.position,
            });
        }
        let is_range = matches!(record.kind, RecordKind::Range { .. });
        if !is_range && !is_first && record.confirmed == self.whole.position && record.chain != self.whole.chain {
            return Err(SharedLogError::Diverged { offset, position: record.confirmed });
        }
        Ok(())
    }

    fn judge<'b>(&mut self, offset: Offset, record: Record<'b>) -> Result<Effect<'b>> {
        let Record { term, confirmed, chain, kind } = record;
        if let RecordKind::Claim(leader) = kind {
            return Ok(self.judge_claim(term, leader, Place { position: confirmed, chain }));
        }
        if let RecordKind::Restored { former } = kind {
            return Ok(self.judge_restored(offset, term, former, Place { position: confirmed, chain }));
        }
        if term != self.term || term == 0 {
            return Ok(Effect::Ignored(Ignored::PastTerm));
        }
        if self.ended.is_some() {
            return Ok(Effect::Ignored(Ignored::TermEnded));
        }
        match kind {
            RecordKind::Range { start, whole, bytes } => self.judge_range(offset, start, whole, bytes, chain),
            RecordKind::StepDown { successor } => {
                self.ended = Some(successor);
                Ok(Effect::Ended { successor, cut_at: self.forget_half() })
            }
            RecordKind::Heartbeat | RecordKind::Claim(_) | RecordKind::Restored { .. } => Ok(Effect::Alive),
        }
    }

    fn judge_claim(&mut self, term: u64, leader: Leader, known: Place) -> Effect<'static> {
        if term != self.term + 1 {
            return Effect::Ignored(Ignored::LateClaim);
        }
        if self.term == 0 {
            self.whole = known;
        }
        self.term = term;
        self.leader = Some(leader.clone());
        self.ended = None;
        self.term_begins = self.forget_half();
        Effect::Claimed { term, leader, cut_at: self.term_begins }
    }

    fn judge_restored(&mut self, offset: Offset, term: u64, former: LogIdentity, begins: Place) -> Effect<'static> {
        if offset != Offset::default() || self.term > 0 {
            return Effect::Ignored(Ignored::LateClaim);
        }
        (self.term, self.whole) = (term, begins);
        self.term_begins = self.forget_half();
        Effect::Restored { former, cut_at: self.term_begins }
    }

    fn judge_range<'b>(
        &mut self,
        offset: Offset,
        start: u64,
        whole: usize,
        bytes: &'b [u8],
        chain: u32,
    ) -> Result<Effect<'b>> {
        let position = self.end.position;
        if start < self.term_begins {
            // It would pass for a repeat, but its primary lacks what is there.
            return Err(SharedLogError::Diverged { offset, position: start });
        }
        let Some(known) = position.checked_sub(start) else {
            return Ok(Effect::Ignored(Ignored::Gap));
        };
        let Some((known, new)) = usize::try_from(known).ok().and_then(|known| bytes.split_at_checked(known)) else {
            return Ok(Effect::Ignored(Ignored::Repeat));
        };
        if new.is_empty() {
            return Ok(Effect::Ignored(Ignored::Repeat));
        }
        let start = Place { position: start, chain };
        if start.after(known) != self.end {
            return Err(SharedLogError::Diverged { offset, position });
        }
        self.end = self.end.after(new);
        let last_whole = start.after(&bytes[..whole]);
        let is_later = whole > 0 && last_whole.position > self.whole.position;
        if is_later {
            self.whole = last_whole;
        }
        self.half_from = match self.half_from {
            _ if self.whole == self.end => None,
            Some(before) if !is_later => Some(before),
            _ => Some(offset),
        };
        Ok(Effect::Accepted { position, bytes: new, whole: self.whole.position })
    }

    /// E falls to W.
    fn forget_half(&mut self) -> u64 {
        self.end = self.whole;
        self.half_from = None;
        self.whole.position
    }
}

impl Rule for Reading {
    fn step<'b>(&mut self, offset: Offset, bytes: &'b [u8]) -> Result<Effect<'b>> {
        if offset != self.next {
            return Err(SharedLogError::OutOfOrder { offset, expected: self.next });
        }
        let effect = match Record::parse(bytes, offset)? {
            None => Effect::Foreign,
            Some(record) => {
                self.check_known(offset, &record)?;
                self.judge(offset, record)?
            }
        };
        self.next = offset.following();
        Ok(effect)
    }

    fn next(&self) -> Offset {
        self.next
    }

    fn term(&self) -> u64 {
        self.term
    }

    fn end(&self) -> Place {
        self.end
    }

    fn whole(&self) -> Place {
        self.whole
    }
}

#[cfg(test)]
mod tests;
