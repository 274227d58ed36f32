//! The tree of a projection: fields by name, in the order in which the projection names them.

use std::collections::HashMap;

use super::array_operators::Slice;
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::{Expression, field_path};
use crate::filter::Filter;

/// What becomes of one field.
#[derive(Debug)]
pub(crate) enum Field {
    /// It stays.
    Include,
    /// It goes.
    Exclude,
    /// Some of its fields stay or go.
    Nested(Fields),
    /// An expression's value takes its place.
    Computed(Expression),
    /// Part of an array stays.
    Slice(Slice),
    /// The first element that satisfies the filter (a single `$elemMatch`) stays.
    ElemMatch(Filter),
    /// The element that the command's filter matched stays.
    Positional,
}

impl Field {
    /// Whether it may appear in the result without being in the document.
    pub(crate) fn is_computed(&self) -> bool {
        match self {
            Field::Computed(_) => true,
            Field::Nested(fields) => fields.has_computed,
            _ => false,
        }
    }
}

/// Names beyond which lookup is by a table.
const LINEAR_NAMES_MAX: usize = 8;

/// The fields on one level.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<(Box<str>, Field)>,
    /// Ordinals by name; kept only when there are many.
    by_name: HashMap<Box<[u8]>, usize>,
    /// Whether some field here or below is computed.
    pub(crate) has_computed: bool,
    /// Whether the element matched by the command's filter is to be found here or below.
    pub(crate) has_position: bool,
}

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The fields in the order of the projection.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(name, field)| (&**name, field))
    }

    /// The ordinal and the rule of a name.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<(usize, &Field)> {
        let ordinal = if self.by_name.is_empty() {
            self.fields.iter().position(|(known, _)| known.as_bytes() == name)?
        } else {
            *self.by_name.get(name)?
        };
        self.fields.get(ordinal).map(|(_, field)| (ordinal, field))
    }

    /// Adds a field at a dotted path. Paths may not be the same, nor one inside the other.
    pub(crate) fn insert(&mut self, path: &str, field: Field) -> Result<()> {
        self.insert_below(path, path, field)
    }

    fn insert_below(&mut self, path: &str, rest: &str, field: Field) -> Result<()> {
        let (name, remaining) = match rest.split_once('.') {
            Some((name, remaining)) => (name, Some(remaining)),
            None => (rest, None),
        };
        field_path::check_component(name)?;
        self.has_computed |= field.is_computed();
        self.has_position |= matches!(field, Field::Positional);
        let known = self.find(name.as_bytes()).map(|(ordinal, _)| ordinal);
        let known = known.and_then(|ordinal| self.fields.get_mut(ordinal)).map(|(_, known)| known);
        match (known, remaining) {
            (None, None) => self.push(name, field),
            (None, Some(remaining)) => {
                let mut inner = Fields::default();
                inner.insert_below(path, remaining, field)?;
                self.push(name, Field::Nested(inner));
            }
            (Some(Field::Nested(inner)), Some(remaining)) => inner.insert_below(path, remaining, field)?,
            (Some(_), None) => return collision(31250, format!("Path collision at {path}")),
            (Some(_), Some(remaining)) => {
                return collision(31249, format!("Path collision at {path} remaining portion {remaining}"));
            }
        }
        Ok(())
    }

    fn push(&mut self, name: &str, field: Field) {
        self.fields.push((name.into(), field));
        if self.fields.len() > LINEAR_NAMES_MAX {
            let first = if self.by_name.is_empty() { 0 } else { self.fields.len() - 1 };
            let named = self.fields.iter().enumerate().skip(first);
            self.by_name.extend(named.map(|(ordinal, (name, _))| (name.as_bytes().into(), ordinal)));
        }
    }
}

fn collision<T>(code: u32, message: String) -> Result<T> {
    Err(QueryError::new(ErrorKind::Location(code), message))
}
