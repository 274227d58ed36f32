//! The primary's side of a shared log: claims the lead, ships the oplog, and notices when it leads no longer. No threads, no clock, no input.
//!
//! ```text
//! Claiming ── own claim read ──> Leading ── step_down ──> SteppingDown ── own step-down read ──> SteppedDown
//!     └───────────┬───────────────┴───────────────────────────┘
//!       another claim read first ──> Lost
//! ```
//!
//! Whoever drives it: appends what `next_sending` gives, tells `answered` what became of it, gives `read` the records in order, and `ship`
//! the bytes that `wanted` asks for. An answer is no proof that a record counts. So `answered` only hands back a record that comes next in the log, to be
//! judged as one that was read; otherwise the log must be read up to it (`wants_to_read`).
//!
//! What is confirmed is what every reader will find: a client may be told of an entry once `confirmed` is not before its end.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::reading::{Effect, Place, Reading, Rule};
use crate::record::{Leader, RANGE_BYTES_MAX, Record, RecordKind};
use crate::{Offset, Refused, Result, Sending, SharedLogError, StoredRecord, Ticket};

/// Ranges that are on their way at once.
const IN_FLIGHT_MAX: usize = 4;

/// Where a writer is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its claim has not been read yet.
    Claiming,
    /// It is the primary.
    Leading,
    /// It ends what has begun, and takes nothing new.
    SteppingDown,
    /// It has given up the lead.
    SteppedDown {
        /// Who is to claim next.
        successor: Option<u64>,
    },
    /// Somebody else has claimed the lead.
    Lost {
        /// The other's term.
        term: u64,
        /// The other.
        leader: Leader,
    },
}

impl Role {
    fn is_over(&self) -> bool {
        matches!(self, Role::SteppedDown { .. } | Role::Lost { .. })
    }
}

/// A record that is sent until it has been judged, and again if it was judged not to count.
#[derive(Clone, Debug)]
struct Shipment {
    record: Arc<[u8]>,
    /// Of a range: it is done when the end of what counts is here.
    end: Option<u64>,
    state: ShipmentState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShipmentState {
    Unsent,
    Sent(Ticket),
    Answered(Offset),
}

/// A primary, or somebody who wants to be.
#[derive(Clone, Debug)]
pub struct Writer<R = Reading> {
    reading: R,
    me: Leader,
    /// The term that is claimed.
    term: u64,
    role: Role,
    shipments: VecDeque<Shipment>,
    /// Behind the last byte that was given to `ship`.
    shipped: Place,
    /// The end of the last whole entry that was given to `ship`.
    shipped_whole: u64,
    confirmed: u64,
    is_heartbeat_due: bool,
    successor: Option<u64>,
    last_ticket: u64,
    /// Behind the last record that an answer spoke of.
    answered_end: Offset,
}

impl<R: Rule> Writer<R> {
    /// Claims the lead. The reading should be at the end of the log: it may have heard of everybody then.
    ///
    /// # Errors
    /// `TooLarge`: the address.
    pub fn claim(reading: R, me: Leader) -> Result<Writer<R>> {
        let term = reading.term() + 1;
        let Place { position, chain } = reading.whole();
        let claim = Record { term, confirmed: position, chain, kind: RecordKind::Claim(me.clone()) }.encode()?;
        let answered_end = reading.next();
        Ok(Writer {
            shipped: reading.whole(),
            shipped_whole: position,
            confirmed: position,
            reading,
            me,
            term,
            role: Role::Claiming,
            shipments: VecDeque::from([Shipment { record: claim, end: None, state: ShipmentState::Unsent }]),
            is_heartbeat_due: false,
            successor: None,
            // Answers to an earlier writer of this member may still come. It had another term.
            last_ticket: term << 32,
            answered_end,
        })
    }

    /// Where it is in its life.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The term that it has claimed.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// What it has read.
    pub fn reading(&self) -> &R {
        &self.reading
    }

    /// Gives the reading back, to go on as a follower.
    pub fn into_reading(self) -> R {
        self.reading
    }

    /// Entries that end here or before are in the log for everybody. Does not fall, and ends with the term: what lies behind it then is lost.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// The position from which more of the oplog is to be shipped; `None` while enough is on its way, and before and after the lead.
    pub fn wanted(&self) -> Option<u64> {
        let may_ship = match self.role {
            Role::Leading => true,
            // An entry that was begun is sent to its end.
            Role::SteppingDown => self.shipped_whole < self.shipped.position,
            _ => false,
        };
        (may_ship && self.shipments.len() < IN_FLIGHT_MAX).then_some(self.shipped.position)
    }

    /// Takes bytes of the oplog, which begin at `wanted`. `whole` of them lie before the end of the last entry that ends among them; 0:
    /// none does.
    ///
    /// # Errors
    /// `TooLarge`: they are more than `RANGE_BYTES_MAX`.
    pub fn ship(&mut self, bytes: &[u8], whole: usize) -> Result<()> {
        debug_assert!(self.wanted().is_some() && !bytes.is_empty() && whole <= bytes.len());
        if bytes.len() > RANGE_BYTES_MAX {
            return Err(SharedLogError::TooLarge { bytes: bytes.len(), bytes_max: RANGE_BYTES_MAX });
        }
        let Place { position: start, chain } = self.shipped;
        let kind = RecordKind::Range { start, whole, bytes };
        let record = Record { term: self.term, confirmed: self.confirmed, chain, kind }.encode()?;
        self.shipped = self.shipped.after(bytes);
        if whole > 0 {
            self.shipped_whole = start + whole as u64;
        }
        let end = Some(self.shipped.position);
        self.shipments.push_back(Shipment { record, end, state: ShipmentState::Unsent });
        Ok(())
    }

    /// A heartbeat is to be sent: nothing else was for a while. Its answer also tells whether others have appended.
    pub fn beat(&mut self) {
        self.is_heartbeat_due = true;
    }

    /// Gives up the lead once all that was shipped is confirmed. The caller has stopped its writers.
    pub fn step_down(&mut self, successor: Option<u64>) {
        if self.role == Role::Leading {
            (self.role, self.successor) = (Role::SteppingDown, successor);
        }
    }

    /// What is to be appended next, if anything.
    ///
    /// # Errors
    /// None that can happen: records without bytes of the oplog have a size that fits.
    pub fn next_sending(&mut self) -> Result<Option<Sending>> {
        if self.role.is_over() {
            return Ok(None);
        }
        let is_drained = self.shipments.is_empty() && self.shipped_whole == self.shipped.position;
        if self.role == Role::SteppingDown && is_drained {
            let record = self.note(RecordKind::StepDown { successor: self.successor })?;
            self.shipments.push_back(Shipment { record, end: None, state: ShipmentState::Unsent });
        }
        let ticket = Ticket(self.last_ticket + 1);
        let unsent = self.shipments.iter_mut().find(|shipment| shipment.state == ShipmentState::Unsent);
        let bytes = if let Some(shipment) = unsent {
            shipment.state = ShipmentState::Sent(ticket);
            Arc::clone(&shipment.record)
        } else if self.is_heartbeat_due && self.role != Role::Claiming {
            self.is_heartbeat_due = false;
            self.note(RecordKind::Heartbeat)?
        } else {
            return Ok(None);
        };
        self.last_ticket = ticket.0;
        Ok(Some(Sending { ticket, bytes }))
    }

    fn note(&self, kind: RecordKind<'_>) -> Result<Arc<[u8]>> {
        let Place { position, chain } = self.reading.whole();
        Record { term: self.term, confirmed: position, chain, kind }.encode()
    }

    /// What became of an append. Gives the record back if it is the next one of the log: `read` it then.
    pub fn answered(&mut self, ticket: Ticket, result: std::result::Result<Offset, Refused>) -> Option<StoredRecord> {
        let shipment = self.shipments.iter_mut().find(|shipment| shipment.state == ShipmentState::Sent(ticket));
        let Ok(offset) = result else {
            // It may be there all the same: then the second one is a repeat.
            shipment.into_iter().for_each(|shipment| shipment.state = ShipmentState::Unsent);
            return None;
        };
        self.answered_end = self.answered_end.max(offset.following());
        let shipment = shipment?;
        shipment.state = ShipmentState::Answered(offset);
        let bytes = Arc::clone(&shipment.record);
        self.settle();
        (offset == self.reading.next()).then_some(StoredRecord { offset, bytes })
    }

    /// Whether the log has records that must be read before anything more can be confirmed.
    pub fn wants_to_read(&self) -> bool {
        self.answered_end > self.reading.next() || self.role == Role::Claiming
    }

    /// Judges the next record. The effect is for the caller, too: until the lead is taken it is a follower as any other.
    ///
    /// # Errors
    /// What stops this member for good.
    pub fn read<'b>(&mut self, offset: Offset, bytes: &'b [u8]) -> Result<Effect<'b>> {
        let effect = self.reading.step(offset, bytes)?;
        match &effect {
            Effect::Claimed { term, leader, cut_at } => self.note_claim(*term, leader, *cut_at),
            Effect::Accepted { whole, .. } if self.has_lead() => self.confirmed = *whole,
            Effect::Ended { successor, .. } if self.has_lead() => {
                self.role = Role::SteppedDown { successor: *successor };
            }
            _ => {}
        }
        self.settle();
        Ok(effect)
    }

    fn has_lead(&self) -> bool {
        matches!(self.role, Role::Leading | Role::SteppingDown)
    }

    fn note_claim(&mut self, term: u64, leader: &Leader, cut_at: u64) {
        let is_mine = term == self.term && *leader == self.me;
        if is_mine && self.role == Role::Claiming {
            self.role = Role::Leading;
            self.shipped = self.reading.whole();
            (self.shipped_whole, self.confirmed) = (cut_at, cut_at);
            self.shipments.clear();
        } else if !self.role.is_over() && term >= self.term {
            self.role = Role::Lost { term, leader: leader.clone() };
        }
    }

    /// Forgets what counts, and sends again what was read and did not count.
    fn settle(&mut self) {
        if self.role.is_over() {
            self.shipments.clear();
        }
        let (end, next) = (self.reading.end().position, self.reading.next());
        self.shipments.retain(|shipment| shipment.end.is_none_or(|shipment_end| shipment_end > end));
        for shipment in &mut self.shipments {
            if matches!(shipment.state, ShipmentState::Answered(offset) if offset < next) {
                shipment.state = ShipmentState::Unsent;
            }
        }
    }
}

#[cfg(test)]
mod tests;
