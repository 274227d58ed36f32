//! Resume tokens: `{_data: "<hexadecimal>"}`.
//!
//! A token says where to go on: at an entry of the oplog, behind so many of its events. The time comes first, so tokens sort as the events do.
//!
//! ```text
//! commit timestamp (8 bytes, big-endian) ‖ position of the entry (8) ‖ events of it that were seen (4) ‖ fragments of the next that were seen (4) ‖ 1: invalidate (1)
//! ```

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use oplog::OplogPosition;
use storage_engine::Timestamp;
use transaction::FeedEntry;

use crate::request::error::{CommandError, Result};

const TOKEN_BYTES: usize = 25;

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ResumeToken {
    pub(super) timestamp: Timestamp,
    pub(super) position: OplogPosition,
    pub(super) events: u32,
    pub(super) fragments: u32,
    pub(super) is_invalidate: bool,
}

impl ResumeToken {
    /// Behind the only event of an entry.
    pub(super) fn behind_document(entry: &FeedEntry) -> ResumeToken {
        ResumeToken { timestamp: entry.timestamp, position: entry.position, events: 1, ..ResumeToken::default() }
    }

    pub(super) fn data(&self) -> String {
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..8].copy_from_slice(&self.timestamp.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.position.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.events.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.fragments.to_be_bytes());
        bytes[24] = u8::from(self.is_invalidate);
        hex::encode_upper(bytes)
    }

    pub(super) fn document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_data"), self.data());
        document
    }

    /// Reads a token.
    pub(super) fn parse(token: &RawDocument) -> Result<ResumeToken> {
        let invalid = || CommandError::named("InvalidResumeToken", "the resume token is none of this server's");
        let Some(RawBsonRef::String(data)) = document::get_field(token, "_data") else {
            return Err(CommandError::numbered(40647, "Bad resume token: _data of missing or of wrong type"));
        };
        let digits = data.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Vec<u8> = digits.collect::<Option<_>>().ok_or_else(invalid)?;
        if bytes.len() != TOKEN_BYTES {
            return Err(invalid());
        }
        let number = |from: usize, count: usize| {
            bytes.iter().skip(from).take(count).fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        Ok(ResumeToken {
            timestamp: Timestamp(number(0, 8)),
            position: OplogPosition(number(8, 8)),
            events: number(16, 4) as u32,
            fragments: number(20, 4) as u32,
            is_invalidate: number(24, 1) == 1,
        })
    }
}

/// Whether a value is a token, as the `_id` of every event must be.
pub(super) fn is_token(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Document(token) if ResumeToken::parse(token).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_and_sort_by_time() {
        let token = ResumeToken {
            timestamp: Timestamp(77 << 32 | 5),
            position: OplogPosition(123_456),
            events: 3,
            fragments: 1,
            is_invalidate: true,
        };
        assert_eq!(ResumeToken::parse(&token.document()).unwrap(), token);
        let later = ResumeToken { timestamp: Timestamp(78 << 32), ..ResumeToken::default() };
        assert!(later.data() > token.data());
        assert!(ResumeToken::parse(&bson::rawdoc! { "_data": "82" }).is_err());
        assert!(ResumeToken::parse(&bson::rawdoc! { "data": "82" }).is_err());
    }
}
