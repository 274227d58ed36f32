//! Update paths: `a.b`, `a.0`, `a.$`, `a.$[]`, `a.$[identifier]`.
//!
//! Called by the parser for each field of each operator. It refuses what can never be a path; whether the path fits a
//! document is decided when it is applied.

use std::cmp::Ordering;

use super::array_filters::ArrayFilters;
use super::limits::DEPTH_MAX;
use crate::error::{ErrorKind, QueryError, Result};

/// One part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Component {
    /// A field name, or the position of an array item when the path meets an array.
    Field(String),
    /// `$`: the array position that the query matched.
    Matched,
    /// `$[]`: every array item.
    Every,
    /// `$[identifier]`: the items that the array filter of this index matches.
    Filtered(usize),
}

/// A parsed path and the text it was parsed from.
#[derive(Debug, Clone)]
pub(super) struct UpdatePath {
    pub(super) text: String,
    pub(super) components: Vec<Component>,
}

impl UpdatePath {
    /// Parses `text`; identifiers are looked up in `array_filters` and thereby marked as used.
    pub(super) fn parse(text: &str, array_filters: &mut ArrayFilters) -> Result<Self> {
        if text.is_empty() {
            return Err(QueryError::new(ErrorKind::EmptyFieldName, "An empty update path is not valid."));
        }
        let mut components = Vec::new();
        for (index, part) in text.split('.').enumerate() {
            components.push(parse_component(part, index, text, array_filters)?);
        }
        check_length(&components)?;
        let positional = components.iter().filter(|component| **component == Component::Matched).count();
        if positional > 1 {
            let message = format!("Too many positional (i.e. '$') elements found in path '{text}'");
            return Err(QueryError::new(ErrorKind::BadValue, message));
        }
        Ok(Self { text: text.to_owned(), components })
    }

    /// Whether the path has `$`, `$[]` or `$[identifier]`.
    pub(super) fn is_dynamic(&self) -> bool {
        self.components.iter().any(|component| !matches!(component, Component::Field(_)))
    }

    /// The field names of a path that is not dynamic.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.components.iter().map(|component| match component {
            Component::Field(name) => name.as_str(),
            Component::Matched | Component::Every | Component::Filtered(_) => "$",
        })
    }

    /// The last part, as messages name the field.
    pub(super) fn last_part(&self) -> &str {
        self.text.rsplit('.').next().unwrap_or_default()
    }

    /// The first `length` parts.
    pub(super) fn prefix(&self, length: usize) -> &str {
        match self.text.match_indices('.').nth(length.saturating_sub(1)) {
            Some((end, _)) => &self.text[..end],
            None => &self.text,
        }
    }
}

/// Refuses a path of more parts than a document has levels.
pub(super) fn check_length(components: &[Component]) -> Result<()> {
    match components.len() > DEPTH_MAX {
        true => Err(QueryError::new(ErrorKind::Overflow, "FieldPath is too long")),
        false => Ok(()),
    }
}

fn parse_component(part: &str, index: usize, text: &str, array_filters: &mut ArrayFilters) -> Result<Component> {
    if part.is_empty() {
        let message = format!("The update path '{text}' contains an empty field name, which is not allowed.");
        return Err(QueryError::new(ErrorKind::EmptyFieldName, message));
    }
    if part == "$" {
        return match index {
            0 => Err(first_position("positional (i.e. '$') element", text)),
            _ => Ok(Component::Matched),
        };
    }
    let Some(identifier) = part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) else {
        return Ok(Component::Field(part.to_owned()));
    };
    if index == 0 {
        return Err(first_position("array filter identifier (i.e. '$[<id>]') element", text));
    }
    if identifier.is_empty() {
        return Ok(Component::Every);
    }
    match array_filters.resolve(identifier) {
        Some(filter) => Ok(Component::Filtered(filter)),
        None => {
            let message = format!("No array filter found for identifier '{identifier}' in path '{text}'");
            Err(QueryError::new(ErrorKind::BadValue, message))
        }
    }
}

fn first_position(what: &str, text: &str) -> QueryError {
    QueryError::new(ErrorKind::BadValue, format!("Cannot have {what} in the first position in path '{text}'"))
}

/// The array position that a field name stands for: decimal digits without leading zeros.
pub(super) fn array_position(name: &str) -> Option<usize> {
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    match digits && (name == "0" || !name.starts_with('0')) {
        true => name.parse().ok(),
        false => None,
    }
}

/// The order in which the fields of one level are updated and, when new, appended: as texts, but names that begin with a
/// number by that number. A number does not begin with a zero, so `01` is a text.
pub(super) fn compare_names(left: &str, right: &str) -> Ordering {
    let digits = |name: &str| match name.as_bytes().first() {
        Some(b'1'..=b'9') => name.bytes().take_while(u8::is_ascii_digit).count(),
        _ => 0,
    };
    match (digits(left), digits(right)) {
        (0, _) | (_, 0) => left.cmp(right),
        (left_digits, right_digits) => left_digits.cmp(&right_digits).then_with(|| left.cmp(right)),
    }
}
