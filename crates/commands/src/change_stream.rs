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

use aggregation::{Pipeline, PipelineContext, PipelineCursor};
use bson::{RawDocument, RawDocumentBuf, Uuid};
use collection::entry_subject;
use document::elements;
use planner::DiskUse;
use transaction::{FeedEntry, Topic};

use crate::DocumentWriter;
use crate::client_cursors::{BatchLimit, ClientCursor, CursorSource, FIRST_BATCH_DOCUMENTS, write_first_batch};
use crate::context::{Context, count};
use crate::crud::aggregate::AggregateArguments;
use crate::crud::pipeline_host::CommandHost;
use crate::crud::query_arguments::{query, variables};
use crate::error::{CommandError, Result};
use crate::operations::Operation;
use crate::tail::{Tail, Tailing};
use events::plain_event;
use follower::{ChangeSource, Progress};
use options::{ChangeStreamOptions, Scope};

const STAGE: &str = "$changeStream";
const SPLIT_STAGE: &str = "$changeStreamSplitLargeEvent";

/// Stages that may follow.
const STAGES_ALLOWED: &[&str] =
    &["$addFields", "$match", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$unset"];

/// In a filter: its result is another one for each stream.
const UNSHARED: &[&[u8]] = &[b"$expr", b"$where", b"$sampleRate"];

/// Whether a pipeline is a change stream.
pub(crate) fn is_wanted(stages: &[&RawDocument]) -> bool {
    first_name(stages.first().copied()).is_some_and(|name| name == STAGE)
}

fn first_name(stage: Option<&RawDocument>) -> Option<&str> {
    Some(elements(stage?).next()?.name())
}

/// Opens a change stream.
pub(crate) fn open(
    context: &mut Context<'_>,
    parsed: &AggregateArguments<'_>,
    session: Option<Uuid>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let server = context.server;
    count(&server.counts.query, 1);
    let (stage, rest) = parsed.stages.split_first().ok_or_else(|| CommandError::bad_value("an empty pipeline"))?;
    let options = ChangeStreamOptions::parse(stage, &parsed.namespace)?;
    let (rest, splits) = check_rest(rest)?;
    let topic = topic_of(context, &options, rest, parsed);
    // Before the place is looked up, so that nothing that comes after it is missed.
    let tail = Tail::new(&server.store, topic, Tailing::Awaiting);
    let progress = Arc::new(Progress::default());
    let source = ChangeSource::open(context, options, &tail, progress.clone())?;
    let namespace = aggregation::Namespace::new(parsed.namespace.database(), parsed.namespace.collection());
    let pipeline = Pipeline::parse(rest, &PipelineContext::new(namespace, variables(context, parsed.declared)?))?;
    let host = Arc::new(CommandHost::new(context, parsed.namespace.database(), DiskUse::Allowed));
    let has_stages = !rest.is_empty();
    let mut results = pipeline.run(Box::new(source), host)?;
    results.tail();
    if splits == Splitting::Yes {
        results.pass_large_documents();
    }
    let stream = ChangeStream {
        results,
        tail,
        progress,
        before_last: None,
        last: None,
        splits,
        has_stages,
        fragments: Vec::new(),
    };
    let cursor = ClientCursor::new(parsed.namespace.as_str().to_owned(), Box::new(stream)).with_session(session);
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    let returned = write_first_batch(&server.cursors, cursor, limit, false, &context.operation, reply)?;
    count(&server.counts.documents_returned, returned);
    Ok(())
}

/// What a stream is about. A `$match` that comes first is part of it, so that streams with the same one share its work, and none is woken in vain.
fn topic_of(
    context: &Context<'_>,
    options: &ChangeStreamOptions,
    rest: &[&RawDocument],
    parsed: &AggregateArguments<'_>,
) -> Topic {
    let scope = options.scope.clone();
    let filter = rest.first().and_then(|stage| document::get_field(stage, "$match"));
    let filter = filter.and_then(|filter| filter.as_document()).filter(|filter| {
        let is_same_for_all =
            |filter: &[u8]| !UNSHARED.iter().any(|word| filter.windows(word.len()).any(|found| found == *word));
        options.are_plain() && parsed.declared.is_none() && is_same_for_all(filter.as_bytes())
    });
    // What is wrong with a filter is said when the pipeline is parsed.
    let shared =
        filter.and_then(|filter| Some((filter, query(Some(filter), &variables(context, None).ok()?).ok()?.filter)));
    let Some((source, filter)) = shared else {
        let name = format!("changes of {scope:?}");
        return Topic { name, interest: Box::new(move |entry| concerns(&scope, entry)), delivers: true };
    };
    let name = format!("changes of {scope:?} that match {:x?}", source.as_bytes());
    let (server, options) = (context.server.clone(), options.clone());
    let interest = move |entry: &Arc<FeedEntry>| {
        let may_match = |event: &RawDocumentBuf| filter.matches(event).unwrap_or(true);
        concerns(&scope, entry) && plain_event(&server, &options, entry).is_none_or(may_match)
    };
    Topic { name, interest: Box::new(interest), delivers: true }
}

/// Whether a stream of this scope wants to look at an entry.
fn concerns(scope: &Scope, entry: &FeedEntry) -> bool {
    match entry_subject(&entry.payload) {
        Some((b'i' | b'u' | b'd', namespace)) => scope.has(namespace),
        Some((b'n', _)) => false,
        _ => true,
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
        if !STAGES_ALLOWED.contains(&name) {
            let message = format!("{name} is not permitted in a $changeStream pipeline");
            return Err(CommandError::named("IllegalOperation", message));
        }
    }
    Ok((rest, splits))
}

/// An open change stream.
struct ChangeStream {
    results: PipelineCursor,
    tail: Tail,
    progress: Arc<Progress>,
    before_last: Option<RawDocumentBuf>,
    last: Option<RawDocumentBuf>,
    splits: Splitting,
    /// Whether there are stages that may have changed the token of an event.
    has_stages: bool,
    /// What is still to come of a split event, last first.
    fragments: Vec<RawDocumentBuf>,
}

impl ChangeStream {
    fn next_event(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(fragment) = self.fragments.pop() {
            return Ok(Some(fragment));
        }
        loop {
            let Some(event) = self.results.next_document()? else { return Ok(None) };
            if self.has_stages && document::get_element(&event, "_id").is_none_or(|id| !token::is_token(id.value())) {
                let message = "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. \
                               Modifying the _id field of an event makes it impossible to resume the stream from that point.";
                return Err(CommandError::named("ChangeStreamFatalError", message));
            }
            if self.splits == Splitting::No {
                return Ok(Some(event));
            }
            self.fragments = split::fragments(event, self.progress.take_fragments_to_skip());
            if let Some(first) = self.fragments.pop() {
                return Ok(Some(first));
            }
        }
    }
}

impl CursorSource for ChangeStream {
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        operation.check_interrupt()?;
        self.before_last = Some(self.token());
        self.last = self.next_event()?;
        Ok(self.last.as_deref())
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

    fn wait(&mut self, longest: std::time::Duration) {
        self.tail.wait(longest);
    }

    fn resume_token(&self, is_before_last: bool) -> Option<RawDocumentBuf> {
        match (&self.before_last, is_before_last) {
            (Some(token), true) => Some(token.clone()),
            _ => Some(self.token()),
        }
    }
}

impl ChangeStream {
    /// Behind what was yielded last: in the midst of a split event that of its fragment.
    fn token(&self) -> RawDocumentBuf {
        let of_fragment = self.last.as_ref().filter(|_| !self.fragments.is_empty());
        let of_fragment = of_fragment.and_then(|last| match document::get_field(last, "_id") {
            Some(bson::RawBsonRef::Document(token)) => Some(token.to_owned()),
            _ => None,
        });
        of_fragment.unwrap_or_else(|| self.progress.token())
    }
}
