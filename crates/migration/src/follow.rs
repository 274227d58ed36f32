//! What changes on the source while it is copied and after: its change stream, applied to the target.
//!
//! Called by `copy` with `--follow`. The stream begins at a moment before the copy began, so events come that the copy has already seen: applying
//! one again gives the same in the end. Documents are looked up when their event is read, so a target that has caught up has what the source has.

use std::time::{Duration, Instant};

use bson::{Bson, Document, Timestamp, doc};
use mongodb::Client;
use mongodb::change_stream::ChangeStream;
use mongodb::options::{ChangeStreamOptions, FullDocumentType};

use crate::definitions::code;
use crate::error::{CopyError, reason};
use crate::report::Report;
use crate::selection::Selection;

/// Changes that are applied together.
const BATCH_MAX: usize = 1_000;
/// For how long a batch is filled.
const BATCH_WAIT: Duration = Duration::from_millis(200);
/// How often the lag is told.
const TOLD_EACH: Duration = Duration::from_secs(5);
/// What is there already, or gone already: the event has been seen by the copy.
const SEEN_BEFORE: &[i32] = &[26, 27, 48, 73, 85, 86];

/// The source's time now, to follow from.
pub(crate) async fn now(source: &Client) -> Result<Timestamp, CopyError> {
    let hello = source
        .database("admin")
        .run_command(doc! { "hello": 1 })
        .await
        .map_err(CopyError::command("ask the source for its time"))?;
    let time = hello
        .get_timestamp("operationTime")
        .or_else(|_| hello.get_document("$clusterTime").and_then(|time| time.get_timestamp("clusterTime")));
    time.map_err(|_| {
        CopyError::Refusal(
            "the source has no change streams (it is no replica set), so it cannot be followed".to_owned(),
        )
    })
}

/// Applies changes until `stop` says so, and then until the target has all that was there at that moment.
pub(crate) async fn run(
    source: &Client,
    target: &Client,
    selection: &Selection,
    began: Timestamp,
    stop: impl Fn() -> bool,
    report: &mut Report,
) -> Result<(), CopyError> {
    let options = ChangeStreamOptions::builder()
        .start_at_operation_time(began)
        .full_document(FullDocumentType::UpdateLookup)
        .show_expanded_events(true)
        .build();
    let what = || CopyError::command("follow the source");
    let mut stream = source.watch().with_options(options).await.map_err(what())?.with_type::<Document>();
    let mut until: Option<Timestamp> = None;
    let mut told = Instant::now();
    loop {
        if until.is_none() && stop() {
            until = Some(now(source).await?);
        }
        let batch = batch(&mut stream).await.map_err(what())?;
        let reached = batch.last().and_then(|event| event.get_timestamp("clusterTime").ok());
        report.changes += batch.len() as u64;
        apply(target, selection, batch, report).await?;
        if let Some(time) = reached
            && told.elapsed() >= TOLD_EACH
        {
            told = Instant::now();
            let now = now(source).await?;
            eprintln!("following: {} changes, {} s behind", report.changes, now.time.saturating_sub(time.time));
        }
        // An empty batch: the source had nothing more when it was asked.
        let is_through =
            |until: Timestamp| reached.is_none_or(|time| (time.time, time.increment) >= (until.time, until.increment));
        if until.is_some_and(is_through) {
            return Ok(());
        }
    }
}

async fn batch(stream: &mut ChangeStream<Document>) -> mongodb::error::Result<Vec<Document>> {
    let (begin, mut events) = (Instant::now(), Vec::new());
    while events.len() < BATCH_MAX && (events.is_empty() || begin.elapsed() < BATCH_WAIT) {
        match stream.next_if_any().await? {
            Some(event) => events.push(event),
            None if events.is_empty() && begin.elapsed() < BATCH_WAIT => {
                tokio::time::sleep(Duration::from_millis(20)).await
            }
            None => break,
        }
    }
    Ok(events)
}

/// Applies events in their order: those of documents of one collection together.
async fn apply(
    target: &Client,
    selection: &Selection,
    events: Vec<Document>,
    report: &mut Report,
) -> Result<(), CopyError> {
    let mut pending: Vec<Document> = Vec::new();
    for event in events {
        let (database, collection) = namespace_of(&event);
        if !selection.has(&database, &collection) {
            continue;
        }
        let is_of_document = matches!(event.get_str("operationType"), Ok("insert" | "update" | "replace" | "delete"));
        if pending.first().is_some_and(|first| !is_of_document || namespace_of(first) != namespace_of(&event)) {
            flush(target, std::mem::take(&mut pending)).await?;
        }
        if is_of_document {
            pending.push(event);
        } else {
            define(target, &database, &collection, &event, report).await?;
        }
    }
    flush(target, pending).await
}

/// The last event of each document decides: earlier ones are overtaken.
async fn flush(target: &Client, events: Vec<Document>) -> Result<(), CopyError> {
    let Some(first) = events.first() else { return Ok(()) };
    let (database, collection) = namespace_of(first);
    let mut seen = std::collections::HashSet::new();
    let (mut updates, mut deletes) = (Vec::new(), Vec::new());
    for event in events.iter().rev() {
        let Some(id) = event.get_document("documentKey").ok().and_then(|key| key.get("_id").cloned()) else { continue };
        if !seen.insert(id.clone().into_canonical_extjson().to_string()) {
            continue;
        }
        let filter = doc! { "_id": { "$eq": id } };
        match event.get_document("fullDocument") {
            Ok(document) => updates.push(doc! { "q": filter, "u": document.clone(), "upsert": true }),
            // Deleted, or deleted since: the event of that comes, too.
            Err(_) if event.get_str("operationType").ok() == Some("delete") => {
                deletes.push(doc! { "q": filter, "limit": 1 })
            }
            Err(_) => {}
        }
    }
    let database = target.database(&database);
    let commands = [
        (!deletes.is_empty()).then(|| doc! { "delete": &collection, "deletes": deletes, "ordered": false }),
        (!updates.is_empty()).then(
            || doc! { "update": &collection, "updates": updates, "ordered": false, "bypassDocumentValidation": true },
        ),
    ];
    for command in commands.into_iter().flatten() {
        let reply = database
            .run_command(command)
            .await
            .map_err(CopyError::command(format!("apply changes to {collection}")))?;
        if let Some(error) =
            reply.get_array("writeErrors").ok().and_then(|errors| errors.first()).and_then(Bson::as_document)
        {
            let reason = error.get_str("errmsg").unwrap_or_default().to_owned();
            return Err(CopyError::Refused { namespace: format!("{}.{collection}", database.name()), reason });
        }
    }
    Ok(())
}

/// Collections and indexes that come and go.
async fn define(
    target: &Client,
    database: &str,
    collection: &str,
    event: &Document,
    report: &mut Report,
) -> Result<(), CopyError> {
    let description = event.get_document("operationDescription").cloned().unwrap_or_default();
    let kind = event.get_str("operationType").unwrap_or_default();
    let (of, command) = match kind {
        "drop" => (database, doc! { "drop": collection }),
        "dropDatabase" => (database, doc! { "dropDatabase": 1 }),
        "create" => {
            let mut command = doc! { "create": collection };
            command.extend(description.into_iter().filter(|(name, _)| !["idIndex", "uuid"].contains(&name.as_str())));
            (database, command)
        }
        "createIndexes" => (database, doc! { "createIndexes": collection, "indexes": list(&description, "indexes") }),
        "dropIndexes" => {
            let names =
                list(&description, "indexes").into_iter().filter_map(|index| index.as_document()?.get("name").cloned());
            (database, doc! { "dropIndexes": collection, "index": names.collect::<Vec<_>>() })
        }
        "rename" => {
            let to = event.get_document("to").ok();
            let name = |field: &str| to.and_then(|to| to.get_str(field).ok()).unwrap_or_default();
            let to = format!("{}.{}", name("db"), name("coll"));
            ("admin", doc! { "renameCollection": format!("{database}.{collection}"), "to": to, "dropTarget": true })
        }
        "modify" => {
            let mut command = doc! { "collMod": collection };
            command.extend(description);
            (database, command)
        }
        _ => return Ok(()),
    };
    match target.database(of).run_command(command).await {
        Ok(_) => Ok(()),
        Err(error) if code(&error).is_some_and(|code| SEEN_BEFORE.contains(&code)) => Ok(()),
        Err(error) if code(&error).is_some() => {
            report.left(format!("{database}.{collection}, {kind}"), reason(&error));
            Ok(())
        }
        Err(error) => Err(CopyError::command(format!("apply {kind} to {database}.{collection}"))(error)),
    }
}

fn list(document: &Document, field: &str) -> Vec<Bson> {
    let indexes = document.get_array(field).cloned().unwrap_or_default();
    let without_version = |index: Bson| match index {
        Bson::Document(mut index) => {
            index.remove("v");
            Bson::Document(index)
        }
        other => other,
    };
    indexes.into_iter().map(without_version).collect()
}

fn namespace_of(event: &Document) -> (String, String) {
    let name = |field: &str| event.get_document("ns").and_then(|ns| ns.get_str(field)).unwrap_or_default().to_owned();
    (name("db"), name("coll"))
}
