//! `delete`: removes documents that match.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Namespace, StatementDetails, Validation};
use document::elements;
use executor::{QueryExecutor, Target};
use planner::{CanonicalQuery, Hint};
use transaction::{CommitInfo, Decision};

use super::insert::check_count;
use super::query_arguments::{check_collation, hint, query, services, variables};
use super::records_to_change::{Changed, RecordsToChange};
use super::update::validated;
use super::write_errors::{RetriedStatements, WriteErrors, write_concern_error};
use crate::DocumentWriter;
use crate::arguments::{Arguments, Field};
use crate::context::{Context, count};
use crate::error::{CommandError, Result};

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
            "deletes" => statements = Some(field.documents()?),
            "ordered" => is_ordered = field.boolean()?,
            "let" => declared = Some(field.document()?),
            // All write commands have it; a deletion stores nothing.
            "bypassEmptyTsReplacement" => drop(field.boolean()?),
            _ => arguments.generic(field)?,
        }
    }
    let statements = statements
        .ok_or_else(|| CommandError::numbered(40414, "BSON field 'delete.deletes' is missing but a required field"))?;
    check_count(statements.len())?;
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let statement_ids = std::mem::take(&mut arguments.generic.statement_ids);
    statement_ids.check_count(statements.len())?;
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
        let outcome = validated(statement).and_then(|()| parse_statement(context, statement, declared)).and_then(
            |(query, is_single)| {
                check_retryable(context, is_single)?;
                let deletion = Deletion { query, is_single, statement: id };
                delete_matching(context, &namespace, &deletion, &mut deleted, &mut last_commit)
            },
        );
        if let Err(error) = outcome {
            let error = context.name_interruption(error);
            context.session.check_failure(&error)?;
            errors.push(position, error);
            if is_ordered || context.session.transaction().is_some() {
                break;
            }
        }
    }
    let server = context.server;
    count(&server.counts.documents_deleted, deleted);
    server.usage.record_write(namespace.as_str(), deleted, context.operation.elapsed());
    reply.count("n", deleted);
    errors.write(reply);
    retried.write(reply);
    write_concern_error(retried.wait(&arguments.generic.write_concern, context, last_commit.as_ref()), reply);
    Ok(())
}

/// Parses one statement; `true` when it deletes one document at most.
pub(crate) fn parse_statement(
    context: &Context<'_>,
    statement: &RawDocument,
    declared: Option<&RawDocument>,
) -> Result<(Arc<CanonicalQuery>, bool)> {
    let (mut filter, mut limit, mut hinted) = (None, None, Hint::None);
    for element in elements(statement) {
        let field = Field::of("delete.deletes", element);
        match field.name() {
            "q" => filter = Some(field.document()?),
            "limit" => limit = Some(field.integer()?),
            "hint" => hinted = hint(field)?,
            "collation" => check_collation(field)?,
            _ => return Err(field.unknown()),
        }
    }
    let missing = |name| {
        CommandError::numbered(40414, format!("BSON field 'delete.deletes.{name}' is missing but a required field"))
    };
    let is_single = match limit.ok_or_else(|| missing("limit"))? {
        0 => false,
        1 => true,
        other => {
            return Err(CommandError::failed_to_parse(format!(
                "The limit field in delete objects must be 0 or 1. Got {other}"
            )));
        }
    };
    let variables = variables(context, declared)?;
    let mut query = query(Some(filter.ok_or_else(|| missing("q"))?), &variables)?;
    query.hint = hinted;
    Ok((Arc::new(query), is_single))
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

fn delete_matching(
    context: &Context<'_>,
    namespace: &Namespace,
    deletion: &Deletion,
    deleted: &mut u64,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let server = context.server;
    let Some(collection) = context.collection(namespace) else { return Ok(()) };
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
        Ok(())
    })
}
