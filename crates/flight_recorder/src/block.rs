//! The frame of a chunk in a file: its length, a checksum, its bytes compressed.
//!
//! ```text
//! file:   "PLMSFR01", blocks
//! block:  length u32 · crc32c of the rest u32 · length of the chunk u32 · zstd
//! ```
//! All little-endian. A block that was being written when the server ended is the last one, and is left out.

/// What every file begins with.
pub const FILE_HEADER: &[u8; 8] = b"PLMSFR01";

const PREFIX_BYTES: usize = 8;
/// In front of what is packed: its size when it is not.
const SIZE_BYTES: usize = 4;
/// A chunk is some minutes of some hundred figures. One that says more is damaged.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// For what is kept, and for what is written again in some seconds.
const KEPT_LEVEL: i32 = 6;
const BRIEF_LEVEL: i32 = 1;

/// Why a file cannot be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// It is another kind of file.
    #[error("this is no file of recorded figures")]
    Foreign,
    /// The block that begins at this byte ends too soon, or its checksum says otherwise.
    #[error("the figures are damaged from byte {0} on")]
    Damaged(usize),
}

/// A chunk's bytes as they are kept.
pub fn encode_block(chunk: &[u8]) -> Vec<u8> {
    encode_at(chunk, KEPT_LEVEL)
}

/// The same, larger, in less time.
pub fn encode_brief_block(chunk: &[u8]) -> Vec<u8> {
    encode_at(chunk, BRIEF_LEVEL)
}

fn encode_at(chunk: &[u8], level: i32) -> Vec<u8> {
    let mut content = (chunk.len() as u32).to_le_bytes().to_vec();
    // To memory: there is nothing to fail but memory itself.
    content.extend(zstd::bulk::compress(chunk, level).unwrap_or_default());
    let mut out = (content.len() as u32).to_le_bytes().to_vec();
    out.extend(crc32c::crc32c(&content).to_le_bytes());
    out.extend(content);
    out
}

/// The chunks of a file, to the first that is damaged.
///
/// # Errors
/// Each chunk that cannot be read, of which there is at most one: the last that is given.
pub fn blocks(file: &[u8]) -> impl Iterator<Item = Result<Vec<u8>, BlockError>> + '_ {
    let mut at = FILE_HEADER.len();
    let is_ours = file.starts_with(FILE_HEADER);
    let mut has_failed = false;
    std::iter::from_fn(move || {
        if has_failed || (is_ours && at == file.len()) {
            return None;
        }
        let read = if is_ours { block(file, at) } else { Err(BlockError::Foreign) };
        match read {
            Ok((chunk, end)) => {
                at = end;
                Some(Ok(chunk))
            }
            Err(error) => {
                has_failed = true;
                Some(Err(error))
            }
        }
    })
}

/// Whether a file is one of ours, and whole: by the checksums, without unpacking anything.
pub fn is_whole(file: &[u8]) -> bool {
    let mut at = FILE_HEADER.len();
    while at < file.len() {
        match content(file, at) {
            Ok((_, end)) => at = end,
            Err(_) => return false,
        }
    }
    file.starts_with(FILE_HEADER)
}

fn block(file: &[u8], at: usize) -> Result<(Vec<u8>, usize), BlockError> {
    let damaged = BlockError::Damaged(at);
    let (content, end) = content(file, at)?;
    let (Some(size), Some(packed)) = (number(content, 0), content.get(SIZE_BYTES..)) else { return Err(damaged) };
    let size = size as usize;
    if size > CHUNK_BYTES_MAX {
        return Err(damaged);
    }
    zstd::bulk::decompress(packed, size).map(|chunk| (chunk, end)).map_err(|_| damaged)
}

/// What the checksum of a block is of, and where the block ends.
fn content(file: &[u8], at: usize) -> Result<(&[u8], usize), BlockError> {
    let damaged = BlockError::Damaged(at);
    let (Some(length), Some(checksum)) = (number(file, at), number(file, at + 4)) else { return Err(damaged) };
    let begin = at + PREFIX_BYTES;
    let end = begin + length as usize;
    let content = file.get(begin..end).ok_or(damaged.clone())?;
    // Zeros would otherwise be blocks without content, whose checksum is zero.
    let has_size = content.len() >= SIZE_BYTES;
    if has_size && crc32c::crc32c(content) == checksum { Ok((content, end)) } else { Err(damaged) }
}

fn number(bytes: &[u8], from: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(from..from + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(chunks: &[&[u8]]) -> Vec<u8> {
        let mut bytes = FILE_HEADER.to_vec();
        chunks.iter().for_each(|chunk| bytes.extend(encode_block(chunk)));
        bytes
    }

    #[test]
    fn blocks_come_back_and_a_torn_one_is_the_last() {
        let whole = file(&[b"first", b"", b"third"]);
        let read: Vec<_> = blocks(&whole).collect();
        assert_eq!(read, [Ok(b"first".to_vec()), Ok(Vec::new()), Ok(b"third".to_vec())]);
        let torn = &whole[..whole.len() - 1];
        let read: Vec<_> = blocks(torn).collect();
        assert_eq!(read.len(), 3);
        assert!(is_whole(&whole) && !is_whole(torn));
        assert!(!is_whole(&[&FILE_HEADER[..], &[0; 64][..]].concat()));
        assert!(matches!(read[2], Err(BlockError::Damaged(_))));
    }

    #[test]
    fn a_flipped_bit_is_noticed_wherever_it_is() {
        let whole = file(&[b"some figures", b"more of them"]);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(blocks(&damaged).any(|block| block.is_err()), "bit {bit}");
            assert!(!is_whole(&damaged), "bit {bit}");
        }
    }

    #[test]
    fn another_file_is_refused() {
        assert_eq!(blocks(b"#!/bin/sh\n").collect::<Vec<_>>(), [Err(BlockError::Foreign)]);
    }
}
