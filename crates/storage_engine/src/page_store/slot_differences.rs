//! The slots of a page image told as differences, which compresses them to a half or a quarter.
//!
//! Used by `block`, before an image is compressed and after it was decompressed. A node's slots are sorted, and their
//! entries often lie one behind the other: from slot to slot little changes, but an LZ77 codec finds nothing to repeat in them. As
//! differences they are the same few bytes again and again (delta encoding, as before the compression of columns: Lemire and
//! Boytsov, "Decoding billions of integers per second through vectorization", 2015).
//!
//! Knows of a slot only that it is a number of four bytes and two of two.

/// Bytes of a slot.
const SLOT_BYTES: usize = 8;
/// Bytes of a [`SlotArray`] in front of an image that is told so.
pub(super) const SLOT_ARRAY_BYTES: usize = 4;

/// Where an image has slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotArray {
    /// Offset of the first.
    pub start: u16,
    /// How many there are; 0 in pages that have none.
    pub count: u16,
}

impl SlotArray {
    pub(super) fn to_bytes(self) -> [u8; SLOT_ARRAY_BYTES] {
        let ([a, b], [c, d]) = (self.start.to_le_bytes(), self.count.to_le_bytes());
        [a, b, c, d]
    }

    /// Splits one off `payload`.
    pub(super) fn split_from(payload: &[u8]) -> Option<(SlotArray, &[u8])> {
        let ([a, b, c, d], rest) = payload.split_first_chunk::<SLOT_ARRAY_BYTES>()?;
        Some((SlotArray { start: u16::from_le_bytes([*a, *b]), count: u16::from_le_bytes([*c, *d]) }, rest))
    }

    /// Its bytes in an image; `None` when it does not lie in it.
    fn of(self, image: &mut [u8]) -> Option<&mut [u8]> {
        let (start, bytes) = (usize::from(self.start), usize::from(self.count) * SLOT_BYTES);
        image.get_mut(start..start + bytes)
    }

    /// Replaces each slot by its difference to the one before. `false` and nothing done: there are not two slots, or they do not lie in the image.
    pub(super) fn tell_differences(self, image: &mut [u8]) -> bool {
        let Some(slots) = self.of(image).filter(|slots| slots.len() > SLOT_BYTES) else { return false };
        let mut before = 0;
        for bytes in slots.as_chunks_mut::<SLOT_BYTES>().0 {
            let slot = u64::from_le_bytes(*bytes);
            *bytes = by_number(slot, before, u32::wrapping_sub, u16::wrapping_sub).to_le_bytes();
            before = slot;
        }
        true
    }

    /// Undoes `tell_differences`. `false`: the slots do not lie in the image.
    pub(super) fn undo_differences(self, image: &mut [u8]) -> bool {
        let Some(slots) = self.of(image) else { return false };
        let mut before = 0;
        for bytes in slots.as_chunks_mut::<SLOT_BYTES>().0 {
            before = by_number(u64::from_le_bytes(*bytes), before, u32::wrapping_add, u16::wrapping_add);
            *bytes = before.to_le_bytes();
        }
        true
    }
}

/// Combines two slots number by number.
#[inline]
fn by_number(a: u64, b: u64, four: impl Fn(u32, u32) -> u32, two: impl Fn(u16, u16) -> u16) -> u64 {
    let head = four(a as u32, b as u32);
    let (offset, flags) = (two((a >> 32) as u16, (b >> 32) as u16), two((a >> 48) as u16, (b >> 48) as u16));
    u64::from(head) | u64::from(offset) << 32 | u64::from(flags) << 48
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn regular_slots_become_equal() {
        let slot = |number: u32| u64::from(number * 7) | u64::from(16_000 - number * 20) << 32 | 9 << 48;
        let mut image: Vec<u8> = (0..100).flat_map(|number| slot(number).to_le_bytes()).collect();
        assert!(SlotArray { start: 0, count: 100 }.tell_differences(&mut image));
        let (slots, _) = image.as_chunks::<8>();
        assert!(slots[1..].iter().all(|slot| *slot == slots[1]));
    }

    proptest! {
        #[test]
        fn differences_are_undone(image in prop::collection::vec(any::<u8>(), 0..400), start in 0_u16..420, count in 0_u16..60) {
            let slots = SlotArray { start, count };
            let fits = usize::from(start) + usize::from(count) * 8 <= image.len();
            let mut told = image.clone();
            prop_assert_eq!(slots.tell_differences(&mut told), fits && count > 1);
            if fits && count > 1 {
                prop_assert!(slots.undo_differences(&mut told));
                let bytes = slots.to_bytes();
                prop_assert_eq!(SlotArray::split_from(&bytes), Some((slots, &[][..])));
            } else {
                prop_assert_eq!(slots.undo_differences(&mut told), fits);
            }
            prop_assert_eq!(told, image);
        }
    }
}
