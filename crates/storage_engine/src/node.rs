//! The layout of a B-tree page: header, slot array, heap. Pure functions of a page's bytes.
//!
//! Called by `btree` (descents, changes), `cursor` and `verify`. Knows neither frames nor trees.
//!
//! ```text
//! 0        48            48 + 8 * count          heap_start                          16384
//! ├ header ┼ slots ──────┼ free ─────────────────┼ heap: entries, version cells, fences ┤
//! ```
//!
//! A page has one common prefix, that of its two fence keys (or, in the last page of a level, which has no upper one, of
//! the lower fence and its keys), and every entry its full suffix: any key is one copy of prefix and suffix. The lower fence belongs to the page, the upper one to its right neighbour. A slot holds the
//! first four bytes of the suffix as a number ("head"), so that a search seldom leaves the slot array. An entry that
//! somebody may still need an older version of is reached through a *version cell*; settled entries have none, and
//! losing the cell leaves the entry where it is.
//!
//! All numbers are little-endian, except that heads compare as the big-endian number of the suffix bytes.

use std::cmp::Ordering;
use std::ops::Range;

use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::page_store::{ImageNotes, PageId, SlotArray};

mod build;
mod bytes;
mod edit;
#[cfg(test)]
mod tests;

pub(crate) use build::NodeBuilder;
use bytes::bytes_at;
pub(crate) use bytes::{PageBytes, PageMut};
pub(crate) use edit::NodeMut;

/// Bytes before the slot array.
pub(crate) const HEADER_BYTES: usize = 48;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 8;

/// Page kind of B-tree pages.
pub(crate) const KIND_NODE: u8 = 1;
/// Page kind of overflow pages.
pub(crate) const KIND_OVERFLOW: u8 = 2;
/// A page of buffered changes that a checkpoint has saved. Kind 3 had them in another encoding, for a day, and is not read.
pub(crate) const KIND_CHANGES: u8 = 4;

/// Offsets of header fields.
pub(crate) mod field {
    /// One byte; the level is the byte behind it.
    pub(crate) const KIND: usize = 0;
    pub(crate) const COUNT: usize = 2;
    pub(crate) const HEAP_START: usize = 4;
    pub(crate) const GARBAGE: usize = 6;
    pub(crate) const PREFIX_LENGTH: usize = 8;
    pub(crate) const LOWER_LENGTH: usize = 10;
    pub(crate) const UPPER_LENGTH: usize = 12;
    pub(crate) const LOWER_AT: usize = 14;
    pub(crate) const UPPER_AT: usize = 16;
    /// 0xffff in an upper fence's length: the page is the last of its level.
    pub(crate) const VERSIONED: usize = 18;
    pub(crate) const TREE: usize = 24;
    pub(crate) const RIGHTMOST: usize = 32;
}

/// Upper-fence length that means "no upper fence".
const NO_FENCE: u16 = u16::MAX;

/// Bytes of a page that buffered changes leave alone, so that each of them surely fits.
const ROOM_KEPT_BYTES: usize = 160;

const SUFFIX_MASK: u16 = 0x1fff;
const VERSION_SHIFT: u32 = 13;
const GHOST_BIT: u16 = 1 << 15;
const OVERFLOW_BIT: u16 = 1 << 15;

/// Bytes of the cell of [`Version::Implied`].
const IMPLIED_CELL_BYTES: usize = 10;
/// Bytes of the cell of [`Version::Chained`].
const CHAINED_CELL_BYTES: usize = 18;

/// Since when an entry's state holds, and where the state before it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Visible to every snapshot.
    Settled,
    /// Holds since this commit timestamp; before it the entry was the opposite: absent if live now, present with the
    /// same value if a ghost now.
    Implied {
        /// Commit timestamp.
        since: u64,
    },
    /// Holds since this commit timestamp; the state before it is in the version history at `position`.
    Chained {
        /// Commit timestamp.
        since: u64,
        /// Position in the version history.
        position: u64,
    },
}

impl Version {
    /// The commit timestamp of the state; 0 when settled.
    pub(crate) fn since(self) -> u64 {
        match self {
            Self::Settled => 0,
            Self::Implied { since } | Self::Chained { since, .. } => since,
        }
    }

    fn cell_bytes(self) -> usize {
        match self {
            Self::Settled => 0,
            Self::Implied { .. } => IMPLIED_CELL_BYTES,
            Self::Chained { .. } => CHAINED_CELL_BYTES,
        }
    }

    fn kind(self) -> u16 {
        match self {
            Self::Settled => 0,
            Self::Implied { .. } => 1,
            Self::Chained { .. } => 2,
        }
    }
}

/// Whether an entry is there or was deleted and is kept for older snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// There.
    Live,
    /// Deleted.
    Ghost,
}

/// What a slot says of its entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    offset: usize,
    flags: u16,
}

impl Slot {
    pub(crate) fn suffix_length(self) -> usize {
        usize::from(self.flags & SUFFIX_MASK)
    }

    pub(crate) fn presence(self) -> Presence {
        if self.flags & GHOST_BIT != 0 { Presence::Ghost } else { Presence::Live }
    }

    fn version_kind(self) -> u16 {
        self.flags >> VERSION_SHIFT & 3
    }
}

/// The result of a search for a key in a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The entry at this position has the key.
    At(usize),
    /// The key would be inserted at this position.
    Before(usize),
}

/// A node seen through any kind of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Node<B>(pub(crate) B);

/// The first four bytes as a number that compares like them; shorter ones are padded with zeros.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(bytes)
        }
    }
}

impl<B: PageBytes> Node<B> {
    pub(crate) fn kind(&self) -> u8 {
        self.0.u16_at(field::KIND) as u8
    }

    /// 0 for leaves, otherwise the height above them.
    pub(crate) fn level(&self) -> u8 {
        (self.0.u16_at(field::KIND) >> 8) as u8
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    /// Number of slots, ghosts included.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.0.u16_at(field::COUNT)).min((PAGE_BYTES - HEADER_BYTES) / SLOT_BYTES)
    }

    pub(crate) fn tree(&self) -> u64 {
        self.0.u64_at(field::TREE)
    }

    /// The child for keys at or above the last separator.
    pub(crate) fn rightmost(&self) -> PageId {
        PageId(self.0.u64_at(field::RIGHTMOST))
    }

    pub(crate) fn prefix_length(&self) -> usize {
        usize::from(self.0.u16_at(field::PREFIX_LENGTH))
    }

    fn prefix_range(&self) -> Range<usize> {
        range_of(self.0.u16_at(field::LOWER_AT), self.0.u16_at(field::PREFIX_LENGTH))
    }

    fn lower_range(&self) -> Range<usize> {
        range_of(self.0.u16_at(field::LOWER_AT), self.0.u16_at(field::LOWER_LENGTH))
    }

    fn upper_range(&self) -> Option<Range<usize>> {
        match self.0.u16_at(field::UPPER_LENGTH) {
            NO_FENCE => None,
            length => Some(range_of(self.0.u16_at(field::UPPER_AT), length)),
        }
    }

    /// A copy of the upper fence; see [`Node::upper_fence`].
    pub(crate) fn copy_upper_fence(&self) -> Option<Vec<u8>> {
        let range = self.upper_range()?;
        let mut fence = Vec::with_capacity(range.len());
        self.0.append_to(range, &mut fence);
        Some(fence)
    }

    /// Whether the page has no upper fence. Its prefix is then a guess that fits the keys it has: a key that does not
    /// begin with it can come, and the page is rebuilt with a shorter one before it is inserted.
    pub(crate) fn is_last(&self) -> bool {
        self.0.u16_at(field::UPPER_LENGTH) == NO_FENCE
    }

    /// Entries with a version cell or deleted: those that compaction may shrink or drop.
    pub(crate) fn versioned(&self) -> usize {
        usize::from(self.0.u16_at(field::VERSIONED))
    }

    /// Entries that are deleted. Goes through all of them.
    pub(crate) fn ghosts(&self) -> usize {
        (0..self.count()).filter(|position| self.presence(*position) == Presence::Ghost).count()
    }

    pub(crate) fn heap_start(&self) -> usize {
        usize::from(self.0.u16_at(field::HEAP_START))
    }

    pub(crate) fn garbage(&self) -> usize {
        usize::from(self.0.u16_at(field::GARBAGE))
    }

    /// Bytes between the slots and the heap.
    pub(crate) fn contiguous_free(&self) -> usize {
        self.heap_start().saturating_sub(HEADER_BYTES + self.count() * SLOT_BYTES)
    }

    /// Bytes that a rebuilt page would have free, versions kept.
    pub(crate) fn total_free(&self) -> usize {
        self.contiguous_free() + self.garbage()
    }

    /// Bytes that are not free.
    pub(crate) fn used_bytes(&self) -> usize {
        PAGE_BYTES - self.total_free()
    }

    /// What the page store is told with the page.
    pub(crate) fn notes(&self) -> ImageNotes {
        let count = if self.kind() == KIND_NODE { self.count() as u16 } else { 0 };
        ImageNotes { room_bytes: self.room_for_changes(), slots: SlotArray { start: HEADER_BYTES as u16, count } }
    }

    /// Bytes that changes buffered for this page while it is on disk may take; 0 for pages that take none.
    fn room_for_changes(&self) -> usize {
        let takes_changes = self.kind() == KIND_NODE && self.is_leaf() && !self.is_last();
        let room = if takes_changes { self.total_free().saturating_sub(ROOM_KEPT_BYTES) } else { 0 };
        // Merging for a checkpoint under way, or again after a failed write, must not let go of overflow pages.
        if room > 0 && self.has_overflow() { 0 } else { room }
    }

    /// Whether a value is on overflow pages.
    pub(crate) fn has_overflow(&self) -> bool {
        (0..self.count()).any(|position| self.is_overflow(position))
    }

    #[inline]
    fn head(&self, position: usize) -> u32 {
        self.0.u32_at(HEADER_BYTES + position * SLOT_BYTES)
    }

    #[inline]
    pub(crate) fn slot(&self, position: usize) -> Slot {
        let at = HEADER_BYTES + position * SLOT_BYTES;
        Slot { offset: usize::from(self.0.u16_at(at + 4)), flags: self.0.u16_at(at + 6) }
    }

    /// Where the entry's bytes are, through its version cell if it has one.
    fn entry_offset(&self, slot: Slot) -> usize {
        if slot.version_kind() == 0 { slot.offset } else { usize::from(self.0.u16_at(slot.offset)) }
    }

    #[inline]
    fn suffix_range(&self, position: usize) -> Range<usize> {
        let slot = self.slot(position);
        let start = self.entry_offset(slot) + 2;
        start..start + slot.suffix_length()
    }

    /// Copies the whole key into `key`: one copy of prefix and suffix.
    pub(crate) fn copy_key(&self, position: usize, key: &mut Vec<u8>) {
        crate::counters::key_materialised();
        key.clear();
        self.0.append_to(self.prefix_range(), key);
        self.0.append_to(self.suffix_range(position), key);
    }

    /// Length of what the key at a position has in common with another key.
    pub(crate) fn shared_with(&self, position: usize, other: &[u8]) -> usize {
        let in_prefix = self.0.shared(self.prefix_range(), other);
        if in_prefix < self.prefix_length() {
            return in_prefix;
        }
        in_prefix + self.0.shared(self.suffix_range(position), other.get(in_prefix..).unwrap_or(&[]))
    }

    /// Length of the prefix of the child at a position (see [`Node::child`]): of what its fences have in common. `None` when it
    /// has no upper one.
    pub(crate) fn child_prefix_length(&self, position: usize) -> Option<usize> {
        let (count, prefix_length) = (self.count(), self.prefix_length());
        // Both fences of the page begin with its prefix, as all of its keys do.
        let behind_prefix = |fence: Range<usize>| (fence.start + prefix_length).min(fence.end)..fence.end;
        let lower = match position.checked_sub(1) {
            Some(before) => self.suffix_range(before),
            None => behind_prefix(self.lower_range()),
        };
        let upper = if position < count { self.suffix_range(position) } else { behind_prefix(self.upper_range()?) };
        Some(prefix_length + self.0.shared_inside(lower, upper))
    }

    /// Whether the value's bytes are a reference to overflow pages.
    pub(crate) fn is_overflow(&self, position: usize) -> bool {
        self.0.u16_at(self.entry_offset(self.slot(position))) & OVERFLOW_BIT != 0
    }

    /// Copies the value's bytes behind what is in `value`; whether they are a reference to overflow pages.
    pub(crate) fn append_value(&self, position: usize, value: &mut Vec<u8>) -> bool {
        let (range, is_overflow) = self.value_place(position);
        self.0.append_to(range, value);
        is_overflow
    }

    /// Where the value's bytes are in the page.
    pub(crate) fn value_range(&self, position: usize) -> Range<usize> {
        self.value_place(position).0
    }

    /// As [`Node::value_range`], with whether they are a reference to overflow pages.
    #[inline]
    fn value_place(&self, position: usize) -> (Range<usize>, bool) {
        let slot = self.slot(position);
        let entry = self.entry_offset(slot);
        let word = self.0.u16_at(entry);
        let start = entry + 2 + slot.suffix_length();
        (start..start + usize::from(word & !OVERFLOW_BIT), word & OVERFLOW_BIT != 0)
    }

    pub(crate) fn version(&self, position: usize) -> Version {
        let slot = self.slot(position);
        match slot.version_kind() {
            0 => Version::Settled,
            1 => Version::Implied { since: self.0.u64_at(slot.offset + 2) },
            _ => Version::Chained { since: self.0.u64_at(slot.offset + 2), position: self.0.u64_at(slot.offset + 10) },
        }
    }

    pub(crate) fn presence(&self, position: usize) -> Presence {
        self.slot(position).presence()
    }

    /// The child of an inner node at a position; `count()` gives the rightmost.
    pub(crate) fn child(&self, position: usize) -> PageId {
        if position >= self.count() {
            return self.rightmost();
        }
        let slot = self.slot(position);
        PageId(self.0.u64_at(self.entry_offset(slot) + 2 + slot.suffix_length()))
    }

    /// Compares the key at `position` with a suffix whose head is `head`.
    #[inline]
    fn compare_at(&self, position: usize, suffix: &[u8], head: u32) -> Ordering {
        self.head(position).cmp(&head).then_with(|| self.0.compare(self.suffix_range(position), suffix))
    }

    /// Finds a key (whole, prefix included) by binary search. The key lies inside the page's fences.
    pub(crate) fn search(&self, key: &[u8]) -> Found {
        if self.is_last() && self.0.shared(self.prefix_range(), key) < self.prefix_length() {
            // It is not below the lower fence, which begins with the prefix; so it is above all that do.
            return Found::Before(self.count());
        }
        let suffix = key.get(self.prefix_length()..).unwrap_or(&[]);
        let head = head_of(suffix);
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.compare_at(middle, suffix, head) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Found::At(middle),
            }
        }
        Found::Before(low)
    }

    /// Position of the first entry whose key is at or above `key`, which may lie outside of the page's fences.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        match self.0.compare(self.prefix_range(), key.get(..self.prefix_length()).unwrap_or(key)) {
            Ordering::Greater => 0,
            Ordering::Less => self.count(),
            Ordering::Equal => match self.search(key) {
                Found::At(position) | Found::Before(position) => position,
            },
        }
    }

    /// Position of the child that holds `key`; see [`Node::child`].
    pub(crate) fn child_position(&self, key: &[u8]) -> usize {
        match self.search(key) {
            // A separator is the lower fence of the child to its right.
            Found::At(position) => position + 1,
            Found::Before(position) => position,
        }
    }

    /// Position of the child that holds the greatest keys below `key`.
    pub(crate) fn child_position_before(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Found::At(position) | Found::Before(position) => position,
        }
    }

    /// Heap bytes of an entry and its version cell.
    pub(crate) fn heap_bytes(&self, position: usize) -> usize {
        let value_length = self.value_range(position).len();
        2 + self.slot(position).suffix_length() + value_length + self.version(position).cell_bytes()
    }
}

/// What is given out as slices, by pages that stay as they are meanwhile.
impl<'a> Node<&'a PageImage> {
    /// The bytes that all keys of the page begin with.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        bytes_at(self.0, self.prefix_range())
    }

    /// Keys below this one are in pages to the left.
    pub(crate) fn lower_fence(&self) -> &'a [u8] {
        bytes_at(self.0, self.lower_range())
    }

    /// Keys at or above this one are in pages to the right; `None` for the last page of a level.
    pub(crate) fn upper_fence(&self) -> Option<&'a [u8]> {
        self.upper_range().map(|range| bytes_at(self.0, range))
    }

    /// The key's bytes after the page's prefix.
    #[inline]
    pub(crate) fn suffix(&self, position: usize) -> &'a [u8] {
        bytes_at(self.0, self.suffix_range(position))
    }

    /// The value's bytes, and whether they are a reference to overflow pages.
    pub(crate) fn value(&self, position: usize) -> (&'a [u8], bool) {
        let (range, is_overflow) = self.value_place(position);
        (bytes_at(self.0, range), is_overflow)
    }
}

fn range_of(start: u16, length: u16) -> Range<usize> {
    usize::from(start)..usize::from(start) + usize::from(length)
}

/// Heap and slot bytes that a new entry needs.
pub(crate) fn entry_bytes(suffix_length: usize, value_length: usize, version: Version) -> usize {
    SLOT_BYTES + 2 + suffix_length + value_length + version.cell_bytes()
}

/// Bytes that a blind change kept for later may take in its page, whatever versions it leaves there. What it finds settled
/// needs no more than the cell of [`Version::Implied`]; what it finds with a version has that cell already, which grows by less. An
/// insert that finds its key (it is derived again) needs less than one that does not. A settled change leaves no version.
pub(crate) fn change_bytes_max(is_removal: bool, suffix_length: usize, value_length: usize, is_settled: bool) -> usize {
    const { assert!(CHAINED_CELL_BYTES - IMPLIED_CELL_BYTES <= IMPLIED_CELL_BYTES) };
    const { assert!(CHAINED_CELL_BYTES <= SLOT_BYTES + 2 + IMPLIED_CELL_BYTES) };
    let entry = if is_removal { 0 } else { SLOT_BYTES + 2 + suffix_length + value_length };
    entry + if is_settled { 0 } else { SETTLING_BYTES }
}

/// By how much less a blind change takes once it is settled.
pub(crate) const SETTLING_BYTES: usize = IMPLIED_CELL_BYTES;

/// Length of the common beginning of two keys.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
