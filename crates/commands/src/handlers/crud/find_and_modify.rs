//! `findAndModify`: changes, replaces, inserts or removes one document and returns it as it was or as it is.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, Namespace, StatementDetails, Validation};
use document::EmptyTimestamps;
use executor::{QueryExecutor, Target};
use planner::Hint;
use query_language::expression::ParseContext;
use query_language::projection::{Projection, ProjectionKind};
use query_language::update::{Multiplicity, Update, UpdateOptions};
use transaction::{CommitInfo, Decision, ExecutedStatement, Store};

use super::command_collation;
use super::find_arguments::apply_sort;
use super::needed_privileges;
use super::query_arguments::{CommandClock, empty_timestamps, hint, query, variables};
use super::query_memory::{check_memory_for, check_memory_for_update};
use super::update::{Statement, apply, check_no_bucket, source_of, upsert};
use super::write_errors::write_concern_error;
use super::write_statements::{RetriedStatements, may_try_upsert_again};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::check_may_write;
use crate::handlers::time_series;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::acknowledgement::Acknowledging;
use crate::state::changing::Changing;
use crate::state::operation_counts::{OperationCounts, count};
use crate::state::reading::Reading;

/// Attempts of an upsert whose insert finds that another one was faster.
const UPSERT_ATTEMPTS: usize = 10;

/// Which version of the document is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Returned {
    Before,
    After,
}

/// What is done to the document.
enum Change {
    Remove(Arc<planner::CanonicalQuery>),
    Update(Box<Statement>),
}

struct Parsed {
    change: Change,
    returned: Returned,
    projection: Option<Projection>,
    /// The number of the statement, if it can be retried.
    statement: i32,
}

impl Parsed {
    fn details(&self) -> StatementDetails {
        match self.returned {
            Returned::Before => StatementDetails::ImageBefore,
            Returned::After => StatementDetails::ImageAfter,
        }
    }

    fn set_statement(&mut self, id: i32) {
        let details = self.details();
        self.statement = id;
        if let Change::Update(update) = &mut self.change {
            (update.id, update.details) = (id, details);
        }
    }
}

/// What was found and done.
struct Done {
    value: Option<RawDocumentBuf>,
    commit: Option<CommitInfo>,
    upserted: Option<bson::RawBson>,
    is_match: bool,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        run(&context.changing(), &context.acknowledging(), &context.server.counts, arguments, reply)
    },
    Declaration {
        aliases: &["findandmodify"],
        class: Class::Write,
        changes: Changes::Stored,
        session_use: SessionUse::RetryableWrite,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        computed: Some(needed_privileges::of_find_and_modify),
        ..Declaration::new(
            "findAndModify",
            "Changes one document and returns it.",
            Needs::Primary,
            &[on_collection(Action::Find)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    changing: &Changing<'_>,
    acknowledging: &Acknowledging<'_>,
    counts: &OperationCounts,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let Changing { reading, session, noting, .. } = *changing;
    let namespace = Namespace::new(reading.database, arguments.collection_name()?)?;
    changing.operation.set_time_limit(arguments.time_limit())?;
    let _collation = command_collation::enter_of_command(reading, &arguments, &namespace)?;
    let mut parsed = parse(reading, &mut arguments)?;
    check_may_write(changing, &namespace)?;
    check_no_bucket(&namespace)?;
    time_series::refuse(reading.queries, &namespace, "findAndModify")?;
    parsed.set_statement(arguments.generic.statement_ids.of(0));
    let mut retried = RetriedStatements::default();
    let done = match session.executed(parsed.statement) {
        Some(executed) => {
            retried.push(parsed.statement);
            done_before(&changing.writing.store, &parsed, &executed)?
        }
        None => execute(changing, &namespace, &parsed)?,
    };
    let counter = if matches!(parsed.change, Change::Remove(_)) { &counts.delete } else { &counts.update };
    count(counter, 1);
    match parsed.change {
        Change::Remove(_) => noting.notes.deleted.add(u64::from(done.commit.is_some())),
        Change::Update(_) => {
            noting.notes.matched.add(u64::from(done.is_match));
            noting.notes.modified.add(u64::from(done.is_match && done.commit.is_some()));
            noting.notes.upserted.add(u64::from(done.upserted.is_some()));
        }
    }
    reply.document("lastErrorObject", |last| {
        last.int32("n", i32::from(done.is_match || done.upserted.is_some()));
        if matches!(parsed.change, Change::Update(_)) {
            last.boolean("updatedExisting", done.is_match);
        }
        if let Some(id) = &done.upserted {
            last.value("upserted", id.as_raw_bson_ref());
        }
    });
    match &done.value {
        Some(value) => reply.embed("value", &projected(&parsed, value)?),
        None => reply.null("value"),
    }
    retried.write(reply);
    write_concern_error(retried.wait(&arguments.generic.write_concern, acknowledging, done.commit.as_ref()), reply);
    Ok(())
}

/// The query that finds the document of a command, for one document, and the stage that would change it.
pub(super) fn explained(
    reading: Reading<'_>,
    arguments: &mut Arguments<'_>,
) -> Result<(Arc<planner::CanonicalQuery>, &'static str)> {
    let parsed = parse(reading, arguments)?;
    let (query, stage) = match parsed.change {
        Change::Remove(query) => (query, "DELETE"),
        Change::Update(statement) => (statement.query, "UPDATE"),
    };
    let mut query = Arc::try_unwrap(query).map_err(|_| CommandError::bad_value("the statement is in use"))?;
    query.limit = Some(1);
    Ok((Arc::new(query), stage))
}

/// What an earlier try has done, for its retry.
fn done_before(store: &Store, parsed: &Parsed, executed: &ExecutedStatement) -> Result<Done> {
    let is_removal = matches!(parsed.change, Change::Remove(_));
    let Some(position) = executed.details.filter(|_| is_removal == (executed.count_change < 0)) else {
        let message =
            "the retried findAndModify is another one than that which was executed under its transaction number";
        return Err(CommandError::named("InvalidOptions", message));
    };
    let entry = store.retried_statement(position)?;
    if executed.count_change <= 0 {
        return Ok(Done { value: entry.image, commit: None, upserted: None, is_match: true });
    }
    let id = entry.inserted.as_deref().and_then(document::document_id).map_or(bson::RawBson::Null, Into::into);
    let value = entry.inserted.filter(|_| parsed.returned == Returned::After);
    Ok(Done { value, commit: None, upserted: Some(id), is_match: false })
}

fn projected(parsed: &Parsed, document: &RawDocument) -> Result<RawDocumentBuf> {
    let (Some(projection), query) = (&parsed.projection, parsed.change.query()) else { return Ok(document.to_owned()) };
    let mut details = query_language::filter::MatchDetails::default();
    query.filter.matches_with(document, &mut details)?;
    Ok(projection.apply(document, Some(&details), &query.variables)?)
}

impl Change {
    fn query(&self) -> &Arc<planner::CanonicalQuery> {
        match self {
            Self::Remove(query) => query,
            Self::Update(statement) => &statement.query,
        }
    }
}

#[derive(Default)]
struct Fields<'a> {
    filter: Option<&'a RawDocument>,
    sort: Option<&'a RawDocument>,
    fields: Option<&'a RawDocument>,
    update: Option<Field<'a>>,
    array_filters: Vec<&'a RawDocument>,
    declared: Option<&'a RawDocument>,
    hint: Option<Field<'a>>,
    removes: bool,
    returns_new: bool,
    is_upsert: bool,
    bypasses_validation: bool,
    empty_timestamps: EmptyTimestamps,
}

fn parse(reading: Reading<'_>, arguments: &mut Arguments<'_>) -> Result<Parsed> {
    let mut fields = Fields::default();
    for field in arguments.fields() {
        match field.name() {
            "query" => fields.filter = field.document()?,
            "sort" => fields.sort = field.document()?,
            "fields" => fields.fields = field.document()?,
            "update" => fields.update = Some(field),
            "arrayFilters" => fields.array_filters = field.documents()?.unwrap_or_default(),
            "let" => fields.declared = field.document()?,
            "hint" => fields.hint = Some(field),
            "remove" => fields.removes = field.boolean()?,
            "new" => fields.returns_new = field.boolean()?,
            "upsert" => fields.is_upsert = field.boolean()?,
            "bypassDocumentValidation" => fields.bypasses_validation = field.boolean()?,
            "bypassEmptyTsReplacement" => fields.empty_timestamps = empty_timestamps(field)?,
            "collation" => drop(field.document()?),
            _ => arguments.generic(field)?,
        }
    }
    check_combination(&fields)?;
    build(reading, fields)
}

fn check_combination(fields: &Fields<'_>) -> Result<()> {
    let refuse = |message: &str| Err(CommandError::failed_to_parse(message));
    match (fields.removes, fields.update.is_some()) {
        (true, true) => refuse("Cannot specify both an update and remove=true"),
        (false, false) => refuse("Either an update or remove=true must be specified"),
        (true, false) if fields.is_upsert => refuse("Cannot specify both upsert=true and remove=true"),
        (true, false) if fields.returns_new => {
            refuse("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
        }
        (true, false) if !fields.array_filters.is_empty() => refuse("Cannot specify arrayFilters and remove=true"),
        _ => Ok(()),
    }
}

fn build(reading: Reading<'_>, fields: Fields<'_>) -> Result<Parsed> {
    let variables = variables(reading, fields.declared)?;
    let mut query = query(fields.filter, &variables)?;
    query.hint = fields.hint.map(hint).transpose()?.unwrap_or(Hint::None);
    if let Some(sort) = fields.sort {
        apply_sort(&mut query, sort)?;
    }
    let projection = match fields.fields.filter(|fields| !fields.is_empty()) {
        Some(source) => {
            check_memory_for([source].into_iter())?;
            Some(Projection::parse(source, ProjectionKind::Find, &ParseContext::for_variables(&variables))?)
        }
        None => None,
    };
    let validation = if fields.bypasses_validation { Validation::Bypass } else { Validation::Enforce };
    let query = Arc::new(query);
    let change = match fields.update {
        None => Change::Remove(query),
        Some(update) => {
            let options = UpdateOptions { multiplicity: Multiplicity::One, variables };
            let source = source_of(update)?;
            check_memory_for_update(source, &fields.array_filters)?;
            let update = Update::parse(source, &fields.array_filters, &options)?;
            let is_upsert = fields.is_upsert;
            Change::Update(Box::new(Statement {
                query,
                update,
                multiplicity: Multiplicity::One,
                is_upsert,
                validation,
                empty_timestamps: fields.empty_timestamps,
                id: 0,
                details: StatementDetails::None,
            }))
        }
    };
    let returned = if fields.returns_new { Returned::After } else { Returned::Before };
    Ok(Parsed { change, returned, projection, statement: 0 })
}

fn execute(changing: &Changing<'_>, namespace: &Namespace, parsed: &Parsed) -> Result<Done> {
    for attempt in 1.. {
        if let Some(collection) = changing.reading.collection(namespace)? {
            let done = change_first(changing, &collection, parsed)?;
            if done.is_match {
                return Ok(done);
            }
        }
        let Change::Update(statement) = &parsed.change else { break };
        if !statement.is_upsert {
            break;
        }
        match upsert(changing, namespace, statement) {
            Ok((id, commit, document)) => {
                let value = (parsed.returned == Returned::After).then_some(document);
                return Ok(Done { value, commit: Some(commit), upserted: Some(id), is_match: false });
            }
            Err(error) if may_try_upsert_again(changing, &error) && attempt < UPSERT_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Done { value: None, commit: None, upserted: None, is_match: false })
}

/// Changes the first document that matches and still does when its lock is held.
fn change_first(changing: &Changing<'_>, collection: &Arc<Collection>, parsed: &Parsed) -> Result<Done> {
    let Changing { reading, writing, operation, .. } = *changing;
    let view = reading.newest_view();
    let query = parsed.change.query().clone();
    let mut found =
        QueryExecutor::new(&reading.queries.services(), view, Target::of(collection), query.clone(), operation)?;
    let clock = CommandClock::of(&*writing.clock, changing.timestamps);
    changing.before_write()?;
    let done = changing.write(parsed.statement, parsed.details(), |write| {
        while let Some(row) = found.next(operation)? {
            let Some(record_id) = row.record_id else { continue };
            let (mut is_match, mut value) = (false, None);
            let validation = match &parsed.change {
                Change::Remove(_) => Validation::Bypass,
                Change::Update(statement) => statement.validation,
            };
            let changed = writing.store.change_document(write, collection, record_id, validation, |newest, out| {
                let decision = match &parsed.change {
                    Change::Remove(query) => {
                        is_match = query.filter.matches(newest)?;
                        if is_match { Decision::Delete } else { Decision::Keep }
                    }
                    Change::Update(statement) => {
                        is_match = apply(statement, newest, &clock, out)?;
                        if out.is_empty() { Decision::Keep } else { statement.decision() }
                    }
                };
                let is_new = parsed.returned == Returned::After && !out.is_empty();
                value = Some(if is_new { RawDocumentBuf::from_bytes(out.clone())? } else { newest.to_owned() });
                Ok::<_, CommandError>(decision)
            })?;
            if is_match {
                return Ok(Done { value, commit: changed.commit(), upserted: None, is_match });
            }
        }
        Ok(Done { value: None, commit: None, upserted: None, is_match: false })
    });
    changing.noting.note_executor(&found);
    done
}
