//! The size that a value built by an expression may have, so that no expression takes memory without bound.

use bson::raw::{RawBson, RawBsonRef};
use document::{array_elements, elements};

use super::value::Value;
use crate::error::{ErrorKind, QueryError, Result};

/// Bytes of one built value, MongoDB's limit for values on their way to a document.
pub(crate) const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Refuses to build a value of more bytes than the limit.
pub(crate) fn check_bytes(bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX {
        let message = format!("BufBuilder attempted to grow() to {bytes} bytes, past the 64MB limit.");
        return Err(QueryError::new(ErrorKind::Location(13548), message));
    }
    Ok(())
}

/// Passes a value on when it is within the limit.
pub(crate) fn checked(value: Value<'_>) -> Result<Value<'_>> {
    if let Value::Owned(owned) = &value {
        check_bytes(match owned {
            RawBson::String(text) => text.len(),
            RawBson::Array(array) => array.as_bytes().len(),
            RawBson::Document(document) => document.as_bytes().len(),
            _ => 0,
        })?;
    }
    Ok(value)
}

/// Levels of documents and arrays that a value may have, MongoDB's limit.
const DEPTH_MAX: usize = 200;

/// Refuses a value nested too deep. Only an expression that wraps its own result needs to ask: `$reduce`.
pub(crate) fn check_depth(value: &Value<'_>) -> Result<()> {
    match value.get() {
        Some(value) if exceeds(value, DEPTH_MAX) => {
            let message = format!("BSONObj exceeded maximum nested object depth: {DEPTH_MAX}");
            Err(QueryError::new(ErrorKind::Overflow, message))
        }
        _ => Ok(()),
    }
}

fn exceeds(value: RawBsonRef<'_>, levels: usize) -> bool {
    let mut inner = match value {
        RawBsonRef::Document(document) => elements(document),
        RawBsonRef::Array(array) => array_elements(array),
        _ => return false,
    };
    let Some(levels) = levels.checked_sub(1) else { return true };
    inner.any(|element| exceeds(element.value(), levels))
}
