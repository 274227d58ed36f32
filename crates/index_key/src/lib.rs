//! Index keys: BSON values as bytes whose `memcmp` order is the order of `document::compare_values`.
//!
//! A key is the concatenation of its components, each self-delimiting; a descending component has all its bytes
//! inverted. An index entry is key ‖ record id. Values that compare equal have equal key bytes whatever their types;
//! what tells them apart is kept in [`TypeBits`], which callers store as the entry's value.
//!
//! ```text
//! component   first byte   then
//! ---------   ----------   ---------------------------------------------------------------
//! number      10..=A3      see `number.rs`: 1 byte for 0..=31, 2-5 up to 2^31, 9 for most doubles
//! text        A8 | D0      bytes with 00 and 01 escaped as 01 01 and 01 02, then 00
//! object      AC           per element: bracket byte, name, 00, component; then 00
//! array       B0           per element: component; then 00
//! binary      B4           length, subtype, bytes
//! others      see `layout` fixed length, or text
//! ```
//!
//! No component starts with 00 or FF in either direction, so a prefix followed by FF is just after every key that
//! starts with the prefix (`bound.rs`).
//!
//! An index with a collation has the collator's sort keys as text (`KeyPattern::collator`), which cannot be decoded.
//! A key that is too long for a tree is stored with a digest (`long_key.rs`); everywhere else keys are whole.
//!
//! Called by `collection` (keys of a document, decoding for validate), `planner` and `executor` (bounds, covered
//! queries). It must not know of trees, collections or queries.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bound;
mod cursor;
mod decode;
mod encode;
mod error;
mod generate;
mod key_pattern;
mod key_set;
mod layout;
pub mod long_key;
mod multikey;
mod number;
mod number_decode;
mod places;
mod reader;
mod record_id;
#[cfg(test)]
mod tests;
mod text;
mod type_bits;
mod wildcard;

pub use bound::{append_after_prefix, append_max_key, append_min_key, encode_prefix};
pub use decode::{decode_key, decode_key_with_names, decode_wanted, show_sort_key};
pub use encode::{encode_collated_value, encode_value, encode_value_with_type_bits, encode_view};
pub use error::KeyError;
pub use generate::{ExtractedFields, KeyGenerator, Sparse, keys_for_document};
pub use key_pattern::{Direction, FieldKind, KeyField, KeyPattern};
pub use key_set::{KeyEntry, KeyLimits, KeySet};
pub use places::PlaceCells;
pub use reader::{KeyReader, KeyText, KeyValue, decode_number_at};
pub use record_id::{append_record_id, decode_record_key, record_key, split_record_id};
pub use text::key_term;
pub use type_bits::TypeBits;
pub use wildcard::WildcardPaths;
