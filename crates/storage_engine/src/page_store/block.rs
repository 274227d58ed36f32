//! A block: one compressed page image with a header, as it lies in the page file.
//!
//! Written by `write_batch`, read by `PageStore::read`, found again by `cleaning`, `verification` and `inspection`.
//! The format is in `docs/file-format.md`. The checksum covers all of the block but itself, the padding included, so
//! that a block is either whole or found out; the page id finds reads and writes that went to the wrong place.

use super::address::{PAGE_BYTES, PageId, UNIT_BYTES};
use super::compression::{Codec, Compressor};
use super::superblock::{read_u32, read_u64};

/// Bytes before the compressed image.
pub(super) const BLOCK_HEADER_BYTES: usize = 32;

const MAGIC: [u8; 2] = *b"PB";

/// What a block says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) page: PageId,
    /// The epoch the image was first written in. A block moved by cleaning keeps it.
    pub(super) epoch: u64,
    pub(super) codec: Codec,
    pub(super) payload_bytes: usize,
    pub(super) image_bytes: usize,
}

impl BlockHeader {
    /// The header at the start of `bytes`, if they look like a block. Nothing but its checksum proves that they are.
    pub(super) fn parse(bytes: &[u8]) -> Option<BlockHeader> {
        if bytes.len() < BLOCK_HEADER_BYTES || bytes[4..6] != MAGIC || bytes[7] != 0 {
            return None;
        }
        let header = BlockHeader {
            page: PageId(read_u64(bytes, 8)),
            epoch: read_u64(bytes, 16),
            codec: Codec::of_code(bytes[6])?,
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

/// Appends a page's block to `buffer`; returns its length in units.
pub(super) fn append_block(
    buffer: &mut Vec<u8>,
    compressor: &mut Compressor,
    page: PageId,
    epoch: u64,
    image: &[u8],
) -> u64 {
    let start = buffer.len();
    let (codec, payload) = compressor.compress(image);
    let units = block_units(payload.len());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&MAGIC);
    buffer.extend_from_slice(&[codec.code(), 0]);
    buffer.extend_from_slice(&page.0.to_le_bytes());
    buffer.extend_from_slice(&epoch.to_le_bytes());
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&(image.len() as u32).to_le_bytes());
    buffer.extend_from_slice(payload);
    buffer.resize(start + units as usize * UNIT_BYTES, 0);
    let checksum = crc32c::crc32c(&buffer[start + 4..]);
    buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    units
}

/// Checks that `bytes` are exactly one whole block; the reason when they are not.
pub(super) fn check_block(bytes: &[u8]) -> Result<BlockHeader, String> {
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
pub(super) fn read_block(bytes: &[u8], page: PageId, image: &mut [u8]) -> Result<u64, String> {
    let header = check_block(bytes)?;
    if header.page != page {
        return Err(format!("it holds page {}", header.page));
    }
    if header.image_bytes != image.len() {
        return Err(format!("its image has {} bytes instead of {}", header.image_bytes, image.len()));
    }
    header.codec.decompress(&bytes[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + header.payload_bytes], image)?;
    Ok(header.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_store::compression::Compression;

    fn block(compression: Compression, image: &[u8]) -> Vec<u8> {
        let mut buffer = b"before".to_vec();
        let units = append_block(&mut buffer, &mut Compressor::new(compression).unwrap(), PageId(77), 5, image);
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
            for image in [&compressible, &noise] {
                let bytes = block(compression, image);
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
        let bytes = block(Compression::Lz4, &[9; PAGE_BYTES]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_block(&damaged, PageId(77), &mut [0; PAGE_BYTES]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn block_of_another_page_or_length_is_refused() {
        let bytes = block(Compression::Lz4, &[9; PAGE_BYTES]);
        assert!(read_block(&bytes, PageId(78), &mut [0; PAGE_BYTES]).unwrap_err().contains("page 77"));
        assert!(read_block(&bytes, PageId(77), &mut [0; 100]).is_err());
        assert!(check_block(&[&bytes[..], &[0; 64]].concat()).is_err());
        assert!(check_block(&bytes[..31]).is_err());
    }
}
