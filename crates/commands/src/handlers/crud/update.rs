//! `update`: changes documents that match, or inserts one if none does (`upsert`).
//!
//! The documents are found in one snapshot, so that a document which the update moves in an index is not met again. Each
//! is then changed in its newest version, under its lock, if it still matches.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bson::{RawBson, RawBsonRef, RawDocument};
use collection::{Collection, Namespace, StatementDetails, Validation};
use document::{EmptyTimestamps, elements};
use executor::{QueryExecutor, Target};
use planner::{CanonicalQuery, Hint};
use query_language::filter::MatchDetails;
use query_language::update::{
    Multiplicity, Update, UpdateContext, UpdateOptions, UpdateOutcome, UpdatePurpose, UpdateSource, UpdateStyle,
};
use transaction::{CommitInfo, Decision, ExecutedStatement};

use super::command_collation;
use super::ended_statement::ShownStatement;
use super::find_arguments::apply_sort;
use super::needed_privileges;
use super::query_arguments::{CommandClock, empty_timestamps, hint, query, variables};
use super::query_memory::check_memory_for_update;
use super::records_to_change::{Changed, RecordsToChange};
use super::write_statements::{
    StatementOrder, Statements, WriteStatements, check_retryable, is_dropped_outside, may_try_upsert_again, validated,
    written_series,
};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::time_series::{self, TimeSeries};
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::changing::Changing;
use crate::state::execution_notes::ExecutionNotes;
use crate::state::operation_counts::OperationCounts;
use crate::state::reading::Reading;
use crate::state::write_command::WriteCommand;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.write_command(), arguments, reply),
    Declaration {
        counts_as_command: false,
        sequences: &["updates"],
        class: Class::Write,
        changes: Changes::Stored,
        session_use: SessionUse::RetryableWrite,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        computed: Some(needed_privileges::of_update),
        ..Declaration::new("update", "Updates documents.", Needs::Primary, &[on_collection(Action::Update)])
    },
);

/// Runs the command.
pub(crate) fn run(
    command: &WriteCommand<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = Namespace::new(command.changing.reading.database, arguments.collection_name()?)?;
    let (mut is_ordered, mut options) = (true, StatementOptions::default());
    let mut statements: Option<Vec<&RawDocument>> = command.sequences.documents("updates").map(Iterator::collect);
    for field in arguments.fields() {
        match field.name() {
            "updates" => statements = field.documents()?,
            "ordered" => is_ordered = field.boolean_or(true)?,
            "let" => options.declared = field.document()?,
            "bypassDocumentValidation" => {
                options.validation = if field.boolean()? { Validation::Bypass } else { Validation::Enforce };
            }
            "bypassEmptyTsReplacement" => options.empty_timestamps = empty_timestamps(field)?,
            _ => arguments.generic(field)?,
        }
    }
    let statements = required(statements, "update.updates")?;
    let order = if is_ordered { StatementOrder::Ordered } else { StatementOrder::Unordered };
    let mut writes =
        WriteStatements::begin(&command.changing, &mut arguments, from_ref(&namespace), statements.len(), order)?;
    let statements = statements.into_iter().map(StatementFields::read).collect::<Result<Vec<_>>>()?;
    let mut updates = Updates::new(&namespace, &statements, &options);
    writes.run(command, statements.len(), &mut updates)?;
    updates.totals.note(command.changing.noting.notes);
    updates.totals.write(reply);
    writes.finish(&command.acknowledging, &arguments.generic.write_concern, reply);
    Ok(())
}

/// The command's statements, and what they have done.
pub(super) struct Updates<'a> {
    namespace: &'a Namespace,
    statements: &'a [StatementFields<'a>],
    options: &'a StatementOptions<'a>,
    pub(super) totals: Totals,
    phase: Phase,
}

impl<'a> Updates<'a> {
    pub(super) fn new(
        namespace: &'a Namespace,
        statements: &'a [StatementFields<'a>],
        options: &'a StatementOptions<'a>,
    ) -> Self {
        Self { namespace, statements, options, totals: Totals::default(), phase: Phase::Updating }
    }
}

/// What a statement is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It changes what matches.
    Updating,
    /// Nothing matches: it inserts.
    Upserting,
}

impl Statements for Updates<'_> {
    fn counter<'c>(&self, _: usize, counts: &'c OperationCounts) -> &'c AtomicU64 {
        &counts.update
    }

    fn add_executed(&mut self, changing: &Changing<'_>, position: usize, executed: &ExecutedStatement) -> Result<()> {
        let upserted = self.totals.add_executed(changing, executed)?;
        self.totals.upserted.extend(upserted.map(|id| (position, id)));
        Ok(())
    }

    fn run(
        &mut self,
        changing: &Changing<'_>,
        position: usize,
        id: i32,
        commit: &mut Option<CommitInfo>,
    ) -> Result<()> {
        let Some(fields) = self.statements.get(position) else { return Ok(()) };
        self.phase = Phase::Updating;
        let _collation = command_collation::enter(changing.reading, self.namespace, fields.collation)?;
        check_no_bucket(self.namespace)?;
        if let Some(series) = written_series(changing, self.namespace)? {
            return self.run_on_series(changing, &series, fields, id, commit);
        }
        let mut statement = Statement::parse(changing.reading, fields, self.options)?;
        statement.id = id;
        check_retryable(changing, statement.multiplicity == Multiplicity::One, "multi=true")?;
        let matched_before = self.totals.matched;
        if let Some(collection) = changing.reading.collection(self.namespace)? {
            update_matching(changing, &collection, &statement, &|_| 1, &mut self.totals, commit)?;
        }
        if self.totals.matched > matched_before || !statement.is_upsert {
            return Ok(());
        }
        self.phase = Phase::Upserting;
        let (upserted, made, _) = upsert(changing, self.namespace, &statement)?;
        *commit = Some(made);
        self.totals.upserted.push((position, upserted));
        Ok(())
    }

    fn shown(&self, position: usize) -> Option<ShownStatement<'_>> {
        let totals = &self.totals;
        let upserted = totals.upserted.len() as u64;
        let done = [("nMatched", totals.matched), ("nModified", totals.modified), ("nUpserted", upserted)];
        Some(ShownStatement { command: "update", source: self.statements.get(position)?.source, done })
    }

    fn progress(&self) -> u64 {
        self.totals.matched
    }

    /// Somebody inserted it since we looked: now it can be updated. Or the collection was dropped: now it can be
    /// created.
    fn may_try_again(&self, changing: &Changing<'_>, error: &CommandError) -> bool {
        match self.phase {
            Phase::Updating => is_dropped_outside(changing, error),
            Phase::Upserting => may_try_upsert_again(changing, error),
        }
    }
}

impl Updates<'_> {
    /// Changes what names series: of their buckets.
    fn run_on_series(
        &mut self,
        changing: &Changing<'_>,
        series: &TimeSeries,
        fields: &StatementFields<'_>,
        id: i32,
        commit: &mut Option<CommitInfo>,
    ) -> Result<()> {
        let kind = (fields.multiplicity == Multiplicity::Many, fields.is_upsert);
        let of_buckets = time_series::update::translated(series, fields.filter, fields.update, kind)?;
        check_retryable(changing, false, "multi=true")?;
        let of_buckets = StatementFields {
            filter: &of_buckets.filter,
            update: UpdateSource::Document(&of_buckets.update),
            array_filters: fields.array_filters.clone(),
            hint: time_series::hint(series, &fields.hint),
            ..*fields
        };
        let mut statement = Statement::parse(changing.reading, &of_buckets, self.options)?;
        statement.id = id;
        let weight = |bucket: &RawDocument| time_series::update::weight(series, bucket);
        update_matching(changing, &series.collection, &statement, &weight, &mut self.totals, commit)
    }
}

/// Refuses to change buckets past the time series that they are of.
///
/// # Errors
/// InvalidNamespace (73).
pub(crate) fn check_no_bucket(namespace: &Namespace) -> Result<()> {
    if !namespace.collection().starts_with(time_series::PREFIX) {
        return Ok(());
    }
    let message = format!("buckets of a time-series collection are not updated one by one: {namespace}");
    Err(CommandError::named("InvalidNamespace", message))
}

/// What a command has done so far.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: Vec<(usize, RawBson)>,
}

impl Totals {
    fn write(&self, reply: &mut DocumentWriter<'_>) {
        reply.count("n", self.matched + self.upserted.len() as u64);
        if !self.upserted.is_empty() {
            reply.array("upserted", |list| {
                for (position, id) in &self.upserted {
                    list.push_document(|item| {
                        item.count("index", *position as u64);
                        item.value("_id", id.as_raw_bson_ref());
                    });
                }
            });
        }
        reply.count("nModified", self.modified);
    }

    pub(super) fn note(&self, notes: &ExecutionNotes) {
        notes.matched.add(self.matched);
        notes.modified.add(self.modified);
        notes.upserted.add(self.upserted.len() as u64);
    }

    /// Counts what an earlier try has done; gives the `_id` of the document that it upserted.
    fn add_executed(&mut self, changing: &Changing<'_>, executed: &ExecutedStatement) -> Result<Option<RawBson>> {
        if let (1, Some(position)) = (executed.count_change, executed.details) {
            let upserted = changing.writing.store.retried_statement(position)?.inserted;
            let id = upserted.as_deref().and_then(document::document_id);
            return Ok(Some(id.map_or(RawBson::Null, Into::into)));
        }
        self.matched += 1;
        self.modified += 1;
        Ok(None)
    }
}

/// One parsed update statement.
pub(crate) struct Statement {
    /// Its number, if it can be retried, and what a retry's reply needs.
    pub(crate) id: i32,
    pub(crate) details: StatementDetails,
    pub(crate) query: Arc<CanonicalQuery>,
    pub(crate) update: Update,
    pub(crate) multiplicity: Multiplicity,
    pub(crate) is_upsert: bool,
    pub(crate) validation: Validation,
    pub(crate) empty_timestamps: EmptyTimestamps,
}

/// What the command says of all its statements.
#[derive(Default)]
pub(crate) struct StatementOptions<'a> {
    pub(crate) declared: Option<&'a RawDocument>,
    pub(crate) validation: Validation,
    pub(crate) empty_timestamps: EmptyTimestamps,
}

impl Statement {
    /// What becomes of a document that the statement changes.
    pub(crate) fn decision(&self) -> Decision {
        match self.update.style() {
            UpdateStyle::Replacement => Decision::ReplaceWhole,
            UpdateStyle::Operators | UpdateStyle::Pipeline => Decision::Replace,
        }
    }
}

/// The fields of a statement. What is wrong with them is an error of the command, of which nothing is done then; what is wrong with the filter or
/// the update is an error of the statement.
pub(crate) struct StatementFields<'a> {
    /// As it was sent.
    source: &'a RawDocument,
    filter: &'a RawDocument,
    update: UpdateSource<'a>,
    multiplicity: Multiplicity,
    is_upsert: bool,
    array_filters: Vec<&'a RawDocument>,
    hint: Hint,
    /// Which of those that match is changed: the first in this order.
    sort: Option<&'a RawDocument>,
    constants: Option<&'a RawDocument>,
    pub(crate) collation: Option<&'a RawDocument>,
}

/// How a statement calls its fields, as far as an operation of `bulkWrite` calls them otherwise.
struct FieldNames {
    owner: &'static str,
    /// Says where an operation goes.
    place: Option<&'static str>,
    filter: &'static str,
    update: &'static str,
    constants: &'static str,
    /// The filter and the update with their owner.
    required: [&'static str; 2],
}

const OF_UPDATE: FieldNames = FieldNames {
    owner: "update.updates",
    place: None,
    filter: "q",
    update: "u",
    constants: "c",
    required: ["update.updates.q", "update.updates.u"],
};

const OF_BULK_WRITE: FieldNames = FieldNames {
    owner: "bulkWrite.ops",
    place: Some("update"),
    filter: "filter",
    update: "updateMods",
    constants: "constants",
    required: ["bulkWrite.ops.filter", "bulkWrite.ops.updateMods"],
};

impl<'a> StatementFields<'a> {
    /// Reads the fields.
    pub(crate) fn read(statement: &'a RawDocument) -> Result<Self> {
        Self::read_as(statement, &OF_UPDATE)
    }

    /// Reads those of an operation of `bulkWrite`.
    pub(super) fn read_in_bulk(operation: &'a RawDocument) -> Result<Self> {
        Self::read_as(operation, &OF_BULK_WRITE)
    }

    fn read_as(statement: &'a RawDocument, names: &FieldNames) -> Result<Self> {
        validated(statement)?;
        let (mut filter, mut update, mut array_filters, mut hinted) = (None, None, Vec::new(), Hint::None);
        let (mut multiplicity, mut is_upsert) = (Multiplicity::One, false);
        let (mut sort, mut constants, mut collation) = (None, None, None);
        for element in elements(statement) {
            let field = Field::of(names.owner, element);
            match field.name() {
                name if names.place == Some(name) => {}
                name if name == names.filter => filter = field.document()?,
                name if name == names.update => {
                    let source = source_of(field)?;
                    if let UpdateSource::Pipeline(pipeline) = source {
                        aggregation::check_stage_names(pipeline)?;
                    }
                    update = Some(source);
                }
                "multi" => multiplicity = if field.boolean()? { Multiplicity::Many } else { Multiplicity::One },
                "upsert" => is_upsert = field.boolean()?,
                "arrayFilters" => array_filters = field.documents()?.unwrap_or_default(),
                "hint" => hinted = hint(field)?,
                "sort" => sort = field.document()?,
                name if name == names.constants => constants = field.document()?,
                "collation" => collation = command_collation::of_statement(field)?,
                _ => return Err(field.unknown()),
            }
        }
        let [required_filter, required_update] = names.required;
        let (filter, update) = (required(filter, required_filter)?, required(update, required_update)?);
        if sort.is_some() && multiplicity == Multiplicity::Many {
            return Err(CommandError::failed_to_parse("Cannot specify sort with multi=true"));
        }
        let (source, hint) = (statement, hinted);
        Ok(Self { source, filter, update, multiplicity, is_upsert, array_filters, hint, sort, constants, collation })
    }
}

impl Statement {
    pub(crate) fn parse(
        reading: Reading<'_>,
        fields: &StatementFields<'_>,
        options: &StatementOptions<'_>,
    ) -> Result<Self> {
        let variables = variables(reading, fields.constants.or(options.declared))?;
        let &StatementOptions { validation, empty_timestamps, .. } = options;
        let options = UpdateOptions { multiplicity: fields.multiplicity, variables: variables.clone() };
        check_memory_for_update(fields.update, &fields.array_filters)?;
        let update = Update::parse(fields.update, &fields.array_filters, &options)?;
        let mut query = query(Some(fields.filter), &variables)?;
        query.hint = fields.hint.clone();
        if let Some(sort) = fields.sort {
            apply_sort(&mut query, sort)?;
        }
        let (multiplicity, is_upsert) = (fields.multiplicity, fields.is_upsert);
        let details = if is_upsert { StatementDetails::Upserted } else { StatementDetails::None };
        let query = Arc::new(query);
        Ok(Self { query, update, multiplicity, is_upsert, validation, empty_timestamps, id: 0, details })
    }
}

/// An update document or pipeline, not yet parsed.
pub(crate) fn source_of(field: Field<'_>) -> Result<UpdateSource<'_>> {
    match field.value() {
        RawBsonRef::Document(document) => Ok(UpdateSource::Document(document)),
        RawBsonRef::Array(pipeline) => Ok(UpdateSource::Pipeline(pipeline)),
        _ => Err(CommandError::failed_to_parse("Update argument must be either an object or an array")),
    }
}

/// Updates what matches; `weight` says how many each document counts for.
fn update_matching(
    changing: &Changing<'_>,
    collection: &Arc<Collection>,
    statement: &Statement,
    weight: &dyn Fn(&RawDocument) -> u64,
    totals: &mut Totals,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let Changing { reading, writing, operation, .. } = *changing;
    let view = reading.newest_view();
    let query = statement.query.clone();
    let mut found = QueryExecutor::new(&reading.queries.services(), view, Target::of(collection), query, operation)?;
    let clock = CommandClock::of(&*writing.clock, changing.timestamps);
    let changed = match statement.multiplicity {
        Multiplicity::One => Changed::One,
        Multiplicity::Many => Changed::Updated,
    };
    let mut records = RecordsToChange::of(reading, operation, changed, &mut found)?;
    changing.before_write()?;
    changing.write(statement.id, statement.details, |write| {
        while let Some(record_id) = records.next(&mut found, reading, operation)? {
            let (mut is_match, mut counted) = (false, 0);
            let changed =
                writing.store.change_document(write, collection, record_id, statement.validation, |newest, out| {
                    counted = weight(newest);
                    is_match = apply(statement, newest, &clock, out)?;
                    Ok::<_, CommandError>(if out.is_empty() { Decision::Keep } else { statement.decision() })
                })?;
            totals.matched += if is_match { counted } else { 0 };
            if let Some(commit) = changed.commit() {
                totals.modified += counted;
                *last_commit = Some(commit);
            }
            if is_match && statement.multiplicity == Multiplicity::One {
                break;
            }
        }
        Ok::<_, CommandError>(())
    })?;
    changing.noting.note_executor(&found);
    Ok(())
}

/// Applies the update to a document if it (still) matches; the new document is written to `out` if it differs. `false`: no match.
pub(crate) fn apply(
    statement: &Statement,
    newest: &RawDocument,
    clock: &CommandClock,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let mut details = MatchDetails::default();
    if !statement.query.filter.matches_with(newest, &mut details)? {
        return Ok(false);
    }
    let context = UpdateContext {
        match_position: details.array_position(),
        purpose: UpdatePurpose::Modify,
        clock,
        empty_timestamps: statement.empty_timestamps,
        variables: &statement.query.variables,
    };
    if let UpdateOutcome::Changed { document, .. } = statement.update.apply(newest, &context)? {
        out.extend_from_slice(document.as_bytes());
    }
    Ok(true)
}

/// Inserts the document of an upsert; gives its `_id`, the commit and the document.
pub(crate) fn upsert(
    changing: &Changing<'_>,
    namespace: &Namespace,
    statement: &Statement,
) -> Result<(RawBson, CommitInfo, bson::RawDocumentBuf)> {
    let Changing { writing, timestamps, .. } = *changing;
    let clock = CommandClock::of(&*writing.clock, timestamps);
    let update_context = UpdateContext {
        match_position: None,
        purpose: UpdatePurpose::Insert,
        clock: &clock,
        empty_timestamps: statement.empty_timestamps,
        variables: &statement.query.variables,
    };
    let equalities = statement.query.filter.equality_fields_unchecked();
    let made = statement.update.upsert_document(&equalities, &update_context, writing.new_object_id())?;
    let mut stored = Vec::new();
    let is_reordered = document::prepare_for_storage(
        &made,
        statement.empty_timestamps,
        || writing.new_object_id(),
        || update_context.clock.next_timestamp(),
        &mut stored,
    )?;
    let document = if is_reordered { bson::RawDocumentBuf::from_bytes(stored)? } else { made };
    let collection = changing.collection_or_create(namespace)?;
    let commit = changing.write(statement.id, statement.details, |write| {
        writing.store.insert_document(write, &collection, &document, statement.validation)
    })?;
    let id = document::document_id(&document).map_or(RawBson::Null, Into::into);
    Ok((id, commit, document))
}
