//! How views come, change and go: `create`, `collMod` and `drop` of a view.
//!
//! A definition is one document, so it is there as a whole or not at all. Two commands that define views at once are
//! told apart by its `_id`; what they do to the graph of views together is looked at again when a view is read.

use std::sync::Arc;

use aggregation::{Pipeline, PipelineContext, PipelineSource};
use bson::{RawArray, RawDocument};
use collection::{Namespace, StatementDetails, Validation};
use document::collation::Collator;
use executor::Uninterrupted;
use transaction::{CommitInfo, Decision};

use super::{COLLECTION, Definition, all, check_bytes, definition, executor_of, graph, stored_in};
use crate::handlers::crud::query_arguments::variables;
use crate::handlers::time_series;
use crate::request::arguments::Field;
use crate::request::error::{CommandError, Result};
use crate::state::changing::Changing;

/// What a command says of a view.
#[derive(Default)]
pub(crate) struct ViewRequest<'a> {
    pub(crate) on: Option<&'a str>,
    pub(crate) pipeline: Option<&'a RawArray>,
    pub(crate) collator: Option<Arc<Collator>>,
}

impl<'a> ViewRequest<'a> {
    /// Takes `viewOn` or `pipeline`.
    ///
    /// # Errors
    /// TypeMismatch.
    pub(crate) fn take(&mut self, field: Field<'a>) -> Result<()> {
        match field.name() {
            "viewOn" => self.on = field.string()?,
            _ => {
                // It says what is wrong with what is none.
                if field.documents()?.is_some() {
                    self.pipeline = field.value().as_array();
                }
            }
        }
        Ok(())
    }

    pub(crate) fn is_given(&self) -> bool {
        self.on.is_some() || self.pipeline.is_some()
    }
}

/// Creates a view; `None` when there is the same one already.
///
/// # Errors
/// NamespaceExists (48), GraphContainsCycle (5), ViewDepthLimitExceeded (165), OptionNotSupportedOnView (167), those of
/// the pipeline.
pub(crate) fn create(
    changing: &Changing<'_>,
    namespace: &Namespace,
    request: &ViewRequest<'_>,
) -> Result<Option<CommitInfo>> {
    if changing.reading.is_in_transaction() {
        let message = format!("Cannot create a view in a multi-document transaction: {namespace}");
        return Err(CommandError::named("OperationNotSupportedInTransaction", message));
    }
    let new = requested(changing, namespace, request, request.collator.clone())?;
    let exists = |message| Err(CommandError::named("NamespaceExists", message));
    let is_series = time_series::of(changing.reading.queries, namespace).is_some();
    if is_series || changing.reading.queries.store.catalog().lookup(namespace.as_str()).is_some() {
        return exists(format!("Collection {namespace} already exists."));
    }
    if let Some(existing) = definition(changing.reading.queries, namespace)? {
        if existing.document.as_bytes() == new.document.as_bytes() {
            return Ok(None);
        }
        return exists(format!("namespace {namespace} already exists, but is a view with other options"));
    }
    let stored =
        changing.reading.queries.store.collection_or_create(&Namespace::new(namespace.database(), COLLECTION)?)?;
    let commit = changing.write(0, StatementDetails::None, |write| {
        changing.reading.queries.store.insert_document(write, &stored, &new.document, Validation::Bypass)
    })?;
    Ok(Some(commit))
}

/// Gives a view another definition; `None` when there is no such view.
///
/// # Errors
/// Those of `create`.
pub(crate) fn change(
    changing: &Changing<'_>,
    namespace: &Namespace,
    request: &ViewRequest<'_>,
) -> Result<Option<CommitInfo>> {
    let Some(known) = definition(changing.reading.queries, namespace)? else { return Ok(None) };
    // What text is compared by stays.
    let new = requested(changing, namespace, request, known.collator()?)?;
    replace(changing, namespace, Some(&new))
}

/// Takes a view away; `None` when there is no such view.
///
/// # Errors
/// Those of writing.
pub(crate) fn drop_view(changing: &Changing<'_>, namespace: &Namespace) -> Result<Option<CommitInfo>> {
    replace(changing, namespace, None)
}

fn replace(changing: &Changing<'_>, namespace: &Namespace, new: Option<&Definition>) -> Result<Option<CommitInfo>> {
    let store = changing.reading.queries.store;
    let Some(stored) = stored_in(changing.reading.queries, namespace.database())? else { return Ok(None) };
    let _simple = document::collation::enter(None);
    let mut found = executor_of(changing.reading.queries, &stored, Some(namespace.as_str()))?;
    let Some(record_id) = found.next(&Uninterrupted)?.and_then(|row| row.record_id) else { return Ok(None) };
    let changed = changing.write(0, StatementDetails::None, |write| {
        store.change_document(write, &stored, record_id, Validation::Bypass, |_, out| {
            let Some(new) = new else { return Ok::<_, CommandError>(Decision::Delete) };
            out.extend_from_slice(new.document.as_bytes());
            Ok(Decision::ReplaceWhole)
        })
    })?;
    Ok(changed.commit())
}

/// The definition that a command asks for, if it may be one.
fn requested(
    changing: &Changing<'_>,
    namespace: &Namespace,
    request: &ViewRequest<'_>,
    collator: Option<Arc<Collator>>,
) -> Result<Definition> {
    let invalid = |message: &str| Err(CommandError::named("InvalidOptions", message));
    let Some(on) = request.on else { return invalid("'pipeline' requires 'viewOn' to also be specified") };
    if on.is_empty() {
        return Err(CommandError::bad_value("'viewOn' cannot be empty"));
    }
    let base = Namespace::new(namespace.database(), on)?;
    if namespace.collection().starts_with("system.") {
        let message = format!("View name cannot start with 'system.': {namespace}");
        return Err(CommandError::named("InvalidNamespace", message));
    }
    let empty = bson::RawArrayBuf::new();
    let new = Definition::new(namespace, on, request.pipeline.unwrap_or(&empty), collator.as_deref());
    check_collation(changing, &base, &new)?;
    let _collation = document::collation::enter(collator);
    let stages: Vec<&RawDocument> = new.stages().collect();
    check_bytes(new.document.as_bytes().len())?;
    check_pipeline(changing, namespace, on, &stages)?;
    graph::check(&all(changing.reading.queries, namespace.database())?, &new)?;
    Ok(new)
}

/// Views on one another compare text alike.
fn check_collation(changing: &Changing<'_>, base: &Namespace, new: &Definition) -> Result<()> {
    if changing.reading.queries.store.catalog().lookup(base.as_str()).is_some() {
        return Ok(());
    }
    let Some(below) = definition(changing.reading.queries, base)? else { return Ok(()) };
    if below.collation() == new.collation() {
        return Ok(());
    }
    let message = format!("View {} has another collation than the view {base} that it stands on", new.name());
    Err(CommandError::named("OptionNotSupportedOnView", message))
}

/// A view's pipeline is like any other, but begins with documents of a collection and writes nothing.
fn check_pipeline(changing: &Changing<'_>, namespace: &Namespace, on: &str, stages: &[&RawDocument]) -> Result<()> {
    let source = aggregation::Namespace::new(namespace.database(), on);
    let pipeline =
        Pipeline::parse(stages, &PipelineContext::new(source, Arc::clone(&variables(changing.reading, None)?)))?;
    let name = |stage: Option<&&RawDocument>| {
        let first = stage.and_then(|stage| document::elements(stage).next());
        first.map_or_else(String::new, |element| element.name().to_owned())
    };
    let refused = if pipeline.writes() {
        name(stages.last())
    } else if pipeline.source() == PipelineSource::FirstStage {
        name(stages.first())
    } else {
        return Ok(());
    };
    let message = format!("The aggregation stage {refused} in the pipeline of the view {namespace} is not allowed");
    Err(CommandError::named("OptionNotSupportedOnView", message))
}
