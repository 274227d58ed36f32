//! `update`: changes documents that match, or inserts one if none does (`upsert`).
//!
//! The documents are found in one snapshot, so that a document which the update moves in an index is not met again. Each
//! is then changed in its newest version, under its lock, if it still matches.

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

use super::needed_privileges;
use super::query_arguments::{CommandClock, check_collation, empty_timestamps, hint, query, services, variables};
use super::query_memory::check_memory_for_update;
use super::records_to_change::{Changed, RecordsToChange};
use super::write_statements::{
    StatementOrder, Statements, WriteStatements, check_retryable, is_dropped_outside, may_try_upsert_again, validated,
};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::context::{Context, OperationCounts};
use crate::state::execution_notes::ExecutionNotes;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        counts_as_command: false,
        sequence: Some("updates"),
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
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = Namespace::new(context.request.database, arguments.collection_name()?)?;
    let (mut is_ordered, mut options) = (true, StatementOptions::default());
    let mut statements: Option<Vec<&RawDocument>> =
        context.request.sequences.documents("updates").map(Iterator::collect);
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
    let mut writes = WriteStatements::begin(context, &mut arguments, &namespace, statements.len(), order)?;
    let statements = statements.into_iter().map(StatementFields::read).collect::<Result<Vec<_>>>()?;
    let totals = Totals::default();
    let mut updates =
        Updates { namespace: &namespace, statements: &statements, options: &options, totals, phase: Phase::Updating };
    writes.run(context, statements.len(), &mut updates)?;
    updates.totals.note(&context.notes);
    updates.totals.write(reply);
    writes.finish(context, &arguments.generic.write_concern, reply);
    Ok(())
}

/// The command's statements, and what they have done.
struct Updates<'a> {
    namespace: &'a Namespace,
    statements: &'a [StatementFields<'a>],
    options: &'a StatementOptions<'a>,
    totals: Totals,
    phase: Phase,
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
    fn counter<'c>(&self, counts: &'c OperationCounts) -> &'c AtomicU64 {
        &counts.update
    }

    fn add_executed(&mut self, context: &Context<'_>, position: usize, executed: &ExecutedStatement) -> Result<()> {
        let upserted = self.totals.add_executed(context, executed)?;
        self.totals.upserted.extend(upserted.map(|id| (position, id)));
        Ok(())
    }

    fn run(&mut self, context: &Context<'_>, position: usize, id: i32, commit: &mut Option<CommitInfo>) -> Result<()> {
        let Some(fields) = self.statements.get(position) else { return Ok(()) };
        self.phase = Phase::Updating;
        let mut statement = Statement::parse(context, fields, self.options)?;
        statement.id = id;
        check_retryable(context, statement.multiplicity == Multiplicity::One, "multi=true")?;
        let matched_before = self.totals.matched;
        if let Some(collection) = context.collection(self.namespace)? {
            update_matching(context, &collection, &statement, &mut self.totals, commit)?;
        }
        if self.totals.matched > matched_before || !statement.is_upsert {
            return Ok(());
        }
        self.phase = Phase::Upserting;
        let (upserted, made, _) = upsert(context, self.namespace, &statement)?;
        *commit = Some(made);
        self.totals.upserted.push((position, upserted));
        Ok(())
    }

    fn progress(&self) -> u64 {
        self.totals.matched
    }

    /// Somebody inserted it since we looked: now it can be updated. Or the collection was dropped: now it can be
    /// created.
    fn may_try_again(&self, context: &Context<'_>, error: &CommandError) -> bool {
        match self.phase {
            Phase::Updating => is_dropped_outside(context, error),
            Phase::Upserting => may_try_upsert_again(context, error),
        }
    }
}

/// What a command has done so far.
#[derive(Default)]
struct Totals {
    matched: u64,
    modified: u64,
    upserted: Vec<(usize, RawBson)>,
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

    fn note(&self, notes: &ExecutionNotes) {
        notes.matched.add(self.matched);
        notes.modified.add(self.modified);
        notes.upserted.add(self.upserted.len() as u64);
    }

    /// Counts what an earlier try has done; gives the `_id` of the document that it upserted.
    fn add_executed(&mut self, context: &Context<'_>, executed: &ExecutedStatement) -> Result<Option<RawBson>> {
        if let (1, Some(position)) = (executed.count_change, executed.details) {
            let upserted = context.server.store.retried_statement(position)?.inserted;
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
    filter: &'a RawDocument,
    update: UpdateSource<'a>,
    multiplicity: Multiplicity,
    is_upsert: bool,
    array_filters: Vec<&'a RawDocument>,
    hint: Hint,
    constants: Option<&'a RawDocument>,
}

impl<'a> StatementFields<'a> {
    /// Reads the fields.
    pub(crate) fn read(statement: &'a RawDocument) -> Result<Self> {
        validated(statement)?;
        let (mut filter, mut update, mut array_filters, mut hinted) = (None, None, Vec::new(), Hint::None);
        let (mut multiplicity, mut is_upsert, mut constants) = (Multiplicity::One, false, None);
        for element in elements(statement) {
            let field = Field::of("update.updates", element);
            match field.name() {
                "q" => filter = field.document()?,
                "u" => {
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
                "c" => constants = field.document()?,
                "collation" => check_collation(field)?,
                _ => return Err(field.unknown()),
            }
        }
        let filter = required(filter, "update.updates.q")?;
        let update = required(update, "update.updates.u")?;
        Ok(Self { filter, update, multiplicity, is_upsert, array_filters, hint: hinted, constants })
    }
}

impl Statement {
    pub(crate) fn parse(
        context: &Context<'_>,
        fields: &StatementFields<'_>,
        options: &StatementOptions<'_>,
    ) -> Result<Self> {
        let variables = variables(context, fields.constants.or(options.declared))?;
        let &StatementOptions { validation, empty_timestamps, .. } = options;
        let options = UpdateOptions { multiplicity: fields.multiplicity, variables: variables.clone() };
        check_memory_for_update(fields.update, &fields.array_filters)?;
        let update = Update::parse(fields.update, &fields.array_filters, &options)?;
        let mut query = query(Some(fields.filter), &variables)?;
        query.hint = fields.hint.clone();
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

fn update_matching(
    context: &Context<'_>,
    collection: &Arc<Collection>,
    statement: &Statement,
    totals: &mut Totals,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let server = context.server;
    let view = context.read_view();
    let query = statement.query.clone();
    let mut found = QueryExecutor::new(&services(server), view, Target::of(collection), query, &context.operation)?;
    let clock = CommandClock::of(server);
    let changed = match statement.multiplicity {
        Multiplicity::One => Changed::One,
        Multiplicity::Many => Changed::Updated,
    };
    let mut records = RecordsToChange::of(context, changed, &mut found)?;
    context.before_write()?;
    context.write(statement.id, statement.details, |write| {
        while let Some(record_id) = records.next(&mut found, context)? {
            let mut is_match = false;
            let changed =
                server.store.change_document(write, collection, record_id, statement.validation, |newest, out| {
                    is_match = apply(statement, newest, &clock, out)?;
                    Ok::<_, CommandError>(if out.is_empty() { Decision::Keep } else { statement.decision() })
                })?;
            totals.matched += u64::from(is_match);
            if let Some(commit) = changed.commit() {
                totals.modified += 1;
                *last_commit = Some(commit);
            }
            if is_match && statement.multiplicity == Multiplicity::One {
                break;
            }
        }
        Ok::<_, CommandError>(())
    })?;
    context.note_executor(&found);
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
    context: &Context<'_>,
    namespace: &Namespace,
    statement: &Statement,
) -> Result<(RawBson, CommitInfo, bson::RawDocumentBuf)> {
    let server = context.server;
    let clock = CommandClock::of(server);
    let update_context = UpdateContext {
        match_position: None,
        purpose: UpdatePurpose::Insert,
        clock: &clock,
        empty_timestamps: statement.empty_timestamps,
        variables: &statement.query.variables,
    };
    let equalities = statement.query.filter.equality_fields_unchecked();
    let made = statement.update.upsert_document(&equalities, &update_context, server.new_object_id())?;
    let mut stored = Vec::new();
    let is_reordered = document::prepare_for_storage(
        &made,
        statement.empty_timestamps,
        || server.new_object_id(),
        || update_context.clock.next_timestamp(),
        &mut stored,
    )?;
    let document = if is_reordered { bson::RawDocumentBuf::from_bytes(stored)? } else { made };
    let collection = context.collection_or_create(namespace)?;
    let commit = context.write(statement.id, statement.details, |write| {
        server.store.insert_document(write, &collection, &document, statement.validation)
    })?;
    let id = document::document_id(&document).map_or(RawBson::Null, Into::into);
    Ok((id, commit, document))
}
