//! Updates: operators (`$set`, `$inc`, ...), replacement documents and pipelines, applied to raw documents.
//!
//! Called by the update, findAndModify and bulk commands through the executor (`Update::parse` once a command,
//! `Update::apply` once a document), by upserts (`Update::upsert_document`) and by the oplog (`diff`). It relies on
//! `document` for comparison and numbers, on `filter` for `$pull` and array filters, on `expression` and `projection`
//! for pipelines.
//!
//! An update by operators becomes a tree of its paths (`tree`); `apply` walks a document along the tree once and writes
//! the new document, copying what no path reaches as spans of bytes. Operators are functions from a value to what
//! becomes of it, one file each in `operators`.

mod apply;
mod array_filters;
pub mod diff;
mod display;
mod element;
mod level;
mod limits;
mod modified;
mod operator;
mod operators;
mod parse;
mod path;
mod pipeline;
mod replacement;
mod single_field;
mod tree;
mod upsert;
mod value;
mod writer;

use std::fmt;
use std::sync::Arc;

use bson::raw::{RawArray, RawDocument, RawDocumentBuf};
use bson::{DateTime, Timestamp};
pub use document::EmptyTimestamps;

pub use modified::ModifiedPaths;
pub use operators::{UPDATE_OPERATORS, UpdateOperator};

use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::Variables;
use crate::filter::FilterOptions;
use array_filters::ArrayFilters;
use parse::OperatorUpdate;
use pipeline::UpdatePipeline;

/// What a client sends as an update.
#[derive(Debug, Clone, Copy)]
pub enum UpdateSource<'a> {
    /// Operators when the first field begins with `$`, otherwise a replacement.
    Document(&'a RawDocument),
    /// Pipeline stages.
    Pipeline(&'a RawArray),
}

/// How many documents an update may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Multiplicity {
    /// At most one.
    #[default]
    One,
    /// All that match (`multi: true`), which a replacement may not.
    Many,
}

/// What parsing needs to know besides the update.
#[derive(Debug, Clone)]
pub struct UpdateOptions {
    /// The command's `multi`.
    pub multiplicity: Multiplicity,
    /// The command's variables (`let`); the same must be in the context of `apply`.
    pub variables: Arc<Variables>,
}

/// Whether a document is being changed or made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatePurpose {
    /// A stored document is updated.
    Modify,
    /// An upsert makes the document to insert.
    Insert,
}

/// Where updates read the time.
pub trait UpdateClock: fmt::Debug {
    /// The current date, for `$currentDate`.
    fn now(&self) -> DateTime;
    /// A timestamp later than any given out before, for `$currentDate` and for zero timestamps in replacements.
    fn next_timestamp(&self) -> Timestamp;
}

/// What applying an update to a document needs to know besides the document.
#[derive(Debug, Clone, Copy)]
pub struct UpdateContext<'a> {
    /// The position of the array item that the filter matched, for `$` (see `Filter::matches_with`).
    pub match_position: Option<usize>,
    /// Whether this is an update or an upsert's insert.
    pub purpose: UpdatePurpose,
    /// The time.
    pub clock: &'a dyn UpdateClock,
    /// What becomes of zero timestamps of replacements and of what an upsert inserts.
    pub empty_timestamps: EmptyTimestamps,
    /// The command's variables, for pipelines.
    pub variables: &'a Variables,
}

impl<'a> UpdateContext<'a> {
    /// Where zero timestamps at the top level get the time from; `None` when they are kept.
    fn clock_of_zero_timestamps(&self) -> Option<&'a dyn UpdateClock> {
        (self.empty_timestamps == EmptyTimestamps::Replace).then_some(self.clock)
    }
}

/// What an update made of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum UpdateOutcome {
    /// The document is, byte for byte, as it was.
    NoChange,
    /// The document changed.
    Changed {
        /// The new document.
        document: RawDocumentBuf,
        /// Where it differs, to be read with `Update::may_modify`.
        modified: ModifiedPaths,
    },
}

/// A parsed update.
#[derive(Debug)]
pub struct Update {
    kind: UpdateKind,
}

#[derive(Debug)]
enum UpdateKind {
    Operators(OperatorUpdate),
    Replacement(RawDocumentBuf),
    Pipeline(UpdatePipeline),
}

/// The three styles of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateStyle {
    /// `{$set: ...}`.
    Operators,
    /// `{a: 1}`.
    Replacement,
    /// `[{$set: ...}]`.
    Pipeline,
}

impl Update {
    /// Parses an update and its `arrayFilters`.
    ///
    /// Errors have MongoDB's codes and texts: `FailedToParse` for unknown operators and filters that nothing uses,
    /// `ConflictingUpdateOperators` for overlapping paths, `BadValue`, `TypeMismatch` and `EmptyFieldName` for operands and
    /// paths, `InvalidOptions` for stages a pipeline may not have.
    pub fn parse(update: UpdateSource<'_>, array_filters: &[&RawDocument], options: &UpdateOptions) -> Result<Self> {
        let kind = match update {
            UpdateSource::Pipeline(stages) => {
                refuse_array_filters(array_filters, "pipeline-style")?;
                UpdateKind::Pipeline(UpdatePipeline::parse(stages, &options.variables)?)
            }
            UpdateSource::Document(document) if is_operators(document) => {
                let filter_options = FilterOptions::new(Arc::clone(&options.variables));
                let array_filters = ArrayFilters::parse(array_filters, &filter_options)?;
                UpdateKind::Operators(OperatorUpdate::parse(document, array_filters, &filter_options)?)
            }
            UpdateSource::Document(document) => {
                refuse_array_filters(array_filters, "replacement-style")?;
                if options.multiplicity == Multiplicity::Many {
                    let message = "multi update is not supported for replacement-style update";
                    return Err(QueryError::new(ErrorKind::FailedToParse, message));
                }
                UpdateKind::Replacement(document.to_owned())
            }
        };
        Ok(Self { kind })
    }

    /// Applies the update to a document.
    ///
    /// Errors: `PathNotViable`, `TypeMismatch`, `BadValue`, `ImmutableField` and others when the update does not fit the
    /// document; `Location(17419)` when the result is larger than 16 MiB; `Overflow` when it nests deeper than 200 levels.
    pub fn apply(&self, document: &RawDocument, context: &UpdateContext<'_>) -> Result<UpdateOutcome> {
        // The new document, and what is logged of it.
        crate::before_allocating_if_large(2 * document.as_bytes().len())?;
        let changed = match &self.kind {
            UpdateKind::Operators(update) => apply::apply_operators(update, document, context)?
                .map(|(bytes, modified)| (bytes, ModifiedPaths::OfUpdate(modified))),
            UpdateKind::Replacement(after) => {
                replacement::replace(after, document, context)?.map(|bytes| (bytes, ModifiedPaths::Any))
            }
            UpdateKind::Pipeline(stages) => stages.apply(document, context)?.map(|bytes| (bytes, ModifiedPaths::Any)),
        };
        Ok(match changed {
            None => UpdateOutcome::NoChange,
            Some((bytes, modified)) => {
                UpdateOutcome::Changed { document: replacement::into_document(bytes)?, modified }
            }
        })
    }

    /// Which kind of update it is.
    pub fn style(&self) -> UpdateStyle {
        match self.kind {
            UpdateKind::Operators(_) => UpdateStyle::Operators,
            UpdateKind::Replacement(_) => UpdateStyle::Replacement,
            UpdateKind::Pipeline(_) => UpdateStyle::Pipeline,
        }
    }

    /// The paths that operators act on, as the client wrote them; none for replacements and pipelines, which may change
    /// any path.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let touched = match &self.kind {
            UpdateKind::Operators(update) => update.touched.as_slice(),
            UpdateKind::Replacement(_) | UpdateKind::Pipeline(_) => &[],
        };
        touched.iter().map(modified::TouchedPath::text)
    }

    /// Whether an application that reported `modified` may have changed values at `path` (of an index, say). May say
    /// yes without need, never no wrongly. `ModifiedPaths::Any` is of interest before applying: what may change at all.
    pub fn may_modify(&self, modified: ModifiedPaths, path: &str) -> bool {
        match &self.kind {
            UpdateKind::Operators(update) => {
                let mut touched = update.touched.iter().enumerate();
                touched.any(|(number, touched)| modified.includes(number) && touched.overlaps(path))
            }
            UpdateKind::Replacement(_) | UpdateKind::Pipeline(_) => path != "_id",
        }
    }
}

fn is_operators(update: &RawDocument) -> bool {
    let first = document::elements(update).next();
    first.is_some_and(|first| first.name_bytes().first() == Some(&b'$'))
}

fn refuse_array_filters(array_filters: &[&RawDocument], style: &str) -> Result<()> {
    match array_filters.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("arrayFilters may not be specified for {style} updates");
            Err(QueryError::new(ErrorKind::FailedToParse, message))
        }
    }
}

#[cfg(test)]
mod tests;
