//! What a projection does to fields, for who moves what reads them before it.
//!
//! Called by `aggregation`'s optimiser through [`Projection::field_changes`].

use std::borrow::Cow;

use super::tree::{Field, Fields};
use super::{Mode, Projection};

/// The fields that a projection keeps, changes and renames.
#[derive(Debug)]
pub struct FieldChanges {
    mode: Mode,
    /// Fields of the top that come out as they are.
    kept: Vec<String>,
    /// Paths of which the values go or become others.
    changed: Vec<String>,
    /// Fields of the top that have the value of another: the new name, then the old one.
    renamed: Vec<(String, String)>,
}

impl Projection {
    /// What becomes of fields.
    pub fn field_changes(&self) -> FieldChanges {
        let mut changes = FieldChanges { mode: self.mode, kept: Vec::new(), changed: Vec::new(), renamed: Vec::new() };
        self.fields.iter().for_each(|(name, field)| changes.add(name, field));
        changes
    }
}

impl FieldChanges {
    fn add(&mut self, name: &str, field: &Field) {
        match field {
            Field::Include => self.kept.push(name.to_owned()),
            Field::Nested(inner) if self.mode == Mode::Exclusion && !inner.has_computed => {
                self.add_excluded(name, inner)
            }
            Field::Computed(expression) => {
                // A longer path gives an array where a filter looks at its elements.
                let old = expression.as_field_path().map(|path| path.as_str()).filter(|path| !path.contains('.'));
                self.renamed.extend(old.map(|old| (name.to_owned(), old.to_owned())));
                self.changed.push(name.to_owned());
            }
            Field::Exclude | Field::Nested(_) | Field::Slice(_) | Field::ElemMatch(_) | Field::Positional => {
                self.changed.push(name.to_owned());
            }
        }
    }

    fn add_excluded(&mut self, prefix: &str, fields: &Fields) {
        for (name, field) in fields.iter() {
            let path = format!("{prefix}.{name}");
            match field {
                Field::Nested(inner) => self.add_excluded(&path, inner),
                _ => self.changed.push(path),
            }
        }
    }

    /// The path at which documents have before the projection what they have at `path` behind it; `None`: there is none.
    pub fn before<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        let first = first_name(path);
        if let Some((_, old)) = self.renamed.iter().find(|(new, _)| new == first) {
            return Some(Cow::Owned(format!("{old}{}", path.get(first.len()..).unwrap_or_default())));
        }
        let is_kept = self.mode != Mode::Inclusion || self.kept.iter().any(|kept| kept == first);
        (is_kept && !self.changed.iter().any(|changed| overlap(changed, path))).then_some(Cow::Borrowed(path))
    }
}

fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

/// Whether one path is the other or inside it. A number may be a position, so that what follows it may be any.
fn overlap(left: &str, right: &str) -> bool {
    let has_number = |path: &str| path.split('.').any(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    if has_number(left) || has_number(right) {
        return first_name(left) == first_name(right);
    }
    left.split('.').zip(right.split('.')).all(|(left, right)| left == right)
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf, doc};

    use super::*;
    use crate::expression::ParseContext;
    use crate::projection::ProjectionKind;

    fn before(projection: &Document, kind: ProjectionKind, paths: &[&str]) -> Vec<Option<String>> {
        let projection = RawDocumentBuf::try_from(projection).unwrap();
        let changes = Projection::parse(&projection, kind, &ParseContext::new()).unwrap().field_changes();
        paths.iter().map(|path| changes.before(path).map(Cow::into_owned)).collect()
    }

    fn some(path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    #[test]
    fn an_inclusion_keeps_what_it_names() {
        let projection = doc! { "a": 1, "b.c": 1, "x": "$y", "z": "$u.v", "n": { "$add": ["$a", 1] } };
        let found = before(
            &projection,
            ProjectionKind::Aggregate,
            &["a", "a.b", "_id", "b.c", "b", "c", "x", "x.0.w", "z", "n"],
        );
        assert_eq!(
            found,
            [some("a"), some("a.b"), some("_id"), None, None, None, some("y"), some("y.0.w"), None, None]
        );
    }

    #[test]
    fn an_exclusion_keeps_what_it_does_not_name() {
        let projection = doc! { "a": 0, "b.c": 0, "d.0": 0 };
        let paths = ["a", "a.b", "_id", "b.c", "b", "b.d", "b.0.d", "ab", "d.e"];
        let found = before(&projection, ProjectionKind::Aggregate, &paths);
        assert_eq!(found, [None, None, some("_id"), None, None, some("b.d"), None, some("ab"), None]);
    }

    #[test]
    fn fields_are_exchanged_at_once() {
        let projection = doc! { "a": "$b", "b": "$a", "c.d": "$a", "e": 1 };
        let found = before(&projection, ProjectionKind::AddFields, &["a.x", "b", "c.e", "e", "f"]);
        assert_eq!(found, [some("b.x"), some("a"), None, None, some("f")]);
    }
}
