//! Taking the commit timestamps from buffered changes that every snapshot sees, and giving back the room for versions that they do not leave.
//!
//! Called by `change_buffers` before a buffer takes another block, and when its page has no room for one more change.

use super::super::change_blocks::BLOCK_PAYLOAD_BYTES;
use super::super::change_encoding::{BufferedChange, EncodedChanges};
use super::{LeafBuffer, Lender, Shard, blocks_of};
use crate::node::SETTLING_BYTES;
use crate::page_store::PageId;

/// Changes are looked at for whether they are settled while there are no more than so many bytes of them: while a snapshot stays,
/// they would be looked at again and again.
const UNSETTLED_BYTES_MAX: usize = 1 << 10;

/// What came of settling changes.
struct Settling {
    /// Bytes that the settled ones take now.
    settled_bytes: usize,
    /// Bytes that what was the first `unsaved` bytes takes.
    unsaved_bytes: usize,
    /// Bytes of room in the page that are not needed any more.
    room: usize,
}

/// Encodes the changes again, the first ones, as far as every snapshot sees them, without timestamps.
fn settle_first(changes: EncodedChanges<'_>, oldest: u64, unsaved: usize, settled: &mut Vec<u8>) -> Settling {
    let (length, mut rest, mut unsaved_now, mut room) = (changes.bytes.len(), changes, 0, 0);
    while let Some((change, behind)) = rest.split_first() {
        if change.since > oldest {
            break;
        }
        room += if change.since == 0 { 0 } else { SETTLING_BYTES };
        BufferedChange { since: 0, ..change }.encode(0, changes.first_seconds, settled);
        rest = behind;
        if length - rest.bytes.len() == unsaved {
            unsaved_now = settled.len();
        }
    }
    let (settled_bytes, looked_at) = (settled.len(), length - rest.bytes.len());
    if unsaved > looked_at {
        unsaved_now = settled_bytes + unsaved - looked_at;
    }
    settled.extend_from_slice(rest.bytes);
    Settling { settled_bytes, unsaved_bytes: unsaved_now, room }
}

impl Shard<'_> {
    /// Takes the commit timestamps from those of a page's changes that every snapshot sees: of the next ones in order.
    pub(super) fn settle(&mut self, page: PageId, buffer: &mut LeafBuffer, oldest: u64, lender: &impl Lender) {
        let from = usize::from(buffer.settled_bytes);
        let length = usize::from(buffer.bytes) - from;
        let mut tail = std::mem::take(&mut self.contents.tail);
        let mut settled = std::mem::take(&mut self.contents.settled);
        tail.clear();
        settled.clear();
        if length <= UNSETTLED_BYTES_MAX {
            self.read(buffer, from, length, &mut tail);
            let unsaved = usize::from(buffer.unsaved_bytes).saturating_sub(from);
            let changes = EncodedChanges { bytes: &tail, first_seconds: buffer.first_seconds, prefix_length: 0 };
            let settling = settle_first(changes, oldest, unsaved, &mut settled);
            if usize::from(buffer.unsaved_bytes) > from {
                buffer.unsaved_bytes = (from + settling.unsaved_bytes) as u16;
            }
            self.replace_tail(buffer, from, &settled, lender);
            buffer.settled_bytes = (from + settling.settled_bytes) as u16;
            buffer.room += settling.room as u16;
        } else {
            buffer.settled_bytes = buffer.bytes;
        }
        (self.contents.tail, self.contents.settled) = (tail, settled);
        self.insert(page, *buffer);
    }

    /// Writes `tail`, which is no longer than what was there, over the changes from a byte on.
    fn replace_tail(&mut self, buffer: &mut LeafBuffer, from: usize, tail: &[u8], lender: &impl Lender) {
        let blocks = self.contents.blocks_from(buffer, from);
        let kept = blocks_of(from + tail.len()) - from / BLOCK_PAYLOAD_BYTES;
        let (mut at, mut rest) = (from % BLOCK_PAYLOAD_BYTES, tail);
        for (number, block) in blocks.into_iter().enumerate() {
            if number >= kept {
                self.buffers.free(&mut self.contents, block, lender);
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(BLOCK_PAYLOAD_BYTES - at));
            self.contents.blocks.write(block, at, now);
            (at, rest) = (0, later);
            buffer.last = block;
        }
        buffer.bytes = (from + tail.len()) as u16;
    }
}
