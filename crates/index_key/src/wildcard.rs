//! The keys of wildcard indexes (`{"$**": 1}`, `{"a.$**": 1}`): for each value in a document its path and itself, between the values of the other fields.
//!
//! Called by `generate` for such a pattern, and by `planner`, which asks what paths are in the index. A path has no positions: what is
//! in an array has the path of the array.
//!
//! ```text
//! {a: 1, b: {c: "x"}}     (a, 1) (b.c, "x")
//! {a: [1, {b: 2}, [3]]}   (a, 1) (a.b, 2) (a, [3])
//! {a: {}, b: []}          (a, {}) (b, undefined)
//! {t: 5, a: {b: 1, c: 2}} (5, a.b, 1) (5, a.c, 2)    in {t: 1, "a.$**": 1}
//! {t: 5}                  (5, MinKey, MinKey)         there, so that all documents are found by their t
//! ```

use bson::RawDocument;
use bson::spec::ElementType;
use document::{Element, FieldPath, ValueView, elements, elements_of_bytes, work};

use crate::encode::encode_view;
use crate::error::KeyError;
use crate::key_pattern::{FieldKind, KeyPattern};
use crate::key_set::KeySet;
use crate::multikey;

/// Which paths of documents are in a wildcard index. `_id` is not, unless it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WildcardPaths {
    kind: PathsKind,
    /// What is there (`Only`), or what is not (`AllBut`).
    paths: Vec<FieldPath>,
    /// Whether `_id` is; `None`: as any other path.
    id: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathsKind {
    Only,
    AllBut,
}

/// Paths of a projection that are compared in the time of a unit of work.
const PATHS_PER_UNIT: usize = 16;

impl WildcardPaths {
    /// Of a pattern without a projection: all there is, or what is below `root`.
    pub(crate) fn below(root: Option<&str>) -> WildcardPaths {
        match root {
            None => WildcardPaths { kind: PathsKind::AllBut, paths: Vec::new(), id: Some(false) },
            Some(root) => WildcardPaths { kind: PathsKind::Only, paths: vec![FieldPath::new(root)], id: None },
        }
    }

    /// Reads a `wildcardProjection`.
    ///
    /// # Errors
    /// `FailedToParse` with the reason.
    pub fn parse(projection: &RawDocument) -> Result<WildcardPaths, KeyError> {
        let mut given = Vec::new();
        collect(projection, "", &mut given)?;
        let id = given.iter().find(|(path, _)| path.as_str() == "_id").map(|(_, included)| *included);
        let others: Vec<_> = given.into_iter().filter(|(path, _)| path.as_str() != "_id").collect();
        let includes = match others.first() {
            Some((_, included)) => *included,
            None => id.ok_or_else(|| refused("The 'wildcardProjection' field can't be an empty object"))?,
        };
        if others.iter().any(|(_, included)| *included != includes) {
            return Err(refused("wildcardProjection cannot both include and exclude fields, but for _id"));
        }
        let kind = if includes { PathsKind::Only } else { PathsKind::AllBut };
        let paths = others.into_iter().map(|(path, _)| path).collect();
        Ok(WildcardPaths { kind, paths, id: Some(id.unwrap_or_default()) })
    }

    /// Whether the values at a path are in the index.
    pub fn has(&self, path: &str) -> bool {
        match self.id {
            Some(is_there) if is_id(path) => is_there || (self.kind == PathsKind::Only && self.names(path)),
            _ => self.names(path) == (self.kind == PathsKind::Only),
        }
    }

    /// Whether all that is at a path and below it is.
    pub fn has_all_below(&self, path: &str) -> bool {
        let excludes_some = self.kind == PathsKind::AllBut && self.has_below(path);
        self.has(path) && !excludes_some
    }

    /// Whether something at a path or below it is.
    pub fn leads(&self, path: &str) -> bool {
        self.has(path) || (self.kind == PathsKind::Only && self.has_below(path))
    }

    /// Whether a listed path is the path, or leads to it.
    fn names(&self, path: &str) -> bool {
        self.paths.iter().any(|listed| listed.as_str() == path || is_below(path, listed.as_str()))
    }

    /// Whether a listed path is below the path.
    fn has_below(&self, path: &str) -> bool {
        self.paths.iter().any(|listed| is_below(listed.as_str(), path))
    }
}

fn is_id(path: &str) -> bool {
    path == "_id" || path.starts_with("_id.")
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

fn refused(message: &str) -> KeyError {
    KeyError::FailedToParse(message.to_owned())
}

fn collect(projection: &RawDocument, prefix: &str, given: &mut Vec<(FieldPath, bool)>) -> Result<(), KeyError> {
    for element in elements(projection) {
        let path = if prefix.is_empty() { element.name().to_owned() } else { format!("{prefix}.{}", element.name()) };
        let path = FieldPath::new(&path);
        if path.as_str().is_empty() || path.has_empty_component() || path.names().any(|name| name.starts_with('$')) {
            return Err(refused("wildcardProjection has a path that is empty or begins with '$'"));
        }
        match (element.value(), document::Number::from_view(element.view())) {
            (bson::RawBsonRef::Document(inner), _) if !inner.is_empty() => collect(inner, path.as_str(), given)?,
            (bson::RawBsonRef::Boolean(included), _) => given.push((path, included)),
            (_, Some(number)) => given.push((path, !number.is_zero())),
            _ => return Err(refused("wildcardProjection may only include and exclude fields")),
        }
    }
    Ok(())
}

/// Writes the keys of `document` into `keys`, sorted and without duplicates.
pub(crate) fn expand(
    pattern: &KeyPattern,
    paths: &WildcardPaths,
    document: &RawDocument,
    keys: &mut KeySet,
) -> Result<(), KeyError> {
    let others = multikey::combinations(pattern, document, keys)?;
    let is_compound = pattern.fields().len() > PLAIN_FIELDS;
    let mut expansion = Expansion { pattern, paths, others: &others, keys };
    expansion.document(document.as_bytes(), &mut String::new())?;
    if is_compound && expansion.keys.is_empty() {
        expansion.write(ValueView::MinKey, ValueView::MinKey)?;
    }
    Ok(keys.sort()?)
}

/// Fields of an index that has a wildcard alone: the paths and the values.
const PLAIN_FIELDS: usize = 2;

struct Expansion<'p, 'k> {
    pattern: &'p KeyPattern,
    paths: &'p WildcardPaths,
    /// The values of all other fields: several times, if one of them has an array.
    others: &'p [Vec<ValueView<'p>>],
    keys: &'k mut KeySet,
}

impl Expansion<'_, '_> {
    fn document(&mut self, stored: &[u8], path: &mut String) -> Result<(), KeyError> {
        let length = path.len();
        for element in elements_of_bytes(stored) {
            work::done(1 + self.paths.paths.len() / PATHS_PER_UNIT)?;
            let name = element.name();
            if name.is_empty() || name.contains('.') {
                // Its path could be another's. As with arrays, nothing relies on one value for each path then.
                self.note_array();
            }
            if length > 0 {
                path.push('.');
            }
            path.push_str(name);
            if self.paths.leads(path) {
                self.value(element, path)?;
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn value(&mut self, element: Element<'_>, path: &mut String) -> Result<(), KeyError> {
        if element.element_type != ElementType::Array {
            return self.inner(element, path);
        }
        self.note_array();
        let mut items = elements_of_bytes(element.value_bytes()).peekable();
        if items.peek().is_none() {
            return self.emit(path, ValueView::Undefined);
        }
        for item in items {
            work::step()?;
            self.inner(item, path)?;
        }
        Ok(())
    }

    /// What is not an array, or is in one, where an array is a value.
    fn inner(&mut self, element: Element<'_>, path: &mut String) -> Result<(), KeyError> {
        let stored = element.value_bytes();
        if element.element_type == ElementType::EmbeddedDocument && elements_of_bytes(stored).next().is_some() {
            return self.document(stored, path);
        }
        self.emit(path, element.view())
    }

    fn emit(&mut self, path: &str, value: ValueView<'_>) -> Result<(), KeyError> {
        if !self.paths.has(path) {
            return Ok(());
        }
        self.write(ValueView::String(path.as_bytes()), value)
    }

    fn write(&mut self, path: ValueView<'_>, value: ValueView<'_>) -> Result<(), KeyError> {
        for others in self.others {
            work::done(others.len())?;
            let (out, type_bits) = self.keys.begin_key();
            for (field, other) in self.pattern.fields().iter().zip(others) {
                let written = match field.kind {
                    FieldKind::Path => path,
                    FieldKind::Wildcard => value,
                    _ => *other,
                };
                encode_view(out, type_bits, written, field.direction, None);
            }
            self.keys.finish_key();
            self.keys.check_limits()?;
        }
        Ok(())
    }

    fn note_array(&mut self) {
        let position = self.pattern.wildcard_position().unwrap_or_default();
        self.keys.note_array(position, 0, self.pattern.fields().len());
    }
}
