//! What a document may be at most after an update: its size and how deep it nests.

use super::UpdatePurpose;
use super::element::{Element, elements_of_bytes, is_container};
pub(super) use document::DEPTH_MAX;
use document::USER_DOCUMENT_BYTES_MAX;

use crate::error::{ErrorKind, QueryError, Result};

/// Levels of documents and arrays in a value: 0 for a scalar. Counting stops beyond `DEPTH_MAX`.
pub(super) fn nesting_depth(value: &Element<'_>) -> usize {
    match is_container(value) {
        true => levels(value.value_bytes(), DEPTH_MAX + 1),
        false => 0,
    }
}

/// Levels of a document, itself included, but no more than `most`.
fn levels(bytes: &[u8], most: usize) -> usize {
    if most == 0 {
        return 0;
    }
    let members = elements_of_bytes(bytes).filter(is_container);
    1 + members.map(|member| levels(member.value_bytes(), most - 1)).max().unwrap_or(0)
}

/// Refuses a document that has become too large.
pub(super) fn check_size(bytes: &[u8], purpose: UpdatePurpose) -> Result<()> {
    check_length(bytes.len(), purpose)
}

/// The same for one that would have so many bytes or more.
pub(super) fn check_length(bytes: usize, purpose: UpdatePurpose) -> Result<()> {
    if bytes <= USER_DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let (number, what) = match purpose {
        UpdatePurpose::Modify => (17419, "Resulting document after update"),
        UpdatePurpose::Insert => (17420, "Document to upsert"),
    };
    Err(QueryError::new(ErrorKind::Location(number), format!("{what} is larger than {USER_DOCUMENT_BYTES_MAX}")))
}

/// Refuses a document that nests too deep.
pub(super) fn check_depth(bytes: &[u8]) -> Result<()> {
    match levels(bytes, DEPTH_MAX + 1) > DEPTH_MAX {
        false => Ok(()),
        true => {
            let message = format!("Document exceeds maximum nesting depth of {DEPTH_MAX}");
            Err(QueryError::new(ErrorKind::Overflow, message))
        }
    }
}
