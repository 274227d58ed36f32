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
        Compressor::Snappy => flags = snappy_literal(compressed)?,
        Compressor::Zlib => flate2::read::ZlibDecoder::new(compressed).read_exact(&mut flags).ok()?,
        Compressor::Zstd => zstd::stream::read::Decoder::new(compressed).ok()?.read_exact(&mut flags).ok()?,
    }
    Some(flags)
}

/// The first bytes of what snappy compressed: it begins with its length, then, as there is nothing to copy from yet, bytes as they are.
fn snappy_literal(compressed: &[u8]) -> Option<[u8; FLAGS_SIZE_BYTES]> {
    const CONTINUES: u8 = 0x80;
    const KIND: u8 = 3;
    const LONG_FROM: u8 = 60;
    let length_bytes = compressed.iter().position(|byte| byte & CONTINUES == 0)? + 1;
    let rest = compressed.get(length_bytes..)?;
    let (tag, rest) = rest.split_first()?;
    let length = tag >> 2;
    let more = usize::from((length + 1).saturating_sub(LONG_FROM));
    let is_enough = length >= LONG_FROM || usize::from(length) + 1 >= FLAGS_SIZE_BYTES;
    (tag & KIND == 0 && is_enough).then(|| rest.get(more..)?.first_chunk().copied())?
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
