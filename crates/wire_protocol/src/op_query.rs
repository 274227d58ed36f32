//! `OP_QUERY`: what older handshakes open with. Only `hello` and `isMaster` may come this way; `server` answers every
//! other with error 352. Called through [`crate::Request`].
//!
//! ```text
//! header 16 │ flags 4 │ namespace\0 │ skip 4 │ return 4 │ query document │ [fields document]
//! ```

use bson::{RawBsonRef, RawDocument};

use crate::bytes_reader::BytesReader;
use crate::{FrameHeader, HEADER_SIZE_BYTES, OpCode, WireError};

/// A parsed `OP_QUERY`, borrowing from its frame.
#[derive(Debug, Clone)]
pub struct OpQuery<'a> {
    /// The frame's header.
    pub header: FrameHeader,
    /// `database.collection`; a command's collection is `$cmd`.
    pub namespace: &'a str,
    /// The query, which for `$cmd` is the command; only its length and final byte are checked.
    pub query: &'a RawDocument,
}

impl<'a> OpQuery<'a> {
    /// Parses one whole `OP_QUERY` frame, header included.
    ///
    /// # Errors
    /// Whatever is malformed, or another operation's frame.
    pub fn parse(frame: &'a [u8]) -> Result<Self, WireError> {
        let header = FrameHeader::of_frame(frame)?;
        if header.op_code != OpCode::Query {
            return Err(WireError::UnknownOperation(header.op_code.number()));
        }
        let mut reader = BytesReader::new(frame);
        reader.take(HEADER_SIZE_BYTES, "the header")?;
        // Query flags, skip and return counts mean nothing to a handshake; every other query is refused.
        reader.int32("the OP_QUERY flags")?;
        let namespace = reader.cstring("the OP_QUERY namespace")?;
        reader.int32("the OP_QUERY skip count")?;
        reader.int32("the OP_QUERY return count")?;
        let query = reader.document("the query")?;
        if !reader.is_empty() {
            reader.document("the query's field selector")?;
        }
        if !reader.is_empty() {
            return Err(WireError::TrailingBytes(reader.rest().len()));
        }
        Ok(Self { header, namespace, query })
    }

    /// The database, when this query is a command (its collection is `$cmd`).
    pub fn command_database(&self) -> Option<&'a str> {
        self.namespace.strip_suffix(".$cmd")
    }

    /// The command: the query itself, or what it wraps as `$query` beside a read preference.
    pub fn command(&self) -> &'a RawDocument {
        match self.query.iter().next() {
            Some(Ok((name, RawBsonRef::Document(wrapped)))) if name == "$query" => wrapped,
            _ => self.query,
        }
    }
}
