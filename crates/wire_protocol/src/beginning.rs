//! What a request's first bytes say, compressed or not: for one that is refused without being taken in. Called by `server`.

use std::io::Read;

use crate::bytes_reader::BytesReader;
use crate::compression::Compressor;
use crate::{FrameHeader, HEADER_SIZE_BYTES, MsgFlags, OpCode};

/// So many bytes of a frame show it, if any do.
pub const BEGINNING_SIZE_BYTES: usize = 4096;
const FLAGS_SIZE_BYTES: usize = 4;

/// The flags of an `OP_MSG` of which the first bytes are there; `None` when they do not show them, or it is something else.
pub fn flags_of_beginning(bytes: &[u8]) -> Option<MsgFlags> {
    let header = FrameHeader::parse(bytes.first_chunk()?).ok()?;
    let content = bytes.get(HEADER_SIZE_BYTES..)?;
    let flags = match header.op_code {
        OpCode::Msg => *content.first_chunk()?,
        OpCode::Compressed => compressed_flags(content)?,
        OpCode::Query | OpCode::Reply => return None,
    };
    MsgFlags::from_bits(u32::from_le_bytes(flags)).ok()
}

fn compressed_flags(content: &[u8]) -> Option<[u8; FLAGS_SIZE_BYTES]> {
    let mut reader = BytesReader::new(content);
    if OpCode::from_number(reader.int32("the original operation").ok()?).ok()? != OpCode::Msg {
        return None;
    }
    reader.int32("the uncompressed size").ok()?;
    let compressor = Compressor::from_number(reader.byte("the compressor").ok()?).ok()?;
    let compressed = reader.rest();
    let mut flags = [0; FLAGS_SIZE_BYTES];
    match compressor {
        Compressor::Noop => flags = *compressed.first_chunk()?,
        Compressor::Snappy => flags = snappy_beginning(compressed)?,
        Compressor::Zlib => flate2::read::ZlibDecoder::new(compressed).read_exact(&mut flags).ok()?,
        Compressor::Zstd => zstd::stream::read::Decoder::new(compressed).ok()?.read_exact(&mut flags).ok()?,
    }
    Some(flags)
}

/// The first bytes of what snappy compressed: its length, then pieces, each of bytes as they are or of a copy of what came before.
fn snappy_beginning(compressed: &[u8]) -> Option<[u8; FLAGS_SIZE_BYTES]> {
    const CONTINUES: u8 = 0x80;
    let length_bytes = compressed.iter().position(|byte| byte & CONTINUES == 0)? + 1;
    let mut rest = compressed.get(length_bytes..)?;
    let mut out: Vec<u8> = Vec::with_capacity(FLAGS_SIZE_BYTES);
    while out.len() < FLAGS_SIZE_BYTES {
        let (tag, behind) = rest.split_first()?;
        let (length, offset_bytes) = match tag & 3 {
            0 => {
                rest = take_literal(*tag, behind, &mut out)?;
                continue;
            }
            1 => (4 + usize::from(tag >> 2 & 7), 1),
            2 => (1 + usize::from(tag >> 2), 2),
            _ => (1 + usize::from(tag >> 2), 4),
        };
        let (offset, behind) = behind.split_at_checked(offset_bytes)?;
        let high = if offset_bytes == 1 { usize::from(tag >> 5) << 8 } else { 0 };
        let offset = high + offset.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        for _ in 0..length.min(FLAGS_SIZE_BYTES - out.len()) {
            out.push(*out.get(out.len().checked_sub(offset)?)?);
        }
        rest = behind;
    }
    out.first_chunk().copied()
}

/// Takes as many bytes of a literal as are still wanted; what is behind it.
fn take_literal<'a>(tag: u8, behind: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    const LONG_FROM: usize = 60;
    let short = usize::from(tag >> 2);
    let (length, text) = match (short + 1).checked_sub(LONG_FROM).filter(|more| *more > 0) {
        None => (short + 1, behind),
        // So many bytes say how long it is, which is more than is wanted.
        Some(more) => (usize::MAX, behind.get(more..)?),
    };
    let taken = text.get(..length.min(FLAGS_SIZE_BYTES - out.len()))?;
    out.extend_from_slice(taken);
    text.get(length.min(text.len())..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress;

    #[test]
    fn flags_are_found_in_the_beginning_of_whatever_compressed_them() {
        for (bits, repeated) in [(2_u32, 50), (1, 100_000), (1 << 16, 3)] {
            let mut frame = vec![0; HEADER_SIZE_BYTES];
            frame.extend_from_slice(&bits.to_le_bytes());
            (0..repeated).for_each(|number: u32| frame.extend_from_slice(&(number % 977).to_le_bytes()));
            let header =
                FrameHeader { message_length: frame.len(), request_id: 1, response_to: 0, op_code: OpCode::Msg };
            frame[..HEADER_SIZE_BYTES].copy_from_slice(&header.to_bytes());
            let expected = MsgFlags::from_bits(bits).unwrap();
            assert_eq!(flags_of_beginning(&frame), Some(expected));
            for compressor in [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
                let mut compressed = Vec::new();
                compress(&frame, compressor, &mut compressed).unwrap();
                compressed.truncate(BEGINNING_SIZE_BYTES.max(1 << 17));
                assert_eq!(flags_of_beginning(&compressed), Some(expected), "{compressor:?} {bits}");
            }
        }
        assert_eq!(flags_of_beginning(&[1, 2, 3]), None);
    }
}
