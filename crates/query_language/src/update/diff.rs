//! The difference between two versions of a document, as the oplog keeps it and change streams tell it.
//!
//! Called by whoever writes oplog entries (`diff`), replays them (`apply_diff`) and reports changes
//! (`Diff::update_description`). A diff holds final values, so applying it twice, or replaying a run of diffs onto a
//! version that some of them have already made, ends in the same document.
//!
//! Format of a delta, MongoDB's `$v: 2`:
//!
//! ```text
//! {$v: 2, diff: {d: {removed: false}, u: {updated: value}, i: {inserted: value}, sname: {nested diff}}}
//! ```
//!
//! Inserted fields go to the end of the document in the order given, which also moves fields that were there. A nested
//! array diff is `{a: true, l: new length, u0: value, s1: {nested diff}}`; `l` only when the array gets shorter. A delta
//! cannot address fields that share a name; when such fields change, the diff is the document itself.

mod apply;
mod compute;
mod description;

pub use description::Disambiguation;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::element::{elements, find, malformed};
use crate::error::Result;

/// The version of the delta format.
const FORMAT_VERSION: i64 = 2;

/// How one version of a document becomes the next.
#[derive(Debug, Clone, PartialEq)]
pub enum Diff {
    /// The complete `{$v: 2, diff: {...}}`.
    Delta(RawDocumentBuf),
    /// The next version itself.
    Replacement(RawDocumentBuf),
}

/// What a diff is to be good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffForm {
    /// The fewest bytes: where a delta (or a nested one) is no smaller than the value, the value itself.
    Smallest,
    /// Always a delta down to the paths that changed, so that change events can tell them.
    Paths,
}

/// The difference from `before` to `after`. Both must be documents as they are stored, `_id` first.
pub fn diff(before: &RawDocument, after: &RawDocument, form: DiffForm) -> Result<Diff> {
    match compute::delta(before, after, form)? {
        Some(bytes) => Ok(Diff::Delta(RawDocumentBuf::from_bytes(bytes)?)),
        None => Ok(Diff::Replacement(after.to_owned())),
    }
}

/// The document that `before` becomes.
pub fn apply_diff(before: &RawDocument, diff: &Diff) -> Result<RawDocumentBuf> {
    match diff {
        Diff::Replacement(after) => Ok(after.clone()),
        Diff::Delta(_) => {
            let mut out = Vec::with_capacity(before.as_bytes().len() + 64);
            apply::document(before.as_bytes(), diff.body()?.as_bytes(), &mut out)?;
            Ok(RawDocumentBuf::from_bytes(out)?)
        }
    }
}

impl Diff {
    /// Reads a diff as an oplog entry has it: a delta begins with `$v`, anything else is a replacement.
    pub fn from_document(document: RawDocumentBuf) -> Result<Self> {
        let first = elements(&document).next();
        let Some(version) = first.filter(|first| first.name_bytes() == b"$v") else {
            return Ok(Diff::Replacement(document));
        };
        let version = document::Number::from_view(version.view()).and_then(document::Number::to_i64_exact);
        let has_body = find(&document, "diff").is_some_and(|body| body.value().as_document().is_some());
        match version == Some(FORMAT_VERSION) && has_body {
            true => Ok(Diff::Delta(document)),
            false => Err(malformed("an update entry of unknown version")),
        }
    }

    /// The diff as an oplog entry keeps it.
    pub fn as_document(&self) -> &RawDocument {
        match self {
            Diff::Delta(document) | Diff::Replacement(document) => document,
        }
    }

    /// The document `diff` of a delta.
    fn body(&self) -> Result<&RawDocument> {
        match find(self.as_document(), "diff").map(|body| body.value()) {
            Some(RawBsonRef::Document(body)) => Ok(body),
            _ => Err(malformed("a delta without its diff")),
        }
    }

    /// `{updatedFields, removedFields, truncatedArrays}` as change events show it; `None` for a replacement, which is
    /// an event of its own.
    pub fn update_description(&self, disambiguation: Disambiguation) -> Result<Option<RawDocumentBuf>> {
        match self {
            Diff::Replacement(_) => Ok(None),
            Diff::Delta(_) => description::describe(self.body()?, disambiguation).map(Some),
        }
    }
}

#[cfg(test)]
mod tests;
