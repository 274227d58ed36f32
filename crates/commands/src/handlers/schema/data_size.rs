//! `dataSize`: how many documents there are in a collection, or in a range of an index of it, and how many bytes they take.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, Namespace};
use document::{compare_documents, elements};
use executor::{QueryExecutor, Target};
use planner::Hint;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::query_arguments::{query, variables};
use crate::request::arguments::{Arguments, Field, required};
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Declaration, Needs, Sees};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
use crate::state::operations::Operation;
use crate::state::reading::Reading;

/// What is asked for.
#[derive(Default)]
struct Request<'a> {
    key_pattern: Option<&'a RawDocument>,
    min: Option<&'a RawDocument>,
    max: Option<&'a RawDocument>,
    is_estimate: bool,
}

/// Documents and their bytes.
#[derive(Default)]
struct Sum {
    documents: u64,
    bytes: u64,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), &context.operation, arguments, reply),
    Declaration {
        sees: Sees::Newest,
        computed: Some(needs),
        ..Declaration::new(
            "dataSize",
            "How many documents are in a range of an index, and their bytes.",
            Needs::Data,
            &[],
        )
    },
);

/// The collection is named in full.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let named = document::elements(request.body).next().and_then(|first| first.value().as_str());
    let (database, collection) = named.and_then(|name| name.split_once('.')).unwrap_or_default();
    needs.need_on(database, collection, Action::Find);
    Ok(())
}

/// Runs the command.
pub(crate) fn run(
    reading: Reading<'_>,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = required(arguments.target(), "dataSize.dataSize")?;
    let namespace = full_name(target)?;
    let mut request = Request::default();
    for field in arguments.fields() {
        match field.name() {
            "keyPattern" => request.key_pattern = field.document()?.filter(|pattern| !pattern.is_empty()),
            "min" => request.min = field.document()?.filter(|bound| !bound.is_empty()),
            "max" => request.max = field.document()?.filter(|bound| !bound.is_empty()),
            "estimate" => request.is_estimate = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    if request.min.is_some() != request.max.is_some() {
        return Err(CommandError::bad_value("min and max must be given together"));
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let sum = match reading.collection(&namespace)? {
        Some(collection) => measure(reading, operation, &collection, &request)?,
        None => Sum::default(),
    };
    reply.boolean("estimate", request.is_estimate);
    reply.size("size", sum.bytes);
    reply.size("numObjects", sum.documents);
    reply.size("millis", operation.elapsed().as_millis() as u64);
    Ok(())
}

/// `database.collection`, which is how this command names what it is about.
fn full_name(target: Field<'_>) -> Result<Namespace> {
    let name = target.required(Field::string)?;
    match name.split_once('.') {
        Some((database, collection)) if !database.is_empty() => Ok(Namespace::new(database, collection)?),
        _ => Err(CommandError::named("InvalidNamespace", format!("Invalid namespace specified '{name}'"))),
    }
}

fn measure(
    reading: Reading<'_>,
    operation: &Operation<'_>,
    collection: &Arc<Collection>,
    request: &Request<'_>,
) -> Result<Sum> {
    let counts = collection.counts();
    let whole = Sum { documents: counts.documents(), bytes: counts.bytes() };
    let (Some(min), Some(max)) = (request.min, request.max) else { return Ok(whole) };
    let pattern =
        request.key_pattern.map_or_else(|| Ok(pattern_of(min)), |pattern| Ok::<_, CommandError>(pattern.to_owned()))?;
    let is_it = |key: &RawDocument| compare_documents(key, &pattern) == Ordering::Equal;
    if !collection.indexes().ready().any(|index| is_it(&index.specification().key)) {
        return Err(CommandError::named("OperationFailed", "couldn't find valid index containing key pattern"));
    }
    let mut ranged = query(None, &variables(reading, None)?)?;
    ranged.hint = Hint::parse(bson::RawBsonRef::Document(&pattern))?;
    (ranged.min, ranged.max) = (Some(min.to_owned()), Some(max.to_owned()));
    let (view, target) = (reading.view(), Target::of(collection));
    let mut found = QueryExecutor::new(&reading.queries.services(), view, target, Arc::new(ranged), operation)?;
    let mut sum = Sum::default();
    while let Some(row) = found.next(operation)? {
        sum.documents += 1;
        sum.bytes += row.document.as_bytes().len() as u64;
    }
    if request.is_estimate && whole.documents > 0 {
        sum.bytes = sum.documents * (whole.bytes / whole.documents);
    }
    Ok(sum)
}

/// The ascending pattern over the fields of a bound.
fn pattern_of(bound: &RawDocument) -> bson::RawDocumentBuf {
    let mut pattern = bson::Document::new();
    elements(bound).for_each(|element| drop(pattern.insert(element.name(), 1)));
    bson::RawDocumentBuf::try_from(&pattern).unwrap_or_default()
}
