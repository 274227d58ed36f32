//! The one error type of this crate. MongoDB's numbers are attached in `commands`.

use bson::RawDocumentBuf;
use document::Interruption;
use document::collation::CollationError;
use index_key::KeyError;
use oplog::OplogError;
use query_language::{ErrorKind, QueryError};
use storage_engine::EngineError;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, CollectionError>;

/// What can go wrong with namespaces, definitions, records and indexes. Each variant names MongoDB's code.
#[derive(Debug, thiserror::Error)]
pub enum CollectionError {
    /// InvalidNamespace (73).
    #[error("{0}")]
    InvalidNamespace(String),
    /// NamespaceNotFound (26).
    #[error("{0}")]
    NamespaceNotFound(String),
    /// NamespaceExists (48).
    #[error("{0}")]
    NamespaceExists(String),
    /// DatabaseDifferCase (13297).
    #[error("db already exists with different case already have: [{existing}] trying to create [{requested}]")]
    DatabaseDifferCase {
        /// The database that is there.
        existing: String,
        /// The one asked for.
        requested: String,
    },
    /// QueryPlanKilled (175): the collection was dropped while an operation was using it.
    #[error("collection dropped. UUID {uuid}")]
    CollectionDropped {
        /// Of the collection that is gone.
        uuid: bson::Uuid,
    },
    /// QueryPlanKilled (175): the index was dropped while a cursor was reading it.
    #[error("query plan killed :: index '{name}' dropped")]
    IndexDropped {
        /// Of the index that is gone.
        name: String,
    },
    /// InvalidOptions (72).
    #[error("{0}")]
    InvalidOptions(String),
    /// BadValue (2).
    #[error("{0}")]
    BadValue(String),
    /// TypeMismatch (14).
    #[error("{0}")]
    TypeMismatch(String),
    /// FailedToParse (9).
    #[error("{0}")]
    FailedToParse(String),
    /// NotImplemented (238): MongoDB knows it, Plimsoll does not yet.
    #[error("{0}")]
    NotImplemented(String),
    /// Location40415: an unknown field.
    #[error("BSON field '{owner}.{field}' is an unknown field.")]
    UnknownField {
        /// The structure it was found in.
        owner: &'static str,
        /// Its name.
        field: String,
    },
    /// Location40414: a field that must be there.
    #[error("BSON field '{0}' is missing but a required field")]
    MissingField(&'static str),
    /// Location51024: a number beyond its bounds.
    #[error("{0}")]
    OutOfBounds(String),
    /// A collation is not right; its own error has MongoDB's code.
    #[error(transparent)]
    Collation(#[from] CollationError),
    /// CannotCreateIndex (67).
    #[error("{0}")]
    CannotCreateIndex(String),
    /// InvalidIndexSpecificationOption (197).
    #[error("{0}")]
    InvalidIndexSpecificationOption(String),
    /// IndexAlreadyExists (68).
    #[error("{0}")]
    IndexAlreadyExists(String),
    /// IndexOptionsConflict (85).
    #[error("{0}")]
    IndexOptionsConflict(String),
    /// IndexKeySpecsConflict (86).
    #[error("{0}")]
    IndexKeySpecsConflict(String),
    /// IllegalOperation (20).
    #[error("{0}")]
    IllegalOperation(String),
    /// Location5979800.
    #[error("It is illegal to drop the clusteredIndex")]
    DropsClusteredIndex,
    /// IndexNotFound (27).
    #[error("{0}")]
    IndexNotFound(String),
    /// An index key longer than the engine stores (KeyTooLong, 17280).
    #[error("Index key of {bytes} bytes for index '{index}' is larger than the limit of {bytes_max} bytes")]
    KeyTooLong {
        /// Index name.
        index: String,
        /// Length of the key.
        bytes: usize,
        /// Longest key.
        bytes_max: usize,
    },
    /// Whoever wanted the work done asked it to stop; what it had begun is undone.
    #[error("the operation was stopped")]
    Stopped,
    /// IndexBuildAborted (276).
    #[error("Index build aborted: {0}")]
    IndexBuildAborted(String),
    /// BackgroundOperationInProgressForNamespace (12587).
    #[error("{0}")]
    IndexBuildInProgress(String),
    /// DuplicateKey (11000).
    #[error("{0}")]
    DuplicateKey(Box<DuplicateKey>),
    /// InvalidIdField (53).
    #[error("{0}")]
    InvalidIdField(String),
    /// ImmutableField (66).
    #[error("{0}")]
    ImmutableField(String),
    /// BSONObjectTooLarge (10334).
    #[error("BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and 16793600(16MB)")]
    DocumentTooLarge {
        /// Size of the document.
        bytes: usize,
    },
    /// BSONObjectTooLarge (10334): a collection's options and indexes together.
    #[error("the definitions of {namespace} and its indexes would take {bytes} bytes, and {bytes_max} are the most")]
    DefinitionTooLarge {
        /// The collection.
        namespace: String,
        /// What they would take.
        bytes: usize,
        /// What they may take.
        bytes_max: usize,
    },
    /// ExceededMemoryLimit (146).
    #[error("the document changes more than 2000000 index entries, the most that one document may change")]
    TooManyIndexEntries,
    /// InvalidBSON (22).
    #[error("{0}")]
    InvalidBson(String),
    /// DocumentValidationFailure (121). `details` becomes `errInfo`.
    #[error("Document failed validation")]
    ValidationFailed {
        /// `{failingDocumentId, details}`.
        details: Box<RawDocumentBuf>,
    },
    /// From parsing or evaluating a filter.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// From key patterns and the keys of documents.
    #[error(transparent)]
    IndexKey(#[from] KeyError),
    /// From the storage engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// From the oplog.
    #[error(transparent)]
    Oplog(#[from] OplogError),
    /// A page of a collection or index is damaged on disk. The others can still be read.
    #[error("{what} is damaged on disk: {cause}; run 'plimsoll repair' to save what can be read")]
    DamagedData {
        /// The collection or index.
        what: String,
        /// What is wrong.
        cause: EngineError,
    },
    /// A collection or an index that is not used any more, because it lacks changes or its definition cannot be read.
    #[error("{what} is set aside: {reason}; {advice}")]
    SetAside {
        /// The collection or index.
        what: String,
        /// What is damaged.
        reason: String,
        /// The way out.
        advice: &'static str,
    },
    /// What is stored does not make sense: a damaged catalog, record or oplog entry.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
}

/// Of a loop over what a command was given.
impl From<Interruption> for CollectionError {
    fn from(interruption: Interruption) -> Self {
        Self::IndexKey(interruption.into())
    }
}

impl CollectionError {
    /// Whether the command is to stop, and nothing is wrong.
    pub fn is_interruption(&self) -> bool {
        match self {
            CollectionError::Stopped | CollectionError::IndexKey(KeyError::Interrupted(_)) => true,
            CollectionError::Query(error) => matches!(error.kind, ErrorKind::Interrupted(_)),
            _ => false,
        }
    }

    /// Whether what is stored is not what was written, so that trying again does not help.
    pub fn is_damage(&self) -> bool {
        match self {
            CollectionError::Damaged(_) | CollectionError::DamagedData { .. } | CollectionError::SetAside { .. } => {
                true
            }
            CollectionError::Engine(error) => error.is_damage(),
            _ => false,
        }
    }

    /// For stored BSON that cannot be read.
    pub(crate) fn damaged(what: &str) -> impl FnOnce(bson::error::Error) -> CollectionError + '_ {
        move |error| CollectionError::Damaged(format!("{what}: {error}"))
    }
}

/// A violation of a unique index, with what `errInfo`-like fields of the reply need.
#[derive(Debug, Clone)]
pub struct DuplicateKey {
    /// `database.collection`.
    pub namespace: String,
    /// Index name.
    pub index: String,
    /// The index's key pattern.
    pub key_pattern: RawDocumentBuf,
    /// The violating values under the key pattern's field names.
    pub key_value: RawDocumentBuf,
    /// The violating values as MongoDB's message prints them, e.g. `{ a: 1 }`.
    pub key_text: String,
    /// The collation of the index, as the message prints it.
    pub collation: Option<String>,
}

impl std::fmt::Display for DuplicateKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "E11000 duplicate key error collection: {} index: {}", self.namespace, self.index)?;
        if let Some(collation) = &self.collation {
            write!(formatter, " collation: {collation}")?;
        }
        write!(formatter, " dup key: {}", self.key_text)
    }
}
