//! `explain`: how a command would be run, and what it would touch.

use std::sync::Arc;

use bson::{Bson, RawDocument};
use collection::Namespace;
use document::elements;
use executor::{QueryExecutor, Target, Verbosity};
use planner::CanonicalQuery;

use super::{aggregate, command_collation, count, delete, distinct, find_and_modify, find_arguments};
use super::{query_settings, update};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::read_source::ReadSource;
use crate::handlers::views::View;
use crate::handlers::views::read::ViewQuery;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::read_concern::Level;
use crate::state::command_table::CommandTable;
use crate::state::context::ServerFacts;
use crate::state::operations::Operation;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let with = (context.reading(), &context.operation);
        run(with, context.commands, &context.server.facts, arguments, reply)
    },
    Declaration {
        is_about_command: true,
        read_concerns: &[Level::Available, Level::Majority],
        stable_api: StableApi::Version1,
        ..Declaration::new("explain", "Says how a query would be run.", Needs::Data, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    (reading, operation): (Reading<'_>, &Operation<'_>),
    commands: &dyn CommandTable,
    facts: &ServerFacts,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let inner = match arguments.target() {
        Some(field) => required(field.document()?, "explain.explain")?,
        None => return Err(CommandError::bad_value("explain needs a command")),
    };
    let mut verbosity = Verbosity::AllPlansExecution;
    for field in arguments.fields() {
        match field.name() {
            "verbosity" => {
                let Some(name) = field.string()? else { continue };
                verbosity = Verbosity::parse(name).ok_or_else(|| {
                    CommandError::bad_value(format!(
                        "Enumeration value '{name}' for field 'explain.verbosity' is not a valid value."
                    ))
                })?;
            }
            _ => arguments.generic(field)?,
        }
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let mut explained = explain((reading, operation), commands, inner, verbosity)?;
    query_settings::explain(reading, inner, &mut explained)?;
    write_document(reply, &explained)?;
    write_environment(facts, inner, reply);
    Ok(())
}

fn explain(
    (reading, operation): (Reading<'_>, &Operation<'_>),
    commands: &dyn CommandTable,
    inner: &RawDocument,
    verbosity: Verbosity,
) -> Result<bson::Document> {
    let Some(first) = elements(inner).next() else {
        return Err(CommandError::named("CommandNotFound", "Explain failed due to unknown command: "));
    };
    check_database(reading.database, inner)?;
    match first.name() {
        "find" => {
            let mut arguments = Arguments::new("find", inner);
            let parsed = find_arguments::parse(&mut arguments)?;
            let _collation = command_collation::enter_of_named(reading, &arguments)?;
            if let Some(view) = view_of(reading, arguments.collection_name()?)? {
                let settings = query_settings::of_command(reading, inner)?;
                let over = ViewQuery::of_find(&parsed)?;
                return aggregate::explain((reading, operation), over.over(&view).with_settings(settings), verbosity);
            }
            let mut query = find_arguments::canonical_query(reading, &parsed)?;
            restrict(reading, inner, arguments.collection_name()?, &mut query)?;
            explain_query((reading, operation), arguments.collection_name()?, query, verbosity)
        }
        "aggregate" => {
            let mut arguments = Arguments::new("aggregate", inner);
            let parsed = aggregate::parse(reading, &mut arguments)?;
            let _collation = command_collation::enter_of_named(reading, &arguments)?;
            aggregate::explain((reading, operation), parsed, verbosity)
        }
        "count" => {
            let mut arguments = Arguments::new("count", inner);
            let _collation = command_collation::enter_of_named(reading, &arguments)?;
            let query = Arc::new(count::parse(reading, &mut arguments)?);
            if let Some(view) = view_of(reading, arguments.collection_name()?)? {
                let over = ViewQuery::of_query(&query, count::filter_of(&arguments)?).counted();
                return aggregate::explain((reading, operation), over.over(&view), verbosity);
            }
            let (target, view) = (target_of(reading, arguments.collection_name()?)?, reading.queries.store.read_view());
            Ok(executor::explain_count(&reading.queries.services(), view, target, query, verbosity, operation)?)
        }
        "distinct" => {
            let mut arguments = Arguments::new("distinct", inner);
            let _collation = command_collation::enter_of_named(reading, &arguments)?;
            let (mut query, key) = distinct::parse(reading, &mut arguments)?;
            restrict(reading, inner, arguments.collection_name()?, &mut query)?;
            if let Some(view) = view_of(reading, arguments.collection_name()?)? {
                let over = ViewQuery::of_query(&query, count::filter_of(&arguments)?);
                return aggregate::explain((reading, operation), over.over(&view), verbosity);
            }
            let (target, view) = (target_of(reading, arguments.collection_name()?)?, reading.queries.store.read_view());
            let services = reading.queries.services();
            Ok(executor::explain_distinct(&services, view, target, query, key, verbosity, operation)?)
        }
        "update" => explain_write((reading, operation), inner, "updates", verbosity),
        "delete" => explain_write((reading, operation), inner, "deletes", verbosity),
        "findAndModify" | "findandmodify" => {
            let mut arguments = Arguments::new("findAndModify", inner);
            let _collation = command_collation::enter_of_named(reading, &arguments)?;
            let (query, stage) = find_and_modify::explained(reading, &mut arguments)?;
            explain_change((reading, operation), arguments.collection_name()?, query, stage, verbosity)
        }
        "mapReduce" => Err(CommandError::not_implemented(format!("explain of {}", first.name()))),
        name if commands.declaration(name).is_some() => {
            Err(CommandError::named("IllegalOperation", format!("Cannot explain cmd: {name}")))
        }
        name => Err(CommandError::named("CommandNotFound", format!("Explain failed due to unknown command: {name}"))),
    }
}

/// What has been said of the shape of the command that is explained holds for its query.
fn restrict(reading: Reading<'_>, inner: &RawDocument, collection: &str, query: &mut CanonicalQuery) -> Result<()> {
    if let Some(settings) = query_settings::of_command(reading, inner)? {
        settings.restrict(&format!("{}.{collection}", reading.database), query);
    }
    Ok(())
}

/// The view that the command reads that is explained, if it does.
fn view_of(reading: Reading<'_>, collection: &str) -> Result<Option<View>> {
    match ReadSource::of(reading, Namespace::new(reading.database, collection)?)? {
        ReadSource::View(view) => Ok(Some(view)),
        _ => Ok(None),
    }
}

/// What the command that is explained reads from.
fn target_of(reading: Reading<'_>, collection: &str) -> Result<Target> {
    ReadSource::of(reading, Namespace::new(reading.database, collection)?)?.target_for("explain of commands")
}

/// The command that is explained is one of the same database.
fn check_database(ours: &str, inner: &RawDocument) -> Result<()> {
    let Some(database) = elements(inner).find(|element| element.name() == "$db") else { return Ok(()) };
    let Some(named) = Field::of("explain.explain", database).string()? else { return Ok(()) };
    if named == ours {
        return Ok(());
    }
    let message = format!("Mismatched $db in explain command. Expected {ours} but got {named}");
    Err(CommandError::named("InvalidNamespace", message))
}

fn explain_query(
    (reading, operation): (Reading<'_>, &Operation<'_>),
    collection: &str,
    query: CanonicalQuery,
    verbosity: Verbosity,
) -> Result<bson::Document> {
    let target = target_of(reading, collection)?;
    let view = reading.queries.store.read_view();
    let mut executor = QueryExecutor::new(&reading.queries.services(), view, target, Arc::new(query), operation)?;
    Ok(executor.explain(verbosity, operation)?)
}

/// An update or delete is explained as the query that finds its documents, under a stage of its own; nothing is changed.
fn explain_write(
    (reading, operation): (Reading<'_>, &Operation<'_>),
    inner: &RawDocument,
    statements: &'static str,
    verbosity: Verbosity,
) -> Result<bson::Document> {
    let arguments = Arguments::new(if statements == "updates" { "update" } else { "delete" }, inner);
    let field = arguments.fields().find(|field| field.name() == statements);
    let list = field.map(|field| field.documents()).transpose()?.flatten().unwrap_or_default();
    let [statement] = list.as_slice() else {
        return Err(CommandError::named("InvalidLength", "explained write batches must be of size 1"));
    };
    let collection = arguments.collection_name()?;
    let namespace = Namespace::new(reading.database, collection)?;
    if statements == "updates" {
        let fields = update::StatementFields::read(statement)?;
        let _collation = command_collation::enter(reading, &namespace, fields.collation)?;
        let query = update::Statement::parse(reading, &fields, &Default::default())?.query;
        return explain_change((reading, operation), collection, query, "UPDATE", verbosity);
    }
    let fields = delete::StatementFields::read(statement)?;
    let _collation = command_collation::enter(reading, &namespace, fields.collation)?;
    explain_change((reading, operation), collection, fields.query(reading, None)?, "DELETE", verbosity)
}

/// The plan of a query under the stage that changes what it finds.
fn explain_change(
    (reading, operation): (Reading<'_>, &Operation<'_>),
    collection: &str,
    query: Arc<CanonicalQuery>,
    stage: &str,
    verbosity: Verbosity,
) -> Result<bson::Document> {
    let query = Arc::try_unwrap(query).map_err(|_| CommandError::bad_value("the statement is in use"))?;
    let mut explained = explain_query((reading, operation), collection, query, verbosity)?;
    wrap_winning_plan(&mut explained, stage);
    Ok(explained)
}

fn wrap_winning_plan(explained: &mut bson::Document, stage: &str) {
    if let Ok(planner) = explained.get_document_mut("queryPlanner")
        && let Some(winning) = planner.remove("winningPlan")
    {
        planner.insert("winningPlan", bson::doc! { "stage": stage, "inputStage": winning });
    }
    if let Ok(execution) = explained.get_document_mut("executionStats")
        && let Some(stages) = execution.remove("executionStages")
    {
        let returned = execution.get("nReturned").cloned().unwrap_or(Bson::Int32(0));
        let counter = if stage == "UPDATE" { "nWouldModify" } else { "nWouldDelete" };
        execution.insert("nReturned", 0);
        execution.insert("executionStages", bson::doc! { "stage": stage, counter: returned, "inputStage": stages });
    }
}

/// Writes the fields of a document into the reply.
pub(crate) fn write_document(reply: &mut DocumentWriter<'_>, document: &bson::Document) -> Result<()> {
    let raw = bson::RawDocumentBuf::try_from(document)?;
    elements(&raw).for_each(|element| reply.element(element));
    Ok(())
}

fn write_environment(facts: &ServerFacts, inner: &RawDocument, reply: &mut DocumentWriter<'_>) {
    reply.embed("command", inner);
    reply.document("serverInfo", |info| {
        info.string("host", &facts.host_name);
        info.int32("port", i32::from(facts.port));
        info.string("version", crate::state::versions::VERSION);
        info.string("gitVersion", facts.build.git_version);
    });
}
