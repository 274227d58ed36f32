//! `delete`: removes documents that match.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Namespace, StatementDetails, Validation};
use document::{Number, elements};
use executor::{QueryExecutor, Target};
use planner::{CanonicalQuery, Hint};
use transaction::{CommitInfo, Decision};

use super::insert::check_count;
use super::query_arguments::{check_collation, hint, query, services, variables};
use super::records_to_change::{Changed, RecordsToChange};
use super::update::{STATEMENT_ATTEMPTS, is_dropped_outside, validated};
use super::write_errors::{RetriedStatements, WriteErrors, write_concern_error};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::check_may_write;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::context::{Context, count};

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        counts_as_command: false,
        sequence: Some("deletes"),
        class: Class::Write,
        changes: Changes::Stored,
        session_use: SessionUse::RetryableWrite,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new("delete", "Deletes documents.", Needs::Primary, &[on_collection(Action::Remove)])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = Namespace::new(context.request.database, arguments.collection_name()?)?;
    let (mut is_ordered, mut declared) = (true, None);
    let mut statements: Option<Vec<&RawDocument>> =
        context.request.sequences.documents("deletes").map(Iterator::collect);
    for field in arguments.fields() {
        match field.name() {
            "deletes" => statements = field.documents()?,
            "ordered" => is_ordered = field.boolean_or(true)?,
            "let" => declared = field.document()?,
            // All write commands have them, and drivers send them with every part of a bulk write; a deletion stores nothing.
            "bypassDocumentValidation" | "bypassEmptyTsReplacement" => drop(field.boolean()?),
            _ => arguments.generic(field)?,
        }
    }
    let statements = required(statements, "delete.deletes")?;
    check_count(statements.len())?;
    check_may_write(context, &namespace)?;
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let statement_ids = std::mem::take(&mut arguments.generic.statement_ids);
    statement_ids.check_count(statements.len())?;
    let statements = statements.into_iter().map(StatementFields::read).collect::<Result<Vec<_>>>()?;
    let (mut deleted, mut last_commit) = (0, None);
    let mut retried = RetriedStatements::default();
    let mut errors = WriteErrors::default();
    for (position, statement) in statements.iter().enumerate() {
        let id = statement_ids.of(position);
        if context.session.executed(id).is_some() {
            deleted += 1;
            retried.push(id);
            continue;
        }
        count(&context.server.counts.delete, 1);
        context.notes.statements.add(1);
        let outcome = statement.query(context, declared).and_then(|query| {
            check_retryable(context, statement.is_single)?;
            let deletion = Deletion { query, is_single: statement.is_single, statement: id };
            delete_matching(context, &namespace, &deletion, &mut deleted, &mut last_commit)
        });
        if let Err(error) = outcome {
            let error = context.name_interruption(error);
            context.session.check_failure(&error)?;
            context.notes.write_errors.add(1);
            errors.push(position, error);
            if is_ordered || context.session.transaction().is_some() {
                break;
            }
        }
    }
    context.notes.deleted.add(deleted);
    reply.count("n", deleted);
    errors.write(reply);
    retried.write(reply);
    write_concern_error(retried.wait(&arguments.generic.write_concern, context, last_commit.as_ref()), reply);
    Ok(())
}

/// The fields of a statement. What is wrong with them is an error of the command, of which nothing is done then; what is wrong with the filter is an
/// error of the statement.
pub(crate) struct StatementFields<'a> {
    filter: &'a RawDocument,
    hint: Hint,
    /// It deletes one document at most.
    is_single: bool,
}

impl<'a> StatementFields<'a> {
    /// Reads the fields.
    pub(crate) fn read(statement: &'a RawDocument) -> Result<Self> {
        validated(statement)?;
        let (mut filter, mut is_single, mut hinted) = (None, None, Hint::None);
        for element in elements(statement) {
            let field = Field::of("delete.deletes", element);
            match field.name() {
                "q" => filter = field.document()?,
                "limit" => is_single = parse_limit(field)?,
                "hint" => hinted = hint(field)?,
                "collation" => check_collation(field)?,
                _ => return Err(field.unknown()),
            }
        }
        let filter = required(filter, "delete.deletes.q")?;
        Ok(Self { filter, hint: hinted, is_single: required(is_single, "delete.deletes.limit")? })
    }

    /// The query that finds what is to be deleted.
    pub(crate) fn query(&self, context: &Context<'_>, declared: Option<&RawDocument>) -> Result<Arc<CanonicalQuery>> {
        let mut query = query(Some(self.filter), &variables(context, declared)?)?;
        query.hint = self.hint.clone();
        Ok(Arc::new(query))
    }
}

/// Whether one document at most is deleted: 1, or all that match: 0. Nothing else will do, fractions least of all.
fn parse_limit(field: Field<'_>) -> Result<Option<bool>> {
    let Some(truncated) = field.integer()? else { return Ok(None) };
    match Number::from_bson(field.value()).and_then(Number::to_i64_exact) {
        Some(0) => Ok(Some(false)),
        Some(1) => Ok(Some(true)),
        exact => Err(CommandError::failed_to_parse(format!(
            "The limit field in delete objects must be 0 or 1. Got {}",
            exact.map_or_else(|| format!("a fraction from {truncated} on"), |limit| limit.to_string())
        ))),
    }
}

/// A statement that deletes all documents that match can not be retried: nobody knows which were deleted before.
fn check_retryable(context: &Context<'_>, is_single: bool) -> Result<()> {
    if is_single || !context.session.is_retryable_write() {
        return Ok(());
    }
    Err(CommandError::named("InvalidOptions", "Cannot use (or request) retryable writes with limit=0"))
}

/// One parsed statement.
struct Deletion {
    query: Arc<CanonicalQuery>,
    is_single: bool,
    /// Its number, if it can be retried.
    statement: i32,
}

/// Deletes what matches; looks again, when the collection is dropped before anything is deleted.
fn delete_matching(
    context: &Context<'_>,
    namespace: &Namespace,
    deletion: &Deletion,
    deleted: &mut u64,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let deleted_before = *deleted;
    for _ in 1..STATEMENT_ATTEMPTS {
        match delete_once(context, namespace, deletion, deleted, last_commit) {
            Err(error) if *deleted == deleted_before && is_dropped_outside(context, &error) => {
                context.operation.check_interrupt()?;
            }
            outcome => return outcome,
        }
    }
    delete_once(context, namespace, deletion, deleted, last_commit)
}

fn delete_once(
    context: &Context<'_>,
    namespace: &Namespace,
    deletion: &Deletion,
    deleted: &mut u64,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let server = context.server;
    let Some(collection) = context.collection(namespace)? else { return Ok(()) };
    let view = context.read_view();
    let target = Target::of(&collection);
    let Deletion { query, is_single, statement } = deletion;
    let mut found = QueryExecutor::new(&services(server), view, target, query.clone(), &context.operation)?;
    let changed = if *is_single { Changed::One } else { Changed::Deleted };
    let mut records = RecordsToChange::of(context, changed, &mut found)?;
    context.before_write()?;
    context.write(*statement, StatementDetails::None, |write| {
        while let Some(record_id) = records.next(&mut found, context)? {
            let changed =
                server.store.change_document(write, &collection, record_id, Validation::Bypass, |newest, _| {
                    let is_match = query.filter.matches(newest)?;
                    Ok::<_, CommandError>(if is_match { Decision::Delete } else { Decision::Keep })
                })?;
            if let Some(commit) = changed.commit() {
                *deleted += 1;
                *last_commit = Some(commit);
                if *is_single {
                    break;
                }
            }
        }
        Ok::<_, CommandError>(())
    })?;
    context.note_executor(&found);
    Ok(())
}
