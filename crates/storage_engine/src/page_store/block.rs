//! A block: one compressed page image with a header, as it lies in the page file.
//!
//! Written by `write_batch`, read by `PageStore::read`, found again by `cleaning`, `verification` and `inspection`.
//! The format is in `docs/file-format.md`. The checksum covers all of the block but itself, the padding included, so
//! that a block is either whole or found out; the page id finds reads and writes that went to the wrong place.

use super::address::{PAGE_BYTES, PageId, UNIT_BYTES};
use super::compression::{Codec, Compression, Compressor};
use super::error::Result;
use super::slot_differences::SlotArray;
use super::superblock::{read_u32, read_u64};

/// Bytes before the compressed image.
pub(super) const BLOCK_HEADER_BYTES: usize = 32;

const MAGIC: [u8; 2] = *b"PB";

/// What was compressed: the image as it is, or where its slots are and the image with these told as differences.
const AS_IT_IS: u8 = 0;
const WITH_DIFFERENCES: u8 = 1;

/// What a block says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) page: PageId,
    /// The epoch the image was first written in. A block moved by cleaning keeps it.
    pub(super) epoch: u64,
    pub(super) codec: Codec,
    has_differences: bool,
    pub(super) payload_bytes: usize,
    pub(super) image_bytes: usize,
}

impl BlockHeader {
    /// The header at the start of `bytes`, if they look like a block. Nothing but its checksum proves that they are.
    pub(super) fn parse(bytes: &[u8]) -> Option<BlockHeader> {
        if bytes.len() < BLOCK_HEADER_BYTES || bytes[4..6] != MAGIC || bytes[7] > WITH_DIFFERENCES {
            return None;
        }
        let header = BlockHeader {
            page: PageId(read_u64(bytes, 8)),
            epoch: read_u64(bytes, 16),
            codec: Codec::of_code(bytes[6])?,
            has_differences: bytes[7] == WITH_DIFFERENCES,
            payload_bytes: read_u32(bytes, 24) as usize,
            image_bytes: read_u32(bytes, 28) as usize,
        };
        let plausible = header.payload_bytes <= header.image_bytes && header.image_bytes <= PAGE_BYTES;
        plausible.then_some(header)
    }

    /// Units from the start of this block to its end.
    pub(super) fn length_units(&self) -> u64 {
        block_units(self.payload_bytes)
    }
}

fn block_units(payload_bytes: usize) -> u64 {
    (BLOCK_HEADER_BYTES + payload_bytes).div_ceil(UNIT_BYTES) as u64
}

/// Makes blocks, one after the other.
pub(super) struct BlockEncoder {
    compressor: Compressor,
    /// An image with its slots told as differences.
    differences: Vec<u8>,
}

impl BlockEncoder {
    /// `Argument` when the compression's level is refused.
    pub(super) fn new(compression: Compression) -> Result<BlockEncoder> {
        Ok(BlockEncoder { compressor: Compressor::new(compression)?, differences: Vec::new() })
    }

    /// Appends a page's block to `buffer`; returns its length in units.
    pub(super) fn append(
        &mut self,
        buffer: &mut Vec<u8>,
        page: PageId,
        epoch: u64,
        image: &[u8],
        slots: SlotArray,
    ) -> u64 {
        self.differences.clear();
        self.differences.extend_from_slice(image);
        let slot_bytes = slots.to_bytes();
        let (slots, source) = match slots.tell_differences(&mut self.differences) {
            true => (&slot_bytes[..], &self.differences[..]),
            false => (&[][..], image),
        };
        let (slots, codec, payload) = match self.compressor.compress(source) {
            (codec, payload) if codec != Codec::None && slots.len() + payload.len() <= image.len() => {
                (slots, codec, payload)
            }
            // Nothing is won by it.
            _ => (&[][..], Codec::None, image),
        };
        let start = buffer.len();
        let payload_bytes = slots.len() + payload.len();
        let units = block_units(payload_bytes);
        buffer.extend_from_slice(&[0; 4]);
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&[codec.code(), if slots.is_empty() { AS_IT_IS } else { WITH_DIFFERENCES }]);
        buffer.extend_from_slice(&page.0.to_le_bytes());
        buffer.extend_from_slice(&epoch.to_le_bytes());
        buffer.extend_from_slice(&(payload_bytes as u32).to_le_bytes());
        buffer.extend_from_slice(&(image.len() as u32).to_le_bytes());
        buffer.extend_from_slice(slots);
        buffer.extend_from_slice(payload);
        buffer.resize(start + units as usize * UNIT_BYTES, 0);
        let checksum = crc32c::crc32c(&buffer[start + 4..]);
        buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        units
    }
}

/// Checks that `bytes` are exactly one whole block; the reason when they are not.
pub(super) fn check_block(bytes: &[u8]) -> std::result::Result<BlockHeader, String> {
    let Some(header) = BlockHeader::parse(bytes) else {
        return Err("no block header".to_owned());
    };
    if header.length_units() as usize * UNIT_BYTES != bytes.len() {
        return Err(format!("a block of {} units in {} bytes", header.length_units(), bytes.len()));
    }
    let (stored, computed) = (read_u32(bytes, 0), crc32c::crc32c(&bytes[4..]));
    match stored == computed {
        true => Ok(header),
        false => Err(format!("checksum {computed:08x} instead of {stored:08x}")),
    }
}

/// Checks that `bytes` are the block of `page` and fills `image` from it; the reason when that is not possible. Returns the epoch it
/// was first written in.
pub(super) fn read_block(bytes: &[u8], page: PageId, image: &mut [u8]) -> std::result::Result<u64, String> {
    let header = check_block(bytes)?;
    if header.page != page {
        return Err(format!("it holds page {}", header.page));
    }
    if header.image_bytes != image.len() {
        return Err(format!("its image has {} bytes instead of {}", header.image_bytes, image.len()));
    }
    let payload = &bytes[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + header.payload_bytes];
    if !header.has_differences {
        header.codec.decompress(payload, image)?;
        return Ok(header.epoch);
    }
    let Some((slots, payload)) = SlotArray::split_from(payload) else {
        return Err("it does not tell where its slots are".to_owned());
    };
    header.codec.decompress(payload, image)?;
    match slots.undo_differences(image) {
        true => Ok(header.epoch),
        false => Err(format!("{} slots from {} on in an image of {} bytes", slots.count, slots.start, image.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_store::compression::Compression;

    fn block(compression: Compression, image: &[u8], slots: SlotArray) -> Vec<u8> {
        let mut buffer = b"before".to_vec();
        let units = BlockEncoder::new(compression).unwrap().append(&mut buffer, PageId(77), 5, image, slots);
        assert_eq!(buffer.len(), 6 + units as usize * UNIT_BYTES);
        buffer.split_off(6)
    }

    #[test]
    fn images_survive_every_codec() {
        let compressible: Vec<u8> = (0..PAGE_BYTES).map(|n| (n / 100) as u8).collect();
        let mut noise = vec![0; PAGE_BYTES];
        let mut state = 1_u64;
        for byte in &mut noise {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }] {
            let slots =
                [SlotArray::default(), SlotArray { start: 48, count: 700 }, SlotArray { start: 48, count: 7000 }];
            for (image, slots) in
                [&compressible, &noise].into_iter().flat_map(|image| slots.map(|slots| (image, slots)))
            {
                let bytes = block(compression, image, slots);
                let differs = compression != Compression::None && image == &compressible && slots.count == 700;
                assert_eq!(BlockHeader::parse(&bytes).unwrap().has_differences, differs);
                let mut read = vec![1; PAGE_BYTES];
                read_block(&bytes, PageId(77), &mut read).unwrap();
                assert_eq!(&read, image);
                let raw = compression == Compression::None || image == &noise;
                assert_eq!(bytes.len() > PAGE_BYTES, raw);
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = block(Compression::Lz4, &[9; PAGE_BYTES], SlotArray { start: 8, count: 9 });
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_block(&damaged, PageId(77), &mut [0; PAGE_BYTES]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn block_of_another_page_or_length_is_refused() {
        let bytes = block(Compression::Lz4, &[9; PAGE_BYTES], SlotArray { start: 8, count: 9 });
        assert!(read_block(&bytes, PageId(78), &mut [0; PAGE_BYTES]).unwrap_err().contains("page 77"));
        assert!(read_block(&bytes, PageId(77), &mut [0; 100]).is_err());
        assert!(check_block(&[&bytes[..], &[0; 64]].concat()).is_err());
        assert!(check_block(&bytes[..31]).is_err());
    }
}
