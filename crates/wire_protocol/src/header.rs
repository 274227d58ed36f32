//! The 16 bytes every frame starts with. Parsed by `server` as soon as they are there, to know how much to read.

use crate::WireError;

/// Size of a frame's header.
pub const HEADER_SIZE_BYTES: usize = 16;

/// The longest frame accepted or sent, header included; announced to clients as `maxMessageSizeBytes`.
pub const MESSAGE_SIZE_BYTES_MAX: usize = 48_000_000;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpCode {
    /// The reply to a legacy query; only a server sends it.
    Reply,
    /// A legacy query, which only a handshake may be.
    Query,
    /// Another operation, compressed.
    Compressed,
    /// A command or its reply.
    Msg,
}

impl OpCode {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            OpCode::Reply => 1,
            OpCode::Query => 2004,
            OpCode::Compressed => 2012,
            OpCode::Msg => 2013,
        }
    }

    /// The operation of a number on the wire.
    ///
    /// # Errors
    /// [`WireError::RemovedOperation`] for what MongoDB once had, [`WireError::UnknownOperation`] for the rest.
    pub fn from_number(number: i32) -> Result<Self, WireError> {
        let removed = |name| Err(WireError::RemovedOperation { name });
        match number {
            1 => Ok(OpCode::Reply),
            2004 => Ok(OpCode::Query),
            2012 => Ok(OpCode::Compressed),
            2013 => Ok(OpCode::Msg),
            1000 => removed("OP_MSG (1000)"),
            2001 => removed("OP_UPDATE"),
            2002 => removed("OP_INSERT"),
            2005 => removed("OP_GET_MORE"),
            2006 => removed("OP_DELETE"),
            2007 => removed("OP_KILL_CURSORS"),
            2010 => removed("OP_COMMAND"),
            2011 => removed("OP_COMMANDREPLY"),
            other => Err(WireError::UnknownOperation(other)),
        }
    }
}

/// A frame's header, its length already checked against the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the whole frame in bytes, header included; at most [`MESSAGE_SIZE_BYTES_MAX`].
    pub message_length: usize,
    /// The sender's number for this message.
    pub request_id: i32,
    /// For a reply, the number of the message it answers.
    pub response_to: i32,
    /// What the frame holds.
    pub op_code: OpCode,
}

impl FrameHeader {
    /// Parses a header.
    ///
    /// # Errors
    /// A length out of bounds, or an operation that is removed or unknown.
    pub fn parse(bytes: &[u8; HEADER_SIZE_BYTES]) -> Result<Self, WireError> {
        let [l0, l1, l2, l3, q0, q1, q2, q3, r0, r1, r2, r3, o0, o1, o2, o3] = *bytes;
        let declared = i32::from_le_bytes([l0, l1, l2, l3]);
        let too_short = WireError::MessageTooShort { declared: i64::from(declared), least: HEADER_SIZE_BYTES };
        let message_length = match usize::try_from(declared) {
            Ok(length) if length >= HEADER_SIZE_BYTES => length,
            _ => return Err(too_short),
        };
        if message_length > MESSAGE_SIZE_BYTES_MAX {
            return Err(WireError::MessageTooLong { declared: i64::from(declared), max: MESSAGE_SIZE_BYTES_MAX });
        }
        Ok(Self {
            message_length,
            request_id: i32::from_le_bytes([q0, q1, q2, q3]),
            response_to: i32::from_le_bytes([r0, r1, r2, r3]),
            op_code: OpCode::from_number(i32::from_le_bytes([o0, o1, o2, o3]))?,
        })
    }

    /// Parses the header of a whole frame.
    ///
    /// # Errors
    /// As [`FrameHeader::parse`], and [`WireError::LengthMismatch`] when the frame is not as long as it says.
    pub fn of_frame(frame: &[u8]) -> Result<Self, WireError> {
        let bytes = frame.first_chunk().ok_or(WireError::Truncated("the header"))?;
        let header = Self::parse(bytes)?;
        if header.message_length != frame.len() {
            return Err(WireError::LengthMismatch { declared: header.message_length, actual: frame.len() });
        }
        Ok(header)
    }

    /// The header's bytes. A length above what an `int32` holds cannot occur within [`MESSAGE_SIZE_BYTES_MAX`].
    pub fn to_bytes(self) -> [u8; HEADER_SIZE_BYTES] {
        let length = i32::try_from(self.message_length).unwrap_or(i32::MAX);
        let mut bytes = [0; HEADER_SIZE_BYTES];
        let fields = [length, self.request_id, self.response_to, self.op_code.number()];
        for (slot, field) in bytes.chunks_exact_mut(4).zip(fields) {
            slot.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}
