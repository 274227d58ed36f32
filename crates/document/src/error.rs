//! The one error type of this crate: why bytes are not an acceptable document.

/// Why bytes are not an acceptable document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The bytes are not BSON (MongoDB: InvalidBSON).
    #[error("{reason} in element with field name '{field}'")]
    InvalidBson {
        /// What is wrong.
        reason: &'static str,
        /// The innermost field that was being read, as far as it is readable.
        field: String,
    },
    /// Nested deeper than the limit (MongoDB: Overflow).
    #[error("BSONObj exceeded maximum nested object depth: {limit}")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// Larger than the limit (MongoDB: BSONObjectTooLarge).
    #[error("BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {limit}(16MB)")]
    TooLarge {
        /// The size found, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The `_id` has a type that is not allowed (MongoDB: InvalidIdField).
    #[error("The '_id' value cannot be of type {type_name}")]
    InvalidIdType {
        /// MongoDB's name of the type.
        type_name: &'static str,
    },
    /// A document to be stored has more than one `_id` (MongoDB: BadValue).
    #[error("can't have multiple _id fields in one document")]
    MultipleIds,
    /// A document as `_id` has a field that starts with `$` (MongoDB: DollarPrefixedFieldName).
    #[error("_id fields may not contain '$'-prefixed fields: {field} is not valid for storage.")]
    DollarPrefixedIdField {
        /// The field's name.
        field: String,
    },
}
