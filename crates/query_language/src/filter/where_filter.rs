//! `$where`: a condition in JavaScript, for whole documents.
//!
//! The document is `this`, and `obj` for old code. Source: the manual's page on `$where`.

use bson::{RawBson, RawBsonRef, RawDocument};
use javascript::{Function, Kind};

use super::evaluate::Outcome;
use super::parse::{Parser, bad_value};
use super::{FilterNode, Scripts};
use crate::error::{QueryError, Result};

/// A condition as it was sent.
#[derive(Debug, Clone)]
pub struct WhereFilter {
    function: Function,
}

impl WhereFilter {
    /// As the client could have written it.
    pub(crate) fn code(&self) -> RawBson {
        RawBson::JavaScriptCode(self.function.code().to_owned())
    }

    pub(crate) fn accepts(&self, document: &[u8]) -> Outcome {
        let document = RawDocument::from_bytes(document).map_err(|error| Box::new(QueryError::from(error)))?;
        let truth = self.function.is_true_of(RawBsonRef::Document(document));
        truth.map_err(|error| Box::new(QueryError::from(error)))
    }
}

/// `{$where: code}`.
pub(crate) fn parse(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<FilterNode> {
    if parser.options.scripts == Scripts::Refused {
        return bad_value("$where is not allowed in this context");
    }
    let code = match value {
        RawBsonRef::String(code) | RawBsonRef::JavaScriptCode(code) => code,
        RawBsonRef::JavaScriptCodeWithScope(_) => return bad_value("$where no longer supports code with a scope"),
        _ => return bad_value("$where requires a string or code"),
    };
    Ok(FilterNode::Where(WhereFilter { function: Function::new(code, Kind::Condition)? }))
}

/// What is said where there is no document to evaluate against.
pub(crate) fn not_allowed() -> QueryError {
    QueryError::new(crate::error::ErrorKind::BadValue, "$where is not allowed in this context")
}
