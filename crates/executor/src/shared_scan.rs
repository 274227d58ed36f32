//! A collection scan that is shared with a second thread while a processor is spare: its own thread's part.
//!
//! Used by `collection_scan` for who takes all documents: counts, and rows for a pipeline. A scan is shared once it has
//! lasted, so that a short one pays for a comparison. What is gathered ahead is taken over in the order of the pieces
//! (`scan_pieces`), so results, and the place where an error is met, are those of one thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use collection::RecordId;
use platform::SpareProcessor;
use query_language::filter::FilterNode;
use query_language::rows::RowReader;
use transaction::RecordCursor;

use crate::error::Result;
use crate::scan_pieces::{Gathered, ScanPieces, Span, Turn, Wanted};
use crate::second_reader::SecondReader;
use crate::stage::Context;

/// Documents of a piece, about: a few tenths of a millisecond.
const PIECE_DOCUMENTS: u64 = 2048;
/// Documents that a scan has passed over before it is shared, and pieces that are left then at least.
const DOCUMENTS_BEFORE: u64 = 16_384;
const PIECES_LEFT_MIN: u64 = 8;
/// How long the own thread waits for a piece before it looks whether it is to stop.
const WAIT: Duration = Duration::from_millis(2);

/// When a long scan gets a second thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScanSharing {
    /// While a processor is spare.
    #[default]
    WhenSpare,
    /// Never.
    Never,
    /// At once and whoever is there, in pieces of so many documents: for tests.
    Always(u64),
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct SharedScan {
    spare: Option<SpareProcessor>,
    pieces: Option<Arc<ScanPieces>>,
    thread: Option<JoinHandle<()>>,
    /// Where the own thread's piece ends; `None`: it reads all that is left.
    ends_at: Option<i64>,
    /// Whether the own thread has ended its piece and not begun the next.
    is_between: bool,
    /// Rows that were taken over and not handed on yet.
    ready: VecDeque<RowReader>,
}

/// What came of a turn.
#[derive(Debug)]
pub(crate) enum Turned {
    /// The cursor is where the own thread goes on.
    Reads,
    /// So many documents were examined, and so many of them wanted; their rows are ready, if rows are.
    TookOver { examined: u64, matched: u64 },
    /// Nothing: a point to check for interruption.
    Waited,
}

impl SharedScan {
    /// Begins to share a scan that has examined so many documents and is on `current`, if that is worth it now.
    pub(crate) fn consider(
        &mut self,
        context: &Context<'_>,
        (examined, current): (u64, RecordId),
        filter: Option<&FilterNode>,
        wanted: impl FnOnce() -> Wanted,
    ) -> Result<()> {
        let (piece, before) = match context.sharing {
            ScanSharing::Never => return Ok(()),
            ScanSharing::WhenSpare => (PIECE_DOCUMENTS, DOCUMENTS_BEFORE),
            ScanSharing::Always(piece) => (piece.max(1), 0),
        };
        if examined < before || self.has_thread() || !context.view.is_shareable(context.collection) {
            return Ok(());
        }
        let now = context.store.clock().monotonic();
        let spare = self.spare.get_or_insert_with(|| SpareProcessor::new(context.store.foreground(), now));
        if context.sharing == ScanSharing::WhenSpare && !spare.is_there(now) {
            return Ok(());
        }
        if self.pieces.is_none() {
            let documents = context.collection.counts().documents().saturating_sub(examined);
            if documents / piece < PIECES_LEFT_MIN {
                return Ok(());
            }
            self.cut(context, current, documents / piece, wanted())?;
        }
        // Near its end, what is left belongs to who has begun it.
        let Some(pieces) = self.pieces.clone().filter(|pieces| pieces.has_more()) else { return Ok(()) };
        let reader = SecondReader {
            pieces,
            view: context.view.clone(),
            collection: context.collection.clone(),
            filter: filter.cloned(),
            memory: context.memory.clone(),
            foreground: context.store.foreground().clone(),
            insists: context.sharing != ScanSharing::WhenSpare,
        };
        self.thread = reader.begin();
        Ok(())
    }

    /// Cuts what is behind a record into so many pieces, of as many record ids each.
    fn cut(&mut self, context: &Context<'_>, current: RecordId, pieces: u64, wanted: Wanted) -> Result<()> {
        let mut cursor = context.view.record_cursor(context.collection);
        cursor.seek_last()?;
        let Some(last) = cursor.previous()? else { return Ok(()) };
        let (from, to) = (current.0.saturating_add(1), last.0.saturating_add(1));
        let width = to.saturating_sub(from) / i64::try_from(pieces).unwrap_or(i64::MAX).max(1);
        if width == 0 {
            return Ok(());
        }
        let own_end = from.saturating_add(width).min(to);
        self.ends_at = Some(own_end);
        self.pieces = Some(Arc::new(ScanPieces::new(wanted, width, Span { from: own_end, to })));
        Ok(())
    }

    fn has_thread(&mut self) -> bool {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.thread = None;
        }
        self.thread.is_some()
    }

    /// Whether the own thread is in no piece.
    #[inline]
    pub(crate) fn is_between(&self) -> bool {
        self.is_between
    }

    /// Whether a record is behind the piece that the own thread reads.
    #[inline]
    pub(crate) fn is_behind(&self, record_id: Option<RecordId>) -> bool {
        match (self.ends_at, record_id) {
            (Some(end), Some(record_id)) => record_id.0 >= end,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// What the own thread does at the end of its piece.
    pub(crate) fn turn(&mut self, cursor: &mut RecordCursor, filter: Option<&FilterNode>) -> Result<Turned> {
        let Some(pieces) = self.pieces.clone() else { return Ok(Turned::Reads) };
        self.is_between = true;
        match pieces.take_turn() {
            Turn::Read { from, to } => {
                cursor.seek(RecordId(from))?;
                (self.ends_at, self.is_between) = (to, false);
                Ok(Turned::Reads)
            }
            Turn::TakeOver(Gathered { examined, matched, batches }) => {
                self.ready.extend(batches);
                Ok(Turned::TookOver { examined, matched })
            }
            Turn::Wait => {
                // It reads ahead itself; what fails is met again in its turn.
                match pieces.claim_ahead() {
                    Some(span) => {
                        let gathered = pieces.gather(cursor, filter, span, || false);
                        pieces.finish(span, gathered.ok().flatten());
                    }
                    None => pieces.wait(WAIT),
                }
                Ok(Turned::Waited)
            }
        }
    }

    /// Whether rows are ready to be handed on.
    pub(crate) fn has_rows(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Puts rows that are ready in the place of an empty batch.
    pub(crate) fn hand_on(&mut self, rows: &mut RowReader) {
        let Some(ready) = self.ready.pop_front() else { return };
        let empty = std::mem::replace(rows, ready);
        if let Some(pieces) = &self.pieces {
            pieces.give_back(empty);
        }
    }

    /// Whether the scan is shared.
    pub(crate) fn is_shared(&self) -> bool {
        self.pieces.is_some()
    }
}

impl Drop for SharedScan {
    fn drop(&mut self) {
        if let Some(pieces) = &self.pieces {
            pieces.end();
        }
        // It reads through a view that nobody else may need any more.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
