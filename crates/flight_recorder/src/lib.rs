#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
//! What a server's figures were at each second: how they are kept, read, and judged.
//!
//! `server` records the reply of `serverStatus` once a second; `plimsoll diagnose` (in `lab`) reads the files and draws them. Both
//! judge them by the same patterns. Nothing here touches a disk or knows the server: it is bytes in, bytes out.
//!
//! ```text
//! serverStatus ─ figures ─ ChunkWriter ─ block ─▶ file ─ blocks ─ Chunk ─ Recording ─ patterns ─▶ what to look at
//! ```

mod block;
mod chunk;
mod figures;
pub mod file_names;
pub mod patterns;
mod recording;

pub use block::{BlockError, FILE_HEADER, blocks, encode_block, encode_brief_block, is_whole};
pub use chunk::{Chunk, ChunkWriter, Column, DamagedChunk};
pub use figures::{Figure, figure, figure_at, value_at};
pub use recording::{Recording, Series};
