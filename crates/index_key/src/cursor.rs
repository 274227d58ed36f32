//! Reads the bytes of a key, undoing the inversion of descending components. Used by everything that decodes.

use crate::key_pattern::Direction;
use crate::layout::{END, ESCAPE};

/// A position in a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// All bits set while inside something inverted.
    mask: u8,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, mask: 0 }
    }

    #[inline]
    pub(crate) fn set_direction(&mut self, direction: Direction) {
        self.mask = if direction == Direction::Descending { 0xFF } else { 0 };
    }

    /// Turns inversion around: negative numbers invert what is after their first byte.
    #[inline]
    pub(crate) fn invert(&mut self) {
        self.mask = !self.mask;
    }

    #[inline]
    pub(crate) fn mask(&self) -> u8 {
        self.mask
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte ^ self.mask)
    }

    /// True, and past it, when an object or array ends here.
    #[inline]
    pub(crate) fn take_end(&mut self) -> Option<bool> {
        let at_end = self.rest.first()? ^ self.mask == END;
        if at_end {
            self.byte();
        }
        Some(at_end)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(array.map(|byte| byte ^ self.mask))
    }

    /// A big-endian number of `size` bytes, at most 8.
    #[inline]
    pub(crate) fn unsigned(&mut self, size: usize) -> Option<u64> {
        let (bytes, rest) = self.rest.split_at_checked(size)?;
        let inversion = u64::from_ne_bytes([self.mask; 8]);
        let value = match self.rest.first_chunk::<8>() {
            // Usually a record id follows, so that eight bytes are there to load at once.
            Some(chunk) if size > 0 => (u64::from_be_bytes(*chunk) ^ inversion) >> (64 - 8 * size.min(8)),
            _ => bytes.iter().fold(0, |value, byte| value << 8 | u64::from(byte ^ self.mask)),
        };
        self.rest = rest;
        Some(value)
    }

    /// A length written by `append_length`.
    pub(crate) fn length(&mut self) -> Option<usize> {
        match self.byte()? {
            short @ 0..0xF0 => Some(usize::from(short)),
            long => usize::try_from(self.unsigned(usize::from(long - 0xF0).min(8))?).ok(),
        }
    }

    /// The next `length` bytes, still inverted if they are.
    pub(crate) fn stored(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The bytes up to the end mark, which is skipped; still inverted and escaped if they are.
    #[inline]
    pub(crate) fn until_end(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| byte ^ self.mask == END)?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest.get(1..)?;
        Some(bytes)
    }

    /// Appends bytes got from `stored` or from `until_end` where nothing is escaped.
    pub(crate) fn append_plain(&self, stored: &[u8], out: &mut Vec<u8>) {
        out.extend(stored.iter().map(|byte| byte ^ self.mask));
    }

    /// Appends text got from `until_end`, without its escapes; `None` when an escape is wrong.
    pub(crate) fn append_unescaped(&self, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut bytes = stored.iter().map(|byte| byte ^ self.mask);
        while let Some(byte) = bytes.next() {
            if byte == ESCAPE {
                out.push(bytes.next()?.checked_sub(1).filter(|byte| *byte <= ESCAPE)?);
            } else {
                out.push(byte);
            }
        }
        Some(())
    }
}
