//! `OP_COMPRESSED`: another operation's content, compressed. Called by `server` before parsing a request and after
//! building a reply.
//!
//! ```text
//! header 16 │ original operation 4 │ uncompressed size 4 (without header) │ compressor 1 │ compressed bytes
//! ```
//!
//! A client may declare any uncompressed size, so it is checked against [`MESSAGE_SIZE_BYTES_MAX`] first, and no
//! decompressor writes more than was declared: each is given a buffer of that size and nothing else.

use std::io::{self, Read};

use crate::bytes_reader::BytesReader;
use crate::{FrameHeader, HEADER_SIZE_BYTES, MESSAGE_SIZE_BYTES_MAX, OpCode, WireError};

/// Size of what `OP_COMPRESSED` puts between the header and the compressed bytes.
const PREAMBLE_SIZE_BYTES: usize = 9;
/// snappy's longest copy is 64 bytes and takes 3, so more than this many times the input cannot come out.
const SNAPPY_RATIO_MAX: usize = 22;
/// deflate's limit: 258 bytes from 2 bits.
const ZLIB_RATIO_MAX: usize = 1032;
const ZSTD_LEVEL: i32 = 3;

/// A compression method of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// The content as it is; for tests of the framing.
    Noop,
    /// snappy, without its own framing.
    Snappy,
    /// zlib (deflate with header and checksum).
    Zlib,
    /// Zstandard.
    Zstd,
}

impl Compressor {
    /// The name used in `hello`'s `compression` list.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Noop => "noop",
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// The compressor of a name in `hello`'s `compression` list; `None` when there is none of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd]
            .into_iter()
            .find(|compressor| compressor.name() == name)
    }

    fn number(self) -> u8 {
        match self {
            Compressor::Noop => 0,
            Compressor::Snappy => 1,
            Compressor::Zlib => 2,
            Compressor::Zstd => 3,
        }
    }

    pub(crate) fn from_number(number: u8) -> Result<Self, WireError> {
        match number {
            0 => Ok(Compressor::Noop),
            1 => Ok(Compressor::Snappy),
            2 => Ok(Compressor::Zlib),
            3 => Ok(Compressor::Zstd),
            other => Err(WireError::UnknownCompressor(other)),
        }
    }
}

/// Decompresses one whole `OP_COMPRESSED` frame into `frame_out` (cleared first) as the frame it was made from, and
/// says which compressor it used. Only those in `enabled` and [`Compressor::Noop`] are accepted.
///
/// # Errors
/// Whatever is malformed; a size or content that does not match what is declared; a compressor that is not enabled.
pub fn decompress(frame: &[u8], enabled: &[Compressor], frame_out: &mut Vec<u8>) -> Result<Compressor, WireError> {
    let header = FrameHeader::of_frame(frame)?;
    let mut reader = BytesReader::new(frame);
    reader.take(HEADER_SIZE_BYTES, "the header")?;
    let op_code = OpCode::from_number(reader.int32("the original operation")?)?;
    if op_code == OpCode::Compressed {
        return Err(WireError::Compressed);
    }
    let declared = reader.int32("the uncompressed size")?;
    let compressor = Compressor::from_number(reader.byte("the compressor")?)?;
    if compressor != Compressor::Noop && !enabled.contains(&compressor) {
        return Err(WireError::CompressorNotEnabled(compressor.name()));
    }
    let compressed = reader.rest();
    let size = bounded_size(declared, compressor, compressed.len())?;

    let original = FrameHeader { message_length: HEADER_SIZE_BYTES + size, op_code, ..header };
    frame_out.clear();
    frame_out.reserve_exact(original.message_length);
    frame_out.extend_from_slice(&original.to_bytes());
    let failed = |reason: String| WireError::Decompression { compressor: compressor.name(), reason };
    expand(compressor, compressed, size, frame_out).map_err(|error| failed(error.to_string()))?;
    if frame_out.len() != original.message_length {
        return Err(failed(format!("{} bytes came out, {size} were declared", frame_out.len() - HEADER_SIZE_BYTES)));
    }
    Ok(compressor)
}

/// The length of the frame that an `OP_COMPRESSED` frame says it was made from, once that could come out of the bytes there are. Nothing is decompressed.
///
/// # Errors
/// As [`decompress`], as far as the frame's beginning shows it.
pub fn decompressed_length(frame: &[u8]) -> Result<usize, WireError> {
    let mut reader = BytesReader::new(frame);
    reader.take(HEADER_SIZE_BYTES, "the header")?;
    reader.int32("the original operation")?;
    let declared = reader.int32("the uncompressed size")?;
    let compressor = Compressor::from_number(reader.byte("the compressor")?)?;
    Ok(HEADER_SIZE_BYTES + bounded_size(declared, compressor, reader.rest().len())?)
}

/// The declared size, once it fits a message and could possibly come out of the bytes there are.
fn bounded_size(declared: i32, compressor: Compressor, compressed: usize) -> Result<usize, WireError> {
    let max = MESSAGE_SIZE_BYTES_MAX - HEADER_SIZE_BYTES;
    let size = usize::try_from(declared)
        .map_err(|_| WireError::MessageTooShort { declared: i64::from(declared), least: 0 })?;
    if size > max {
        return Err(WireError::MessageTooLong { declared: i64::from(declared), max });
    }
    let possible = match compressor {
        Compressor::Noop => size == compressed,
        Compressor::Snappy => size <= compressed.saturating_mul(SNAPPY_RATIO_MAX),
        Compressor::Zlib => size <= compressed.saturating_mul(ZLIB_RATIO_MAX),
        Compressor::Zstd => true,
    };
    if possible {
        return Ok(size);
    }
    let reason = format!("{compressed} bytes cannot give the {size} declared");
    Err(WireError::Decompression { compressor: compressor.name(), reason })
}

/// Appends what `compressed` holds to `out`, never more than `size` bytes (and one, which the caller notices).
fn expand(compressor: Compressor, compressed: &[u8], size: usize, out: &mut Vec<u8>) -> io::Result<()> {
    match compressor {
        Compressor::Noop => out.extend_from_slice(compressed),
        Compressor::Snappy => {
            if snap::raw::decompress_len(compressed).map_err(io::Error::other)? != size {
                return Err(io::Error::other("its own length is not the one declared"));
            }
            let start = out.len();
            out.resize(start + size, 0);
            let room = out.get_mut(start..).unwrap_or_default();
            let written = snap::raw::Decoder::new().decompress(compressed, room).map_err(io::Error::other)?;
            out.truncate(start + written);
        }
        Compressor::Zlib => {
            let limit = u64::try_from(size).unwrap_or(u64::MAX).saturating_add(1);
            flate2::read::ZlibDecoder::new(compressed).take(limit).read_to_end(out)?;
        }
        Compressor::Zstd => {
            let start = out.len();
            out.resize(start + size, 0);
            let room = out.get_mut(start..).unwrap_or_default();
            let written = zstd::bulk::decompress_to_buffer(compressed, room)?;
            out.truncate(start + written);
        }
    }
    Ok(())
}

/// Compresses one whole frame into `frame_out` (cleared first) as an `OP_COMPRESSED` frame.
///
/// # Errors
/// The compressor's own failure, which for content in memory does not occur.
pub fn compress(frame: &[u8], compressor: Compressor, frame_out: &mut Vec<u8>) -> Result<(), WireError> {
    let header = FrameHeader::of_frame(frame)?;
    let content = frame.get(HEADER_SIZE_BYTES..).unwrap_or_default();
    let size = i32::try_from(content.len()).unwrap_or(i32::MAX);
    frame_out.clear();
    frame_out.extend_from_slice(&[0; HEADER_SIZE_BYTES]);
    frame_out.extend_from_slice(&header.op_code.number().to_le_bytes());
    frame_out.extend_from_slice(&size.to_le_bytes());
    frame_out.push(compressor.number());
    shrink(compressor, content, frame_out)
        .map_err(|error| WireError::Decompression { compressor: compressor.name(), reason: error.to_string() })?;
    let outer = FrameHeader { message_length: frame_out.len(), op_code: OpCode::Compressed, ..header };
    if let Some(slot) = frame_out.first_chunk_mut() {
        *slot = outer.to_bytes();
    }
    debug_assert!(frame_out.len() >= HEADER_SIZE_BYTES + PREAMBLE_SIZE_BYTES);
    Ok(())
}

fn shrink(compressor: Compressor, content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match compressor {
        Compressor::Noop => out.extend_from_slice(content),
        Compressor::Snappy => {
            let start = out.len();
            out.resize(start + snap::raw::max_compress_len(content.len()), 0);
            let room = out.get_mut(start..).unwrap_or_default();
            let written = snap::raw::Encoder::new().compress(content, room).map_err(io::Error::other)?;
            out.truncate(start + written);
        }
        Compressor::Zlib => {
            let mut encoder = flate2::read::ZlibEncoder::new(content, flate2::Compression::default());
            encoder.read_to_end(out)?;
        }
        Compressor::Zstd => {
            let compressed = zstd::bulk::compress(content, ZSTD_LEVEL)?;
            out.extend_from_slice(&compressed);
        }
    }
    Ok(())
}
