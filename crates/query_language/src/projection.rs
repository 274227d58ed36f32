//! Projections: of `find` and `findAndModify`, and the stages `$project`, `$addFields`/`$set` and `$unset`.
//!
//! [`Projection::parse`] makes a tree of fields (`tree`); `apply` walks a document once beside that tree and copies the
//! elements it keeps without decoding them. Called by the executor, aggregation, pipeline updates and the planner
//! (which fields are needed, whether an index covers them). It relies on `expression` for computed fields, on `filter`
//! for `$elemMatch` and the position that `.$` refers to.

mod apply;
mod array_operators;
mod field_changes;
mod parse;
pub(crate) mod tree;
pub(crate) mod write;

use bson::{RawDocument, RawDocumentBuf};
use document::{ValueView, elements_of_bytes};

use crate::error::Result;
use crate::expression::{DependencySet, EvaluationContext, MetadataUse, ParseContext, Variables};
use crate::filter::MatchDetails;
use crate::growth::make_room;
use crate::memory_limit::before_allocating_if_large;
pub use field_changes::FieldChanges;
use tree::{Field, Fields};

/// Whose rules a projection is parsed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionKind {
    /// `find`: flags, expressions, `$slice`, `$elemMatch`, and `.$`.
    Find,
    /// `$project`: flags and expressions; may not be empty.
    Aggregate,
    /// `$addFields` and `$set`: every value is an expression, numbers and booleans too.
    AddFields,
}

/// What happens to fields that the projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are left out.
    Inclusion,
    /// They stay.
    Exclusion,
    /// They stay, and computed fields take the place of those they replace.
    AddFields,
}

/// Room for the fields that are named, which are few as a rule.
const INCLUSION_BYTES: usize = 512;

/// A parsed projection.
#[derive(Debug)]
pub struct Projection {
    pub(crate) mode: Mode,
    pub(crate) fields: Fields,
    source: RawDocumentBuf,
    has_position: bool,
    metadata: MetadataUse,
}

impl Projection {
    /// Parses a projection. Expressions are parsed in `context`, whose variables `apply` must be given. Errors are
    /// MongoDB's numbered ones: 31253 and 31254 for mixed modes, 31249 and 31250 for colliding paths, ...
    pub fn parse(projection: &RawDocument, kind: ProjectionKind, context: &ParseContext) -> Result<Self> {
        parse::parse(projection, kind, context)
    }

    /// The projection that leaves out the fields at `paths`: `$unset`.
    pub fn excluding<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self> {
        let mut source = RawDocumentBuf::new();
        for path in paths {
            source.append(<&bson::raw::CStr>::try_from(path)?, false);
        }
        parse::parse(&source, ProjectionKind::Aggregate, &ParseContext::new())
    }

    /// The projection as the client gave it.
    pub fn source(&self) -> &RawDocument {
        &self.source
    }

    /// Whether every document comes out as it goes in.
    pub fn is_identity(&self) -> bool {
        self.mode != Mode::Inclusion && self.fields.is_empty()
    }

    /// Whether fields are named that stay, all others being left out.
    pub fn is_inclusion(&self) -> bool {
        self.mode == Mode::Inclusion
    }

    /// Whether `apply` needs the details of the match, for `.$`.
    pub fn needs_match_details(&self) -> bool {
        self.has_position
    }

    /// What it reads of what is known of documents beside their fields.
    pub fn metadata(&self) -> MetadataUse {
        self.metadata
    }

    /// The projected document.
    pub fn apply(
        &self,
        document: &RawDocument,
        details: Option<&MatchDetails>,
        variables: &Variables,
    ) -> Result<RawDocumentBuf> {
        let bytes = document.as_bytes().len();
        let most = if self.is_inclusion() { bytes.min(INCLUSION_BYTES) } else { bytes };
        before_allocating_if_large(most)?;
        let mut out = Vec::with_capacity(most);
        self.apply_into(document, details, variables, &mut out)?;
        if out.capacity() / 2 > out.len().max(INCLUSION_BYTES) {
            // Whoever keeps the document counts its bytes.
            out.shrink_to_fit();
        }
        Ok(RawDocumentBuf::from_bytes(out)?)
    }

    /// Appends the projected document to a buffer, as it is stored: for replies built in place.
    pub fn apply_into(
        &self,
        document: &RawDocument,
        details: Option<&MatchDetails>,
        variables: &Variables,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.is_identity() {
            make_room(out, document.as_bytes().len())?;
            out.extend_from_slice(document.as_bytes());
            return Ok(());
        }
        let position = details.and_then(MatchDetails::array_position);
        let mut context = EvaluationContext::new(document, variables);
        if let Some(metadata) = details.and_then(MatchDetails::metadata) {
            context = context.with_metadata(metadata);
        }
        apply::Application { mode: self.mode, context, position }.document(&self.fields, document.as_bytes(), out)
    }

    /// What the projection reads of a document. Without inclusion that is the whole document.
    pub fn dependencies(&self) -> DependencySet {
        let mut set = DependencySet::new();
        set.whole_document = self.mode != Mode::Inclusion;
        self.fields.dependencies("", &mut set);
        set
    }

    /// Whether the values at `paths` (of an index that is not multikey) are all it takes: an inclusion of whole paths
    /// among them, or expressions over them.
    pub fn is_covered_by(&self, paths: &[&str]) -> bool {
        if self.mode != Mode::Inclusion || self.has_position || self.fields.has_array_operator() {
            return false;
        }
        let needed = self.dependencies();
        !needed.whole_document && needed.paths.iter().all(|path| paths.contains(&path.as_str()))
    }
}

/// The value of a stored document's field.
fn find_field<'a>(document: &'a [u8], name: &str) -> Option<ValueView<'a>> {
    elements_of_bytes(document).find(|element| element.name_bytes() == name.as_bytes()).map(|element| element.view())
}

impl Fields {
    /// Whether somewhere in the tree an array is cut.
    fn has_array_operator(&self) -> bool {
        self.iter().any(|(_, field)| match field {
            Field::Slice(_) | Field::ElemMatch(_) | Field::Positional => true,
            Field::Nested(inner) => inner.has_array_operator(),
            Field::Include | Field::Exclude | Field::Computed(_) => false,
        })
    }

    /// What expressions read of what is known of documents beside their fields.
    fn metadata(&self) -> MetadataUse {
        let mut set = DependencySet::new();
        if self.has_computed {
            self.dependencies("", &mut set);
        }
        set.metadata
    }

    /// Adds what the tree reads below the path `prefix`.
    fn dependencies(&self, prefix: &str, set: &mut DependencySet) {
        for (name, field) in self.iter() {
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            match field {
                Field::Nested(inner) => inner.dependencies(&path, set),
                Field::Computed(expression) => expression.dependencies(set),
                Field::Include | Field::Slice(_) | Field::ElemMatch(_) | Field::Positional => set.add_path(&path),
                Field::Exclude => {}
            }
        }
    }
}
