//! Changes of a node in place: insert, remove, new value, new version, ghost.
//!
//! Called by `btree`'s leaf and inner changes, on exclusively latched frames and on private images. Every function that needs
//! room says so by `false` and has then changed nothing; the caller compacts or splits.

use smallvec::SmallVec;

use super::{
    CHAINED_CELL_BYTES, GHOST_BIT, HEADER_BYTES, IMPLIED_CELL_BYTES, Node, OVERFLOW_BIT, PageMut, Presence, SLOT_BYTES,
    Slot, VERSION_SHIFT, Version, entry_bytes, field, head_of,
};
use crate::frame_arena::PageImage;
use crate::page_store::PageId;

/// The first slot and the bytes of each, in words of eight bytes, by which slots move.
const SLOTS_AT_WORD: usize = HEADER_BYTES / 8;
const _: () = assert!(SLOT_BYTES == 8 && HEADER_BYTES.is_multiple_of(8));

/// A node open for changes.
pub(crate) struct NodeMut<'a, P: PageMut = PageImage>(pub(crate) &'a mut P);

impl<P: PageMut> NodeMut<'_, P> {
    /// The same node for reading.
    pub(crate) fn view(&self) -> Node<&PageImage> {
        Node(self.0.image())
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0.put(at, bytes);
    }

    pub(super) fn put_u16(&mut self, at: usize, value: usize) {
        self.0.put_u16(at, value as u16);
    }

    fn add_garbage(&mut self, bytes: usize) {
        let garbage = self.view().garbage() + bytes;
        self.put_u16(field::GARBAGE, garbage);
    }

    /// Takes `length` bytes off the free space; the caller has checked that they are there.
    fn allocate(&mut self, length: usize) -> usize {
        let start = self.view().heap_start() - length;
        self.put_u16(field::HEAP_START, start);
        start
    }

    fn set_slot(&mut self, position: usize, offset: usize, flags: u16) {
        let at = HEADER_BYTES + position * SLOT_BYTES;
        self.put_u16(at + 4, offset);
        self.0.put_u16(at + 6, flags);
    }

    fn count_versioned(&mut self, before: Slot, after: Slot) {
        let is_versioned = |slot: Slot| slot.version_kind() != 0 || slot.presence() == Presence::Ghost;
        let count = self.view().versioned() + usize::from(is_versioned(after)) - usize::from(is_versioned(before));
        self.put_u16(field::VERSIONED, count);
    }

    fn write_entry(&mut self, suffix: &[u8], value: &[u8], overflow: bool) -> usize {
        let at = self.allocate(2 + suffix.len() + value.len());
        let word = value.len() as u16 | if overflow { OVERFLOW_BIT } else { 0 };
        self.0.put_u16(at, word);
        self.put(at + 2, suffix);
        self.put(at + 2 + suffix.len(), value);
        at
    }

    fn write_cell(&mut self, entry: usize, version: Version) -> usize {
        let at = self.allocate(version.cell_bytes());
        self.fill_cell(at, entry, version);
        at
    }

    fn fill_cell(&mut self, at: usize, entry: usize, version: Version) {
        self.put_u16(at, entry);
        self.0.put_u64(at + 2, version.since());
        if let Version::Chained { position, .. } = version {
            self.0.put_u64(at + 10, position);
        }
    }

    /// Inserts an entry (suffix: the key after the page's prefix) at a position. `false`: no room.
    pub(crate) fn insert(
        &mut self,
        position: usize,
        suffix: &[u8],
        value: &[u8],
        overflow: bool,
        version: Version,
    ) -> bool {
        if self.view().contiguous_free() < entry_bytes(suffix.len(), value.len(), version) {
            return false;
        }
        let entry = self.write_entry(suffix, value, overflow);
        let offset = if version == Version::Settled { entry } else { self.write_cell(entry, version) };
        let count = self.view().count();
        self.0.move_words_up(SLOTS_AT_WORD + position..SLOTS_AT_WORD + count);
        let flags = suffix.len() as u16 | version.kind() << VERSION_SHIFT;
        let slot = u64::from(head_of(suffix)) | (offset as u64) << 32 | u64::from(flags) << 48;
        self.0.put_u64(HEADER_BYTES + position * SLOT_BYTES, slot);
        self.put_u16(field::COUNT, count + 1);
        if version != Version::Settled {
            let versioned = self.view().versioned();
            self.put_u16(field::VERSIONED, versioned + 1);
        }
        true
    }

    /// Removes an entry for good.
    pub(crate) fn remove(&mut self, position: usize) {
        let heap = self.view().heap_bytes(position);
        let slot = self.view().slot(position);
        self.count_versioned(slot, Slot { offset: 0, flags: 0 });
        self.add_garbage(heap);
        let count = self.view().count();
        self.0.move_words_down(SLOTS_AT_WORD + position + 1..SLOTS_AT_WORD + count);
        self.put_u16(field::COUNT, count - 1);
    }

    /// Gives an entry a new value, leaving its version. `false`: no room.
    pub(crate) fn set_value(&mut self, position: usize, value: &[u8], overflow: bool) -> bool {
        let slot = self.view().slot(position);
        let entry = self.view().entry_offset(slot);
        let suffix_length = slot.suffix_length();
        let old_length = self.view().value(position).0.len();
        let word = value.len() as u16 | if overflow { OVERFLOW_BIT } else { 0 };
        if value.len() <= old_length {
            self.0.put_u16(entry, word);
            self.put(entry + 2 + suffix_length, value);
            self.add_garbage(old_length - value.len());
            return true;
        }
        let needed = 2 + suffix_length + value.len();
        if self.view().contiguous_free() < needed {
            return false;
        }
        let at = self.allocate(needed);
        let suffix: SmallVec<[u8; 64]> = SmallVec::from_slice(self.view().suffix(position));
        self.0.put_u16(at, word);
        self.put(at + 2, &suffix);
        self.put(at + 2 + suffix_length, value);
        if slot.version_kind() == 0 {
            self.set_slot(position, at, slot.flags);
        } else {
            self.put_u16(slot.offset, at);
        }
        self.add_garbage(2 + suffix_length + old_length);
        true
    }

    /// Gives an entry a version and a presence. `false`: no room for the version cell.
    pub(crate) fn set_version(&mut self, position: usize, version: Version, presence: Presence) -> bool {
        let slot = self.view().slot(position);
        let entry = self.view().entry_offset(slot);
        let old_cell = [0, IMPLIED_CELL_BYTES, CHAINED_CELL_BYTES][usize::from(slot.version_kind().min(2))];
        let offset = if version == Version::Settled {
            self.add_garbage(old_cell);
            entry
        } else if slot.version_kind() == version.kind() {
            self.fill_cell(slot.offset, entry, version);
            slot.offset
        } else {
            if self.view().contiguous_free() < version.cell_bytes() {
                return false;
            }
            self.add_garbage(old_cell);
            self.write_cell(entry, version)
        };
        let ghost = if presence == Presence::Ghost { GHOST_BIT } else { 0 };
        let flags = slot.suffix_length() as u16 | version.kind() << VERSION_SHIFT | ghost;
        self.count_versioned(slot, Slot { offset, flags });
        self.set_slot(position, offset, flags);
        true
    }

    /// Sets the child at a position; `count()` is the rightmost.
    pub(crate) fn set_child(&mut self, position: usize, child: PageId) {
        let count = self.view().count();
        let at = if position >= count {
            field::RIGHTMOST
        } else {
            let slot = self.view().slot(position);
            self.view().entry_offset(slot) + 2 + slot.suffix_length()
        };
        self.0.put_u64(at, child.0);
    }
}
