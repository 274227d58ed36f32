//! The rule once more, as plainly as it can be said, with a place for each mistake.
//!
//! Without a mistake it decides as `Reading` does, but for the checks that stop a reader: so what a mistake does is seen in what the
//! members have at the end.

use super::Stored;
use super::mistakes::Mistake;
use super::world::BEGINNING;
use crate::record::{Record, RecordKind};
use crate::{Effect, Ignored, Offset, Place, Result, Rule};

#[derive(Clone, Debug)]
pub(super) struct Model {
    mistake: Option<Mistake>,
    next: Offset,
    term: u64,
    has_ended: bool,
    end: Place,
    whole: Place,
    /// The whole one at the last claim.
    claimed_at: Place,
    half_from: Option<Offset>,
}

impl Model {
    pub(super) fn new(mistake: Option<Mistake>) -> Model {
        Model {
            mistake,
            next: Offset(0),
            term: 0,
            has_ended: false,
            end: BEGINNING,
            whole: BEGINNING,
            claimed_at: BEGINNING,
            half_from: None,
        }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn claim(&mut self, term: u64, leader: crate::Leader) -> Effect<'static> {
        let counts = term == self.term + 1 || (self.makes(Mistake::OldClaimsCount) && term < self.term);
        if !counts {
            return Effect::Ignored(Ignored::LateClaim);
        }
        (self.term, self.has_ended) = (term, false);
        if self.makes(Mistake::ClaimForgetsWhole) {
            self.whole = self.claimed_at;
        }
        self.claimed_at = self.whole;
        Effect::Claimed { term, leader, cut_at: self.forget_half() }
    }

    fn forget_half(&mut self) -> u64 {
        if !self.makes(Mistake::HalfIsKept) {
            (self.end, self.half_from) = (self.whole, None);
        }
        self.end.position
    }

    fn range<'b>(&mut self, offset: Offset, start: u64, whole: usize, bytes: &'b [u8]) -> Effect<'b> {
        let (position, length) = (self.end.position, bytes.len() as u64);
        if start > position && !self.makes(Mistake::GapsCount) {
            return Effect::Ignored(Ignored::Gap);
        }
        if start + length <= position && !self.makes(Mistake::RepeatsCount) {
            return Effect::Ignored(Ignored::Repeat);
        }
        let known = position.saturating_sub(start).min(length) as usize;
        let counts_all = self.makes(Mistake::OverlapsCountTwice) || known == bytes.len();
        let new = if counts_all { bytes } else { &bytes[known..] };
        let whole = if self.makes(Mistake::RangesAreWhole) { bytes.len() } else { whole };
        let new_whole = (bytes.len() - new.len()..=bytes.len()).contains(&whole) && whole > 0;
        if new_whole && position + (whole - (bytes.len() - new.len())) as u64 > self.whole.position {
            self.whole = self.end.after(&new[..whole - (bytes.len() - new.len())]);
            self.half_from = None;
        }
        self.end = self.end.after(new);
        self.half_from = (self.whole != self.end).then_some(self.half_from.unwrap_or(offset));
        Effect::Accepted { position, bytes: new, whole: self.whole.position }
    }
}

impl Rule for Model {
    fn step<'b>(&mut self, offset: Offset, bytes: &'b [u8]) -> Result<Effect<'b>> {
        let Some(record) = Record::parse(bytes, offset)? else {
            self.next = offset.following();
            return Ok(Effect::Foreign);
        };
        self.next = offset.following();
        let is_past = record.term < self.term && !self.makes(Mistake::PastTermsCount);
        Ok(match record.kind {
            RecordKind::Claim(leader) => self.claim(record.term, leader),
            _ if is_past || self.term == 0 => Effect::Ignored(Ignored::PastTerm),
            _ if self.has_ended => Effect::Ignored(Ignored::TermEnded),
            RecordKind::Range { start, whole, bytes } => self.range(offset, start, whole, bytes),
            // Nobody in the simulation makes a log again.
            RecordKind::Heartbeat | RecordKind::Restored { .. } => Effect::Alive,
            RecordKind::StepDown { successor } => {
                self.has_ended = true;
                Effect::Ended { successor, cut_at: self.forget_half() }
            }
        })
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

impl Stored for Model {
    fn stored(&self) -> Model {
        let again = if self.makes(Mistake::HalfIsNotReadAgain) { None } else { self.half_from };
        Model { next: again.unwrap_or(self.next), end: self.whole, half_from: None, ..self.clone() }
    }
}
