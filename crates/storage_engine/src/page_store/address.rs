//! What names a page and what names a block on disk.
//!
//! Used by everything in `page_store` and, as the value of a page-table word, by the engine above it.

use std::fmt;

/// Bytes of a page image before compression.
pub const PAGE_BYTES: usize = 16_384;

/// The unit of offsets and lengths in the page file.
pub const UNIT_BYTES: usize = 64;

/// Page ids are below this: 16 TiB of page images, which is what the engine's page table can describe.
pub const PAGE_ID_LIMIT: u64 = 1 << 30;

pub(super) const LENGTH_BITS: u32 = 12;
const OFFSET_BITS: u32 = 40;
const ROOM_BITS: u32 = 9;
const ROOM_SHIFT: u32 = OFFSET_BITS + LENGTH_BITS;
/// Room is known to this many bytes.
const ROOM_UNIT_BYTES: usize = 32;

/// The dense number of a logical page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageId(pub u64);

impl fmt::Debug for PageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "page {}", self.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Where a block is: its stored length in 64-byte units in the lowest 12 bits, its offset in units in 40 above. Above them, in 9
/// bits, is what the engine wants to know of the image without reading it: how much room the page has for more entries.
/// Fits in 61 bits. Zero, which is where the superblocks are, means "nowhere".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PageAddress(pub u64);

impl PageAddress {
    /// No block.
    pub const NONE: PageAddress = PageAddress(0);

    /// Bits that an address needs.
    pub const BITS: u32 = ROOM_SHIFT + ROOM_BITS;

    /// Offsets in units are below this.
    pub const OFFSET_UNITS_LIMIT: u64 = 1 << OFFSET_BITS;

    /// Lengths in units are below this.
    pub const LENGTH_UNITS_LIMIT: u64 = 1 << LENGTH_BITS;

    /// Rooms in units are below this.
    pub const ROOM_UNITS_LIMIT: u64 = 1 << ROOM_BITS;

    /// The address of a block of whose image no room is known; `None` when it does not fit in its bits or has no length.
    pub fn new(offset_units: u64, length_units: u64) -> Option<PageAddress> {
        let fits = offset_units < Self::OFFSET_UNITS_LIMIT && (1..Self::LENGTH_UNITS_LIMIT).contains(&length_units);
        fits.then_some(PageAddress(offset_units << LENGTH_BITS | length_units))
    }

    /// The same place, where a page with at least so many units of room lies.
    pub fn with_room_units(self, room_units: u64) -> PageAddress {
        PageAddress(self.place() | room_units.min(Self::ROOM_UNITS_LIMIT - 1) << ROOM_SHIFT)
    }

    /// Units in which `bytes` of room are told.
    pub fn room_units_of(bytes: usize) -> u64 {
        ((bytes / ROOM_UNIT_BYTES) as u64).min(Self::ROOM_UNITS_LIMIT - 1)
    }

    /// Room that the page at this address surely has, in units.
    pub fn room_units(self) -> u64 {
        self.0 >> ROOM_SHIFT
    }

    /// Room that the page at this address surely has, in bytes.
    pub fn room_bytes(self) -> usize {
        self.room_units() as usize * ROOM_UNIT_BYTES
    }

    /// Whether both are the same block, whatever is known of its image.
    pub fn is_at(self, other: PageAddress) -> bool {
        self.place() == other.place()
    }

    /// Offset and length alone; in the order of offsets.
    pub fn place(self) -> u64 {
        self.0 & ((1 << ROOM_SHIFT) - 1)
    }

    /// Whether it is [`PageAddress::NONE`].
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Where the block begins, in units.
    pub fn offset_units(self) -> u64 {
        self.place() >> LENGTH_BITS
    }

    /// How long the block is, in units.
    pub fn length_units(self) -> u64 {
        self.0 & (Self::LENGTH_UNITS_LIMIT - 1)
    }

    /// Where the block begins, in bytes.
    pub fn offset_bytes(self) -> u64 {
        self.offset_units() * UNIT_BYTES as u64
    }

    /// How long the block is, in bytes.
    pub fn length_bytes(self) -> usize {
        self.length_units() as usize * UNIT_BYTES
    }
}

impl fmt::Debug for PageAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_none() {
            true => write!(formatter, "nowhere"),
            false => write!(formatter, "{}+{}", self.offset_bytes(), self.length_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_keeps_offset_and_length_and_refuses_what_does_not_fit() {
        let last = PageAddress::new((1 << 40) - 1, 4095).unwrap();
        assert_eq!((last.offset_units(), last.length_units()), ((1 << 40) - 1, 4095));
        assert!(last.0 < 1 << PageAddress::BITS);
        let roomy = last.with_room_units(PageAddress::room_units_of(20_000));
        assert_eq!((roomy.offset_units(), roomy.length_units(), roomy.room_bytes()), ((1 << 40) - 1, 4095, 511 * 32));
        assert!(roomy.0 < 1 << PageAddress::BITS && roomy.is_at(last) && roomy != last);
        assert_eq!(roomy.with_room_units(PageAddress::room_units_of(100)).room_bytes(), 96);
        assert!(PageAddress::new(1 << 40, 1).is_none());
        assert!(PageAddress::new(1, 4096).is_none());
        assert!(PageAddress::new(1, 0).is_none());
        assert!(PageAddress::NONE.is_none());
    }
}
