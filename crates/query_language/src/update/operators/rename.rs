//! `$rename`: moves a field to another path.
//!
//! One rename is two operators in the tree, one at each path, so that conflicts with other operators show at both. The
//! value is looked up before the update begins; nothing else in the update can touch it, as that would be a conflict.

use std::collections::HashMap;

use bson::raw::{RawBsonRef, RawDocument};
use bson::spec::ElementType;
use smallvec::SmallVec;

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

    /// The value to move in a document; `None` when there is none and the rename does nothing.
    fn find_value<'a>(&self, members: &mut Members<'a>) -> Result<Option<Element<'a>>> {
        let (value, array_name) = follow(members, &self.source)?;
        if value.is_none() {
            return Ok(None);
        }
        if let Some(name) = array_name {
            return Err(array_element("source", &self.source, name, members.document));
        }
        if let Ok((_, Some(name))) = follow(members, &self.target) {
            return Err(array_element("destination", &self.target, name, members.document));
        }
        Ok(value)
    }
}

/// The values to move in `document`, one a rename; `None` where there is none and the rename does nothing.
pub(in super::super) fn find_values<'a>(renames: &[Rename], document: &'a RawDocument) -> Result<RenamedValues<'a>> {
    let mut members = Members { document, tables: (renames.len() > LINEAR_RENAMES_MAX).then(HashMap::new) };
    renames.iter().map(|rename| rename.find_value(&mut members)).collect()
}

/// One a rename.
pub(in super::super) type RenamedValues<'a> = SmallVec<[Option<Element<'a>>; 2]>;

/// Renames beyond which fields are found through tables.
const LINEAR_RENAMES_MAX: usize = 8;

/// The members of a document's containers, as renames ask for them.
struct Members<'a> {
    document: &'a RawDocument,
    /// By where a container begins, for many renames: each is then walked once.
    tables: Option<HashMap<*const u8, HashMap<&'a [u8], Element<'a>>>>,
}

impl<'a> Members<'a> {
    /// The member of this name of a document that is written in `container`.
    fn find(&mut self, container: &'a [u8], name: &str) -> Result<Option<Element<'a>>> {
        let mut walk = elements_of_bytes(container);
        let found = match &mut self.tables {
            None => walk.find(|member| member.name_bytes() == name.as_bytes()),
            Some(tables) => {
                let table = tables.entry(container.as_ptr()).or_insert_with(|| {
                    let mut table = HashMap::new();
                    for member in walk.by_ref() {
                        table.entry(member.name_bytes()).or_insert(member);
                    }
                    table
                });
                table.get(name.as_bytes()).copied()
            }
        };
        match walk.is_malformed() {
            true => Err(malformed("a value exceeds its document")),
            false => Ok(found),
        }
    }
}

/// Walks a path: the value it leads to, and the name of the first array on the way.
fn follow<'a>(members: &mut Members<'a>, path: &UpdatePath) -> Result<(Option<Element<'a>>, Option<&'a str>)> {
    let mut found: Option<Element<'a>> = None;
    let mut array_name = None;
    for name in path.names() {
        let next = match &found {
            None => members.find(members.document.as_bytes(), name)?,
            Some(array) if array.element_type == ElementType::Array => {
                let Some(position) = array_position(name) else { return Err(cannot_traverse(array, path)) };
                array_name = array_name.or(Some(array.name()));
                let mut items = elements_of_bytes(array.value_bytes());
                let item = items.nth(position);
                if items.is_malformed() {
                    return Err(malformed("a value exceeds its document"));
                }
                item
            }
            Some(parent) if is_container(parent) => members.find(parent.value_bytes(), name)?,
            Some(parent) => return Err(cannot_traverse(parent, path)),
        };
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
