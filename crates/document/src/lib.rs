//! What the server knows about BSON documents beyond their bytes: order, equality, numbers, paths, validity.
//!
//! Works on the `bson` crate's raw types (`RawDocument`, `RawBsonRef`); nothing here allocates or copies documents on
//! the hot paths. Called by every crate that looks into documents: `index_key`, `query_language`, `collection`,
//! `planner`, `executor`, `aggregation`, `commands`. It must not know of collections, indexes, commands or storage.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod borrow_bson;
pub mod collation;
mod compare;
pub mod decimal;
mod element;
mod error;
mod exact;
mod hash;
mod index_hash;
mod number;
mod object_id;
mod path;
mod storable;
#[cfg(any(test, feature = "strategies"))]
pub mod strategies;
#[cfg(test)]
mod tests;
mod validate;
mod value_view;
mod walk;
pub mod work;

pub use compare::{
    CanonicalType, canonical_type, canonical_type_of, compare_documents, compare_stored_documents, compare_values,
    compare_views, stored_binary_length, type_name, values_equal,
};
pub use decimal::Decimal;
pub use element::{
    Element, Elements, array_elements, elements, elements_of_bytes, raw_array, same_name, split_element, stored_length,
    stored_value,
};
pub use error::DocumentError;
pub use exact::{compare_double_with_decimal, decompose};
pub use hash::{hash_value, hash_view};
pub use index_hash::{index_hash, index_hash_of_stored};
pub use number::Number;
pub use object_id::ObjectIdGenerator;
pub use path::{FieldPath, get_element, get_field, get_path};
pub use storable::{EmptyTimestamps, append_element_bytes, document_id, prepare_for_storage, validate_id};
pub use validate::{DEPTH_MAX, INTERNAL_DOCUMENT_BYTES_MAX, Limits, USER_DOCUMENT_BYTES_MAX, validate_document};
pub use value_view::{ValueView, with_view};
pub use walk::{LeafArrays, PathItem, walk_path};
pub use work::Interruption;
