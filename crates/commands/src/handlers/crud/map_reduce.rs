//! `mapReduce`: a pipeline written as three functions in JavaScript.
//!
//! It is run as one: `$match`, `$sort`, `$limit`, what `map` emits (`$_internalJsEmit`), `$group` with `reduce`
//! (`$_internalJsReduce`), `finalize`, and `$out` or `$merge`. Source: the manual's page on the command, and on
//! translating it.

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use collection::{Namespace, Validation};
use javascript::Function;

use super::aggregate::{AggregateArguments, view_of};
use super::command_collation;
use super::needed_privileges;
use super::opened_pipeline::open;
use super::pipeline_host::PipelineOpening;
use super::write_errors::write_concern_error;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Class, Declaration, Needs, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::read_concern::Level;
use crate::state::acknowledgement::Acknowledging;
use crate::state::operations::before_allocating;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(PipelineOpening::of(context), context.acknowledging(), arguments, reply),
    Declaration {
        aliases: &["mapreduce"],
        class: Class::Read,
        read_concerns: &[Level::Available, Level::Majority],
        write_concern: WriteConcernUse::Taken,
        computed: Some(needed_privileges::of_map_reduce),
        ..Declaration::new("mapReduce", "Maps documents and reduces what comes of them.", Needs::Data, &[])
    },
);

/// The fields of the command.
#[derive(Default)]
struct Fields<'a> {
    map: Option<&'a str>,
    reduce: Option<&'a str>,
    finalize: Option<&'a str>,
    query: Option<&'a RawDocument>,
    sort: Option<&'a RawDocument>,
    limit: u64,
    scope: Option<&'a RawDocument>,
    out: Option<Output<'a>>,
    validation: Validation,
}

/// Where the results go.
enum Output<'a> {
    Inline,
    Replace(Place<'a>),
    Merge(Place<'a>),
    Reduce(Place<'a>),
}

struct Place<'a> {
    database: Option<&'a str>,
    collection: &'a str,
}

/// Runs the command.
pub(crate) fn run(
    opening: PipelineOpening<'_>,
    acknowledging: Acknowledging<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let PipelineOpening { reading, operation, .. } = opening;
    let namespace = Namespace::new(reading.database, arguments.collection_name()?)?;
    operation.set_time_limit(arguments.time_limit())?;
    let fields = parse(&mut arguments)?;
    let _collation = command_collation::enter_of_command(reading, &arguments, &namespace)?;
    if let Some(scope) = fields.scope {
        Function::define_globals(scope).map_err(query_language::QueryError::from)?;
    }
    let out = fields.out.as_ref().ok_or_else(|| missing("out"))?;
    let stages = pipeline(&fields, out, namespace.database())?;
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    let pipeline = AggregateArguments::of_stages(namespace, stages, fields.validation);
    let view = view_of(reading, &pipeline)?;
    let pipeline = pipeline.through(view.as_ref())?;
    let opened = open(opening, &pipeline)?;
    let writes = opened.writes;
    let (mut found, mut results) = (opened.into_cursor(), RawArrayBuf::new());
    while let Some(document) = found.next_document()? {
        operation.check_interrupt()?;
        before_allocating(document.as_bytes().len())?;
        results.push(document);
        if results.as_bytes().len() > REPLY_BYTES_MAX {
            let message = "mapReduce: the results are too large for a reply; write them to a collection";
            return Err(CommandError::named("BSONObjectTooLarge", message));
        }
    }
    write_reply(reply, out, &results);
    if writes {
        write_concern_error(acknowledging.wait_for_all(&arguments.generic.write_concern), reply);
    }
    Ok(())
}

/// Results that are in the reply itself.
const REPLY_BYTES_MAX: usize = 16 << 20;

fn write_reply(reply: &mut DocumentWriter<'_>, out: &Output<'_>, results: &RawArrayBuf) {
    match out {
        Output::Inline => reply.value("results", RawBsonRef::Array(results)),
        Output::Replace(place) | Output::Merge(place) | Output::Reduce(place) => match place.database {
            None => reply.string("result", place.collection),
            Some(database) => reply.document("result", |result| {
                result.string("db", database);
                result.string("collection", place.collection);
            }),
        },
    }
}

fn missing(field: &str) -> CommandError {
    CommandError::numbered(40414, format!("BSON field 'mapReduce.{field}' is missing but a required field"))
}

fn parse<'a>(arguments: &mut Arguments<'a>) -> Result<Fields<'a>> {
    let mut fields = Fields::default();
    for field in arguments.fields() {
        match field.name() {
            "map" => fields.map = Some(code(field)?),
            "reduce" => fields.reduce = Some(code(field)?),
            "finalize" if field.is_null() => {}
            "finalize" => fields.finalize = Some(code(field)?),
            "query" => fields.query = field.document()?,
            "sort" => fields.sort = field.document()?.filter(|sort| !sort.is_empty()),
            "limit" => fields.limit = field.unsigned()?.unwrap_or_default(),
            "scope" => fields.scope = field.document()?,
            "out" => fields.out = Some(output(field)?),
            // How results were kept between the functions, and figures of the time, in old versions.
            "jsMode" | "verbose" => drop(field.boolean()?),
            "bypassDocumentValidation" => {
                fields.validation = if field.boolean()? { Validation::Bypass } else { Validation::Enforce };
            }
            "collation" => drop(field.document()?),
            _ => arguments.generic(field)?,
        }
    }
    required(fields.map, "mapReduce.map")?;
    required(fields.reduce, "mapReduce.reduce")?;
    Ok(fields)
}

/// A function, as text or as code.
fn code(field: Field<'_>) -> Result<&str> {
    match field.value() {
        RawBsonRef::String(code) | RawBsonRef::JavaScriptCode(code) => Ok(code),
        RawBsonRef::JavaScriptCodeWithScope(code) if code.scope.is_empty() => Ok(code.code),
        RawBsonRef::JavaScriptCodeWithScope(_) => {
            Err(CommandError::bad_value(format!("'{}' must not have a scope; use the field 'scope'", field.name())))
        }
        _ => Err(CommandError::named("TypeMismatch", format!("'{}' must be of string or code type", field.name()))),
    }
}

fn output(field: Field<'_>) -> Result<Output<'_>> {
    if let RawBsonRef::String(collection) = field.value() {
        return Ok(Output::Replace(Place { database: None, collection }));
    }
    let (mut database, mut chosen): (Option<&str>, Option<(&str, Option<&str>)>) = (None, None);
    for option in field.fields_of("mapReduce.out")? {
        match option.name() {
            "db" => database = option.string()?,
            "sharded" | "nonAtomic" => drop(option.boolean()?),
            "inline" => chosen = Some(("inline", None)),
            name @ ("replace" | "merge" | "reduce") => chosen = Some((name, option.string()?)),
            _ => return Err(option.unknown()),
        }
    }
    match chosen {
        Some(("inline", None)) if database.is_none() => Ok(Output::Inline),
        Some(("inline", None)) => Err(CommandError::bad_value("cannot specify 'db' with inline output")),
        Some((kind, Some(collection))) => {
            let place = Place { database, collection };
            Ok(match kind {
                "replace" => Output::Replace(place),
                "merge" => Output::Merge(place),
                _ => Output::Reduce(place),
            })
        }
        _ => Err(CommandError::bad_value("'out' must name one of inline, replace, merge and reduce")),
    }
}

/// The pipeline that does the same.
fn pipeline(fields: &Fields<'_>, out: &Output<'_>, database: &str) -> Result<Vec<RawDocumentBuf>> {
    let (Some(map), Some(reduce)) = (fields.map, fields.reduce) else { return Err(missing("map")) };
    let mut stages = Vec::new();
    if let Some(query) = fields.query {
        stages.push(rawdoc! { "$match": query.to_owned() });
    }
    if let Some(sort) = fields.sort {
        stages.push(rawdoc! { "$sort": sort.to_owned() });
    }
    if fields.limit > 0 {
        stages.push(rawdoc! { "$limit": i64::try_from(fields.limit).unwrap_or(i64::MAX) });
    }
    let emits = rawdoc! { "$_internalJsEmit": { "eval": map, "this": "$$ROOT" } };
    stages.push(rawdoc! { "$project": { "_id": 0, "emits": emits } });
    stages.push(rawdoc! { "$unwind": "$emits" });
    let reduced = rawdoc! { "$_internalJsReduce": { "eval": reduce, "data": "$emits" } };
    stages.push(rawdoc! { "$group": { "_id": "$emits.k", "value": reduced } });
    if let Some(finalize) = fields.finalize {
        let call = rawdoc! { "$function": { "body": finalize, "args": ["$_id", "$value"], "lang": "js" } };
        stages.push(rawdoc! { "$project": { "value": call } });
    }
    let into = |place: &Place<'_>| rawdoc! { "db": place.database.unwrap_or(database), "coll": place.collection };
    match out {
        Output::Inline => {}
        Output::Replace(place) => stages.push(rawdoc! { "$out": into(place) }),
        Output::Merge(place) => stages.push(rawdoc! {
            "$merge": { "into": into(place), "whenMatched": "replace", "whenNotMatched": "insert" },
        }),
        Output::Reduce(place) => {
            let both =
                rawdoc! { "$function": { "body": reduce, "args": ["$_id", ["$value", "$$new.value"]], "lang": "js" } };
            stages.push(rawdoc! {
                "$merge": {
                    "into": into(place),
                    "whenMatched": [{ "$project": { "value": both } }],
                    "whenNotMatched": "insert",
                },
            });
        }
    }
    Ok(stages)
}
