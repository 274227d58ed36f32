//! `$rename`: moves a field to another path.
//!
//! One rename is two operators in the tree, one at each path, so that conflicts with other operators show at both. The
//! value is looked up before the update begins; nothing else in the update can touch it, as that would be a conflict.

use bson::raw::{RawBsonRef, RawDocument};

use super::super::array_filters::ArrayFilters;
use super::super::display;
use super::super::element::{Element, elements_of_bytes, is_container, malformed};
use super::super::operator::{FieldOperator, Scope, WhenBlocked, identity};
use super::super::path::{UpdatePath, array_position};
use super::super::value::Change;
use crate::error::{ErrorKind, QueryError, Result};

/// The two paths of one rename.
#[derive(Debug, Clone)]
pub(in super::super) struct Rename {
    pub(in super::super) source: UpdatePath,
    pub(in super::super) target: UpdatePath,
}

impl Rename {
    /// Parses `{source: target}`.
    pub(in super::super) fn parse(field: &Element<'_>, array_filters: &mut ArrayFilters) -> Result<Self> {
        let RawBsonRef::String(target_text) = field.value() else {
            let shown = display::field(field);
            return Err(bad_value(format!("The 'to' field for $rename must be a string: {shown}")));
        };
        if target_text.contains('\0') {
            return Err(bad_value("The 'to' field for $rename cannot contain an embedded null byte"));
        }
        let source = UpdatePath::parse(field.name(), array_filters)?;
        let target = UpdatePath::parse(target_text, array_filters)?;
        if source.is_dynamic() {
            return Err(bad_value(format!("The source field for $rename may not be dynamic: {}", source.text)));
        }
        if target.is_dynamic() {
            return Err(bad_value(format!("The destination field for $rename may not be dynamic: {}", target.text)));
        }
        let shown = display::field(field);
        if source.text == target.text {
            return Err(bad_value(format!("The source and target field for $rename must differ: {shown}")));
        }
        let shared = source.names().zip(target.names()).all(|(from, to)| from == to);
        if shared {
            return Err(bad_value(format!(
                "The source and target field for $rename must not be on the same path: {shown}"
            )));
        }
        Ok(Self { source, target })
    }

    /// The value to move in `document`; `None` when there is none and the rename does nothing.
    pub(in super::super) fn find_value<'a>(&self, document: &'a RawDocument) -> Result<Option<Element<'a>>> {
        let (value, array_name) = follow(document, &self.source)?;
        if value.is_none() {
            return Ok(None);
        }
        if let Some(name) = array_name {
            return Err(array_element("source", &self.source, name, document));
        }
        if let Ok((_, Some(name))) = follow(document, &self.target) {
            return Err(array_element("destination", &self.target, name, document));
        }
        Ok(value)
    }
}

/// Walks a path: the value it leads to, and the name of the first array on the way.
fn follow<'a>(document: &'a RawDocument, path: &UpdatePath) -> Result<(Option<Element<'a>>, Option<&'a str>)> {
    let mut found: Option<Element<'a>> = None;
    let mut array_name = None;
    for name in path.names() {
        let mut members = match &found {
            None => elements_of_bytes(document.as_bytes()),
            Some(parent) if is_container(parent) => elements_of_bytes(parent.value_bytes()),
            Some(parent) => return Err(cannot_traverse(parent, path)),
        };
        let next = match found.filter(|parent| parent.element_type == bson::spec::ElementType::Array) {
            None => members.find(|member| member.name_bytes() == name.as_bytes()),
            Some(array) => {
                let Some(position) = array_position(name) else { return Err(cannot_traverse(&array, path)) };
                array_name = array_name.or(Some(array.name()));
                members.nth(position)
            }
        };
        if members.is_malformed() {
            return Err(malformed("a value exceeds its document"));
        }
        match next {
            Some(member) => found = Some(member),
            None => return Ok((None, array_name)),
        }
    }
    Ok((found, array_name))
}

fn cannot_traverse(element: &Element<'_>, path: &UpdatePath) -> QueryError {
    let message = format!(
        "cannot use the part ({} of {}) to traverse the element ({{{}}})",
        element.name(),
        path.text,
        display::field(element)
    );
    QueryError::new(ErrorKind::PathNotViable, message)
}

fn array_element(which: &str, path: &UpdatePath, array_name: &str, document: &RawDocument) -> QueryError {
    let id = identity(document);
    let id = id.trim_start_matches('{').trim_end_matches('}');
    bad_value(format!(
        "The {which} field cannot be an array element, '{}' in doc with {id} has an array field called '{array_name}'",
        path.text
    ))
}

fn bad_value(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::BadValue, message)
}

/// The end where the value is taken away.
#[derive(Debug)]
pub(in super::super) struct RenameSource {
    pub(in super::super) rename: usize,
}

impl FieldOperator for RenameSource {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        let moved = scope.renamed.get(self.rename).copied().flatten();
        Ok(match existing.and(moved) {
            Some(_) => Change::Remove,
            None => Change::Keep,
        })
    }

    fn when_blocked(&self, _: &Scope<'_>) -> WhenBlocked {
        WhenBlocked::Ignore
    }
}

/// The end where the value arrives.
#[derive(Debug)]
pub(in super::super) struct RenameTarget {
    pub(in super::super) rename: usize,
}

impl FieldOperator for RenameTarget {
    fn apply<'a>(&'a self, _: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        Ok(match scope.renamed.get(self.rename).copied().flatten() {
            Some(value) => Change::Write(value.into()),
            None => Change::Keep,
        })
    }

    /// Without a value to move nothing is created, whatever stands in the way.
    fn when_blocked(&self, scope: &Scope<'_>) -> WhenBlocked {
        match scope.renamed.get(self.rename).copied().flatten() {
            Some(_) => WhenBlocked::CannotCreate,
            None => WhenBlocked::Ignore,
        }
    }

    /// How deep the moved value is shows only in the document; the result is checked when this is not 0.
    fn written_depth(&self) -> usize {
        usize::MAX
    }
}
