//! Compressing and decompressing page images.
//!
//! Used by `block`. A `Compressor` belongs to one write batch and keeps its tables and buffer between pages; what
//! decompression needs is kept by each thread that reads.

use std::cell::RefCell;

use super::address::PAGE_BYTES;
use super::error::{PageStoreError, Result};

/// How page images are compressed when they are written. What is read says itself how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: about 10 us a page.
    #[default]
    Lz4,
    /// Zstandard.
    Zstd {
        /// 1 to 22, or the negative fast levels.
        level: i32,
    },
}

/// How one block is compressed, as stored in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// The image as it is.
    None,
    /// LZ4 block format.
    Lz4,
    /// One Zstandard frame.
    Zstd,
}

impl Codec {
    /// The byte that stands for it.
    pub(super) fn code(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }

    /// The codec of a byte.
    pub(super) fn of_code(code: u8) -> Option<Codec> {
        [Codec::None, Codec::Lz4, Codec::Zstd].into_iter().find(|codec| codec.code() == code)
    }

    /// Fills all of `image` from `payload`; the reason when that is not possible.
    pub(super) fn decompress(self, payload: &[u8], image: &mut [u8]) -> std::result::Result<(), String> {
        let length = match self {
            Codec::None => {
                let Some(target) = image.get_mut(..payload.len()) else {
                    return Err(format!("{} bytes stored for an image of {}", payload.len(), image.len()));
                };
                target.copy_from_slice(payload);
                payload.len()
            }
            Codec::Lz4 => lz4_flex::block::decompress_into(payload, image).map_err(|error| error.to_string())?,
            Codec::Zstd => decompress_zstd(payload, image).map_err(|error| error.to_string())?,
        };
        match length == image.len() {
            true => Ok(()),
            false => Err(format!("an image of {length} bytes instead of {}", image.len())),
        }
    }
}

fn decompress_zstd(payload: &[u8], image: &mut [u8]) -> std::io::Result<usize> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(payload, image)
    })
}

/// What compresses page images, one after the other.
pub(super) struct Compressor {
    method: Method,
    compressed: Vec<u8>,
}

enum Method {
    None,
    Lz4(lz4_flex::block::CompressTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// A compressor for `compression`; `Argument` when its level is refused.
    pub(super) fn new(compression: Compression) -> Result<Compressor> {
        let refused = |error: std::io::Error| PageStoreError::Argument { reason: error.to_string() };
        let (method, bound) = match compression {
            Compression::None => (Method::None, 0),
            Compression::Lz4 => (
                Method::Lz4(lz4_flex::block::CompressTable::small()),
                lz4_flex::block::get_maximum_output_size(PAGE_BYTES),
            ),
            Compression::Zstd { level } => {
                let compressor = zstd::bulk::Compressor::new(level).map_err(refused)?;
                (Method::Zstd(compressor), zstd::zstd_safe::compress_bound(PAGE_BYTES))
            }
        };
        Ok(Compressor { method, compressed: vec![0; bound] })
    }

    /// The image compressed, unless that is no shorter than the image.
    pub(super) fn compress<'a>(&'a mut self, image: &'a [u8]) -> (Codec, &'a [u8]) {
        let (codec, length) = match &mut self.method {
            Method::None => return (Codec::None, image),
            Method::Lz4(table) => {
                let length = lz4_flex::block::compress_into_with_table(image, &mut self.compressed, table);
                (Codec::Lz4, length.ok())
            }
            Method::Zstd(compressor) => {
                (Codec::Zstd, compressor.compress_to_buffer(image, self.compressed.as_mut_slice()).ok())
            }
        };
        match length.and_then(|length| self.compressed.get(..length)) {
            Some(payload) if payload.len() < image.len() => (codec, payload),
            _ => (Codec::None, image),
        }
    }
}
