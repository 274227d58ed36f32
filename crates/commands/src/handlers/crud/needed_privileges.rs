//! What commands on documents need beside what they always do, by their fields.
//!
//! Named by the declarations of these commands. A pipeline needs what each of its stages does to other collections; whoever
//! adds a stage is told by the test to say what that is.

use authentication::Target;
use bson::{RawBsonRef, RawDocument};
use document::{Number, array_elements, elements, get_field};

use crate::request::command_request::CommandRequest;
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;

/// Of a command that may go past the validator.
pub(crate) fn of_write(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    if is_true(request.body, "bypassDocumentValidation") {
        needs.need_on(request.database, collection(request), Action::BypassDocumentValidation);
    }
    Ok(())
}

/// Of `update`, which may insert.
pub(crate) fn of_update(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let upserts = |statement: &RawDocument| is_true(statement, "upsert");
    let in_sequence = request.sequences.documents("updates").is_some_and(|mut all| all.any(upserts));
    let in_body = match get_field(request.body, "updates") {
        Some(RawBsonRef::Array(all)) => {
            array_elements(all).filter_map(|statement| statement.value().as_document()).any(upserts)
        }
        _ => false,
    };
    if in_sequence || in_body {
        needs.need_on(request.database, collection(request), Action::Insert);
    }
    of_write(request, needs)
}

/// Of `findAndModify`.
pub(crate) fn of_find_and_modify(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let action = if is_true(request.body, "remove") { Action::Remove } else { Action::Update };
    needs.need_on(request.database, collection(request), action);
    if is_true(request.body, "upsert") {
        needs.need_on(request.database, collection(request), Action::Insert);
    }
    of_write(request, needs)
}

/// Of `filemd5`, which reads a bucket's chunks.
pub(crate) fn of_file(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let root = get_field(request.body, "root").and_then(|root| root.as_str()).unwrap_or("fs");
    needs.need_on(request.database, &format!("{root}.chunks"), Action::Find);
    Ok(())
}

/// Of the definition of a view: who may not read what it shows must not make it.
pub(crate) fn of_view(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    if let Some(RawBsonRef::String(on)) = get_field(request.body, "viewOn") {
        needs.need_on(request.database, on, Action::Find);
        of_stages(stages(get_field(request.body, "pipeline")), request.database, false, needs);
    }
    Ok(())
}

/// Of a pipeline.
pub(crate) fn of_pipeline(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let whole = Target::Database(request.database);
    let own = match elements(request.body).next().map(|element| element.value()) {
        Some(RawBsonRef::String(name)) => Target::Collection(request.database, name),
        _ => whole,
    };
    let stages = stages(get_field(request.body, "pipeline"));
    of_source(stages.clone().next(), own, needs);
    let is_bypassing = is_true(request.body, "bypassDocumentValidation");
    of_stages(stages, request.database, is_bypassing, needs);
    Ok(())
}

/// Of `mapReduce`, which reads its collection and may write another.
pub(crate) fn of_map_reduce(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    needs.need_on(request.database, collection(request), Action::Find);
    let named = |place: &RawDocument, name| get_field(place, name).and_then(|part| Some(part.as_str()?.to_owned()));
    let (database, collection, actions): (_, _, &[Action]) = match get_field(request.body, "out") {
        Some(RawBsonRef::String(name)) => {
            (request.database.to_owned(), name.to_owned(), &[Action::Insert, Action::Remove])
        }
        Some(RawBsonRef::Document(out)) => {
            let database = named(out, "db").unwrap_or_else(|| request.database.to_owned());
            match (named(out, "replace"), named(out, "merge").or_else(|| named(out, "reduce"))) {
                (Some(name), _) => (database, name, &[Action::Insert, Action::Remove]),
                (None, Some(name)) => (database, name, &[Action::Insert, Action::Update]),
                (None, None) => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    actions.iter().for_each(|action| needs.need_on(&database, &collection, *action));
    if is_true(request.body, "bypassDocumentValidation") {
        needs.need_on(&database, &collection, Action::BypassDocumentValidation);
    }
    Ok(())
}

/// What the documents come from.
fn of_source(first: Option<(&str, RawBsonRef<'_>)>, own: Target<'_>, needs: &mut Requirements<'_>) {
    let is_set = |options: RawBsonRef<'_>, name| options.as_document().is_some_and(|options| is_true(options, name));
    match first {
        Some(("$collStats", _)) => needs.need(own, Action::CollStats),
        Some(("$indexStats", _)) => needs.need(own, Action::IndexStats),
        Some(("$planCacheStats", _)) => needs.need(own, Action::PlanCacheRead),
        Some(("$querySettings", _)) => needs.need(Target::Cluster, Action::QuerySettings),
        Some(("$queryStats", options)) => {
            needs.need(Target::Cluster, Action::QueryStatsRead);
            let transforms = options.as_document().and_then(|options| get_field(options, "transformIdentifiers"));
            if transforms.is_some() {
                needs.need(Target::Cluster, Action::QueryStatsReadTransformed);
            }
        }
        // On `admin` it is about all databases.
        Some(("$listClusterCatalog", _)) => {
            let of_all = matches!(own, Target::Database("admin"));
            needs.need(if of_all { Target::Collection("", "") } else { own }, Action::ListCollections);
        }
        Some(("$listLocalSessions" | "$listSessions", options))
            if is_set(options, "allUsers") || names_users(options) =>
        {
            needs.need(Target::Cluster, Action::ListSessions);
        }
        Some(("$currentOp", options)) if is_set(options, "allUsers") => needs.need(Target::Cluster, Action::Inprog),
        // One's own, or nobody's.
        Some(("$currentOp" | "$documents" | "$listLocalSessions" | "$listSessions", _)) => {}
        Some(("$changeStream", options)) => {
            let of_all = is_set(options, "allChangesForCluster");
            let target = if of_all { Target::Collection("", "") } else { own };
            [Action::Find, Action::ChangeStream].into_iter().for_each(|action| needs.need(target, action));
        }
        _ => needs.need(own, Action::Find),
    }
}

fn names_users(options: RawBsonRef<'_>) -> bool {
    let users = options.as_document().and_then(|options| get_field(options, "users"));
    users.and_then(|users| users.as_array()).is_some_and(|users| !users.is_empty())
}

/// What stages do to other collections. Whatever else they have in them is no other collection's.
fn of_stages<'a>(
    stages: impl Iterator<Item = (&'a str, RawBsonRef<'a>)>,
    database: &str,
    is_bypassing: bool,
    needs: &mut Requirements<'_>,
) {
    for (name, argument) in stages {
        match name {
            "$lookup" | "$graphLookup" => of_foreign(argument, "from", database, needs),
            "$unionWith" => of_foreign(argument, "coll", database, needs),
            "$facet" => {
                for facet in argument.as_document().into_iter().flat_map(elements) {
                    of_stages(self::stages(Some(facet.value())), database, is_bypassing, needs);
                }
            }
            "$out" | "$merge" => of_output(name, argument, database, is_bypassing, needs),
            _ => {}
        }
    }
}

/// A stage that reads another collection, perhaps by a pipeline of its own.
fn of_foreign(argument: RawBsonRef<'_>, field: &str, database: &str, needs: &mut Requirements<'_>) {
    let named = |value: RawBsonRef<'_>, needs: &mut Requirements<'_>| match value {
        RawBsonRef::String(name) => needs.need_on(database, name, Action::Find),
        RawBsonRef::Document(place) => {
            let part = |name, default| get_field(place, name).and_then(|part| part.as_str()).unwrap_or(default);
            needs.need_on(part("db", database), part("coll", ""), Action::Find);
        }
        _ => {}
    };
    match argument {
        RawBsonRef::String(_) => named(argument, needs),
        RawBsonRef::Document(options) => {
            get_field(options, field).into_iter().for_each(|value| named(value, needs));
            of_stages(stages(get_field(options, "pipeline")), database, false, needs);
        }
        _ => {}
    }
}

/// A stage that writes.
fn of_output(name: &str, argument: RawBsonRef<'_>, database: &str, is_bypassing: bool, needs: &mut Requirements<'_>) {
    let place = match argument {
        RawBsonRef::Document(options) if name == "$merge" => get_field(options, "into").unwrap_or(RawBsonRef::Null),
        other => other,
    };
    let text =
        |place: &RawDocument, part: &str| get_field(place, part).and_then(|part| Some(part.as_str()?.to_owned()));
    let (database, collection) = match place {
        RawBsonRef::String(name) => (database.to_owned(), name.to_owned()),
        RawBsonRef::Document(place) => {
            (text(place, "db").unwrap_or_else(|| database.to_owned()), text(place, "coll").unwrap_or_default())
        }
        // Its parser refuses it.
        _ => return,
    };
    let actions: &[Action] =
        if name == "$out" { &[Action::Insert, Action::Remove] } else { &[Action::Insert, Action::Update] };
    actions.iter().for_each(|action| needs.need_on(&database, &collection, *action));
    if is_bypassing {
        needs.need_on(&database, &collection, Action::BypassDocumentValidation);
    }
}

/// The stages of a pipeline, by name; what is none is passed over.
fn stages<'a>(pipeline: Option<RawBsonRef<'a>>) -> impl Iterator<Item = (&'a str, RawBsonRef<'a>)> + Clone {
    let array = pipeline.and_then(|pipeline| pipeline.as_array());
    array.into_iter().flat_map(array_elements).filter_map(|stage| {
        let first = elements(stage.value().as_document()?).next()?;
        Some((first.name(), first.value()))
    })
}

fn collection<'a>(request: &CommandRequest<'a>) -> &'a str {
    elements(request.body).next().and_then(|element| element.value().as_str()).unwrap_or_default()
}

/// Whether a field is there and true, as commands take it.
pub(super) fn is_true(document: &RawDocument, name: &str) -> bool {
    match get_field(document, name) {
        Some(RawBsonRef::Boolean(value)) => value,
        Some(value) => Number::from_bson(value).is_some_and(|number| !number.is_zero()),
        None => false,
    }
}
