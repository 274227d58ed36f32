//! The one error type of this crate.

use document::Interruption;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, GeometryError>;

/// Why a value is no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// It makes no sense, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// The command is to stop.
    #[error("{0}")]
    Interrupted(Interruption),
}

impl From<Interruption> for GeometryError {
    fn from(interruption: Interruption) -> GeometryError {
        GeometryError::Interrupted(interruption)
    }
}

/// An error with this text.
pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(GeometryError::Invalid(message.into()))
}
