#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
//! The MongoDB wire protocol as bytes in, bytes out: frames, `OP_MSG`, the legacy handshake (`OP_QUERY`/`OP_REPLY`),
//! and compression (`OP_COMPRESSED`).
//!
//! Called by `server`, which owns the sockets, and by tests that speak the protocol by hand. A request is parsed in
//! place: [`OpMsg`] and [`OpQuery`] borrow from the frame and give `&RawDocument` views into it.
//!
//! Must not know: sockets, async, commands. It reads no BSON element beyond a document's length and final zero byte;
//! whoever looks inside a document validates it first (`document::validate_document`).
//!
//! ```text
//! frame ─ FrameHeader::parse ─┬─ OP_MSG, OP_QUERY ───────────── Request::parse ─ Request::{Msg, Query}
//!                             └─ OP_COMPRESSED ─ decompress ───┘
//! reply ─ ReplyBuilder::begin ─ document bytes ─ finish ─┬─ frame
//!                                                        └─ compress ─ frame
//! ```
//!
//! Nothing here panics on any input, and nothing is allocated by a length that has not been checked against the bytes
//! that are there or against [`MESSAGE_SIZE_BYTES_MAX`]. Every malformed case is a [`WireError`] with its reason; the
//! caller closes the connection, because after it the position of the next frame cannot be trusted.

mod beginning;
mod bytes_reader;
mod compression;
mod error;
mod header;
mod op_msg;
mod op_query;
mod reply;

pub use beginning::{BEGINNING_SIZE_BYTES, flags_of_beginning};
pub use compression::{Compressor, compress, decompress, decompressed_length};
pub use error::WireError;
pub use header::{FrameHeader, HEADER_SIZE_BYTES, MESSAGE_SIZE_BYTES_MAX, OpCode};
pub use op_msg::{DocumentSequence, DocumentSequences, Documents, MsgFlags, OpMsg, SEQUENCES_MAX};
pub use op_query::OpQuery;
pub use reply::{ReplyBuilder, ReplyError, ReplyTo};

/// One uncompressed request, borrowing from its frame.
#[derive(Debug, Clone)]
pub enum Request<'a> {
    /// An `OP_MSG`.
    Msg(OpMsg<'a>),
    /// A legacy `OP_QUERY`, which only a handshake may be.
    Query(OpQuery<'a>),
}

impl<'a> Request<'a> {
    /// Parses one whole frame (header included) that is not compressed.
    ///
    /// # Errors
    /// [`WireError::Compressed`] for an `OP_COMPRESSED` frame, which goes through [`decompress`] first;
    /// otherwise whatever is malformed in the frame.
    pub fn parse(frame: &'a [u8]) -> Result<Request<'a>, WireError> {
        let header = FrameHeader::of_frame(frame)?;
        match header.op_code {
            OpCode::Msg => OpMsg::parse(frame).map(Request::Msg),
            OpCode::Query => OpQuery::parse(frame).map(Request::Query),
            OpCode::Compressed => Err(WireError::Compressed),
            OpCode::Reply => Err(WireError::ReplyFromClient),
        }
    }
}
