//! Building a reply frame in a buffer that is used again for the next one. Called by `server`; the command appends
//! the document's bytes in between.
//!
//! ```text
//! begin(request) ─ append the document ─ finish() → frame
//! OP_MSG    header 16 │ flags 4 │ 0 │ document │ [CRC-32C 4]
//! OP_REPLY  header 16 │ flags 4 │ cursor 8 │ starting from 4 │ number returned 4 │ document
//! ```

use bson::RawDocument;

use crate::{FrameHeader, HEADER_SIZE_BYTES, MESSAGE_SIZE_BYTES_MAX, MsgFlags, OpCode};

/// `OP_REPLY` flag: the query failed and its document says why.
const REPLY_QUERY_FAILURE: u32 = 1 << 1;
/// `OP_REPLY` flag every server sets.
const REPLY_AWAIT_CAPABLE: u32 = 1 << 3;
/// A buffer larger than this is given back after a reply, so that one large reply does not stay allocated.
const BUFFER_KEPT_BYTES: usize = 1024 * 1024;
const FLAGS_SIZE_BYTES: usize = 4;

/// Which kind of reply a request is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyTo {
    /// A reply to an `OP_MSG`.
    Msg {
        /// Whether the request had a checksum; its reply then has one.
        checksum: bool,
    },
    /// A reply to an `OP_QUERY`.
    Query,
}

/// Why what was built is not a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The command appended something else than exactly one document.
    #[error("the reply is not one document: {0}")]
    NotOneDocument(&'static str),
    /// The reply does not fit a message.
    #[error("the reply has {0} bytes, more than a message may have")]
    TooLong(usize),
}

/// Builds reply frames.
#[derive(Debug)]
pub struct ReplyBuilder {
    frame: Vec<u8>,
    document_start: usize,
    reply_to: ReplyTo,
    failed: bool,
    has_more_to_come: bool,
}

impl Default for ReplyBuilder {
    fn default() -> Self {
        Self {
            frame: Vec::new(),
            document_start: 0,
            reply_to: ReplyTo::Msg { checksum: false },
            failed: false,
            has_more_to_come: false,
        }
    }
}

impl ReplyBuilder {
    /// Starts a reply, forgetting the one before.
    pub fn begin(&mut self, reply_to: ReplyTo) {
        self.give_back_large();
        self.reply_to = reply_to;
        self.failed = false;
        self.has_more_to_come = false;
        self.frame.clear();
        // The header and the flags are written when the reply is finished.
        self.frame.extend_from_slice(&[0; HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES]);
        match reply_to {
            ReplyTo::Msg { .. } => self.frame.push(0),
            ReplyTo::Query => {
                self.frame.extend_from_slice(&0_i64.to_le_bytes());
                self.frame.extend_from_slice(&0_i32.to_le_bytes());
                self.frame.extend_from_slice(&1_i32.to_le_bytes());
            }
        }
        self.document_start = self.frame.len();
    }

    /// Gives the memory of a large reply back, with the reply. `false`: it was not large, and is still there.
    pub fn give_back_large(&mut self) -> bool {
        let is_large = self.frame.capacity() > BUFFER_KEPT_BYTES;
        if is_large {
            self.frame = Vec::new();
        }
        is_large
    }

    /// Where the command appends its document's bytes. What is there already (the frame's start) must be left alone;
    /// lengths written into a document count from where it begins, [`ReplyBuilder::document_start`].
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.frame
    }

    /// Position in [`ReplyBuilder::buffer`] at which the document begins.
    pub fn document_start(&self) -> usize {
        self.document_start
    }

    /// Appends a whole document.
    pub fn append(&mut self, document: &RawDocument) {
        self.frame.extend_from_slice(document.as_bytes());
    }

    /// Throws away what was appended and takes this document instead.
    pub fn replace(&mut self, document: &RawDocument) {
        self.frame.truncate(self.document_start);
        self.append(document);
    }

    /// Marks a reply to an `OP_QUERY` as failed; a reply to an `OP_MSG` says so in its document alone.
    pub fn mark_query_failure(&mut self) {
        self.failed = true;
    }

    /// Marks a reply to an `OP_MSG` as followed by another one that the client need not ask for. Only for a client that allows it
    /// ([`MsgFlags::exhaust_allowed`]).
    pub fn mark_more_to_come(&mut self) {
        self.has_more_to_come = matches!(self.reply_to, ReplyTo::Msg { .. });
    }

    /// Whether another reply follows this one.
    pub fn has_more_to_come(&self) -> bool {
        self.has_more_to_come
    }

    /// The bytes of the frame that [`ReplyBuilder::finish`] completed.
    pub fn finished(&self) -> &[u8] {
        &self.frame
    }

    /// Completes the frame and gives its bytes.
    ///
    /// # Errors
    /// When not exactly one document was appended, or it does not fit a message. The reply can then be begun again.
    pub fn finish(&mut self, request_id: i32, response_to: i32) -> Result<&[u8], ReplyError> {
        let document = self.frame.get(self.document_start..).unwrap_or_default();
        RawDocument::from_bytes(document).map_err(|_| ReplyError::NotOneDocument("its length does not match"))?;
        let checksum = self.reply_to == ReplyTo::Msg { checksum: true };
        let message_length = self.frame.len() + if checksum { 4 } else { 0 };
        if message_length > MESSAGE_SIZE_BYTES_MAX {
            return Err(ReplyError::TooLong(message_length));
        }
        let (op_code, flags) = match self.reply_to {
            ReplyTo::Msg { checksum } => {
                let more_to_come = self.has_more_to_come;
                (OpCode::Msg, MsgFlags { checksum_present: checksum, more_to_come, ..MsgFlags::default() }.bits())
            }
            ReplyTo::Query if self.failed => (OpCode::Reply, REPLY_AWAIT_CAPABLE | REPLY_QUERY_FAILURE),
            ReplyTo::Query => (OpCode::Reply, REPLY_AWAIT_CAPABLE),
        };
        let header = FrameHeader { message_length, request_id, response_to, op_code };
        if let Some((header_bytes, rest)) = self.frame.split_first_chunk_mut() {
            *header_bytes = header.to_bytes();
            if let Some(flag_bytes) = rest.first_chunk_mut() {
                *flag_bytes = flags.to_le_bytes();
            }
        }
        if checksum {
            let computed = crc32c::crc32c(&self.frame);
            self.frame.extend_from_slice(&computed.to_le_bytes());
        }
        Ok(&self.frame)
    }
}
