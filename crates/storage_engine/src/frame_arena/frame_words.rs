//! The bytes of a frame as words that one thread writes while others read: all of it through atomics.
//!
//! Called by `frame_arena` only: readers without a latch read, the holder of the latch writes. To the language it is no
//! data race then, whatever is read; the latch's version says whether it is worth anything. Every access is of whole
//! aligned words, because atomic accesses of different sizes to the same bytes would be a race again.
//!
//! Long ranges are copied sixteen bytes at a time by instructions that the compiler does not look into. What they do is
//! what the loops over words do; those serve other processors and the tools that watch for races.
//!
//! Why `unsafe`: these instructions, and no more.
#![allow(unsafe_code)]

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{PAGE_BYTES, PageImage};

const WORD_BYTES: usize = 8;
const WORDS: usize = PAGE_BYTES / WORD_BYTES;
/// From this length on a copy is worth its own instructions.
const LONG_BYTES: usize = 32;

/// The words of a frame.
#[repr(transparent)]
pub(super) struct FrameWords([AtomicU64; WORDS]);

impl FrameWords {
    /// `length` bytes (8 at most) as a little-endian number; what is above them is anything. The caller has checked the range.
    #[inline]
    pub(super) fn number(&self, at: usize, length: usize) -> u64 {
        let (index, within) = (at / WORD_BYTES, at % WORD_BYTES);
        let low = self.0[index].load(Relaxed) >> (within * 8);
        if within + length <= WORD_BYTES {
            return low;
        }
        low | self.0[index + 1].load(Relaxed) << ((WORD_BYTES - within) * 8)
    }

    /// As [`FrameWords::number`], with zeros above.
    #[inline]
    fn short_number(&self, at: usize, length: usize) -> u64 {
        self.number(at, length) & mask(length)
    }

    /// Copies a range out. The caller has checked it.
    #[inline]
    pub(super) fn copy_out(&self, at: usize, out: &mut [u8]) {
        if out.len() >= LONG_BYTES {
            assert!(at + out.len() <= PAGE_BYTES);
            return self.copy_long_out(at, out);
        }
        let mut at = at;
        for chunk in out.chunks_mut(WORD_BYTES) {
            let number = self.number(at, chunk.len()).to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
            at += WORD_BYTES;
        }
    }

    /// Copies the whole page out.
    pub(super) fn copy_page_out(&self, out: &mut PageImage) {
        self.copy_long_out(0, out);
    }

    /// Compares a range with other bytes. The caller has checked it.
    #[inline]
    pub(super) fn compare(&self, at: usize, length: usize, other: &[u8]) -> Ordering {
        let shared = length.min(other.len());
        let mut done = 0;
        for chunk in other[..shared].chunks(WORD_BYTES) {
            let (mine, theirs) = (self.short_number(at + done, chunk.len()), number_of(chunk));
            if mine != theirs {
                return mine.swap_bytes().cmp(&theirs.swap_bytes());
            }
            done += WORD_BYTES;
        }
        length.cmp(&other.len())
    }

    /// Length of what a range and other bytes have in common. The caller has checked it.
    #[inline]
    pub(super) fn shared(&self, at: usize, length: usize, other: &[u8]) -> usize {
        let chunks = other[..length.min(other.len())].chunks(WORD_BYTES);
        shared_words(chunks.scan(at, |at, chunk| {
            let difference = self.short_number(*at, chunk.len()) ^ number_of(chunk);
            *at += WORD_BYTES;
            Some((difference, chunk.len()))
        }))
    }

    /// Length of what two ranges have in common. The caller has checked them.
    pub(super) fn shared_inside(&self, one: Range<usize>, other: Range<usize>) -> usize {
        let length = one.len().min(other.len());
        shared_words((0..length).step_by(WORD_BYTES).map(|done| {
            let left = (length - done).min(WORD_BYTES);
            (self.short_number(one.start + done, left) ^ self.short_number(other.start + done, left), left)
        }))
    }

    /// Writes bytes over a range. Only the holder of the latch does.
    #[inline]
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= PAGE_BYTES);
        if bytes.len() >= LONG_BYTES {
            return self.copy_long_in(at, bytes);
        }
        let mut at = at;
        for chunk in bytes.chunks(WORD_BYTES) {
            self.put_number(at, number_of(chunk), chunk.len());
            at += WORD_BYTES;
        }
    }

    /// Writes the whole page. Only the holder of the latch does.
    pub(super) fn put_page(&self, image: &PageImage) {
        self.copy_long_in(0, image);
    }

    /// Writes the `length` lower bytes (8 at most) of a number whose others are zeros. Only the holder of the latch does.
    #[inline]
    pub(super) fn put_number(&self, at: usize, number: u64, length: usize) {
        let (index, within) = (at / WORD_BYTES, at % WORD_BYTES);
        self.put_bits(index, number << (within * 8), mask(length) << (within * 8));
        if within + length > WORD_BYTES {
            let written = WORD_BYTES - within;
            self.put_bits(index + 1, number >> (written * 8), mask(length - written));
        }
    }

    #[inline]
    fn put_bits(&self, index: usize, bits: u64, mask: u64) {
        let word = &self.0[index];
        let kept = if mask == u64::MAX { 0 } else { word.load(Relaxed) & !mask };
        word.store(kept | bits, Relaxed);
    }

    /// Moves words by one, upwards. Only the holder of the latch does.
    pub(super) fn move_up(&self, words: Range<usize>) {
        assert!(words.end < WORDS);
        self.move_many_up(words);
    }

    /// Moves words by one, downwards. Only the holder of the latch does.
    pub(super) fn move_down(&self, words: Range<usize>) {
        assert!(words.start > 0 && words.end <= WORDS);
        self.move_many_down(words);
    }

    /// For tools that watch for races, and the model that the instructions are tested against.
    #[cfg(any(test, not(target_arch = "x86_64"), watch_races))]
    fn copy_words_out(&self, at: usize, out: &mut [u8]) {
        for (number, chunk) in out.chunks_mut(WORD_BYTES).enumerate() {
            let word = self.number(at + number * WORD_BYTES, chunk.len()).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    #[cfg(any(test, not(target_arch = "x86_64"), watch_races))]
    fn move_one_by_one(&self, words: Range<usize>, to_start: usize) {
        let move_one = |index: usize| {
            let to = to_start + index - words.start;
            self.0[to].store(self.0[index].load(Relaxed), Relaxed);
        };
        match to_start > words.start {
            true => words.clone().rev().for_each(move_one),
            false => words.clone().for_each(move_one),
        }
    }

    #[cfg(any(test, not(target_arch = "x86_64"), watch_races))]
    fn copy_words_in(&self, at: usize, bytes: &[u8]) {
        for (number, chunk) in bytes.chunks(WORD_BYTES).enumerate() {
            self.put_number(at + number * WORD_BYTES, number_of(chunk), chunk.len());
        }
    }
}

#[cfg(any(not(target_arch = "x86_64"), watch_races))]
impl FrameWords {
    fn copy_long_out(&self, at: usize, out: &mut [u8]) {
        self.copy_words_out(at, out);
    }

    fn copy_long_in(&self, at: usize, bytes: &[u8]) {
        self.copy_words_in(at, bytes);
    }

    fn move_many_up(&self, words: Range<usize>) {
        self.move_one_by_one(words.clone(), words.start + 1);
    }

    fn move_many_down(&self, words: Range<usize>) {
        self.move_one_by_one(words.clone(), words.start - 1);
    }
}

#[cfg(all(target_arch = "x86_64", not(watch_races)))]
impl FrameWords {
    /// Copies a range of at least 16 bytes, which the caller has checked, out.
    fn copy_long_out(&self, at: usize, out: &mut [u8]) {
        // SAFETY: `at + out.len()` is inside of the words, whose memory may be read at any time.
        unsafe { copy_long(self.0.as_ptr().cast::<u8>().add(at), out.as_mut_ptr(), out.len()) };
    }

    /// Copies at least 16 bytes over a range, which the caller has checked.
    fn copy_long_in(&self, at: usize, bytes: &[u8]) {
        // SAFETY: `at + bytes.len()` is inside of the words, which may be written through a shared reference.
        unsafe { copy_long(bytes.as_ptr(), self.0.as_ptr().cast::<u8>().cast_mut().add(at), bytes.len()) };
    }

    /// Moves words by one, the last first. The caller has checked that there is a word behind them.
    #[inline]
    fn move_many_up(&self, words: Range<usize>) {
        // SAFETY: the words are ours, the one behind them too.
        unsafe { move_up(self.0.as_ptr().add(words.start).cast::<u8>().cast_mut(), words.len() * WORD_BYTES) };
    }

    /// Moves words by one, the first first. The caller has checked that there is a word before them.
    #[inline]
    fn move_many_down(&self, words: Range<usize>) {
        // SAFETY: the words are ours, the one before them too.
        unsafe { move_down(self.0.as_ptr().add(words.start).cast::<u8>().cast_mut(), words.len() * WORD_BYTES) };
    }
}

/// Moves `length` bytes (a multiple of 8) by 8 upwards, the last 64 first. What is written was read before.
///
/// # Safety
/// These bytes and 8 behind them may be accessed, and are atomic words that nobody else writes.
#[cfg(all(target_arch = "x86_64", not(watch_races)))]
#[inline]
unsafe fn move_up(from: *mut u8, length: usize) {
    // SAFETY: the loops end before they would come to bytes before `from`.
    unsafe {
        std::arch::asm!(
            "2:",
            "sub {left}, 64",
            "jb 3f",
            "movups {a}, [{from} + {left}]",
            "movups {b}, [{from} + {left} + 16]",
            "movups {c}, [{from} + {left} + 32]",
            "movups {d}, [{from} + {left} + 48]",
            "movups [{from} + {left} + 8], {a}",
            "movups [{from} + {left} + 24], {b}",
            "movups [{from} + {left} + 40], {c}",
            "movups [{from} + {left} + 56], {d}",
            "jmp 2b",
            "3:",
            "add {left}, 64",
            "4:",
            "sub {left}, 8",
            "jb 5f",
            "mov {word}, [{from} + {left}]",
            "mov [{from} + {left} + 8], {word}",
            "jmp 4b",
            "5:",
            from = in(reg) from,
            left = inout(reg) length => _,
            word = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Moves `length` bytes (a multiple of 8) by 8 downwards, the first 64 first. What is written was read before.
///
/// # Safety
/// These bytes and 8 before them may be accessed, and are atomic words that nobody else writes.
#[cfg(all(target_arch = "x86_64", not(watch_races)))]
#[inline]
unsafe fn move_down(from: *mut u8, length: usize) {
    // SAFETY: the loops end before they would come to bytes behind `length`.
    unsafe {
        std::arch::asm!(
            "2:",
            "sub {left}, 64",
            "jb 3f",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{from} - 8], {a}",
            "movups [{from} + 8], {b}",
            "movups [{from} + 24], {c}",
            "movups [{from} + 40], {d}",
            "add {from}, 64",
            "jmp 2b",
            "3:",
            "add {left}, 64",
            "4:",
            "sub {left}, 8",
            "jb 5f",
            "mov {word}, [{from}]",
            "mov [{from} - 8], {word}",
            "add {from}, 8",
            "jmp 4b",
            "5:",
            from = inout(reg) from => _,
            left = inout(reg) length => _,
            word = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Copies at least 16 bytes, 64 at a time as long as there are so many, the last 16 once more as a whole.
///
/// # Safety
/// Both ranges may be accessed, and do not overlap. One of them may be atomic words that others access meanwhile.
#[cfg(all(target_arch = "x86_64", not(watch_races)))]
#[inline]
unsafe fn copy_long(from: *const u8, to: *mut u8, length: usize) {
    debug_assert!(length >= 16);
    // SAFETY: reads and writes `length` bytes: the loops end before `at + 64` and `at + 16` would exceed it.
    unsafe {
        std::arch::asm!(
            "lea {end}, [{at} + 64]",
            "cmp {end}, {length}",
            "ja 3f",
            "2:",
            "movups {a}, [{from} + {at}]",
            "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]",
            "movups {d}, [{from} + {at} + 48]",
            "movups [{to} + {at}], {a}",
            "movups [{to} + {at} + 16], {b}",
            "movups [{to} + {at} + 32], {c}",
            "movups [{to} + {at} + 48], {d}",
            "add {at}, 64",
            "lea {end}, [{at} + 64]",
            "cmp {end}, {length}",
            "jbe 2b",
            "3:",
            "lea {end}, [{at} + 16]",
            "cmp {end}, {length}",
            "ja 4f",
            "movups {a}, [{from} + {at}]",
            "movups [{to} + {at}], {a}",
            "mov {at}, {end}",
            "jmp 3b",
            "4:",
            "movups {a}, [{from} + {length} - 16]",
            "movups [{to} + {length} - 16], {a}",
            from = in(reg) from,
            to = in(reg) to,
            length = in(reg) length,
            at = inout(reg) 0_usize => _,
            end = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// The lower `length` bytes, which are 1 to 8.
#[inline]
fn mask(length: usize) -> u64 {
    u64::MAX >> ((WORD_BYTES - length) * 8)
}

/// At most 8 bytes as a little-endian number.
#[inline]
fn number_of(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*whole);
    }
    // Two halves that overlap say the same where they do.
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let behind = u64::from(u32::from_le_bytes(*last)) << ((bytes.len() - 4) * 8);
        return u64::from(u32::from_le_bytes(*first)) | behind;
    }
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Length of what is shared, from the differences of words and how many bytes each of them has.
#[inline]
fn shared_words(differences: impl Iterator<Item = (u64, usize)>) -> usize {
    let mut shared = 0;
    for (difference, length) in differences {
        if difference != 0 {
            return shared + difference.trailing_zeros() as usize / 8;
        }
        shared += length;
    }
    shared
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words() -> Box<FrameWords> {
        Box::new(FrameWords(std::array::from_fn(|_| AtomicU64::new(0))))
    }

    fn filled(image: &PageImage) -> Box<FrameWords> {
        let words = words();
        words.put_page(image);
        words
    }

    fn image() -> Box<PageImage> {
        let mut state = 7_u32;
        let mut image = Box::new([0; PAGE_BYTES]);
        image.iter_mut().for_each(|byte| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Few different bytes, so that ranges have beginnings in common.
            *byte = (state >> 30) as u8;
        });
        image
    }

    fn contents(words: &FrameWords) -> Box<PageImage> {
        let mut image = Box::new([0; PAGE_BYTES]);
        words.copy_page_out(&mut image);
        image
    }

    /// A range of the page, more often a short one or one at its end.
    fn range() -> impl Strategy<Value = Range<usize>> {
        let length = prop_oneof![4 => 0..20_usize, 2 => 20..300_usize, 1 => 300..PAGE_BYTES];
        (length, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(length, index, is_last)| {
            let last = PAGE_BYTES - length;
            let start = if is_last { last } else { index.index(last + 1) };
            start..start + length
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn ranges_are_read_compared_and_written_like_bytes(range in range(), other in range(), differs in 0..4_usize) {
            let mut model = image();
            let words = filled(&model);
            prop_assert_eq!(&contents(&words)[..], &model[..]);

            let (bytes, mut theirs) = (model[range.clone()].to_vec(), model[other.clone()].to_vec());
            let (mut out, mut by_words) = (vec![9; range.len()], vec![9; range.len()]);
            words.copy_out(range.start, &mut out);
            words.copy_words_out(range.start, &mut by_words);
            prop_assert_eq!(&out, &bytes);
            prop_assert_eq!(&by_words, &bytes);

            let common = |one: &[u8], other: &[u8]| one.iter().zip(other).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(words.shared_inside(range.clone(), other.clone()), common(&bytes, &theirs));
            if differs == 0 {
                theirs = bytes.iter().copied().chain([1]).take(other.len()).collect();
            }
            prop_assert_eq!(words.compare(range.start, range.len(), &theirs), bytes.cmp(&theirs));
            prop_assert_eq!(words.shared(range.start, range.len(), &theirs), common(&bytes, &theirs));

            let written: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x55).collect();
            let another = filled(&model);
            words.put(range.start, &written);
            another.copy_words_in(range.start, &written);
            model[range].copy_from_slice(&written);
            prop_assert_eq!(&contents(&words)[..], &model[..]);
            prop_assert_eq!(&contents(&another)[..], &model[..]);
        }

        #[test]
        fn words_move_by_one(from in 1..60_usize, count in 0..60_usize) {
            let mut model = image();
            let words = filled(&model);
            let one_by_one = filled(&model);
            one_by_one.move_one_by_one(from..from + count, from + 1);
            words.move_up(from..from + count);
            model.copy_within(from * 8..(from + count) * 8, from * 8 + 8);
            prop_assert_eq!(&contents(&words)[..], &model[..]);
            prop_assert_eq!(&contents(&one_by_one)[..], &model[..]);
            one_by_one.move_one_by_one(from..from + count, from - 1);
            words.move_down(from..from + count);
            model.copy_within(from * 8..(from + count) * 8, from * 8 - 8);
            prop_assert_eq!(&contents(&words)[..], &model[..]);
            prop_assert_eq!(&contents(&one_by_one)[..], &model[..]);
        }
    }
}
