//! What index bounds are built from: positions between keys, given as bytes to seek to.
//!
//! With P = the encoded values of a bound (a prefix of the key's components), entries e order as bytes:
//!
//! ```text
//! start, inclusive   seek to P            end, inclusive   stop at e >= P ‖ after
//! start, exclusive   seek to P ‖ after    end, exclusive   stop at e >= P
//! ```
//!
//! For a descending field the caller swaps the ends of its interval; the encoding inverts the rest.

use bson::RawBsonRef;

use crate::encode::{encode_collated_value, encode_value};
use crate::key_pattern::{Direction, KeyPattern};
use crate::layout::AFTER_ALL;

/// Appends the components for `values`, the values of the first fields of `pattern`.
pub fn encode_prefix<'v>(out: &mut Vec<u8>, pattern: &KeyPattern, values: impl IntoIterator<Item = RawBsonRef<'v>>) {
    for (field, value) in pattern.fields().iter().zip(values) {
        encode_collated_value(out, value, field.direction, pattern.collator());
    }
}

/// Makes a prefix the position just after every entry that starts with it.
pub fn append_after_prefix(out: &mut Vec<u8>) {
    out.push(AFTER_ALL);
}

/// Appends a component below every other value of its field, MinKey itself excepted.
pub fn append_min_key(out: &mut Vec<u8>, direction: Direction) {
    encode_value(out, RawBsonRef::MinKey, direction);
}

/// Appends a component above every other value of its field, MaxKey itself excepted.
pub fn append_max_key(out: &mut Vec<u8>, direction: Direction) {
    encode_value(out, RawBsonRef::MaxKey, direction);
}
