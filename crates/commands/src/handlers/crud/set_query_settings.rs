//! `setQuerySettings`: says which indexes queries of a shape may use, or that they are not run. Durable before it is
//! answered.

use bson::{RawBsonRef, RawDocument};
use document::{elements, get_field};

use super::query_settings::{is_internal, shape_of};
use super::{aggregate, distinct, find_arguments};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::request::query_shape::QueryShape;
use crate::state::reading::Reading;
use crate::state::writing::Writing;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), &context.server.writing, arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "setQuerySettings",
            "Says which indexes queries of a shape may use, or that they are not run.",
            Needs::Primary,
            &[on_cluster(Action::QuerySettings)],
        )
    },
);

/// How a command names a shape.
pub(super) enum Named<'a> {
    Hash(&'a str),
    Query(&'a RawDocument, QueryShape),
}

/// Runs the command.
pub(crate) fn run(
    reading: Reading<'_>,
    writing: &Writing,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut settings = None;
    for field in arguments.fields() {
        match field.name() {
            "settings" => settings = field.document()?,
            _ => arguments.generic(field)?,
        }
    }
    let Some(settings) = settings else {
        let message = "BSON field 'setQuerySettings.settings' is missing but a required field";
        return Err(CommandError::numbered(40414, message));
    };
    let named = named(reading, arguments.target())?;
    let (hash, query) = match &named {
        Named::Hash(hash) => ((*hash).to_owned(), None),
        Named::Query(query, shape) => (shape.hash(), Some(*query)),
    };
    let stored = reading.settings.set(writing, &hash, settings, query)?;
    // What was decided with other indexes is decided again.
    reading.queries.plan_cache.clear();
    reply.string("queryShapeHash", &hash);
    reply.embed("settings", &stored.settings);
    if let Some(query) = &stored.representative {
        if let Some(shape) = shape_of(query)? {
            reply.embed("debugQueryShape", shape.document());
        }
        reply.embed("representativeQuery", query);
    }
    Ok(())
}

/// The shape that a command is about, by its hash or by a query that is one.
pub(super) fn named<'a>(reading: Reading<'_>, target: Option<Field<'a>>) -> Result<Named<'a>> {
    let target = target.ok_or_else(|| CommandError::bad_value("an empty command"))?;
    match target.value() {
        RawBsonRef::String(hash) if hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(Named::Hash(hash))
        }
        RawBsonRef::String(_) => Err(CommandError::bad_value("a query shape hash has 64 hexadecimal digits")),
        RawBsonRef::Document(query) => {
            let Some(RawBsonRef::String(database)) = get_field(query, "$db") else {
                let message = format!("BSON field '{}.$db' is missing but a required field", target.name());
                return Err(CommandError::numbered(40414, message));
            };
            if is_internal(database) {
                let message = format!("{} command cannot be used on internal databases", target.name());
                return Err(CommandError::bad_value(message));
            }
            check_query(reading, query)?;
            match shape_of(query)? {
                Some(shape) => Ok(Named::Query(query, shape)),
                None => Err(unknown_command(query)),
            }
        }
        _ => Err(target.wrong_type("object")),
    }
}

fn unknown_command(query: &RawDocument) -> CommandError {
    let name = elements(query).next().map_or("", |first| first.name());
    let message = format!("QueryShape can not be computed for command: {name}");
    CommandError::numbered(7_746_402, message)
}

/// Only what can be run has a shape.
fn check_query(reading: Reading<'_>, query: &RawDocument) -> Result<()> {
    match elements(query).next().map_or("", |first| first.name()) {
        "find" => {
            let mut arguments = Arguments::new("find", query);
            arguments.collection_name()?;
            let parsed = find_arguments::parse(&mut arguments)?;
            find_arguments::canonical_query(reading, &parsed).map(drop)
        }
        "aggregate" => aggregate::parse(reading, &mut Arguments::new("aggregate", query)).map(drop),
        "distinct" => {
            let mut arguments = Arguments::new("distinct", query);
            arguments.collection_name()?;
            distinct::parse(reading, &mut arguments).map(drop)
        }
        _ => Err(unknown_command(query)),
    }
}
