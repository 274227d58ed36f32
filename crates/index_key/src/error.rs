//! The one error type of this crate.

use document::Interruption;

/// What went wrong with a key pattern, with the keys of a document, or in decoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key pattern is not allowed (MongoDB: CannotCreateIndex, 67).
    #[error("{0}")]
    CannotCreateIndex(String),
    /// The key pattern asks for a kind of index that does not exist here yet (MongoDB: NotImplemented, 238).
    #[error("{0}")]
    NotImplemented(String),
    /// A projection of a wildcard index that makes no sense (MongoDB: FailedToParse, 9).
    #[error("{0}")]
    FailedToParse(String),
    /// More than 32 fields (MongoDB: Location13103).
    #[error("too many compound keys")]
    TooManyFields,
    /// More than one hashed field (MongoDB: Location31303).
    #[error("A maximum of one index field is allowed to be hashed but found {count}")]
    TooManyHashed {
        /// How many there are.
        count: usize,
    },
    /// A hashed index is to be unique (MongoDB: Location16764).
    #[error("Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")]
    UniqueHashed,
    /// A field of a hashed index leads into an array (MongoDB: Location16766).
    #[error("hashed indexes do not currently support array values. Field: '{field}'")]
    HashedArray {
        /// Its path.
        field: String,
    },
    /// What is at a path is no place on the sphere (MongoDB: Location16755).
    #[error("Can't extract geo keys from '{field}': {reason}")]
    BadPlace {
        /// Its path.
        field: String,
        /// Why not.
        reason: String,
    },
    /// What is at a path is no pair that a 2d index has a cell for (MongoDB: Location13026, 13027, 16804).
    #[error("{reason}")]
    BadPair {
        /// Which of them.
        code: u32,
        /// Why not.
        reason: String,
    },
    /// A key pattern with two or more 2d fields, or one that is not first (MongoDB: Location13022, 13023).
    #[error("{reason}")]
    BadPlane {
        /// Which of them.
        code: u32,
        /// Why not.
        reason: String,
    },
    /// A field beside the texts of a text index leads into an array (MongoDB: Location16675).
    #[error("cannot have a multi-key as a prefix to a text index: '{field}' has an array")]
    ArrayBesideText {
        /// Its path.
        field: String,
    },
    /// A document's texts are in no language that is known.
    #[error("{0}")]
    Text(text_search::TextError),
    /// Two fields of one key lead into different arrays (MongoDB: CannotIndexParallelArrays, 171).
    #[error("cannot index parallel arrays [{second}] [{first}]")]
    ParallelArrays {
        /// The field whose array was found first.
        first: String,
        /// The field whose array was found next.
        second: String,
    },
    /// A number in a path could be a position or a field name (MongoDB: Location16746).
    #[error(
        "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), \
         field: '{field}' for array: {array}"
    )]
    AmbiguousFieldName {
        /// The number.
        field: String,
        /// The name of the array's field.
        array: String,
    },
    /// The command that the keys are made for is to stop.
    #[error("{0}")]
    Interrupted(Interruption),
    /// A key is longer than the limit of the set that it is for.
    #[error("a key of {bytes} bytes is too long")]
    KeyTooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// There is no memory for the keys (MongoDB: ExceededMemoryLimit, 146).
    #[error("the keys of a document need {bytes} bytes of memory and more, which are not left")]
    NoMemory {
        /// What they would take by now.
        bytes: usize,
    },
    /// The bytes are not a key of this pattern.
    #[error("malformed index key")]
    Malformed,
}

impl From<Interruption> for KeyError {
    fn from(interruption: Interruption) -> KeyError {
        KeyError::Interrupted(interruption)
    }
}
