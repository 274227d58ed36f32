//! Where `$merge` writes: each document updates the one of the target that has the same values of some fields, or is
//! inserted.
//!
//! Made by `pipeline_host` once a pipeline is pulled. Each document is a write of its own, as a statement of `update`
//! is; the pipeline goes on reading its snapshot, so that it does not meet what it writes.

use std::sync::Arc;

use aggregation::{MergeRules, MergeWriter, WhenMatched, WhenNotMatched};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use collection::{Collection, Namespace, Validation};
use document::EmptyTimestamps;
use document::collation::agrees;
use executor::{QueryExecutor, Target};
use planner::CanonicalQuery;
use query_language::expression::{FieldPath, Variables};
use query_language::filter::{Filter, FilterOptions};
use query_language::update::{Update, UpdateContext, UpdateOutcome, UpdatePurpose};
use transaction::Decision;

use super::query_arguments::{CommandClock, OwnedInterrupt, host_error};
use super::replacing_output::as_stored;
use crate::handlers::schema::check_may_create;
use crate::handlers::time_series;
use crate::handlers::views;
use crate::request::error::{CommandError, Result};
use crate::state::operation_counts::count;
use crate::state::pipeline_output::PipelineOutput;

/// Attempts with a document that somebody else inserts, or whose match is gone, while it is being written.
const ATTEMPTS: usize = 10;

/// See the module's head.
pub(super) struct MergeOutput {
    output: PipelineOutput,
    target: Namespace,
    rules: MergeRules,
    /// Whether a document without one of the fields is another than all others.
    is_sparse: bool,
    validation: Validation,
    interrupt: OwnedInterrupt,
    clock: CommandClock,
    /// What filters are parsed with; they have no variables.
    filters: FilterOptions,
}

/// What came of an attempt.
enum Written {
    Updated,
    Inserted,
    Nothing,
}

impl MergeOutput {
    /// # Errors
    /// Location51183 when no unique index tells documents of the target apart by the fields; what may not be written.
    pub(super) fn begin(
        output: PipelineOutput,
        target: Namespace,
        rules: &MergeRules,
        validation: Validation,
        interrupt: OwnedInterrupt,
    ) -> Result<Self> {
        check_may_merge(&target)?;
        views::refuse(output.queries(), &target)?;
        time_series::refuse(output.queries(), &target, "$merge")?;
        let existing = output.writing.store.catalog().lookup(target.as_str());
        let is_sparse = check_unique(existing.as_deref(), &rules.on)?;
        let (rules, clock) = (rules.clone(), CommandClock::of(&*output.writing.clock, &output.timestamps));
        let filters = FilterOptions::default();
        Ok(Self { output, target, rules, is_sparse, validation, interrupt, clock, filters })
    }

    fn add(&self, document: &RawDocument, variables: &Variables) -> Result<()> {
        let with_id;
        let is_by_id = self.rules.on.iter().any(|path| path.as_str() == "_id");
        let document = if is_by_id && document::document_id(document).is_none() {
            with_id = self.prepared(document)?;
            &with_id
        } else {
            document
        };
        let filter = self.filter_of(document)?;
        count(&self.output.counts.update, 1);
        for attempt in 1.. {
            match self.write_once(document, &filter, variables) {
                Ok(Written::Updated) => count(&self.output.counts.documents_updated, 1),
                Ok(Written::Inserted) => count(&self.output.counts.documents_inserted, 1),
                Ok(Written::Nothing) => {}
                Err(error) if attempt < ATTEMPTS && self.may_try_again(&error) => {
                    self.interrupt.check_command()?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            break;
        }
        Ok(())
    }

    /// Whether another attempt would find other circumstances: the document is there now, or its collection is gone.
    fn may_try_again(&self, error: &CommandError) -> bool {
        match &*error.code_name {
            "DuplicateKey" => !matches!(self.rules.when_matched, WhenMatched::Fail),
            name => name == "QueryPlanKilled",
        }
    }

    fn write_once(&self, document: &RawDocument, filter: &RawDocument, variables: &Variables) -> Result<Written> {
        if let WhenMatched::Fail = self.rules.when_matched {
            return self.insert(document);
        }
        let store = &self.output.writing.store;
        if let Some(collection) = store.catalog().lookup(self.target.as_str())
            && let Some(written) = self.write_matching(&collection, filter, variables)?
        {
            return Ok(written);
        }
        match self.rules.when_not_matched {
            WhenNotMatched::Insert => self.insert(document),
            WhenNotMatched::Discard => Ok(Written::Nothing),
            WhenNotMatched::Fail => Err(CommandError::named(
                "MergeStageNoMatchingDocument",
                "$merge could not find a matching document in the target collection for at least one document in the \
                 source collection",
            )),
        }
    }

    /// `None`: nothing matches.
    fn write_matching(
        &self,
        collection: &Arc<Collection>,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Written>> {
        let (output, interrupt) = (&self.output, &self.interrupt);
        let store = &output.writing.store;
        let query = Arc::new(CanonicalQuery::new(Filter::parse(filter, &self.filters)?));
        let view = store.newest_view();
        let mut found =
            QueryExecutor::new(&output.queries().services(), view, Target::of(collection), query.clone(), interrupt)?;
        while let Some(row) = found.next(interrupt)? {
            let Some(record_id) = row.record_id else { continue };
            let WhenMatched::Update(update) = &self.rules.when_matched else { return Ok(Some(Written::Nothing)) };
            let mut is_match = false;
            let changed = output.writing.with_context(|write| {
                write.set_waiting(interrupt.waiting());
                store.change_document(write, collection, record_id, self.validation, |newest, out| {
                    is_match = query.filter.matches(newest)?;
                    let is_changed = is_match && self.apply(update, newest, variables, out)?;
                    Ok::<_, CommandError>(if is_changed { Decision::Replace } else { Decision::Keep })
                })
            })?;
            if is_match {
                return Ok(Some(if changed.commit().is_some() { Written::Updated } else { Written::Nothing }));
            }
        }
        Ok(None)
    }

    /// Writes what the update makes of a document to `out`; `false`: it stays as it is.
    fn apply(&self, update: &Update, newest: &RawDocument, variables: &Variables, out: &mut Vec<u8>) -> Result<bool> {
        let context = UpdateContext {
            match_position: None,
            purpose: UpdatePurpose::Modify,
            clock: &self.clock,
            empty_timestamps: EmptyTimestamps::Replace,
            variables,
        };
        match update.apply(newest, &context).map_err(CommandError::from).map_err(named_by_stage)? {
            UpdateOutcome::Changed { document, .. } => {
                out.extend_from_slice(document.as_bytes());
                Ok(true)
            }
            UpdateOutcome::NoChange => Ok(false),
        }
    }

    fn insert(&self, document: &RawDocument) -> Result<Written> {
        let document = self.prepared(document)?;
        let store = &self.output.writing.store;
        let collection = store.collection_or_create(&self.target)?;
        self.output.writing.with_context(|write| {
            write.set_waiting(self.interrupt.waiting());
            store.insert_document(write, &collection, &document, self.validation)
        })?;
        Ok(Written::Inserted)
    }

    /// As it is stored: with an `_id`, which is first.
    fn prepared(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        as_stored(&self.output, document)
    }

    /// What finds the same document in the target.
    fn filter_of(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let mut filter = RawDocumentBuf::new();
        for path in &self.rules.on {
            let value = path.evaluate(document)?;
            let value = match value.get() {
                Some(RawBsonRef::Array(_)) => {
                    let message = format!("$merge write error: 'on' field '{}' cannot be an array", path.as_str());
                    return Err(CommandError::numbered(51185, message));
                }
                None | Some(RawBsonRef::Null | RawBsonRef::Undefined) if self.is_sparse => {
                    let message = format!(
                        "$merge write error: 'on' field '{}' cannot be missing, null or undefined if supporting index \
                         is sparse",
                        path.as_str()
                    );
                    return Err(CommandError::numbered(51132, message));
                }
                None | Some(RawBsonRef::Undefined) => RawBson::Null,
                Some(value) => RawBson::from(value),
            };
            let name = <&bson::raw::CStr>::try_from(path.as_str())?;
            filter.append(name, rawdoc! { "$eq": value });
        }
        Ok(filter)
    }
}

impl MergeWriter for MergeOutput {
    fn write(&mut self, document: &RawDocument, variables: Variables) -> aggregation::Result<()> {
        self.add(document, &variables).map_err(host_error)
    }
}

/// An update that changes what tells documents apart is likely to be the stage's mistake, so it says so.
fn named_by_stage(error: CommandError) -> CommandError {
    if error.code_name != "ImmutableField" {
        return error;
    }
    let message = format!(
        "$merge failed to update the matching document, did you attempt to modify the _id or the shard key? :: caused \
         by :: {}",
        error.message
    );
    CommandError { message, ..error }
}

/// Refuses collections and databases of the server's own.
fn check_may_merge(target: &Namespace) -> Result<()> {
    if target.collection().starts_with("system.") {
        let message = format!("Cannot $merge to special collection: {}", target.collection());
        return Err(CommandError::numbered(31319, message));
    }
    if ["admin", "config", "local"].contains(&target.database()) {
        let message = format!("Cannot $merge to internal database: {}", target.database());
        return Err(CommandError::numbered(31320, message));
    }
    check_may_create(target)
}

/// Looks for a unique index over exactly these fields that tells text apart as the command does; whether all of them
/// leave out documents without the fields.
fn check_unique(existing: Option<&Collection>, on: &[FieldPath]) -> Result<bool> {
    let is_by_id = matches!(on, [only] if only.as_str() == "_id");
    if is_by_id && existing.is_none_or(|existing| agrees(existing.definition().options.collator.as_ref())) {
        return Ok(false);
    }
    let indexes = existing.map(|collection| collection.indexes());
    let unique = indexes.iter().flat_map(|indexes| indexes.ready()).filter(|index| {
        let (specification, fields) = (index.specification(), index.pattern().fields());
        let is_same = |path: &FieldPath| fields.iter().any(|field| field.path.as_str() == path.as_str());
        specification.unique
            && specification.partial_filter.is_none()
            && agrees(index.pattern().shared_collator())
            && fields.len() == on.len()
            && on.iter().all(is_same)
    });
    let is_sparse: Vec<bool> = unique.map(|index| index.specification().sparse).collect();
    if is_sparse.is_empty() {
        let message = "Cannot find index to verify that join fields will be unique";
        return Err(CommandError::numbered(51183, message));
    }
    Ok(is_sparse.into_iter().all(|is_sparse| is_sparse))
}
