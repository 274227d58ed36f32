//! What `$queryStats` is fed with and gives: what is noted when a `find`, `aggregate` or `distinct` is through, and the
//! documents of the stage.
//!
//! Called by `dispatcher` when a command has ended. Source: the manual's page on `$queryStats`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::raw::{CStr, CString, cstr};
use bson::{DateTime, Decimal128, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};
use document::{elements, get_field};
use platform::Clock;

use crate::handlers::views;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::query_shape::{Names, QueryShape};
use crate::state::noting::Noting;
use crate::state::queries::Queries;
use crate::state::query_statistics::{Entry, Figure, Key, QueryStatistics, Seen, hint_of};
use crate::state::recording::Recording;

/// Bytes of a command beyond which its shape would cost more than is worth knowing.
const COMMAND_BYTES_MAX: usize = 64 << 10;
/// Queries that are recorded.
const COMMANDS: [&str; 3] = ["find", "aggregate", "distinct"];

/// Notes a command that has ended well.
pub(crate) fn note(
    statistics: &QueryStatistics,
    recording: Recording<'_>,
    queries: Queries<'_>,
    command: &Declaration,
) {
    let is_of_cursors = ["getMore", "killCursors"].contains(&command.name);
    if !is_of_cursors && !COMMANDS.contains(&command.name) {
        return;
    }
    if statistics.rate() == 0 {
        return;
    }
    let Recording { operation, noting: Noting { notes, .. }, .. } = recording;
    let now = recording.writing.clock.wall_millis();
    let seen = Seen {
        micros: operation.elapsed().saturating_sub(notes.waited.get()).as_micros() as u64,
        returned: notes.returned.get(),
        keys_examined: notes.keys_examined.get(),
        docs_examined: notes.docs_examined.get(),
        sorts: notes.sorts.get(),
    };
    let body = recording.request.body;
    if is_of_cursors {
        return cursors_of(command, body).for_each(|cursor| {
            statistics.go_on(cursor, seen, command.name == "killCursors" || notes.is_exhausted.get(), now)
        });
    }
    if body.as_bytes().len() > COMMAND_BYTES_MAX || !statistics.samples(now) {
        return;
    }
    // Without memory for it nothing is noted.
    let Ok(Some(key)) = key_of(recording, queries, body) else { return };
    let cursor = Some(notes.cursor.get()).filter(|id| *id != 0 && !notes.is_exhausted.get());
    statistics.begin(key, seen, cursor, now);
}

fn cursors_of<'a>(command: &Declaration, body: &'a RawDocument) -> impl Iterator<Item = i64> + use<'a> {
    let of_get_more = elements(body).next().filter(|_| command.name == "getMore").map(|first| first.value());
    let killed = get_field(body, "cursors").filter(|_| command.name == "killCursors");
    let killed = killed.and_then(|cursors| cursors.as_array()).into_iter().flat_map(document::array_elements);
    of_get_more.into_iter().chain(killed.map(|cursor| cursor.value())).filter_map(|cursor| cursor.as_i64())
}

/// What tells a query apart from others.
fn key_of(recording: Recording<'_>, queries: Queries<'_>, body: &RawDocument) -> Result<Option<Key>> {
    let Some(shape) = QueryShape::of(recording.request.database, body)? else { return Ok(None) };
    let mut rest = RawDocumentBuf::new();
    if let Some(metadata) = recording.metadata {
        rest.append(cstr!("client"), &***metadata);
    }
    let kept = ["readConcern", "readPreference", "apiVersion", "apiStrict", "apiDeprecationErrors", "noCursorTimeout"];
    for field in elements(body) {
        let name = field.name().trim_start_matches('$');
        let Ok(name) = CString::try_from(name) else { continue };
        match field.name() {
            kept_name if kept.contains(&kept_name) || kept_name == "$readPreference" => {
                rest.append(name, field.value())
            }
            "batchSize" | "maxTimeMS" => rest.append(name, "?number"),
            "comment" => rest.append(name, "?string"),
            "cursor" if has_batch_size(field.value()) => {
                rest.append(name, bson::rawdoc! { "batchSize": "?number" });
            }
            _ => {}
        }
    }
    rest.append(cstr!("collectionType"), collection_type(queries, recording.request.database, body)?);
    let hint = get_field(body, "hint").and_then(hint_of);
    Ok(Some(Key { shape, hint, rest }))
}

fn has_batch_size(options: RawBsonRef<'_>) -> bool {
    options.as_document().is_some_and(|options| get_field(options, "batchSize").is_some())
}

fn collection_type(queries: Queries<'_>, database: &str, body: &RawDocument) -> Result<&'static str> {
    let pipeline = get_field(body, "pipeline").and_then(|pipeline| pipeline.as_array());
    let first = pipeline.and_then(|stages| document::array_elements(stages).next());
    let first = first.and_then(|stage| elements(stage.value().as_document()?).next());
    if first.is_some_and(|stage| stage.name() == "$changeStream") {
        return Ok("changeStream");
    }
    let Some(RawBsonRef::String(collection)) = elements(body).next().map(|first| first.value()) else {
        return Ok("virtual");
    };
    let namespace = collection::Namespace::new(database, collection)?;
    if queries.store.catalog().lookup(namespace.as_str()).is_some() {
        return Ok("collection");
    }
    Ok(if views::is_view(queries, &namespace)? { "view" } else { "nonExistent" })
}

/// The documents of `$queryStats`; with a key names are shown as what it makes of them.
///
/// # Errors
/// There is no memory for them; the command is to stop.
pub(crate) fn documents(
    statistics: &QueryStatistics,
    clock: &dyn Clock,
    key: Option<&[u8]>,
    check: &dyn Fn() -> Result<()>,
) -> Result<Vec<RawDocumentBuf>> {
    let now = clock.wall_millis();
    let mut found = Vec::new();
    for entry in statistics.entries() {
        check()?;
        found.push(describe(&entry, key, now)?);
    }
    Ok(found)
}

fn describe(entry: &Entry, key: Option<&[u8]>, now: i64) -> Result<RawDocumentBuf> {
    let made = |name: &str| STANDARD.encode(authentication::keyed_hash(key.unwrap_or_default(), name.as_bytes()));
    let names = if key.is_some() { Names::Made(&made) } else { Names::AsTheyAre };
    let mut told = RawDocumentBuf::new();
    told.append(cstr!("queryShape"), entry.key.shape.with_names(names)?);
    if let Some(hint) = &entry.key.hint {
        append_hint(&mut told, hint, names);
    }
    for part in elements(&entry.key.rest) {
        if let Ok(name) = <&CStr>::try_from(part.name()) {
            told.append(name, part.value());
        }
    }
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("key"), told);
    document.append(cstr!("keyHash"), STANDARD.encode(entry.key.hash()).as_str());
    document.append(cstr!("queryShapeHash"), entry.key.shape.hash().as_str());
    document.append(cstr!("metrics"), metrics_of(entry)?);
    document.append(cstr!("asOf"), Timestamp { time: (now / 1000) as u32, increment: 0 });
    Ok(document)
}

fn append_hint(told: &mut RawDocumentBuf, hint: &RawDocument, names: Names<'_>) {
    let mut shown = RawDocumentBuf::new();
    for part in elements(hint) {
        if part.name().is_empty() {
            told.append(cstr!("hint"), part.value());
            return;
        }
        let name = match names {
            Names::Made(made) if !part.name().starts_with('$') => made(part.name()),
            _ => part.name().to_owned(),
        };
        if let Ok(name) = <&CStr>::try_from(name.as_str()) {
            shown.append(name, part.value());
        }
    }
    told.append(cstr!("hint"), shown);
}

fn metrics_of(entry: &Entry) -> Result<RawDocumentBuf> {
    let mut metrics = RawDocumentBuf::new();
    metrics.append(cstr!("lastExecutionMicros"), long(entry.last_micros));
    metrics.append(cstr!("execCount"), long(entry.executions));
    metrics.append(cstr!("keysExamined"), figure(entry.keys_examined)?);
    metrics.append(cstr!("docsExamined"), figure(entry.docs_examined)?);
    metrics.append(cstr!("hasSortStage"), entry.sorts);
    metrics.append(cstr!("totalExecMicros"), figure(entry.total_micros)?);
    metrics.append(cstr!("firstResponseExecMicros"), figure(entry.first_micros)?);
    metrics.append(cstr!("docsReturned"), figure(entry.returned)?);
    metrics.append(cstr!("firstSeenTimestamp"), DateTime::from_millis(entry.first_seen));
    metrics.append(cstr!("latestSeenTimestamp"), DateTime::from_millis(entry.last_seen));
    Ok(metrics)
}

fn figure(figure: Figure) -> Result<RawDocumentBuf> {
    let squares: Decimal128 = figure
        .sum_of_squares
        .to_string()
        .parse()
        .map_err(|_| CommandError::bad_value("a sum of squares has too many digits"))?;
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("sum"), long(figure.sum));
    document.append(cstr!("max"), long(figure.max));
    document.append(cstr!("min"), long(figure.min));
    document.append(cstr!("sumOfSquares"), squares);
    Ok(document)
}

fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
