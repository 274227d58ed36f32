//! Where the next document of a ring goes, and what it overtakes: arithmetic only.
//!
//! Called by `ring` under the ring's lock. A *position* is a byte offset over everything ever written to the ring; it only grows, so
//! the order of positions is the order of insertion. A *lap* is one pass over the file; a lap begins at an extent, and position `p` of a lap
//! lies at `p - start of the lap` of the region. At most two laps are live: the current one, and what it has not overwritten of the one before.

use crate::error::{EngineError, Result};

/// Slots begin at multiples of this.
pub(crate) const ALIGNMENT: u64 = 8;

/// Where a ring begins and ends, and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingState {
    /// From here on slots are live.
    pub head: u64,
    /// Behind the newest slot.
    pub tail: u64,
    /// Start of the newest slot; equal to `tail` when there never was one.
    pub last: u64,
    /// Where the current lap begins.
    pub lap: u64,
    /// Where the lap before began.
    pub previous_lap: u64,
    /// Live slots, deleted documents included.
    pub slots: u64,
    /// Live documents.
    pub documents: u64,
    /// Bytes of the live documents.
    pub bytes: u64,
    /// Live slots whose document was changed or deleted: the ring's tree has what it is now.
    pub overrides: u64,
    /// Bytes of an extent.
    pub extent_bytes: u64,
}

const FIELDS: usize = 10;

/// More is written to no ring.
const POSITION_MAX: u64 = 1 << 62;

impl RingState {
    pub(crate) fn encode(&self) -> [u8; FIELDS * 8] {
        let fields = [
            self.head,
            self.tail,
            self.last,
            self.lap,
            self.previous_lap,
            self.slots,
            self.documents,
            self.bytes,
            self.overrides,
            self.extent_bytes,
        ];
        let mut bytes = [0; FIELDS * 8];
        for (place, field) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<RingState> {
        let fields: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field)).collect();
        let [head, tail, last, lap, previous_lap, slots, documents, bytes, overrides, extent_bytes] = fields[..] else {
            return Err(EngineError::Setup(format!("the state of a ring has {} fields", fields.len())));
        };
        let state = RingState { head, tail, last, lap, previous_lap, slots, documents, bytes, overrides, extent_bytes };
        match state.is_sensible() {
            true => Ok(state),
            false => Err(EngineError::Setup(format!("the state of a ring makes no sense: {state:?}"))),
        }
    }

    /// What holds of every state that was ever written, and what the arithmetic here relies on.
    fn is_sensible(&self) -> bool {
        let is_extent = self.extent_bytes > 0 && self.extent_bytes.is_multiple_of(ALIGNMENT);
        let is_ordered = self.head <= self.tail && self.last <= self.tail && self.previous_lap <= self.lap;
        is_extent && is_ordered && self.lap <= self.tail && self.tail <= POSITION_MAX
    }

    /// Where a position lies in the region.
    pub(crate) fn offset_of(&self, position: u64) -> u64 {
        position - if position >= self.lap { self.lap } else { self.previous_lap.min(position) }
    }

    /// Where a slot of `slot_bytes` goes in a region of `capacity` bytes.
    pub(crate) fn place(&self, slot_bytes: u64, capacity: u64) -> Placement {
        let extent = self.extent_bytes;
        let position = if self.fits_extent(slot_bytes) { self.tail } else { self.tail.next_multiple_of(extent) };
        let offset = position - self.lap;
        if offset + slot_bytes <= capacity {
            // What the lap before has where this goes, and everything older, is overtaken.
            let needed_head = (self.previous_lap + offset + slot_bytes).min(self.lap);
            return Placement { position, lap: self.lap, previous_lap: self.previous_lap, needed_head };
        }
        let lap = self.tail.next_multiple_of(extent);
        let needed_head = (self.lap + slot_bytes).min(lap);
        Placement { position: lap, lap, previous_lap: self.lap, needed_head }
    }

    /// Whether a slot fits into what is left of the extent at the tail; one longer than an extent begins at the start of one.
    fn fits_extent(&self, slot_bytes: u64) -> bool {
        let used = self.tail % self.extent_bytes;
        used == 0 || self.extent_bytes - used >= slot_bytes
    }
}

/// Where a slot goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) position: u64,
    pub(crate) lap: u64,
    pub(crate) previous_lap: u64,
    /// Slots that begin before this have to go.
    pub(crate) needed_head: u64,
}

/// Bytes of an extent of a ring that may hold documents of so many bytes in all.
pub(crate) fn extent_bytes(size: u64) -> u64 {
    const DOCUMENT_BYTES_MAX: u64 = crate::MAX_VALUE_BYTES as u64;
    (size.min(DOCUMENT_BYTES_MAX) + super::slot::HEADER_BYTES as u64 + ALIGNMENT).next_multiple_of(4096)
}

/// Bytes of the region of a ring that may hold documents of so many bytes in all. Hardly more than that, so that the region is full: a gap between the newest
/// and the oldest document would be a jump in the order of positions.
pub(crate) fn capacity(size: u64) -> u64 {
    size.next_multiple_of(4096) + 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(head: u64, tail: u64, lap: u64, previous_lap: u64) -> RingState {
        RingState { head, tail, last: tail, lap, previous_lap, extent_bytes: 4096, ..RingState::default() }
    }

    #[test]
    fn states_survive_their_encoding() {
        let state = RingState { slots: 4, documents: 3, bytes: 99, overrides: 1, ..state(8, 4000, 0, 0) };
        assert_eq!(RingState::decode(&state.encode()).unwrap(), state);
        assert!(RingState::decode(&state.encode()[8..]).is_err());
    }

    #[test]
    fn the_first_lap_overtakes_nothing() {
        let placed = state(0, 4000, 0, 0).place(48, 8192);
        assert_eq!(placed, Placement { position: 4000, lap: 0, previous_lap: 0, needed_head: 0 });
    }

    #[test]
    fn what_does_not_fit_goes_to_the_next_extent() {
        assert_eq!(state(0, 4000, 0, 0).place(200, 8192).position, 4096);
    }

    #[test]
    fn the_next_lap_overtakes_the_start_of_this_one() {
        let placed = state(0, 8100, 0, 0).place(200, 8192);
        assert_eq!(placed, Placement { position: 8192, lap: 8192, previous_lap: 0, needed_head: 200 });
        let next = state(200, 8392, 8192, 0).place(100, 8192);
        assert_eq!(next, Placement { position: 8392, lap: 8192, previous_lap: 0, needed_head: 300 });
    }

    #[test]
    fn a_ring_may_grow_and_shrink_in_the_midst_of_a_lap() {
        let grown = state(200, 8192 + 8100, 8192, 0).place(200, 16384);
        assert_eq!((grown.position, grown.lap, grown.needed_head), (8192 + 8192, 8192, 8192));
        let shrunk = state(0, 8100, 0, 0).place(48, 4096);
        assert_eq!((shrunk.position, shrunk.lap, shrunk.needed_head), (8192, 8192, 48));
    }
}
