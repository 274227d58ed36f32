//! The one error type of this crate.
//!
//! Kinds carry MongoDB's code names; the numbers of the named ones are attached in `commands`.

use std::fmt;

/// What went wrong, by MongoDB's code name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// BadValue (2).
    BadValue,
    /// FailedToParse (9).
    FailedToParse,
    /// TypeMismatch (14).
    TypeMismatch,
    /// Overflow (15).
    Overflow,
    /// InvalidIdField (53).
    InvalidIdField,
    /// NotSingleValueField (54).
    NotSingleValueField,
    /// DollarPrefixedFieldName (52).
    DollarPrefixedFieldName,
    /// EmptyFieldName (56).
    EmptyFieldName,
    /// DottedFieldName (57).
    DottedFieldName,
    /// PathNotViable (28).
    PathNotViable,
    /// ConflictingUpdateOperators (40).
    ConflictingUpdateOperators,
    /// ImmutableField (66).
    ImmutableField,
    /// InvalidOptions (72).
    InvalidOptions,
    /// InvalidNamespace (73).
    InvalidNamespace,
    /// NotImplemented (238): known to MongoDB, refused here by name.
    NotImplemented,
    /// ConversionFailure (241).
    ConversionFailure,
    /// BSONObjectTooLarge (10334).
    BsonObjectTooLarge,
    /// ExceededMemoryLimit (146).
    ExceededMemoryLimit,
    /// InvalidPipelineOperator (168).
    InvalidPipelineOperator,
    /// QueryFeatureNotAllowed (224).
    QueryFeatureNotAllowed,
    /// InvalidBSON (22).
    InvalidBson,
    /// QueryExceededMemoryLimitNoDiskUseAllowed (292).
    QueryExceededMemoryLimitNoDiskUseAllowed,
    /// CannotBackfillArray (34).
    CannotBackfillArray,
    /// NoSuchKey (4).
    NoSuchKey,
    /// IndexNotFound (27).
    IndexNotFound,
    /// NotExactValueField (111).
    NotExactValueField,
    /// JSInterpreterFailure (139): a script has thrown something.
    JsInterpreterFailure,
    /// The command is to stop: the name of the code that says why (`MaxTimeMSExpired`, `Interrupted`, ...).
    Interrupted(&'static str),
    /// A numbered assertion; its code name is `Location<number>`.
    Location(u32),
}

/// An error of parsing or evaluating a query-language construct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// The kind, which decides the error code.
    pub kind: ErrorKind,
    /// The text shown to the client.
    pub message: String,
}

impl QueryError {
    /// An error of `kind` saying `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}

/// Bytes that do not hold the BSON they announce; documents are validated when they come in, so this is corruption.
impl From<bson::error::Error> for QueryError {
    fn from(error: bson::error::Error) -> Self {
        Self::new(ErrorKind::InvalidBson, error.to_string())
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, QueryError>;
