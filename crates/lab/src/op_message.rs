//! OP_MSG without a driver: a command as bytes, and the document of a reply. The one place that knows how they are laid out.
//!
//! Used by the raw clients of `point_operations` (blocking, prepared ahead) and of `certify` (thousands of cheap connections).
//! Source: the MongoDB driver specification of OP_MSG.

use bson::RawDocument;

const OP_MSG: i32 = 2013;
/// Header, flags and the kind of the first section.
const BODY_OFFSET: usize = 21;
/// Where the number of a request stands, and in a reply that of the request which it answers.
const REQUEST_ID_OFFSET: usize = 4;
const RESPONSE_TO_OFFSET: usize = 8;
const OP_CODE_OFFSET: usize = 12;
/// What a reply may be at most: that of a server gone wrong must not take all memory.
pub(crate) const REPLY_BYTES_MAX: usize = 48_000_000;

/// A message of a body and, as drivers send statements, a document sequence of one. Its number is 0.
pub(crate) fn message(body: &RawDocument, sequence: Option<(&str, &RawDocument)>) -> Vec<u8> {
    let mut bytes = vec![0; BODY_OFFSET];
    bytes.extend_from_slice(body.as_bytes());
    if let Some((name, statement)) = sequence {
        let length = 4 + name.len() + 1 + statement.as_bytes().len();
        bytes.push(1);
        bytes.extend_from_slice(&(length as i32).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(statement.as_bytes());
    }
    let length = bytes.len() as i32;
    write_i32(&mut bytes, 0, length);
    write_i32(&mut bytes, OP_CODE_OFFSET, OP_MSG);
    bytes
}

/// Gives a message its number.
pub(crate) fn number_message(message: &mut [u8], request_id: i32) {
    write_i32(message, REQUEST_ID_OFFSET, request_id);
}

/// How long the message is that begins with these bytes; `None`: that is not known yet.
///
/// # Errors
/// It is longer than any reply may be, or than its own header is.
pub(crate) fn length_of(beginning: &[u8]) -> std::io::Result<Option<usize>> {
    let Some(length) = read_i32(beginning, 0) else { return Ok(None) };
    let length = usize::try_from(length).ok().filter(|length| (16..=REPLY_BYTES_MAX).contains(length));
    length.map(Some).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// The document of a reply to a request, whether or not it tells of an error; or what is wrong with the message.
pub(crate) fn reply_body(reply: &[u8], request_id: i32) -> Result<&RawDocument, String> {
    if (read_i32(reply, RESPONSE_TO_OFFSET), read_i32(reply, OP_CODE_OFFSET)) != (Some(request_id), Some(OP_MSG)) {
        return Err("not an OP_MSG in response to the request".to_owned());
    }
    let length = read_i32(reply, BODY_OFFSET).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let end = BODY_OFFSET.saturating_add(length);
    let body = reply.get(BODY_OFFSET..end).filter(|_| reply.get(BODY_OFFSET - 1) == Some(&0));
    RawDocument::from_bytes(body.unwrap_or_default()).map_err(|error| format!("malformed body: {error}"))
}

/// Puts a little-endian number into a message.
pub(crate) fn write_i32(bytes: &mut [u8], offset: usize, value: i32) {
    if let Some(place) = bytes.get_mut(offset..offset + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// A little-endian number of a message.
pub(crate) fn read_i32(bytes: &[u8], offset: usize) -> Option<i32> {
    bytes.get(offset..offset + 4)?.try_into().ok().map(i32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_cut_off_is_told() {
        let body = rawdoc! { "insert": "c", "$db": "test" };
        let mut bytes = message(&body, Some(("documents", &rawdoc! { "_id": 1 })));
        number_message(&mut bytes, 7);
        assert_eq!(read_i32(&bytes, REQUEST_ID_OFFSET), Some(7));
        assert_eq!(length_of(&bytes).unwrap(), Some(bytes.len()));
        assert_eq!(length_of(&bytes[..3]).unwrap(), None);
        write_i32(&mut bytes, RESPONSE_TO_OFFSET, 7);
        assert_eq!(reply_body(&bytes, 7).unwrap(), &*body);
        assert!(reply_body(&bytes, 8).is_err());
        assert!(reply_body(&bytes[..30], 7).is_err());
        assert!(reply_body(&[], 7).is_err());
        for length in [-1, 0, 15, i32::MAX] {
            assert!(length_of(&length.to_le_bytes()).is_err());
        }
    }
}
