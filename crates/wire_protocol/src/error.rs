//! What can be wrong with bytes from a client. Logged by `server` with the remote address, then the connection ends.

/// Why a frame was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The frame's declared length is below the least a frame can have.
    #[error("message length {declared} is shorter than the least possible {least}")]
    MessageTooShort {
        /// What the header says, in bytes.
        declared: i64,
        /// The least it could be, in bytes.
        least: usize,
    },
    /// The frame's declared length is above the most we accept.
    #[error("message length {declared} exceeds the maximum {max}")]
    MessageTooLong {
        /// What the header says, in bytes.
        declared: i64,
        /// The most we accept, in bytes.
        max: usize,
    },
    /// The header's length is not the number of bytes given.
    #[error("message length {declared} does not match the {actual} bytes received")]
    LengthMismatch {
        /// What the header says, in bytes.
        declared: usize,
        /// The bytes given.
        actual: usize,
    },
    /// An operation that MongoDB removed and current drivers do not send.
    #[error("legacy operation {name} is not supported; the client driver may require an upgrade")]
    RemovedOperation {
        /// The operation's name, as in `OP_INSERT`.
        name: &'static str,
    },
    /// An operation code that nobody defined.
    #[error("unknown operation code {0}")]
    UnknownOperation(i32),
    /// An `OP_REPLY` came from a client.
    #[error("a client may not send OP_REPLY")]
    ReplyFromClient,
    /// An `OP_COMPRESSED` frame where an uncompressed one was expected.
    #[error("a compressed message may not be nested or parsed before it is decompressed")]
    Compressed,
    /// The frame ends inside a field.
    #[error("message ends inside {0}")]
    Truncated(&'static str),
    /// Bytes are left after the last field.
    #[error("{0} bytes follow the end of the message")]
    TrailingBytes(usize),
    /// A required `OP_MSG` flag bit (0 to 15) that we do not know.
    #[error("unknown required OP_MSG flag bits {0:#06x}")]
    UnknownFlags(u32),
    /// An `OP_MSG` section of a kind that is not 0 or 1.
    #[error("unknown OP_MSG section kind {0}")]
    UnknownSectionKind(u8),
    /// An `OP_MSG` without a body section.
    #[error("OP_MSG has no body section")]
    NoBody,
    /// An `OP_MSG` with two body sections.
    #[error("OP_MSG has more than one body section")]
    SecondBody,
    /// More document sequences than any command takes.
    #[error("OP_MSG has more than {0} document sequences")]
    TooManySequences(usize),
    /// Two document sequences with one identifier.
    #[error("OP_MSG has two document sequences named '{0}'")]
    DuplicateSequence(String),
    /// A document's length is impossible, or its last byte is not zero.
    #[error("malformed document in {place}: {reason}")]
    MalformedDocument {
        /// The field that holds it.
        place: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// A name is not UTF-8.
    #[error("{0} is not valid UTF-8")]
    NotUtf8(&'static str),
    /// The message's checksum is wrong.
    #[error("OP_MSG checksum is {computed:#010x} but the message says {declared:#010x}")]
    ChecksumMismatch {
        /// CRC-32C of the bytes received.
        computed: u32,
        /// What the message says.
        declared: u32,
    },
    /// A compressor number nobody defined.
    #[error("unknown compressor {0}")]
    UnknownCompressor(u8),
    /// A compressor this server was told not to use.
    #[error("compressor {0} is not enabled")]
    CompressorNotEnabled(&'static str),
    /// The compressed bytes do not decompress, or not to the size declared.
    #[error("cannot decompress {compressor}: {reason}")]
    Decompression {
        /// The compressor's name.
        compressor: &'static str,
        /// What is wrong.
        reason: String,
    },
}
