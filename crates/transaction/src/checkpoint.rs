//! Checkpoints: when one is due, and how counts and the oplog go with it.
//!
//! Called in a loop by the background thread, by the simulator and at shutdown; `fsync` asks the background thread for one, as clients' threads write no
//! pages (invariant I3). The checkpoint's mark is the oldest commit that is not applied; the counts stored with it are those of exactly the commits before the
//! mark, and replay adds what it replays. The definition lock is held while a checkpoint is frozen (microseconds), so it has no half of a change of definitions.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use collection::CollectionError;
use oplog::{Oplog, OplogPosition};
use parking_lot::Mutex;
use platform::part_of;
use storage_engine::{CheckpointInProgress, LOOK_PAUSE};

use crate::error::{Result, TransactionError};
use crate::store::Store;

/// Time from the beginning of one checkpoint to that of the next that somebody asks for. Each holds up all commits for a moment, and writes anew the
/// pages that change all the time.
const REQUESTED_APART: Duration = part_of(QUIET, 2);

/// Nobody has logged anything for so long: a moment that may last.
const QUIET: Duration = Duration::from_millis(500);

/// Whether a checkpoint waits until it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Only if enough was logged or enough time has passed.
    IfDue,
    /// In any case.
    Now,
}

/// How far one step has brought a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointProgress {
    /// None was due.
    NotDue,
    /// There is more to do.
    Going,
    /// It is published.
    Published,
}

/// Whether there are pauses between the pieces of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Spread,
    AtOnce,
}

/// The last checkpoint. The lock `last` is held while one is made.
pub(crate) struct CheckpointState {
    last: Mutex<LastCheckpoint>,
    /// Checkpoints begun: counted before anything is read for them, so that whoever asks waits for a higher number.
    begun: AtomicU64,
    /// How many make a checkpoint that is to take no longer than it must.
    hurried: AtomicUsize,
    /// Those who wait for the background thread; `None`: there is no such thread.
    requests: Mutex<Option<Vec<Request>>>,
}

/// Somebody waits for a checkpoint.
struct Request {
    /// For one that began after so many had begun.
    after: u64,
    done: SyncSender<Result<()>>,
}

/// While it lives, checkpoints do not take their time.
struct Hurry<'a>(&'a AtomicUsize);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct LastCheckpoint {
    position: OplogPosition,
    /// When it began, and as which.
    at: Duration,
    number: u64,
    /// From where recovery from it needs the oplog, if it was made in this life.
    oplog_from: Option<OplogPosition>,
    /// One that is being made, or that the full disk interrupted, and when it began.
    in_progress: Option<Beginning>,
    quiet: Quiet,
}

/// How long nothing has been logged.
struct Quiet {
    end: OplogPosition,
    since: Duration,
}

impl Quiet {
    /// The oplog ends here now: whether it has for a while.
    fn look(&mut self, end: OplogPosition, now: Duration) -> bool {
        if end != self.end {
            *self = Quiet { end, since: now };
        }
        now.saturating_sub(self.since) >= QUIET
    }
}

/// A checkpoint that has begun.
struct Beginning {
    checkpoint: CheckpointInProgress,
    at: Duration,
    number: u64,
    /// From where recovery from it needs the oplog: parts of transactions may be before its mark.
    oplog_from: OplogPosition,
}

impl CheckpointState {
    /// Does something while no checkpoint is being made.
    pub(crate) fn between_checkpoints(&self, act: impl FnOnce()) {
        let _last = self.last.lock();
        act();
    }

    pub(crate) fn new(position: OplogPosition, now: Duration) -> CheckpointState {
        let quiet = Quiet { end: position, since: now };
        let last = LastCheckpoint { position, at: now, number: 0, oplog_from: None, in_progress: None, quiet };
        CheckpointState {
            last: Mutex::new(last),
            begun: AtomicU64::new(0),
            hurried: AtomicUsize::new(0),
            requests: Mutex::new(None),
        }
    }

    fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(&self.hurried)
    }

    /// Whether requests are answered by a thread that calls `answer_checkpoint_requests`. Who waits when it ends makes the checkpoint itself.
    pub(crate) fn set_answered(&self, is_answered: bool) {
        *self.requests.lock() = is_answered.then(Vec::new);
    }

    fn is_asked_for(&self) -> bool {
        self.requests.lock().as_ref().is_some_and(|requests| !requests.is_empty())
    }

    /// The lowest number that somebody waits to see exceeded.
    pub(crate) fn asked_after(&self) -> Option<u64> {
        self.requests.lock().as_ref()?.iter().map(|request| request.after).min()
    }

    /// Answers those who wait for no more than checkpoint `number`.
    fn answer(&self, number: u64) {
        let mut requests = self.requests.lock();
        let Some(requests) = requests.as_mut() else { return };
        for request in requests.extract_if(.., |request| request.after < number) {
            // Whoever does not wait any more needs no answer.
            let _ = request.done.send(Ok(()));
        }
    }

    /// One of those who wait is told; the others see what becomes of the next attempt.
    fn answer_failed(&self, error: TransactionError) {
        let request = self.requests.lock().as_mut().and_then(Vec::pop);
        if let Some(request) = request {
            let _ = request.done.send(Err(error));
        }
    }
}

impl Store {
    /// Makes a checkpoint if one is due, and gives up the oplog that it makes superfluous. `false`: none was due.
    ///
    /// # Errors
    /// `Engine`, `Oplog`, `Stopped`. The last checkpoint stays good.
    pub fn checkpoint_step(&self, urgency: Urgency) -> Result<bool> {
        let _hurry = (urgency == Urgency::Now).then(|| self.checkpoints.hurry());
        let mut last = self.checkpoints.last.lock();
        loop {
            match self.advance(&mut last, urgency, Pace::Spread)? {
                CheckpointProgress::NotDue => return Ok(false),
                CheckpointProgress::Going => {}
                CheckpointProgress::Published => return Ok(true),
            }
        }
    }

    /// The checkpoint of an orderly end: it has everything. One that was under way has not, and is finished first.
    pub(crate) fn last_checkpoint(&self) -> Result<()> {
        let _hurry = self.checkpoints.hurry();
        self.checkpoint_after(self.checkpoints.begun.load(Ordering::Acquire))
    }

    /// A checkpoint because somebody asks for one: what is done now is in it. Those who wait at the same time share it. The background thread makes it
    /// where there is one, and takes some time for it while others write.
    ///
    /// # Errors
    /// As `checkpoint_step`.
    pub fn requested_checkpoint(&self) -> Result<()> {
        self.requested_checkpoint_unless(&|| false)
    }

    /// The same, unless `is_stopped`, which is asked while the background makes it, ends the waiting. The checkpoint is made in any case.
    ///
    /// # Errors
    /// As `requested_checkpoint`; `Collection` with `Stopped`.
    pub fn requested_checkpoint_unless(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let after = self.checkpoints.begun.load(Ordering::Acquire);
        let answer = self.checkpoints.requests.lock().as_mut().map(|requests| {
            let (done, answer) = sync_channel(1);
            requests.push(Request { after, done });
            answer
        });
        self.stopping.wake();
        if let Some(answer) = answer {
            loop {
                match answer.recv_timeout(LOOK_PAUSE) {
                    Ok(answered) => return answered,
                    Err(RecvTimeoutError::Timeout) if is_stopped() => return Err(CollectionError::Stopped.into()),
                    Err(RecvTimeoutError::Timeout) => {}
                    // There is no background thread any more.
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        }
        let _hurry = self.checkpoints.hurry();
        self.checkpoint_after(after)
    }

    /// Calls `act` while no checkpoint is published, with the position from which recovery from the last one needs the oplog; `None`: none was made in
    /// this life.
    pub(crate) fn at_last_checkpoint<T>(&self, act: impl FnOnce(Option<OplogPosition>) -> T) -> T {
        let last = self.checkpoints.last.lock();
        act(last.oplog_from)
    }

    /// Makes the checkpoints that somebody waits for.
    pub(crate) fn answer_checkpoint_requests(&self) {
        while !self.is_stopping()
            && let Some(after) = self.checkpoints.asked_after()
        {
            if let Err(error) = self.checkpoint_after(after) {
                return self.checkpoints.answer_failed(error);
            }
        }
    }

    /// Makes a checkpoint, if none that began after so many has been made meanwhile.
    fn checkpoint_after(&self, after: u64) -> Result<()> {
        let mut last = self.checkpoints.last.lock();
        while last.number <= after {
            let earliest = last.at + REQUESTED_APART;
            while !self.is_stopping() && last.in_progress.is_none() && self.clock.monotonic() < earliest {
                self.clock.sleep(LOOK_PAUSE.min(earliest.saturating_sub(self.clock.monotonic())));
            }
            self.advance(&mut last, Urgency::Now, Pace::AtOnce)?;
        }
        Ok(())
    }

    /// Does one bounded piece of a checkpoint: begins it, writes a batch of its pages, or publishes it. For the simulator, which has
    /// other things happen in between.
    ///
    /// # Errors
    /// As `checkpoint_step`.
    pub fn advance_checkpoint(&self, urgency: Urgency) -> Result<CheckpointProgress> {
        self.advance(&mut self.checkpoints.last.lock(), urgency, Pace::AtOnce)
    }

    fn advance(&self, last: &mut LastCheckpoint, urgency: Urgency, pace: Pace) -> Result<CheckpointProgress> {
        let (now, end) = (self.clock.monotonic(), self.oplog.end_position());
        let is_quiet = last.quiet.look(end, now);
        let Some(mut beginning) = last.in_progress.take() else {
            let logged = end.0 - last.position.0;
            let since_last = now.saturating_sub(last.at);
            let is_time = since_last >= self.options.checkpoint_interval;
            // What deletes free, and the oplog before them, comes back with a checkpoint only.
            let is_due = logged >= self.options.checkpoint_log_bytes
                || (logged > 0 && (is_time || self.is_short_of_space()))
                || self.engine.space_wants_checkpoint(since_last, is_time);
            if urgency == Urgency::IfDue && (!is_due || self.received.check_decided().is_err()) {
                return Ok(CheckpointProgress::NotDue);
            }
            last.in_progress = Some(self.begin_checkpoint(now)?);
            return Ok(CheckpointProgress::Going);
        };
        let pace = if is_quiet { Pace::AtOnce } else { pace };
        let finished = self.continue_checkpoint(&mut beginning.checkpoint, pace);
        if !matches!(finished, Ok(CheckpointProgress::Published)) {
            last.in_progress = Some(beginning);
            return finished;
        }
        let position = OplogPosition(beginning.checkpoint.mark().oplog_position);
        (last.position, last.at, last.number) = (position, beginning.at, beginning.number);
        last.oplog_from = Some(beginning.oplog_from);
        self.checkpoints.answer(last.number);
        self.truncate_oplog(beginning.oplog_from)?;
        finished
    }

    fn begin_checkpoint(&self, now: Duration) -> Result<Beginning> {
        // Nor when the oplog is closed: its end might be durable, and the directory away.
        self.check_writable()?;
        self.received.check_decided()?;
        let number = self.checkpoints.begun.fetch_add(1, Ordering::AcqRel) + 1;
        self.renew_damaged_sessions()?;
        // Most sessions now, so that there are few to store while definitions are locked.
        if let Some(tree) = self.catalog.session_tree() {
            self.sessions.flush(&self.engine, tree)?;
        }
        let _definitions = self.definition_lock.lock();
        let (mark, oplog_from, counts) = self.commits.mark();
        if let Err(error) = self.catalog.put_counts(&counts) {
            self.commits.report_again(counts);
            return Err(error.into());
        }
        if self.sessions.has_changed() {
            self.sessions.flush(&self.engine, self.catalog.session_tree_or_create()?)?;
        }
        self.save_set_aside()?;
        // Not before: `counts` may be the last holder of a dropped collection.
        drop(counts);
        self.catalog.reap()?;
        let checkpoint = self.engine.begin_checkpoint(mark)?;
        Ok(Beginning { checkpoint, at: now, number, oplog_from })
    }

    /// With no half of a change of definitions.
    fn freeze_checkpoint(&self, checkpoint: &mut CheckpointInProgress) -> Result<()> {
        let _definitions = self.definition_lock.lock();
        Ok(self.engine.freeze_checkpoint(checkpoint)?)
    }

    fn continue_checkpoint(&self, checkpoint: &mut CheckpointInProgress, pace: Pace) -> Result<CheckpointProgress> {
        let is_going = if checkpoint.is_frozen() {
            self.engine.checkpoint_step(checkpoint)?
        } else {
            if !self.engine.prepare_checkpoint_step(checkpoint)? {
                self.freeze_checkpoint(checkpoint)?;
            }
            true
        };
        if is_going {
            if pace == Pace::Spread {
                self.pause_checkpoint(checkpoint)?;
            }
            return Ok(CheckpointProgress::Going);
        }
        // Everything that the checkpoint contains was appended before this.
        let end = self.oplog.end_position();
        self.wait_secured(end)?;
        self.engine.publish_checkpoint(checkpoint, end.0)?;
        Ok(CheckpointProgress::Published)
    }

    /// Between two pieces. Somebody who waits, or begins to, ends it.
    fn pause_checkpoint(&self, checkpoint: &CheckpointInProgress) -> Result<()> {
        let checkpoints = &self.checkpoints;
        let is_hurried =
            || self.is_stopping() || checkpoints.hurried.load(Ordering::Relaxed) > 0 || checkpoints.is_asked_for();
        Ok(self.engine.pause_checkpoint(checkpoint, self.options.checkpoint_spread, &is_hurried)?)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use platform::Clock;

    use super::*;
    use crate::store::StoreOptions;
    use crate::tests::fixture::{Fixture, options};

    fn made(fixture: &Fixture) -> u64 {
        fixture.store.engine().statistics().unwrap().store.checkpoints
    }

    #[test]
    fn requested_checkpoints_are_a_while_apart() {
        let fixture = Fixture::new();
        fixture.clock.advance(REQUESTED_APART);
        let (before, began) = (made(&fixture), fixture.clock.monotonic());
        fixture.store.requested_checkpoint().unwrap();
        assert_eq!(fixture.clock.monotonic() - began, Duration::ZERO);
        fixture.store.requested_checkpoint().unwrap();
        assert_eq!(fixture.clock.monotonic() - began, REQUESTED_APART);
        assert_eq!(made(&fixture) - before, 2);
    }

    #[test]
    fn who_waits_at_the_same_time_shares_a_checkpoint() {
        let fixture = Fixture::new();
        let checkpoints = &fixture.store.checkpoints;
        let before = made(&fixture);
        std::thread::scope(|scope| {
            let held = checkpoints.last.lock();
            for _ in 0..4 {
                scope.spawn(|| fixture.store.requested_checkpoint().unwrap());
            }
            while checkpoints.hurried.load(Ordering::Relaxed) < 4 {
                std::thread::yield_now();
            }
            fixture.clock.advance(REQUESTED_APART);
            drop(held);
        });
        assert_eq!(made(&fixture) - before, 1);
        assert_eq!(checkpoints.hurried.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn with_a_background_no_other_thread_makes_checkpoints() {
        let mut fixture = Fixture::with(StoreOptions { engine_threads: true, ..options() });
        let collection = fixture.collection("a.b");
        fixture.store.start_background().unwrap();
        for id in 0..3 {
            fixture.insert(&collection, rawdoc! { "_id": id }).unwrap();
            fixture.store.requested_checkpoint().unwrap();
        }
        let statistics = fixture.store.engine().statistics().unwrap();
        assert!(statistics.store.checkpoints >= 3);
        assert_eq!(statistics.client_page_writes, 0);
        fixture.store.shutdown().unwrap();
    }

    #[test]
    fn a_failed_checkpoint_is_told_to_one_who_waits_and_the_next_one_to_the_others() {
        let fixture = Fixture::new();
        let checkpoints = &fixture.store.checkpoints;
        checkpoints.set_answered(true);
        let wait_until_asked = |count: usize| {
            while checkpoints.requests.lock().as_ref().is_some_and(|requests| requests.len() < count) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| fixture.store.requested_checkpoint())).collect();
            wait_until_asked(3);
            checkpoints.answer_failed(TransactionError::Stopped);
            checkpoints.answer(0);
            assert_eq!(checkpoints.asked_after(), Some(0), "no checkpoint has begun since");
            checkpoints.answer(1);
            assert_eq!(checkpoints.asked_after(), None);
            let answers: Vec<_> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
            assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
        });
        // Who waits when there is no thread any more makes it.
        std::thread::scope(|scope| {
            let (before, asked) = (made(&fixture), scope.spawn(|| fixture.store.requested_checkpoint()));
            wait_until_asked(1);
            fixture.clock.advance(REQUESTED_APART);
            checkpoints.set_answered(false);
            asked.join().unwrap().unwrap();
            assert_eq!(made(&fixture) - before, 1);
        });
    }
}
