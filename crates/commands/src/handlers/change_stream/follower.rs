//! Following the oplog for one stream: from where it begins, entry by entry, event by event.

use std::collections::VecDeque;
use std::sync::Arc;

use aggregation::{AggregationError, DocumentSource};
use bson::RawDocumentBuf;
use oplog::{Oplog, OplogError, OplogPosition};
use parking_lot::Mutex;
use storage_engine::Timestamp;
use transaction::{FeedEntry, Followed, OplogFollower, Store, TransactionError};

use super::events::{EntryEvents, Event, EventSources, PendingEvent, SharedEvent};
use super::options::{Beginning, ChangeStreamOptions};
use super::token::ResumeToken;
use super::{Concern, concern};
use crate::handlers::tail::Tail;
use crate::request::error::{CommandError, Result};

/// Where a stream is, for its cursor.
#[derive(Default)]
pub(super) struct Progress {
    token: Mutex<ResumeToken>,
    is_over: Mutex<bool>,
    fragments_to_skip: Mutex<u32>,
}

impl Progress {
    /// Where to go on.
    pub(super) fn token(&self) -> ResumeToken {
        *self.token.lock()
    }

    /// Whether nothing comes any more, because of an invalidate event.
    pub(super) fn is_over(&self) -> bool {
        *self.is_over.lock()
    }

    /// How many fragments of the next event have been seen in an earlier life.
    pub(super) fn take_fragments_to_skip(&self) -> u32 {
        std::mem::take(&mut self.fragments_to_skip.lock())
    }
}

/// The events of a stream.
pub(super) struct ChangeSource {
    sources: EventSources,
    options: Arc<ChangeStreamOptions>,
    follower: OplogFollower,
    /// Of the current entry.
    pending: VecDeque<PendingEvent>,
    /// Of the next entry, how many were seen in an earlier life.
    to_skip: u32,
    progress: Arc<Progress>,
}

impl ChangeSource {
    pub(super) fn open(
        sources: EventSources,
        options: ChangeStreamOptions,
        tail: &Tail,
        progress: Arc<Progress>,
    ) -> Result<ChangeSource> {
        let store = &sources.services.store;
        let token = beginning(store, options.beginning)?;
        let follower = match tail.subscription() {
            Some(subscription) => store.follow_topic(token.position, subscription),
            None => store.follow_oplog(token.position),
        };
        let follower = follower.map_err(history_lost)?;
        *progress.token.lock() = token;
        *progress.fragments_to_skip.lock() = token.fragments;
        let options = Arc::new(options);
        Ok(ChangeSource { sources, options, follower, pending: VecDeque::new(), to_skip: token.events, progress })
    }

    /// The next event; `None` when there is none yet.
    pub(super) fn next_event(&mut self) -> Result<Option<Event>> {
        if self.progress.is_over() {
            return Ok(None);
        }
        loop {
            if let Some(event) = self.pending.pop_front() {
                let document = event.build_own(&self.sources, &self.options)?;
                if event.token.is_invalidate {
                    *self.progress.is_over.lock() = true;
                }
                *self.progress.token.lock() = event.token;
                return Ok(Some(Event::Own(document)));
            }
            match self.follower.advance().map_err(history_lost)? {
                Followed::Entry(entry) => {
                    if let Some(event) = self.take(entry)? {
                        return Ok(Some(event));
                    }
                }
                Followed::UpTo(timestamp) => {
                    self.note_place(timestamp);
                    return Ok(None);
                }
            }
        }
    }

    /// Begins with an entry: its only event, if that is one that all streams share, or else what is to be built is put into `pending`.
    fn take(&mut self, entry: Arc<FeedEntry>) -> Result<Option<Event>> {
        let to_skip = std::mem::take(&mut self.to_skip);
        let concern = concern(&self.options.scope, &entry);
        if concern == Concern::None {
            self.note_place(entry.timestamp);
            return Ok(None);
        }
        if concern == Concern::Document
            && to_skip == 0
            && self.options.are_plain()
            && let Some(event) = SharedEvent::of(&self.sources, &self.options, &entry)
        {
            *self.progress.token.lock() = ResumeToken::behind_document(&entry);
            return Ok(Some(Event::Shared(event)));
        }
        self.pending = EntryEvents::new(&self.sources, &self.options, entry).collect()?;
        self.pending.drain(..(to_skip as usize).min(self.pending.len()));
        Ok(None)
    }

    /// Everything up to the follower's place has been looked at.
    fn note_place(&self, timestamp: Timestamp) {
        let mut token = self.progress.token.lock();
        // Nothing has come since the last event: its token is the place.
        let is_at_event = token.events > 0 && timestamp <= token.timestamp;
        if is_at_event {
            return;
        }
        if token.fragments == 0 || token.position < self.follower.position() {
            let timestamp = timestamp.max(token.timestamp);
            *token = ResumeToken { timestamp, position: self.follower.position(), ..ResumeToken::default() };
        }
    }
}

impl DocumentSource for ChangeSource {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        match self.next_event() {
            Ok(event) => Ok(event.map(Event::into_document)),
            Err(error) => Err(AggregationError::Host(Box::new(error))),
        }
    }
}

/// The first place to look at.
fn beginning(store: &Store, beginning: Beginning) -> Result<ResumeToken> {
    match beginning {
        Beginning::Now => {
            let (timestamp, position) = store.confirmed_end();
            Ok(ResumeToken { timestamp, position, ..ResumeToken::default() })
        }
        Beginning::After(token) => {
            check_token(store, token)?;
            Ok(token)
        }
        Beginning::At(timestamp) => {
            let segments = store.oplog().segments()?;
            let is_lost = segments
                .first()
                .is_none_or(|first| first.start > OplogPosition::default() && timestamp <= first.previous_timestamp);
            if is_lost {
                return Err(lost("the start time is no longer in the oplog"));
            }
            let position = store.oplog().position_at(timestamp)?;
            Ok(ResumeToken { timestamp, position, ..ResumeToken::default() })
        }
    }
}

/// A token must be of this oplog: an event's entry is where the token says.
fn check_token(store: &Store, token: ResumeToken) -> Result<()> {
    if token.position < store.oplog().first_position() {
        return Err(lost("the resume point may no longer be in the oplog"));
    }
    let foreign =
        || CommandError::named("ChangeStreamFatalError", "cannot resume stream; the resume token was not found.");
    if token.position > store.oplog().end_position() {
        return Err(foreign());
    }
    if token.events == 0 && token.fragments == 0 {
        return Ok(());
    }
    let mut reader = store.oplog().read_from(token.position)?;
    match reader.next_entry() {
        Ok(Some(entry)) if entry.timestamp == token.timestamp => Ok(()),
        Err(OplogError::PositionTruncated { .. }) => Err(lost("the resume point is no longer in the oplog")),
        _ => Err(foreign()),
    }
}

fn history_lost(error: TransactionError) -> CommandError {
    match error {
        TransactionError::Oplog(OplogError::PositionTruncated { .. }) => {
            lost("the resume point is no longer in the oplog")
        }
        TransactionError::Oplog(OplogError::InvalidPosition { .. }) => {
            CommandError::named("ChangeStreamFatalError", "cannot resume stream; the resume token was not found.")
        }
        error => error.into(),
    }
}

fn lost(why: &str) -> CommandError {
    CommandError::named("ChangeStreamHistoryLost", format!("Resume of change stream was not possible, as {why}."))
}
