//! `OP_MSG`: flags, one body document, document sequences, an optional checksum. Called through [`crate::Request`].
//!
//! ```text
//! header 16 │ flags 4 │ section* │ [CRC-32C 4]
//! section = 0 │ document                            the body, exactly one
//!         | 1 │ size 4 │ identifier\0 │ document*   a sequence; size counts from itself to the last document
//! ```
//!
//! Parsing walks every section once, and in a sequence every document's length, so that iteration afterwards cannot
//! fail and the number of documents is known before the first is touched.

use bson::RawDocument;

use crate::bytes_reader::BytesReader;
use crate::{FrameHeader, HEADER_SIZE_BYTES, OpCode, WireError};

/// The most document sequences a message may have; the most that any command takes (`bulkWrite`: `ops`, `nsInfo`).
pub const SEQUENCES_MAX: usize = 2;

const FLAG_CHECKSUM_PRESENT: u32 = 1 << 0;
const FLAG_MORE_TO_COME: u32 = 1 << 1;
const FLAG_EXHAUST_ALLOWED: u32 = 1 << 16;
/// Bits a receiver must know to accept the message; the others may be ignored.
const FLAGS_REQUIRED: u32 = 0xffff;
const CHECKSUM_SIZE_BYTES: usize = 4;

const SECTION_BODY: u8 = 0;
const SECTION_SEQUENCE: u8 = 1;

/// The flags of an `OP_MSG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MsgFlags {
    /// A CRC-32C of the message follows it.
    pub checksum_present: bool,
    /// The sender will send another message and waits for no reply to this one; of a reply: another follows without a request.
    pub more_to_come: bool,
    /// The client accepts several replies to this request. One is always right.
    pub exhaust_allowed: bool,
}

impl MsgFlags {
    /// Reads the flag bits.
    ///
    /// # Errors
    /// [`WireError::UnknownFlags`] when a bit is set that a receiver is required to know.
    pub fn from_bits(bits: u32) -> Result<Self, WireError> {
        let unknown = bits & FLAGS_REQUIRED & !(FLAG_CHECKSUM_PRESENT | FLAG_MORE_TO_COME);
        if unknown != 0 {
            return Err(WireError::UnknownFlags(unknown));
        }
        Ok(Self {
            checksum_present: bits & FLAG_CHECKSUM_PRESENT != 0,
            more_to_come: bits & FLAG_MORE_TO_COME != 0,
            exhaust_allowed: bits & FLAG_EXHAUST_ALLOWED != 0,
        })
    }

    /// The flag bits.
    pub fn bits(self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.checksum_present, FLAG_CHECKSUM_PRESENT)
            | bit(self.more_to_come, FLAG_MORE_TO_COME)
            | bit(self.exhaust_allowed, FLAG_EXHAUST_ALLOWED)
    }
}

/// A parsed `OP_MSG`, borrowing from its frame.
#[derive(Debug, Clone)]
pub struct OpMsg<'a> {
    /// The frame's header.
    pub header: FrameHeader,
    /// The message's flags.
    pub flags: MsgFlags,
    /// The command document; only its length and final byte are checked.
    pub body: &'a RawDocument,
    /// The document sequences, in the order sent.
    pub sequences: DocumentSequences<'a>,
}

impl<'a> OpMsg<'a> {
    /// Parses one whole `OP_MSG` frame, header included.
    ///
    /// # Errors
    /// Whatever is malformed, a checksum that is wrong, or another operation's frame.
    pub fn parse(frame: &'a [u8]) -> Result<Self, WireError> {
        let header = FrameHeader::of_frame(frame)?;
        if header.op_code != OpCode::Msg {
            return Err(WireError::UnknownOperation(header.op_code.number()));
        }
        let mut reader = BytesReader::new(frame);
        reader.take(HEADER_SIZE_BYTES, "the header")?;
        let flags = MsgFlags::from_bits(reader.uint32("the OP_MSG flags")?)?;
        let mut reader = BytesReader::new(without_checksum(frame, reader.rest(), flags)?);

        let mut body = None;
        let mut sequences = DocumentSequences::default();
        while !reader.is_empty() {
            match reader.byte("a section's kind")? {
                SECTION_BODY if body.is_some() => return Err(WireError::SecondBody),
                SECTION_BODY => body = Some(reader.document("the body")?),
                SECTION_SEQUENCE => sequences.push(parse_sequence(&mut reader)?)?,
                other => return Err(WireError::UnknownSectionKind(other)),
            }
        }
        Ok(Self { header, flags, body: body.ok_or(WireError::NoBody)?, sequences })
    }
}

/// The sections' bytes: what follows the flags, less the checksum, which is verified here.
fn without_checksum<'a>(frame: &[u8], sections: &'a [u8], flags: MsgFlags) -> Result<&'a [u8], WireError> {
    if !flags.checksum_present {
        return Ok(sections);
    }
    let (sections, checksum) =
        sections.split_last_chunk::<CHECKSUM_SIZE_BYTES>().ok_or(WireError::Truncated("the checksum"))?;
    let covered = frame.split_last_chunk::<CHECKSUM_SIZE_BYTES>().map_or(frame, |(covered, _)| covered);
    let declared = u32::from_le_bytes(*checksum);
    let computed = crc32c::crc32c(covered);
    if computed != declared {
        return Err(WireError::ChecksumMismatch { computed, declared });
    }
    Ok(sections)
}

fn parse_sequence<'a>(reader: &mut BytesReader<'a>) -> Result<DocumentSequence<'a>, WireError> {
    const PLACE: &str = "a document sequence";
    let size = reader.int32(PLACE)?;
    let content = usize::try_from(size).ok().and_then(|size| size.checked_sub(4)).ok_or(WireError::Truncated(PLACE))?;
    let mut section = BytesReader::new(reader.take(content, PLACE)?);
    let identifier = section.cstring("a document sequence's identifier")?;
    let bytes = section.rest();
    let mut count = 0;
    while !section.is_empty() {
        section.document(PLACE)?;
        count += 1;
    }
    Ok(DocumentSequence { identifier, bytes, count })
}

/// A message's document sequences.
#[derive(Debug, Clone, Copy, Default)]
pub struct DocumentSequences<'a> {
    slots: [Option<DocumentSequence<'a>>; SEQUENCES_MAX],
}

impl<'a> DocumentSequences<'a> {
    /// The sequence of an identifier, if the message has it.
    pub fn get(&self, identifier: &str) -> Option<DocumentSequence<'a>> {
        self.iter().find(|sequence| sequence.identifier == identifier)
    }

    /// All sequences, in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = DocumentSequence<'a>> + '_ {
        self.slots.iter().copied().flatten()
    }

    /// Whether the message has none.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    fn push(&mut self, sequence: DocumentSequence<'a>) -> Result<(), WireError> {
        if self.get(sequence.identifier).is_some() {
            return Err(WireError::DuplicateSequence(sequence.identifier.to_owned()));
        }
        let free = self.slots.iter_mut().find(|slot| slot.is_none());
        *free.ok_or(WireError::TooManySequences(SEQUENCES_MAX))? = Some(sequence);
        Ok(())
    }
}

/// A named list of documents outside the body, as `documents` of `insert`.
#[derive(Debug, Clone, Copy)]
pub struct DocumentSequence<'a> {
    identifier: &'a str,
    bytes: &'a [u8],
    count: usize,
}

impl<'a> DocumentSequence<'a> {
    /// The body field that this sequence stands for.
    pub fn identifier(&self) -> &'a str {
        self.identifier
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of all documents together, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The documents in order. Each one's length and final byte are checked, nothing else.
    pub fn documents(&self) -> Documents<'a> {
        Documents { reader: BytesReader::new(self.bytes), left: self.count }
    }
}

/// Iterates over the documents of a [`DocumentSequence`].
pub struct Documents<'a> {
    reader: BytesReader<'a>,
    left: usize,
}

impl<'a> Iterator for Documents<'a> {
    type Item = &'a RawDocument;

    fn next(&mut self) -> Option<&'a RawDocument> {
        self.left = self.left.checked_sub(1)?;
        // Parsing has walked these bytes, so this is always a document.
        self.reader.document("a document sequence").ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Documents<'_> {}
