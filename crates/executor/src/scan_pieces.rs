//! The pieces of a long collection scan that two threads share: who reads which, in order.
//!
//! A piece is a range of record ids. The scan's own thread reads the piece that comes next and hands its documents on at
//! once. The second thread reads pieces ahead of it and keeps what it has gathered until their turn comes, so that the
//! scan's order, and with it every result, is that of one thread.
//!
//! ```text
//!   own thread:     piece 0 ────── takes over piece 1 ── piece 3 ────── takes over 2?  no: 1, 2, 3, ... in order
//!   second thread:  piece 1 ────── piece 2 ──────────── piece 4 ──────
//!
//!   Piece: InWork ──▶ Ready ──▶ taken over
//!             └─────▶ GivenBack ──▶ read by the own thread, as if nobody had
//! ```
//!
//! What fails on the second thread is given back: the error is met again by the own thread, at its place. Called by
//! `shared_scan` (own thread) and `second_reader`. One lock, held for the time of a look.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use collection::RecordId;
use parking_lot::{Condvar, Mutex};
use query_language::filter::FilterNode;
use query_language::rows::{RowNames, RowReader};
use transaction::RecordCursor;

use crate::error::Result;

/// Pieces that are read ahead at most.
const AHEAD_MAX: usize = 6;
/// Batches that a piece may fill; a piece that has more is given back.
const BATCHES_MAX: usize = 8;
/// Documents between two looks at whether to stop.
const DOCUMENTS_PER_LOOK: u64 = 64;

/// What is wanted of the documents of a scan.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// How many they are.
    Number,
    /// Rows of these columns, so many in a batch at most.
    Rows(RowNames, usize),
}

/// What a piece came to.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) examined: u64,
    pub(crate) matched: u64,
    pub(crate) batches: VecDeque<RowReader>,
}

/// Record ids, the last of them excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// See the module's head.
#[derive(Debug)]
enum Progress {
    InWork,
    Ready(Gathered),
    GivenBack,
}

/// What the own thread is to do next.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It reads a piece, or all that is left.
    Read { from: i64, to: Option<i64> },
    /// It takes over what was gathered.
    TakeOver(Gathered),
    /// The piece is being read.
    Wait,
}

#[derive(Debug)]
struct State {
    /// Where nobody has begun yet.
    next: i64,
    /// Behind it there are no pieces: the own thread reads what is there.
    end: i64,
    ahead: VecDeque<(Span, Progress)>,
    /// Batches to be filled again.
    spare: Vec<RowReader>,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct ScanPieces {
    wanted: Wanted,
    /// Record ids of a piece.
    width: i64,
    state: Mutex<State>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl ScanPieces {
    /// Pieces from one record id to another.
    pub(crate) fn new(wanted: Wanted, width: i64, Span { from, to }: Span) -> ScanPieces {
        let state = State { next: from, end: to, ahead: VecDeque::new(), spare: Vec::new() };
        ScanPieces {
            wanted,
            width: width.max(1),
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Nobody reads ahead any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Whoever is about to wait holds the lock.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Whether the second thread is to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether there are pieces that nobody has begun.
    pub(crate) fn has_more(&self) -> bool {
        let state = self.state.lock();
        state.next < state.end
    }

    /// A piece to be read ahead, if there is one and not too much is ahead.
    pub(crate) fn claim_ahead(&self) -> Option<Span> {
        self.state.lock().claim_ahead(self.width)
    }

    /// The same, waiting until not too much is ahead; `None`: there will be no more, or it is over.
    pub(crate) fn wait_for_piece(&self, most: Duration) -> Option<Span> {
        let mut state = self.state.lock();
        while !self.is_over() && state.next < state.end {
            if let Some(span) = state.claim_ahead(self.width) {
                return Some(span);
            }
            if self.changed.wait_for(&mut state, most).timed_out() {
                break;
            }
        }
        None
    }

    /// A piece is ready, or given back.
    pub(crate) fn finish(&self, span: Span, gathered: Option<Gathered>) {
        let mut state = self.state.lock();
        if let Some((_, progress)) = state.ahead.iter_mut().find(|(known, _)| *known == span) {
            *progress = gathered.map_or(Progress::GivenBack, Progress::Ready);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// What the own thread is to do now that it has come to the end of a piece.
    pub(crate) fn take_turn(&self) -> Turn {
        let mut state = self.state.lock();
        let turn = match state.ahead.pop_front() {
            Some((_, Progress::Ready(gathered))) => Turn::TakeOver(gathered),
            Some((span, Progress::GivenBack)) => Turn::Read { from: span.from, to: Some(span.to) },
            Some((span, Progress::InWork)) => {
                state.ahead.push_front((span, Progress::InWork));
                return Turn::Wait;
            }
            None => match state.claim(self.width) {
                Some(Span { from, to }) => Turn::Read { from, to: Some(to) },
                None => Turn::Read { from: state.end, to: None },
            },
        };
        drop(state);
        self.changed.notify_all();
        turn
    }

    /// Waits for a piece that is being read, not for long.
    pub(crate) fn wait(&self, most: Duration) {
        let mut state = self.state.lock();
        if matches!(state.ahead.front(), Some((_, Progress::InWork))) {
            self.changed.wait_for(&mut state, most);
        }
    }

    /// Takes a batch back that was handed on.
    pub(crate) fn give_back(&self, batch: RowReader) {
        let mut state = self.state.lock();
        if state.spare.len() < AHEAD_MAX * 2 {
            state.spare.push(batch);
        }
    }

    fn empty_batch(&self) -> Option<RowReader> {
        let Wanted::Rows(names, rows_max) = &self.wanted else { return None };
        let spare = self.state.lock().spare.pop();
        let mut batch = spare.unwrap_or_else(|| RowReader::new(names.clone(), *rows_max));
        batch.clear();
        Some(batch)
    }

    /// Reads a piece. `None`: `stops` said so, or it is too large to be kept.
    ///
    /// # Errors
    /// As the cursor and the filter.
    pub(crate) fn gather(
        &self,
        cursor: &mut RecordCursor,
        filter: Option<&FilterNode>,
        span: Span,
        mut stops: impl FnMut() -> bool,
    ) -> Result<Option<Gathered>> {
        let mut gathered = Gathered::default();
        let mut batch = self.empty_batch();
        cursor.seek(RecordId(span.from))?;
        while let Some(record_id) = cursor.next()?
            && record_id.0 < span.to
        {
            gathered.examined += 1;
            if gathered.examined.is_multiple_of(DOCUMENTS_PER_LOOK) && stops() {
                return Ok(None);
            }
            if let Some(filter) = filter
                && !filter.matches(cursor.document()?)?
            {
                continue;
            }
            gathered.matched += 1;
            let Some(rows) = &mut batch else { continue };
            if rows.is_full() {
                let Some(empty) = self.empty_batch().filter(|_| gathered.batches.len() + 1 < BATCHES_MAX) else {
                    return Ok(None);
                };
                gathered.batches.push_back(std::mem::replace(rows, empty));
            }
            rows.take(cursor.document()?)?;
        }
        gathered.batches.extend(batch.filter(|batch| batch.batch().rows() > 0));
        Ok(Some(gathered))
    }
}

impl State {
    /// The next piece that nobody has begun.
    fn claim(&mut self, width: i64) -> Option<Span> {
        if self.next >= self.end {
            return None;
        }
        let span = Span { from: self.next, to: self.next.saturating_add(width).min(self.end) };
        self.next = span.to;
        Some(span)
    }

    fn claim_ahead(&mut self, width: i64) -> Option<Span> {
        if self.ahead.len() >= AHEAD_MAX {
            return None;
        }
        let span = self.claim(width)?;
        self.ahead.push_back((span, Progress::InWork));
        Some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(matched: u64) -> Option<Gathered> {
        Some(Gathered { matched, ..Gathered::default() })
    }

    #[test]
    fn pieces_are_handed_on_in_their_order_whoever_is_ready_first() {
        let pieces = ScanPieces::new(Wanted::Number, 10, Span { from: 0, to: 35 });
        assert!(matches!(pieces.take_turn(), Turn::Read { from: 0, to: Some(10) }));
        let (second, third) = (pieces.claim_ahead().unwrap(), pieces.claim_ahead().unwrap());
        assert_eq!((second, third), (Span { from: 10, to: 20 }, Span { from: 20, to: 30 }));
        pieces.finish(third, gathered(3));
        assert!(matches!(pieces.take_turn(), Turn::Wait));
        pieces.finish(second, None);
        assert!(matches!(pieces.take_turn(), Turn::Read { from: 10, to: Some(20) }), "it was given back");
        assert!(matches!(pieces.take_turn(), Turn::TakeOver(Gathered { matched: 3, .. })));
        assert!(matches!(pieces.take_turn(), Turn::Read { from: 30, to: Some(35) }));
        assert!(pieces.claim_ahead().is_none());
        assert!(matches!(pieces.take_turn(), Turn::Read { from: 35, to: None }), "what has come since is seen or not");
    }

    #[test]
    fn not_too_much_is_ahead() {
        let pieces = ScanPieces::new(Wanted::Number, 1, Span { from: 0, to: 1000 });
        assert_eq!(std::iter::from_fn(|| pieces.claim_ahead()).count(), AHEAD_MAX);
        assert!(pieces.wait_for_piece(Duration::ZERO).is_none());
        pieces.finish(Span { from: 0, to: 1 }, gathered(1));
        assert!(matches!(pieces.take_turn(), Turn::TakeOver(_)));
        assert!(pieces.wait_for_piece(Duration::ZERO).is_some());
        pieces.end();
        assert!(pieces.wait_for_piece(Duration::from_secs(1)).is_none());
    }
}
