//! `$changeStreamSplitLargeEvent`: an event of more than 16 MiB in several documents.
//!
//! Each has some of the top-level fields, `splitEvent: {fragment, of}` and a token of its own, from which the stream goes on behind it.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use collection::append;
use document::elements;

use super::token::ResumeToken;

/// Bytes of an event that is not split.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Room for `_id` and `splitEvent`.
const OWN_BYTES: usize = 512;

/// The fragments of an event, last first, without those that were seen. An event that is not too large is its own only one.
pub(super) fn fragments(event: RawDocumentBuf, to_skip: u32) -> Vec<RawDocumentBuf> {
    if event.as_bytes().len() <= EVENT_BYTES_MAX {
        return if to_skip == 0 { vec![event] } else { Vec::new() };
    }
    let token = match document::get_field(&event, "_id") {
        Some(RawBsonRef::Document(token)) => ResumeToken::parse(token).ok(),
        _ => None,
    };
    let Some(token) = token else { return vec![event] };
    let mut parts: Vec<RawDocumentBuf> = vec![RawDocumentBuf::new()];
    let mut bytes = OWN_BYTES;
    for field in elements(&event).filter(|field| field.name() != "_id") {
        let size = field.value_bytes().len() + field.name().len() + 2;
        if bytes + size > EVENT_BYTES_MAX && bytes > OWN_BYTES {
            parts.push(RawDocumentBuf::new());
            bytes = OWN_BYTES;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            append(part, field.name(), field.value());
        }
    }
    let count = parts.len();
    let fragments = parts.into_iter().enumerate().map(|(position, part)| {
        let is_last = position + 1 == count;
        // Behind the last fragment is behind the event.
        let token = match is_last {
            true => token,
            false => ResumeToken { events: token.events - 1, fragments: position as u32 + 1, ..token },
        };
        let mut fragment = RawDocumentBuf::new();
        fragment.append(cstr!("_id"), token.document());
        fragment.append(cstr!("splitEvent"), rawdoc! { "fragment": position as i32 + 1, "of": count as i32 });
        elements(&part).for_each(|field| append(&mut fragment, field.name(), field.value()));
        fragment
    });
    let mut left: Vec<RawDocumentBuf> = fragments.skip(to_skip as usize).collect();
    left.reverse();
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> RawDocumentBuf {
        let token = ResumeToken { events: 1, ..ResumeToken::default() };
        let large = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![7; 9 << 20] };
        let mut event = rawdoc! { "_id": token.document(), "operationType": "update" };
        event.append(cstr!("fullDocument"), large.clone());
        event.append(cstr!("fullDocumentBeforeChange"), large);
        event
    }

    #[test]
    fn large_events_are_split_at_fields() {
        let parts = fragments(event(), 0);
        assert_eq!(parts.len(), 2);
        let first = parts.last().unwrap();
        assert!(
            first.get("fullDocument").unwrap().is_some() && first.get("fullDocumentBeforeChange").unwrap().is_none()
        );
        assert_eq!(first.get_document("splitEvent").unwrap().get_i32("of").unwrap(), 2);
        assert!(parts[0].get("fullDocumentBeforeChange").unwrap().is_some());
        assert_eq!(fragments(event(), 1).len(), 1);
        assert_eq!(fragments(rawdoc! { "_id": 1 }, 0).len(), 1);
    }
}
