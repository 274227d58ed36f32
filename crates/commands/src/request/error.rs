//! The error a command answers with, and how the errors of the crates below become one.
//!
//! Used by every command; `dispatcher` writes it as the reply, write commands write it into `writeErrors`.

use std::borrow::Cow;

use aggregation::AggregationError;
use bson::RawDocumentBuf;
use collection::CollectionError;
use document::DocumentError;
use document::collation::CollationError;
use index_key::KeyError;
use oplog::OplogError;
use query_language::{ErrorKind, QueryError};
use storage_engine::EngineError;
use text_search::TextError;
use transaction::TransactionError;

use crate::DocumentWriter;
use crate::request::error_codes::{code_of, name_of};

/// Shorthand for results of commands.
pub type Result<T> = std::result::Result<T, CommandError>;

/// An error as clients see it.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandError {
    /// The number.
    pub code: i32,
    /// The name of the number; `Location<number>` for numbered ones.
    pub code_name: Cow<'static, str>,
    /// The text.
    pub message: String,
    /// `errorLabels`.
    pub labels: Vec<&'static str>,
    /// Further fields of the reply: `keyPattern` and `keyValue` of duplicate keys, `errInfo` of validation.
    pub details: Option<Box<RawDocumentBuf>>,
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({}): {}", self.code_name, self.code, self.message)
    }
}

impl std::error::Error for CommandError {}

impl CommandError {
    /// An error by its name in the list of error codes.
    pub fn named(name: &'static str, message: impl Into<String>) -> Self {
        let code_name = Cow::Borrowed(name);
        Self { code: code_of(name), code_name, message: message.into(), labels: Vec::new(), details: None }
    }

    /// A numbered error.
    pub fn numbered(code: u32, message: impl Into<String>) -> Self {
        Self {
            code: code as i32,
            code_name: Cow::Owned(format!("Location{code}")),
            message: message.into(),
            labels: Vec::new(),
            details: None,
        }
    }

    /// An error of any code that clients may know.
    pub(crate) fn of_code(code: i32, message: impl Into<String>) -> Self {
        match name_of(code) {
            Some(name) => Self::named(name, message),
            None => Self { code, ..Self::numbered(code.unsigned_abs(), message) },
        }
    }

    /// BadValue (2).
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::named("BadValue", message)
    }

    /// TypeMismatch (14).
    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::named("TypeMismatch", message)
    }

    /// FailedToParse (9).
    pub fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::named("FailedToParse", message)
    }

    /// NotImplemented (238): something MongoDB knows and Plimsoll refuses by name.
    pub fn not_implemented(what: impl std::fmt::Display) -> Self {
        Self::named("NotImplemented", format!("{what} is not implemented by Plimsoll yet"))
    }

    /// Adds a label.
    pub(crate) fn add_label(&mut self, label: &'static str) {
        if !self.labels.contains(&label) {
            self.labels.push(label);
        }
    }

    /// Whether a whole transaction may be tried again after this error in it.
    pub(crate) fn is_transient_in_transaction(&self, at_its_end: bool) -> bool {
        const TRANSIENT: [i32; 6] = [24, 112, 239, 246, 251, 267];
        TRANSIENT.contains(&self.code) || (!at_its_end && self.is_retryable())
    }

    /// The same in a transaction: what has been taken away from it while it used it is there, or not, for another try.
    pub(crate) fn in_transaction(self) -> Self {
        if self.code_name != "QueryPlanKilled" {
            return self;
        }
        Self { details: self.details, labels: self.labels, ..Self::named("SnapshotUnavailable", self.message) }
    }

    /// Whether a change stream is over after this error, and cannot be resumed where it was.
    pub(crate) fn ends_change_stream(&self) -> bool {
        const FATAL: [i32; 2] = [280, 286];
        FATAL.contains(&self.code)
    }

    /// Whether the command was asked to end or has run out of time.
    pub(crate) fn is_interruption(&self) -> bool {
        const INTERRUPTIONS: [i32; 3] = [50, 11600, 11601];
        INTERRUPTIONS.contains(&self.code)
    }

    /// Whether a write may be tried again after this error: the codes of the drivers' specification of retryable writes.
    pub(crate) fn is_retryable(&self) -> bool {
        const RETRYABLE: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];
        RETRYABLE.contains(&self.code)
    }

    /// Whether a driver resumes a change stream after this error: the codes of the drivers' specification of change streams.
    pub(crate) fn is_resumable_in_change_stream(&self) -> bool {
        const RESUMABLE: [i32; 17] =
            [6, 7, 43, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13435, 13436];
        let is_final = self.labels.contains(&"NonResumableChangeStreamError");
        !is_final && RESUMABLE.contains(&self.code)
    }

    /// Whether it says that the server is no primary, or will not be: it comes with the topology version, by which drivers tell old news.
    pub(crate) fn is_of_topology(&self) -> bool {
        const OF_TOPOLOGY: [i32; 7] = [91, 189, 10107, 11600, 11602, 13435, 13436];
        OF_TOPOLOGY.contains(&self.code)
    }

    /// Adds further fields of the reply.
    pub(crate) fn with_details(mut self, details: RawDocumentBuf) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Writes the fields that follow `ok: 0`.
    pub(crate) fn write_fields(&self, reply: &mut DocumentWriter<'_>) {
        reply.string("errmsg", &self.message);
        reply.int32("code", self.code);
        reply.string("codeName", &self.code_name);
        self.write_details(reply);
        if !self.labels.is_empty() {
            reply.array("errorLabels", |labels| self.labels.iter().for_each(|label| labels.push_string(label)));
        }
    }

    /// Writes the further fields.
    pub(crate) fn write_details(&self, reply: &mut DocumentWriter<'_>) {
        if let Some(details) = &self.details {
            document::elements(details).for_each(|element| reply.element(element));
        }
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> Self {
        match error.kind {
            ErrorKind::Location(number) => Self::numbered(number, error.message),
            ErrorKind::Interrupted(name) => Self::named(name, error.message),
            kind => Self::named(query_error_name(kind), error.message),
        }
    }
}

fn query_error_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::BadValue => "BadValue",
        ErrorKind::FailedToParse => "FailedToParse",
        ErrorKind::TypeMismatch => "TypeMismatch",
        ErrorKind::Overflow => "Overflow",
        ErrorKind::InvalidIdField => "InvalidIdField",
        ErrorKind::NotSingleValueField => "NotSingleValueField",
        ErrorKind::DollarPrefixedFieldName => "DollarPrefixedFieldName",
        ErrorKind::EmptyFieldName => "EmptyFieldName",
        ErrorKind::DottedFieldName => "DottedFieldName",
        ErrorKind::PathNotViable => "PathNotViable",
        ErrorKind::ConflictingUpdateOperators => "ConflictingUpdateOperators",
        ErrorKind::ImmutableField => "ImmutableField",
        ErrorKind::InvalidOptions => "InvalidOptions",
        ErrorKind::InvalidNamespace => "InvalidNamespace",
        ErrorKind::NotImplemented => "NotImplemented",
        ErrorKind::ConversionFailure => "ConversionFailure",
        ErrorKind::BsonObjectTooLarge => "BSONObjectTooLarge",
        ErrorKind::ExceededMemoryLimit => "ExceededMemoryLimit",
        ErrorKind::InvalidPipelineOperator => "InvalidPipelineOperator",
        ErrorKind::QueryFeatureNotAllowed => "QueryFeatureNotAllowed",
        ErrorKind::CannotBackfillArray => "CannotBackfillArray",
        ErrorKind::NoSuchKey => "NoSuchKey",
        ErrorKind::IndexNotFound => "IndexNotFound",
        ErrorKind::NotExactValueField => "NotExactValueField",
        ErrorKind::InvalidBson => "InvalidBSON",
        ErrorKind::JsInterpreterFailure => "JSInterpreterFailure",
        ErrorKind::QueryExceededMemoryLimitNoDiskUseAllowed => "QueryExceededMemoryLimitNoDiskUseAllowed",
        ErrorKind::Interrupted(_) | ErrorKind::Location(_) => "UnknownError",
    }
}

impl From<DocumentError> for CommandError {
    fn from(error: DocumentError) -> Self {
        let name = match error {
            DocumentError::InvalidBson { .. } => "InvalidBSON",
            DocumentError::TooDeep { .. } => "Overflow",
            DocumentError::TooLarge { .. } => "BSONObjectTooLarge",
            DocumentError::InvalidIdType { .. } => "InvalidIdField",
            DocumentError::MultipleIds => "BadValue",
            DocumentError::DollarPrefixedIdField { .. } => "DollarPrefixedFieldName",
        };
        Self::named(name, error.to_string())
    }
}

impl From<CollationError> for CommandError {
    fn from(error: CollationError) -> Self {
        let message = error.to_string();
        match error {
            CollationError::BadValue(_) => Self::named("BadValue", message),
            CollationError::TypeMismatch(_) => Self::named("TypeMismatch", message),
            CollationError::MissingLocale => Self::numbered(40414, message),
            CollationError::UnknownField(_) => Self::numbered(40415, message),
            CollationError::IncompatibleVersion(_) => Self::named("IncompatibleCollationVersion", message),
            CollationError::NotImplemented(_) => Self::named("NotImplemented", message),
        }
    }
}

impl From<TextError> for CommandError {
    fn from(error: TextError) -> Self {
        let message = error.to_string();
        match error {
            TextError::Definition(_) => Self::named("CannotCreateIndex", message),
            TextError::UnknownOverride(_) => Self::numbered(17262, message),
            TextError::OverrideNoText => Self::numbered(17261, message),
            TextError::UnknownLanguage(_) => Self::named("BadValue", message),
            TextError::NoMemory { .. } => Self::named("ExceededMemoryLimit", message),
            TextError::Interrupted(interruption) => Self::named(interruption.name, message),
        }
    }
}

impl From<KeyError> for CommandError {
    fn from(error: KeyError) -> Self {
        let message = error.to_string();
        match error {
            KeyError::CannotCreateIndex(_) => Self::named("CannotCreateIndex", message),
            KeyError::FailedToParse(_) => Self::named("FailedToParse", message),
            KeyError::NotImplemented(_) => Self::named("NotImplemented", message),
            KeyError::TooManyFields => Self::numbered(13103, message),
            KeyError::TooManyHashed { .. } => Self::numbered(31303, message),
            KeyError::UniqueHashed => Self::numbered(16764, message),
            KeyError::HashedArray { .. } => Self::numbered(16766, message),
            KeyError::BadPlace { .. } => Self::numbered(16755, message),
            KeyError::BadPair { code, .. } | KeyError::BadPlane { code, .. } => Self::numbered(code, message),
            KeyError::ArrayBesideText { .. } => Self::numbered(16675, message),
            KeyError::Text(error) => Self::from(error),
            KeyError::ParallelArrays { .. } => Self::named("CannotIndexParallelArrays", message),
            KeyError::AmbiguousFieldName { .. } => Self::numbered(16746, message),
            // The collection names the index.
            KeyError::KeyTooLong { .. } => Self::numbered(17280, message),
            KeyError::NoMemory { .. } => Self::named("ExceededMemoryLimit", message),
            KeyError::Interrupted(interruption) => Self::named(interruption.name, message),
            KeyError::Malformed => Self::named("InternalError", message),
        }
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::RingPositionLost => Self::named(
                "CappedPositionLost",
                "CollectionScan died due to position in capped collection being deleted. ".to_owned() + &message,
            ),
            EngineError::SnapshotTooOld => Self::named("SnapshotTooOld", message),
            EngineError::KeyTooLong { .. } => Self::named("KeyTooLong", message),
            EngineError::ValueTooLong { .. } => Self::named("BSONObjectTooLarge", message),
            EngineError::NoMemory(_) => Self::named("ExceededMemoryLimit", message),
            error if error.is_disk_full() => Self::named("OutOfDiskSpace", message),
            _ => Self::named("InternalError", message),
        }
    }
}

impl From<OplogError> for CommandError {
    fn from(error: OplogError) -> Self {
        let name = if matches!(error, OplogError::DiskFull) { "OutOfDiskSpace" } else { "InternalError" };
        Self::named(name, error.to_string())
    }
}

impl From<CollectionError> for CommandError {
    fn from(error: CollectionError) -> Self {
        let message = error.to_string();
        let name = match error {
            CollectionError::Query(error) => return error.into(),
            CollectionError::Collation(error) => return error.into(),
            CollectionError::IndexKey(error) => return error.into(),
            CollectionError::Engine(error) => return error.into(),
            CollectionError::Oplog(error) => return error.into(),
            CollectionError::DuplicateKey(duplicate) => {
                let mut details = RawDocumentBuf::new();
                details.append(bson::raw::cstr!("keyPattern"), duplicate.key_pattern.clone());
                details.append(bson::raw::cstr!("keyValue"), duplicate.key_value.clone());
                return Self::named("DuplicateKey", message).with_details(details);
            }
            CollectionError::ValidationFailed { details } => {
                let mut info = RawDocumentBuf::new();
                info.append(bson::raw::cstr!("errInfo"), *details);
                return Self::named("DocumentValidationFailure", message).with_details(info);
            }
            CollectionError::DropsClusteredIndex => return Self::numbered(5979800, message),
            CollectionError::OutOfBounds(_) => return Self::numbered(51024, message),
            CollectionError::MissingField(_) => return Self::numbered(40414, message),
            CollectionError::UnknownField { .. } => return Self::numbered(40415, message),
            CollectionError::InvalidNamespace(_) => "InvalidNamespace",
            CollectionError::NamespaceNotFound(_) => "NamespaceNotFound",
            CollectionError::NamespaceExists(_) => "NamespaceExists",
            CollectionError::DatabaseDifferCase { .. } => "DatabaseDifferCase",
            CollectionError::CollectionDropped { .. } | CollectionError::IndexDropped { .. } => "QueryPlanKilled",
            CollectionError::InvalidOptions(_) => "InvalidOptions",
            CollectionError::BadValue(_) => "BadValue",
            CollectionError::TypeMismatch(_) => "TypeMismatch",
            CollectionError::FailedToParse(_) => "FailedToParse",
            CollectionError::NotImplemented(_) => "NotImplemented",
            CollectionError::CannotCreateIndex(_) => "CannotCreateIndex",
            CollectionError::InvalidIndexSpecificationOption(_) => "InvalidIndexSpecificationOption",
            CollectionError::IndexAlreadyExists(_) => "IndexAlreadyExists",
            CollectionError::IndexOptionsConflict(_) => "IndexOptionsConflict",
            CollectionError::IndexKeySpecsConflict(_) => "IndexKeySpecsConflict",
            CollectionError::IllegalOperation(_) => "IllegalOperation",
            CollectionError::IndexNotFound(_) => "IndexNotFound",
            CollectionError::KeyTooLong { .. } => "KeyTooLong",
            CollectionError::IndexBuildAborted(_) => "IndexBuildAborted",
            CollectionError::IndexBuildInProgress(_) => "BackgroundOperationInProgressForNamespace",
            CollectionError::Stopped => "Interrupted",
            CollectionError::InvalidIdField(_) => "InvalidIdField",
            CollectionError::ImmutableField(_) => "ImmutableField",
            CollectionError::DocumentTooLarge { .. } | CollectionError::DefinitionTooLarge { .. } => {
                "BSONObjectTooLarge"
            }
            CollectionError::TooManyIndexEntries => "ExceededMemoryLimit",
            CollectionError::InvalidBson(_) => "InvalidBSON",
            CollectionError::Damaged(_) | CollectionError::DamagedData { .. } | CollectionError::SetAside { .. } => {
                "InternalError"
            }
        };
        Self::named(name, message)
    }
}

impl From<TransactionError> for CommandError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Collection(error) => error.into(),
            TransactionError::Engine(error) => error.into(),
            TransactionError::Oplog(error) => error.into(),
            error => {
                let name = match error {
                    TransactionError::OutOfSpace { .. } | TransactionError::OutOfPages { .. } => "OutOfDiskSpace",
                    TransactionError::TooManyStatements(_) => "InvalidLength",
                    TransactionError::TransactionTooOld(_) => "TransactionTooOld",
                    TransactionError::IncompleteTransactionHistory(_) => "IncompleteTransactionHistory",
                    TransactionError::TooManySessions => "TooManyLogicalSessions",
                    TransactionError::LockTimeout(_) => "LockTimeout",
                    TransactionError::SnapshotUnavailable(_) => "SnapshotUnavailable",
                    TransactionError::WriteConflict => "WriteConflict",
                    TransactionError::NoSuchTransaction(_) => "NoSuchTransaction",
                    TransactionError::TransactionCommitted(_) => "TransactionCommitted",
                    TransactionError::ConflictingOperation(_) => "ConflictingOperationInProgress",
                    TransactionError::TransactionTooLarge(_) => "TransactionTooLargeForCache",
                    TransactionError::NotInTransaction(_) => "OperationNotSupportedInTransaction",
                    TransactionError::Interrupted => "Interrupted",
                    TransactionError::TermLost => "InterruptedDueToReplStateChange",
                    TransactionError::LogUnreachable | TransactionError::NotPrimary => "NotWritablePrimary",
                    _ => "InternalError",
                };
                Self::named(name, error.to_string())
            }
        }
    }
}

impl From<bson::error::Error> for CommandError {
    fn from(error: bson::error::Error) -> Self {
        Self::named("InvalidBSON", error.to_string())
    }
}

impl From<AggregationError> for CommandError {
    fn from(error: AggregationError) -> Self {
        match error {
            AggregationError::Query(error) => error.into(),
            AggregationError::Host(error) => match error.downcast::<CommandError>() {
                Ok(ours) => *ours,
                Err(other) => Self::named("InternalError", other.to_string()),
            },
        }
    }
}
