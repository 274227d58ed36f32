//! Errors of scripts as errors of the query language.

use javascript::ScriptError;

use crate::error::{ErrorKind, QueryError};

impl From<ScriptError> for QueryError {
    fn from(error: ScriptError) -> Self {
        let message = error.to_string();
        let kind = match error {
            ScriptError::Interrupted(interruption) => return interruption.into(),
            ScriptError::Disabled => ErrorKind::BadValue,
            ScriptError::Memory => ErrorKind::ExceededMemoryLimit,
            ScriptError::Code(_) | ScriptError::Thrown(_) | ScriptError::Value(_) => ErrorKind::JsInterpreterFailure,
        };
        QueryError::new(kind, message)
    }
}
