//! How a page's bytes are read and written, whatever memory they are in.
//!
//! Used by all of `node`. A private image is bytes like others; a frame of the cache is read and written as `frame_arena` allows.

use std::cmp::Ordering;
use std::ops::Range;

use super::common_prefix;
use crate::frame_arena::PageImage;

/// Read access to a page's bytes: a private copy, a latched frame, or a frame read optimistically. The latter gives out
/// no slices: its bytes may change while they are looked at. What leaves the page reads as zeros or as empty.
pub(crate) trait PageBytes {
    /// Two bytes as a number.
    fn u16_at(&self, at: usize) -> u16;
    /// Four bytes as a number.
    fn u32_at(&self, at: usize) -> u32;
    /// Eight bytes as a number.
    fn u64_at(&self, at: usize) -> u64;
    /// Compares a range with other bytes.
    fn compare(&self, range: Range<usize>, other: &[u8]) -> Ordering;
    /// Length of what a range and other bytes have in common.
    fn shared(&self, range: Range<usize>, other: &[u8]) -> usize;
    /// Length of what two ranges have in common.
    fn shared_inside(&self, one: Range<usize>, other: Range<usize>) -> usize;
    /// Copies a range behind what is in `out`.
    fn append_to(&self, range: Range<usize>, out: &mut Vec<u8>);
}

/// Write access to a page's bytes: a private image or a latched frame. Every range must be inside of the page.
pub(crate) trait PageMut {
    /// The bytes as they are now.
    fn image(&self) -> &PageImage;
    /// Writes bytes.
    fn put(&mut self, at: usize, bytes: &[u8]);
    /// Writes two bytes.
    fn put_u16(&mut self, at: usize, value: u16);
    /// Writes eight bytes.
    fn put_u64(&mut self, at: usize, value: u64);
    /// Writes the whole page.
    fn put_image(&mut self, image: &PageImage);
    /// Moves words of eight bytes, given by number, by one word.
    fn move_words_up(&mut self, words: Range<usize>);
    /// As `move_words_up`, downwards.
    fn move_words_down(&mut self, words: Range<usize>);
}

fn array_at<const N: usize>(image: &PageImage, at: usize) -> [u8; N] {
    image.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

/// A range of a page; empty when it leaves it.
#[inline]
pub(super) fn bytes_at(image: &PageImage, range: Range<usize>) -> &[u8] {
    image.get(range).unwrap_or(&[])
}

impl PageBytes for &PageImage {
    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes(array_at(self, at))
    }

    #[inline]
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(array_at(self, at))
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(array_at(self, at))
    }

    #[inline]
    fn compare(&self, range: Range<usize>, other: &[u8]) -> Ordering {
        bytes_at(self, range).cmp(other)
    }

    #[inline]
    fn shared(&self, range: Range<usize>, other: &[u8]) -> usize {
        common_prefix(bytes_at(self, range), other)
    }

    fn shared_inside(&self, one: Range<usize>, other: Range<usize>) -> usize {
        common_prefix(bytes_at(self, one), bytes_at(self, other))
    }

    #[inline]
    fn append_to(&self, range: Range<usize>, out: &mut Vec<u8>) {
        out.extend_from_slice(bytes_at(self, range));
    }
}

impl PageMut for PageImage {
    #[inline]
    fn image(&self) -> &PageImage {
        self
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn put_u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    #[inline]
    fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn put_image(&mut self, image: &PageImage) {
        self.copy_from_slice(image);
    }

    fn move_words_up(&mut self, words: Range<usize>) {
        self.copy_within(words.start * 8..words.end * 8, words.start * 8 + 8);
    }

    fn move_words_down(&mut self, words: Range<usize>) {
        self.copy_within(words.start * 8..words.end * 8, words.start * 8 - 8);
    }
}
