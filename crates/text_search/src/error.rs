//! The one error type of this crate.

use document::Interruption;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, TextError>;

/// What went wrong with a definition, a document or a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A definition that makes no sense (MongoDB: CannotCreateIndex, 67).
    #[error("{0}")]
    Definition(String),
    /// A document names a language that is not known (MongoDB: Location17262).
    #[error("language override unsupported: {0}")]
    UnknownOverride(String),
    /// A document's language is no text (MongoDB: Location17261).
    #[error("found language override field in document with non-string type")]
    OverrideNoText,
    /// A query names a language that is not known (MongoDB: BadValue, 2).
    #[error("\"$text\" query: unsupported language: \"{0}\" for text index version 3")]
    UnknownLanguage(String),
    /// There is no memory for a document's terms (MongoDB: ExceededMemoryLimit, 146).
    #[error("the terms of a document need {bytes} bytes of memory and more, which are not left")]
    NoMemory {
        /// What they would take by now.
        bytes: usize,
    },
    /// The command is to stop.
    #[error("{0}")]
    Interrupted(Interruption),
}

impl From<Interruption> for TextError {
    fn from(interruption: Interruption) -> TextError {
        TextError::Interrupted(interruption)
    }
}
