//! What a value built by an expression may have in bytes and levels, so that no expression takes memory or stack without bound.

use bson::raw::RawBson;

use super::value::Value;
use crate::depth::check_depth;
use crate::error::{ErrorKind, QueryError, Result};

/// Bytes of one built value, MongoDB's limit for values on their way to a document.
pub(crate) const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes by which the constants of a command's expressions may be longer than what stands in the command.
pub(crate) const CONSTANT_GROWTH_MAX: usize = 1024 * 1024;

/// Values of so many bytes are counted against what the command may hold.
const COUNTED_BYTES: usize = 64 * 1024;

/// Refuses to build a value of more bytes than the limit, or than the command has memory for. What is there already is counted by itself.
pub(crate) fn check_bytes(bytes: usize) -> Result<()> {
    check_growth(bytes, 0)
}

/// The same for a value that has `bytes` and is about to grow to that from `added` bytes less.
pub(crate) fn check_growth(bytes: usize, added: usize) -> Result<()> {
    if bytes >= COUNTED_BYTES {
        crate::before_allocating(added)?;
    }
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

/// Refuses a value that an expression has built and that nests too deep. Asked for what a variable is bound to: an expression that wraps a variable adds
/// its own levels to the variable's, and so would one within another without end. What is borrowed is bounded where it comes from.
pub fn check_bound(value: &Value<'_>) -> Result<()> {
    match value {
        Value::Owned(owned) => check_depth(owned.as_raw_bson_ref()),
        Value::Missing | Value::Borrowed(_) => Ok(()),
    }
}
