//! The store's threads: flushing the oplog, checkpoints, expiry. Each only calls, in a loop, a function that the simulator
//! calls by itself.
//!
//! Life: not started → running → stopped (by `shutdown`, which ends with a checkpoint).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use oplog::{Oplog, OplogPosition, SpaceReturn};
use platform::{IdlePause, LongWork, WorkBudget, part_of, spawn_named};
use storage_engine::UNASKED_PAUSE;

use crate::checkpoint::Urgency;
use crate::error::{Result, TransactionError};
use crate::store::Store;
use crate::write_context::WriteContext;

/// How often threads look whether something is due while something is written.
const POLL: Duration = part_of(UNASKED_PAUSE, 2);
/// How often they look while nothing is written.
const POLL_MAX: Duration = POLL.saturating_mul(20);
/// How often it is looked then whether a checkpoint is due: whoever wants one asks.
const CHECKPOINT_POLL_MAX: Duration = POLL_MAX.saturating_mul(2);
/// From one piece of the oplog's space that is given back to the next, and while there is nothing to give back.
const OPLOG_SPACE_PAUSE: Duration = POLL.saturating_mul(2);
const OPLOG_SPACE_PAUSE_MAX: Duration = OPLOG_SPACE_PAUSE.saturating_mul(8);
/// How often a member of a replica set looks for builds of others.
const RECEIVED_BUILDS_PAUSE: Duration = POLL.saturating_mul(10);
/// Pause after an error of background work, before it is tried again.
const ERROR_PAUSE: Duration = POLL_MAX;

/// The threads that run.
pub(crate) struct BackgroundThreads {
    workers: Vec<JoinHandle<()>>,
    flusher: JoinHandle<()>,
    stop_flusher: Arc<AtomicBool>,
}

/// The pause of a thread that follows what is written: longer and longer while the oplog does not grow.
struct Lull {
    pause: IdlePause,
    seen: Option<OplogPosition>,
}

impl Lull {
    fn up_to(longest: Duration) -> Lull {
        Lull { pause: IdlePause::new(POLL, longest), seen: None }
    }

    /// The pause behind a look that found something to do or not.
    fn after(&mut self, store: &Store, found: bool) -> Duration {
        let end = store.oplog.end_position();
        let has_grown = self.seen.replace(end) != Some(end);
        self.pause.after(found || has_grown)
    }
}

impl Store {
    /// Starts the threads. They end with `shutdown`.
    ///
    /// # Errors
    /// `Thread`.
    pub fn start_background(self: &Arc<Self>) -> Result<()> {
        let mut background = self.background.lock();
        if background.is_some() {
            return Ok(());
        }
        let stop_flusher = Arc::new(AtomicBool::new(false));
        let (oplog, stop) = (self.oplog.clone(), stop_flusher.clone());
        let flusher = spawn_named("oplog-flusher", move || {
            storage_engine::mark_background_thread();
            // Commits wait for it, so its slice is the usual one.
            oplog.run_flusher(&stop);
        });
        let flusher = flusher.map_err(TransactionError::Thread)?;
        let (mut ahead, mut space) = (Lull::up_to(POLL_MAX), IdlePause::new(OPLOG_SPACE_PAUSE, OPLOG_SPACE_PAUSE_MAX));
        let (mut dropped, mut rings) = (Lull::up_to(POLL_MAX), Lull::up_to(POLL_MAX));
        let mut checkpoints = Lull::up_to(CHECKPOINT_POLL_MAX);
        let workers = vec![
            self.spawn("oplog-write-ahead", move |store| {
                // The flusher meets the same error, and those who wait get it.
                let found = store.oplog.write_ahead_step().unwrap_or(false);
                Ok(ahead.after(store, found))
            })?,
            self.spawn("oplog-space", move |store| {
                let how = if store.is_short_of_space() { SpaceReturn::AtOnce } else { SpaceReturn::Gradual };
                Ok(space.after(store.oplog.give_space_back(how)))
            })?,
            self.spawn("checkpointer", move |store| {
                let pause = checkpoints.after(store, store.checkpointer_step()?);
                // While writes are frozen nobody is answered.
                let is_asked = || store.checkpoints.asked_after().is_some() && !store.has_frozen_writes();
                store.stopping.wait_unless(pause, is_asked);
                Ok(Duration::ZERO)
            })?,
            self.spawn("dropped-trees", move |store| {
                let reaped = store.reap_dropped()?;
                Ok(dropped.after(store, reaped > 0 || store.catalog.has_dropped()))
            })?,
            self.spawn("ring-writer", move |store| {
                let pause = rings.after(store, store.engine.has_buffered_rings());
                store.engine.wait_for_ring_work(pause, || store.is_stopping());
                store.write_rings()?;
                Ok(Duration::ZERO)
            })?,
            self.spawn("oplog-feed", |store| {
                store.feed_step()?;
                Ok(Duration::ZERO)
            })?,
            self.spawn("index-builds", |store| {
                store.resume_all_builds();
                // What another member builds is to be ready when its commit comes.
                let pause = if store.is_confirming() { RECEIVED_BUILDS_PAUSE } else { store.options.ttl_interval };
                Ok(pause.min(store.options.ttl_interval))
            })?,
            self.spawn("ttl", |store| {
                store.pause_and_expire()?;
                Ok(Duration::ZERO)
            })?,
        ];
        self.checkpoints.set_answered(true);
        *background = Some(BackgroundThreads { workers, flusher, stop_flusher });
        Ok(())
    }

    /// A turn of the thread that makes checkpoints and looks whether writes go on; whether it has made one.
    fn checkpointer_step(&self) -> Result<bool> {
        self.watch_space();
        if !self.watch_writes() {
            // They hear why.
            self.answer_checkpoint_requests();
            return Ok(false);
        }
        if self.has_frozen_writes() {
            return Ok(false);
        }
        self.answer_checkpoint_requests();
        self.checkpoint_step(Urgency::IfDue)
    }

    /// Drops the trees of what is dropped and not held by anybody. Not left to checkpoints, which may be a minute apart: whoever creates and drops collections all the
    /// time would fill the disk meanwhile.
    ///
    /// # Errors
    /// `Engine`.
    pub fn reap_dropped(&self) -> Result<usize> {
        if !self.catalog.has_dropped() || self.check_commits().is_err() {
            return Ok(0);
        }
        self.commits.forget_dropped();
        let _definitions = self.definition_lock.lock();
        Ok(self.catalog.reap()?)
    }

    /// Starts a thread that repeats `step` after the pause it returns.
    fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        mut step: impl FnMut(&Store) -> Result<Duration> + Send + 'static,
    ) -> Result<JoinHandle<()>> {
        let store = self.clone();
        let body = move || {
            storage_engine::mark_background_thread();
            // What fails again and again in the same way is told once.
            let mut told = String::new();
            while !store.is_stopping() {
                WorkBudget::background_step();
                let pause = step(&store).unwrap_or_else(|error| {
                    let message = error.to_string();
                    if message != told {
                        tracing::error!(%error, thread = name, "background work failed");
                        told = message;
                    }
                    ERROR_PAUSE
                });
                store.pause(pause);
            }
        };
        spawn_named(name, body).map_err(TransactionError::Thread)
    }

    fn pause(&self, pause: Duration) {
        if !pause.is_zero() {
            self.stopping.wait(pause);
        }
    }

    /// The pause before a pass of expiry, which ends earlier when it is shortened meanwhile, and the pass. None comes at the
    /// start: whoever starts a server may have it expire nothing.
    fn pause_and_expire(&self) -> Result<()> {
        let since = self.clock.monotonic();
        let paused = || self.clock.monotonic().saturating_sub(since);
        self.stopping.wait_while_left(|| self.ttl_interval().saturating_sub(paused()));
        // What expires is the primary's to say.
        if self.expires_documents() && !self.is_stopping() && self.leads() {
            let _gives_way = LongWork::begin_writing(&self.foreground);
            let pass = self.ttl_pass(&mut WriteContext::new())?;
            if pass.deleted > 0 {
                tracing::info!(deleted = pass.deleted, "expired documents deleted");
            }
        }
        Ok(())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_given()
    }

    /// Ends the threads, with a last checkpoint, so that the next start has nothing to replay. The caller has ended all
    /// operations.
    ///
    /// # Errors
    /// `Engine`, `Oplog`, `Stopped`: of the last checkpoint. The next start recovers then.
    pub fn shutdown(&self) -> Result<()> {
        self.stopping.give();
        self.write_freeze.wake();
        self.engine.wake_ring_writer();
        self.wake_feed();
        let background = self.background.lock().take();
        let (workers, flusher) = match background {
            Some(threads) => (threads.workers, Some((threads.flusher, threads.stop_flusher))),
            None => (Vec::new(), None),
        };
        for worker in workers {
            // A thread that panicked has said so itself.
            let _ = worker.join();
        }
        self.checkpoints.set_answered(false);
        let finished = self.last_checkpoint();
        if let Some((flusher, stop)) = flusher {
            stop.store(true, Ordering::Release);
            self.oplog.wake_flusher();
            let _ = flusher.join();
        }
        self.engine.stop_background();
        finished?;
        Ok(self.engine.close()?)
    }
}
