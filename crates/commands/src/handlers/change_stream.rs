//! Change streams: `$changeStream` as the first stage of `aggregate`.
//!
//! Called by `aggregate`. A stream follows the oplog from a position on (`follower`), turns the entries that concern it into events (`events`), and
//! runs the rest of the pipeline over them. Its cursor stays open and waits like any tailable one. Where it is, is told with each batch and each
//! event as a resume token (`token`).

mod events;
mod follower;
mod options;
mod split;
mod token;

use std::sync::Arc;
use std::time::Duration;

use aggregation::{Pipeline, PipelineContext, PipelineCursor, check_document_size};
use bson::{RawDocument, RawDocumentBuf, Uuid};
use collection::entry_subject;
use document::elements;
use planner::DiskUse;
use transaction::{FeedEntry, Topic};

use crate::DocumentWriter;
use crate::handlers::crud::aggregate::AggregateArguments;
use crate::handlers::crud::pipeline_host::{CommandHost, PipelineOpening};
use crate::handlers::crud::query_arguments::{query, variables};
use crate::handlers::tail::{Tail, Tailing};
use crate::handlers::views;
use crate::request::error::{CommandError, Result};
use crate::state::client_cursors::{
    BatchLimit, ClientCursor, CursorSource, CursorWork, FIRST_BATCH_DOCUMENTS, write_first_batch,
};
use crate::state::operations::Operation;
use crate::state::reading::Reading;
use events::{Event, EventSources, SharedEvent};
use follower::{ChangeSource, Progress};
use options::{ChangeStreamOptions, Scope};
use token::ResumeToken;

const STAGE: &str = "$changeStream";
const SPLIT_STAGE: &str = "$changeStreamSplitLargeEvent";

/// Stages that may follow.
const STAGES_ALLOWED: &[&str] =
    &["$addFields", "$match", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$unset"];

/// In a filter: its result is another one for each stream.
const UNSHARED: &[&[u8]] = &[b"$expr", b"$where", b"$sampleRate"];

/// Processor time to send an event that is there already, beside its bytes (`docs/benchmarks.md`).
const EVENT_COPIED: Duration = Duration::from_nanos(300);
/// ... that is built, or runs through stages.
const EVENT_COMPUTED: Duration = Duration::from_nanos(1_500);
/// ... for which the document is looked up.
const EVENT_LOOKED_UP: Duration = Duration::from_micros(10);

/// Whether a pipeline is a change stream.
pub(crate) fn is_wanted(stages: &[&RawDocument]) -> bool {
    first_name(stages.first().copied()).is_some_and(|name| name == STAGE)
}

fn first_name(stage: Option<&RawDocument>) -> Option<&str> {
    Some(elements(stage?).next()?.name())
}

/// Opens a change stream.
pub(crate) fn open(
    opening: PipelineOpening<'_>,
    cursors: &CursorWork<'_>,
    parsed: &AggregateArguments<'_>,
    session: Option<Uuid>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let reading = opening.reading;
    let (stage, rest) = parsed.stages.split_first().ok_or_else(|| CommandError::bad_value("an empty pipeline"))?;
    let options = ChangeStreamOptions::parse(stage, &parsed.namespace)?;
    let (rest, splits) = check_rest(rest)?;
    let topic = topic_of(reading, &options, rest, parsed);
    // Before the place is looked up, so that nothing that comes after it is missed.
    let tail = Tail::new(reading.queries.store, topic, Tailing::Awaiting);
    let progress = Arc::new(Progress::default());
    let source = ChangeSource::open(sources_of(reading), options, &tail, progress.clone())?;
    let namespace = aggregation::Namespace::new(parsed.namespace.database(), parsed.namespace.collection());
    let pipeline = Pipeline::parse(rest, &PipelineContext::new(namespace, variables(reading, parsed.declared)?))?;
    let host = Arc::new(CommandHost::new(opening, parsed.namespace.database(), DiskUse::Allowed));
    let results = match rest {
        [] => Results::Events(Box::new(source)),
        _ => {
            let mut results = pipeline.run(Box::new(source), host)?;
            results.tail();
            if splits == Splitting::Yes {
                results.pass_large_documents();
            }
            Results::Piped(Box::new(results))
        }
    };
    let stream = ChangeStream { results, tail, progress, before_last: None, last: None, splits, fragments: Vec::new() };
    let cursor = ClientCursor::new(parsed.namespace.as_str().to_owned(), Box::new(stream)).with_session(session);
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(cursors, cursor, limit, false, reply)
}

/// What a stream is about. A `$match` that comes first is part of it, so that streams with the same one share its work, and none is woken in vain.
fn topic_of(
    reading: Reading<'_>,
    options: &ChangeStreamOptions,
    rest: &[&RawDocument],
    parsed: &AggregateArguments<'_>,
) -> Topic {
    let (scope, cost) = (options.scope.clone(), event_cost(options, rest));
    let filter = rest.first().and_then(|stage| document::get_field(stage, "$match"));
    let filter = filter.and_then(|filter| filter.as_document()).filter(|filter| {
        let is_same_for_all =
            |filter: &[u8]| !UNSHARED.iter().any(|word| filter.windows(word.len()).any(|found| found == *word));
        // The thread that asks for all of them has no collation in force.
        let is_usual = options.are_plain() && parsed.declared.is_none() && !document::collation::is_in_force();
        is_usual && is_same_for_all(filter.as_bytes())
    });
    // What is wrong with a filter is said when the pipeline is parsed.
    let shared =
        filter.and_then(|filter| Some((filter, query(Some(filter), &variables(reading, None).ok()?).ok()?.filter)));
    let Some((source, filter)) = shared else {
        let name = format!("changes of {scope:?}");
        let interest = Box::new(move |entry: &Arc<FeedEntry>| concern(&scope, entry) != Concern::None);
        return Topic { name, interest, delivers: true, cost };
    };
    let name = format!("changes of {scope:?} that match {:x?}", source.as_bytes());
    let (sources, options) = (sources_of(reading), options.clone());
    let interest = move |entry: &Arc<FeedEntry>| match concern(&scope, entry) {
        Concern::None => false,
        Concern::Definition => true,
        Concern::Document => SharedEvent::of(&sources, &options, entry)
            .is_none_or(|event| filter.matches(event.document()).unwrap_or(true)),
    };
    Topic { name, interest: Box::new(interest), delivers: true, cost }
}

/// What the events of a stream are made from.
fn sources_of(reading: Reading<'_>) -> EventSources {
    EventSources::new(reading.queries, reading.clock.clone())
}

/// Processor time that an event of a stream takes, roughly.
fn event_cost(options: &ChangeStreamOptions, rest: &[&RawDocument]) -> Duration {
    match (options.looks_up(), options.are_plain() && rest.is_empty()) {
        (true, _) => EVENT_LOOKED_UP,
        (false, true) => EVENT_COPIED,
        (false, false) => EVENT_COMPUTED,
    }
}

/// What an entry is to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concern {
    None,
    /// One event, about a document.
    Document,
    /// Definitions or a transaction: what comes of it must be looked up.
    Definition,
}

/// What an entry is to a stream of this scope.
fn concern(scope: &Scope, entry: &FeedEntry) -> Concern {
    match entry_subject(&entry.payload) {
        Some((b'i' | b'u' | b'd', namespace)) if scope.has(namespace) => Concern::Document,
        Some((b'i', namespace)) if views::is_definition(namespace) => Concern::Definition,
        Some((b'i' | b'u' | b'd' | b'n', _)) => Concern::None,
        _ => Concern::Definition,
    }
}

/// Whether large events are to be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Splitting {
    No,
    Yes,
}

/// Refuses what may not follow `$changeStream`; takes off the stage that splits large events.
fn check_rest<'a>(rest: &'a [&'a RawDocument]) -> Result<(&'a [&'a RawDocument], Splitting)> {
    let (rest, splits) = match rest.split_last() {
        Some((last, before)) if first_name(Some(last)) == Some(SPLIT_STAGE) => (before, Splitting::Yes),
        _ => (rest, Splitting::No),
    };
    for stage in rest {
        let name = first_name(Some(stage)).unwrap_or_default();
        if name == SPLIT_STAGE {
            let message = format!("{SPLIT_STAGE} must be the last stage in the pipeline");
            return Err(CommandError::numbered(7182802, message));
        }
        if name == STAGE {
            return Err(CommandError::numbered(
                40602,
                format!("{STAGE} is only valid as the first stage in a pipeline."),
            ));
        }
        if aggregation::registry::find(name).is_none() {
            return Err(CommandError::numbered(40324, format!("Unrecognized pipeline stage name: '{name}'")));
        }
        if !STAGES_ALLOWED.contains(&name) {
            let message = format!("{name} is not permitted in a $changeStream pipeline");
            return Err(CommandError::named("IllegalOperation", message));
        }
    }
    Ok((rest, splits))
}

/// Where a stream's events come from.
enum Results {
    /// As they are.
    Events(Box<ChangeSource>),
    /// Through the stages behind `$changeStream`, which may have changed the token of an event.
    Piped(Box<PipelineCursor>),
}

/// A place in a stream.
enum Place {
    Behind(ResumeToken),
    /// The token of a fragment of a split event.
    Fragment(RawDocumentBuf),
}

/// An open change stream.
struct ChangeStream {
    results: Results,
    tail: Tail,
    progress: Arc<Progress>,
    before_last: Option<Place>,
    last: Option<Event>,
    splits: Splitting,
    /// What is still to come of a split event, last first.
    fragments: Vec<RawDocumentBuf>,
}

impl Results {
    fn next_event(&mut self) -> Result<Option<Event>> {
        match self {
            Results::Events(source) => source.next_event(),
            Results::Piped(results) => {
                let Some(event) = results.next_document()? else { return Ok(None) };
                if document::get_element(&event, "_id").is_none_or(|id| !token::is_token(id.value())) {
                    let message = "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. \
                                   Modifying the _id field of an event makes it impossible to resume the stream from that point.";
                    return Err(CommandError::named("ChangeStreamFatalError", message));
                }
                Ok(Some(Event::Own(event)))
            }
        }
    }
}

impl ChangeStream {
    fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(fragment) = self.fragments.pop() {
                return Ok(Some(Event::Own(fragment)));
            }
            let Some(event) = self.results.next_event()? else { return Ok(None) };
            if self.splits == Splitting::No {
                check_document_size(event.document())?;
                return Ok(Some(event));
            }
            self.fragments = split::fragments(event.into_document(), self.progress.take_fragments_to_skip());
        }
    }

    /// Behind what was yielded last: in the midst of a split event that of its fragment.
    fn place(&self) -> Place {
        let of_fragment = self.last.as_ref().filter(|_| !self.fragments.is_empty());
        let of_fragment = of_fragment.and_then(|last| match document::get_field(last.document(), "_id") {
            Some(bson::RawBsonRef::Document(token)) => Some(Place::Fragment(token.to_owned())),
            _ => None,
        });
        of_fragment.unwrap_or_else(|| Place::Behind(self.progress.token()))
    }
}

impl Place {
    fn token(&self) -> RawDocumentBuf {
        match self {
            Place::Behind(token) => token.document(),
            Place::Fragment(token) => token.clone(),
        }
    }
}

impl CursorSource for ChangeStream {
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        operation.check_interrupt()?;
        self.before_last = Some(self.place());
        self.last = self.next_event()?;
        Ok(self.last.as_ref().map(Event::document))
    }

    fn is_tailing(&self) -> bool {
        !self.is_exhausted()
    }

    fn is_exhausted(&self) -> bool {
        self.progress.is_over() && self.fragments.is_empty()
    }

    fn awaits(&self) -> bool {
        self.tail.awaits()
    }

    fn wait(&mut self, longest: Duration) {
        self.tail.wait(longest);
    }

    fn resume_token(&self, is_before_last: bool) -> Option<RawDocumentBuf> {
        match (&self.before_last, is_before_last) {
            (Some(place), true) => Some(place.token()),
            _ => Some(self.place().token()),
        }
    }
}
