//! `delete`: removes documents that match.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bson::RawDocument;
use collection::{Namespace, StatementDetails, Validation};
use document::{Number, elements};
use executor::{QueryExecutor, Target};
use planner::{CanonicalQuery, Hint};
use transaction::{CommitInfo, Decision, ExecutedStatement};

use super::ended_statement::ShownStatement;
use super::query_arguments::{hint, query, variables};
use super::records_to_change::{Changed, RecordsToChange};
use super::write_statements::{
    StatementOrder, Statements, WriteStatements, check_retryable, validated, written_series,
};
use super::{command_collation, measurement_deletes};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::changing::Changing;
use crate::state::operation_counts::OperationCounts;
use crate::state::reading::Reading;
use crate::state::write_command::WriteCommand;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.write_command(), arguments, reply),
    Declaration {
        counts_as_command: false,
        sequences: &["deletes"],
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
    command: &WriteCommand<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = Namespace::new(command.changing.reading.database, arguments.collection_name()?)?;
    let (mut is_ordered, mut declared) = (true, None);
    let mut statements: Option<Vec<&RawDocument>> = command.sequences.documents("deletes").map(Iterator::collect);
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
    let order = if is_ordered { StatementOrder::Ordered } else { StatementOrder::Unordered };
    let mut writes =
        WriteStatements::begin(&command.changing, &mut arguments, from_ref(&namespace), statements.len(), order)?;
    let statements = statements.into_iter().map(StatementFields::read).collect::<Result<Vec<_>>>()?;
    let mut deletions = Deletions { namespace: &namespace, statements: &statements, declared, deleted: 0 };
    writes.run(command, statements.len(), &mut deletions)?;
    command.changing.noting.notes.deleted.add(deletions.deleted);
    reply.count("n", deletions.deleted);
    writes.finish(&command.acknowledging, &arguments.generic.write_concern, reply);
    Ok(())
}

/// The command's statements, and how many documents they have deleted.
pub(super) struct Deletions<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) statements: &'a [StatementFields<'a>],
    pub(super) declared: Option<&'a RawDocument>,
    pub(super) deleted: u64,
}

impl Statements for Deletions<'_> {
    fn counter<'c>(&self, _: usize, counts: &'c OperationCounts) -> &'c AtomicU64 {
        &counts.delete
    }

    fn add_executed(&mut self, _: &Changing<'_>, _: usize, _: &ExecutedStatement) -> Result<()> {
        self.deleted += 1;
        Ok(())
    }

    fn run(
        &mut self,
        changing: &Changing<'_>,
        position: usize,
        id: i32,
        commit: &mut Option<CommitInfo>,
    ) -> Result<()> {
        let Some(statement) = self.statements.get(position) else { return Ok(()) };
        let _collation = command_collation::enter(changing.reading, self.namespace, statement.collation)?;
        let query = statement.query(changing.reading, self.declared)?;
        check_retryable(changing, statement.is_single, "limit=0")?;
        if let Some(series) = written_series(changing, self.namespace)? {
            let (filter, is_single) = (statement.filter, statement.is_single);
            let deletion = measurement_deletes::Deletion { filter, query: &query, is_single, statement: id };
            return measurement_deletes::delete(changing, &series, &deletion, &mut self.deleted, commit);
        }
        let deletion = Deletion { query, is_single: statement.is_single, statement: id };
        delete_matching(changing, self.namespace, &deletion, &mut self.deleted, commit)
    }

    fn shown(&self, position: usize) -> Option<ShownStatement<'_>> {
        let source = self.statements.get(position)?.source;
        Some(ShownStatement { command: "delete", source, done: [("ndeleted", self.deleted), ("", 0), ("", 0)] })
    }

    fn progress(&self) -> u64 {
        self.deleted
    }
}

/// The fields of a statement. What is wrong with them is an error of the command, of which nothing is done then; what is wrong with the filter is an
/// error of the statement.
pub(crate) struct StatementFields<'a> {
    /// As it was sent.
    source: &'a RawDocument,
    filter: &'a RawDocument,
    hint: Hint,
    /// It deletes one document at most.
    is_single: bool,
    pub(crate) collation: Option<&'a RawDocument>,
}

/// Where a statement stands, which says how its fields are called.
#[derive(Clone, Copy)]
enum Form {
    OfDelete,
    OfBulkWrite,
}

impl<'a> StatementFields<'a> {
    /// Reads the fields.
    pub(crate) fn read(statement: &'a RawDocument) -> Result<Self> {
        Self::read_as(statement, Form::OfDelete)
    }

    /// Reads those of an operation of `bulkWrite`.
    pub(super) fn read_in_bulk(operation: &'a RawDocument) -> Result<Self> {
        Self::read_as(operation, Form::OfBulkWrite)
    }

    fn read_as(statement: &'a RawDocument, form: Form) -> Result<Self> {
        validated(statement)?;
        let (owner, required_filter, is_single) = match form {
            Form::OfDelete => ("delete.deletes", "delete.deletes.q", None),
            Form::OfBulkWrite => ("bulkWrite.ops", "bulkWrite.ops.filter", Some(true)),
        };
        let (mut filter, mut is_single, mut hinted, mut collation) = (None, is_single, Hint::None, None);
        for element in elements(statement) {
            let field = Field::of(owner, element);
            match (form, field.name()) {
                // Where it goes.
                (Form::OfBulkWrite, "delete") => {}
                (Form::OfDelete, "q") | (Form::OfBulkWrite, "filter") => filter = field.document()?,
                (Form::OfDelete, "limit") => is_single = parse_limit(field)?,
                (Form::OfBulkWrite, "multi") => is_single = Some(!field.boolean()?),
                (_, "hint") => hinted = hint(field)?,
                (_, "collation") => collation = command_collation::of_statement(field)?,
                _ => return Err(field.unknown()),
            }
        }
        let filter = required(filter, required_filter)?;
        let is_single = required(is_single, "delete.deletes.limit")?;
        Ok(Self { source: statement, filter, hint: hinted, is_single, collation })
    }

    /// The query that finds what is to be deleted.
    pub(crate) fn query(&self, reading: Reading<'_>, declared: Option<&RawDocument>) -> Result<Arc<CanonicalQuery>> {
        let mut query = query(Some(self.filter), &variables(reading, declared)?)?;
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

/// One parsed statement.
struct Deletion {
    query: Arc<CanonicalQuery>,
    is_single: bool,
    /// Its number, if it can be retried.
    statement: i32,
}

/// Deletes what matches.
fn delete_matching(
    changing: &Changing<'_>,
    namespace: &Namespace,
    deletion: &Deletion,
    deleted: &mut u64,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let Changing { reading, writing, operation, .. } = *changing;
    let Some(collection) = reading.collection(namespace)? else { return Ok(()) };
    let view = reading.newest_view();
    let target = Target::of(&collection);
    let Deletion { query, is_single, statement } = deletion;
    let mut found = QueryExecutor::new(&reading.queries.services(), view, target, query.clone(), operation)?;
    let changed = if *is_single { Changed::One } else { Changed::Deleted };
    let mut records = RecordsToChange::of(reading, operation, changed, &mut found)?;
    changing.before_write()?;
    changing.write(*statement, StatementDetails::None, |write| {
        while let Some(record_id) = records.next(&mut found, reading, operation)? {
            let changed =
                writing.store.change_document(write, &collection, record_id, Validation::Bypass, |newest, _| {
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
    changing.noting.note_executor(&found);
    Ok(())
}
