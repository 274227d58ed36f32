//! The client's choice of index, by name, by key pattern, or none at all (`$natural`).

use bson::{RawBsonRef, RawDocumentBuf};
use document::Number;

use crate::error::{PlanError, Result};

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScanDirection {
    /// In ascending order of keys.
    Forward,
    /// In descending order of keys.
    Backward,
}

impl ScanDirection {
    /// The other one.
    pub fn reversed(self) -> ScanDirection {
        match self {
            ScanDirection::Forward => ScanDirection::Backward,
            ScanDirection::Backward => ScanDirection::Forward,
        }
    }

    /// As explain names it.
    pub fn name(self) -> &'static str {
        match self {
            ScanDirection::Forward => "forward",
            ScanDirection::Backward => "backward",
        }
    }
}

/// What `hint` asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Hint {
    /// Nothing.
    None,
    /// The index of this name.
    Name(String),
    /// The index with this key pattern.
    KeyPattern(RawDocumentBuf),
    /// A collection scan.
    Natural(ScanDirection),
}

impl Hint {
    /// Reads the field `hint` of a command.
    ///
    /// # Errors
    /// `FailedToParse` when it is neither string nor document; `BadValue` for a bad `$natural`.
    pub fn parse(value: RawBsonRef<'_>) -> Result<Hint> {
        match value {
            RawBsonRef::String(name) => Ok(Hint::Name(name.to_owned())),
            RawBsonRef::Document(pattern) if pattern.is_empty() => Ok(Hint::None),
            RawBsonRef::Document(pattern) => match document::elements(pattern).next() {
                Some(first) if first.name() == "$natural" => match Number::from_bson(first.value()) {
                    Some(number) if number.to_i64_exact() == Some(1) => Ok(Hint::Natural(ScanDirection::Forward)),
                    Some(number) if number.to_i64_exact() == Some(-1) => Ok(Hint::Natural(ScanDirection::Backward)),
                    _ => Err(PlanError::BadValue("$natural hint must be 1 or -1".to_owned())),
                },
                _ => Ok(Hint::KeyPattern(pattern.to_owned())),
            },
            _ => Err(PlanError::FailedToParse("Hint must be a string or an object".to_owned())),
        }
    }

    pub(crate) fn allows_id_lookup(&self) -> bool {
        match self {
            Hint::None => true,
            Hint::Name(name) => name == collection::ID_INDEX_NAME,
            Hint::KeyPattern(pattern) => index_key::KeyPattern::parse(pattern).is_ok_and(|pattern| pattern.is_id()),
            Hint::Natural(_) => false,
        }
    }
}
