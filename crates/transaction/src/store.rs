//! A data directory in use: storage engine, oplog and catalog put together.
//!
//! Opened once by `server`; everything above works with `Arc<Store>`. Opening recovers: the engine is at its last checkpoint, the
//! oplog from the checkpoint's mark on is replayed, and only then is anything served.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use collection::{
    Catalog, ChangeContext, Collection, DocumentChange, LoggedEntry, RingChange, StatementDetails, UpdateStyle,
    Validation, WriteAccess,
};
use oplog::{Appended, LocalOplog, Oplog, OplogOptions, OplogPosition};
use parking_lot::Mutex;
use platform::{Clock, Disk, Foreground, Random, StopSignal, WaitKind, WorkClass, WorkScope, WorkingMemory, waiting};
use storage_engine::{Batch, Engine, EngineOptions, RingWriter, Timestamp};

use crate::background::BackgroundThreads;
use crate::checkpoint::CheckpointState;
use crate::commit_order::{CommitInfo, CommitOrder, Effect, tell_why_stopped};
use crate::error::{Result, TransactionError};
use crate::expiry::ExpiryProgress;
use crate::feed::Feed;
use crate::interleaving::{Interleaving, Moment};
use crate::lock_table::LockTable;
use crate::multi_document::{LargeCommits, OpenTransactions, is_large};
use crate::opening::{Opened, OpensAs, changed_counts, end_recovery, log_decided, replay_start};
use crate::read_view::ReadView;
use crate::received::{ApplyingBy, Received};
use crate::retained_snapshots::RetainedSnapshots;
use crate::retention::Retention;
use crate::sessions::{ExecutedStatement, SessionTable};
use crate::set_aside_work::{SetAsideList, SetAsideWork};
use crate::space::SpaceWatch;
use crate::unread_entries::keep_unread_entries;
use crate::write_context::Statement;
use crate::write_freeze::WriteFreeze;
use crate::write_stop::WriteStop;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The storage engine's own.
    pub engine: EngineOptions,
    /// The oplog's own.
    pub oplog: OplogOptions,
    /// Bytes of oplog kept beyond what recovery needs, unless `set_oplog_retention` has stored something else.
    pub oplog_retention_bytes: u64,
    /// And for how long entries are kept at least, whatever space they take. `None`: as stored, at first not at all.
    pub oplog_retention_time: Option<Duration>,
    /// A checkpoint is due when this many bytes were logged since the last one.
    pub checkpoint_log_bytes: u64,
    /// A checkpoint is due when anything was logged and the last one is this long ago.
    pub checkpoint_interval: Duration,
    /// Over how much time the work of a checkpoint is spread. Zero: it is made at once.
    pub checkpoint_spread: Duration,
    /// Free bytes on the disk below which only reads and deletes are accepted, beside those that the dirty pages need.
    pub space_reserve_bytes: u64,
    /// How often expired documents are looked for.
    pub ttl_interval: Duration,
    /// Threads that replay the oplog; 0: the opening thread does it alone.
    pub replay_threads: usize,
    /// Who applies what another member has logged.
    pub applying_by: ApplyingBy,
    /// Bytes of changes above which a transaction is committed in a way that nobody waits for.
    pub large_transaction_bytes: usize,
    /// Bytes of index entries that a build sorts at a time.
    pub index_piece_bytes: usize,
    /// How far the wall clock may be ahead of the newest commit at the start, and jump ahead later.
    pub clock_drift_max: Duration,
    /// Whether the engine's own threads are started when the store is opened. Not by the simulator.
    pub engine_threads: bool,
    /// Who is there beside work that lasts: the server counts what its clients do.
    pub foreground: Arc<Foreground>,
    /// What the simulator runs in the midst of operations.
    pub interleaving: Interleaving,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            engine: EngineOptions::default(),
            oplog: OplogOptions::default(),
            oplog_retention_bytes: 0,
            oplog_retention_time: None,
            checkpoint_log_bytes: 256 << 20,
            checkpoint_interval: Duration::from_secs(60),
            checkpoint_spread: Duration::from_secs(8),
            space_reserve_bytes: 64 << 20,
            ttl_interval: Duration::from_secs(60),
            replay_threads: 2,
            applying_by: ApplyingBy::Threads(2),
            large_transaction_bytes: 1 << 20,
            index_piece_bytes: 32 << 20,
            clock_drift_max: Duration::from_secs(365 * 24 * 3600),
            engine_threads: true,
            foreground: Arc::default(),
            interleaving: Interleaving::default(),
        }
    }
}

/// What a write's acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Every later read sees it.
    Visible,
    /// And it survives a crash (`j: true`, `w: "majority"`).
    Durable,
}

/// See the module's head.
pub struct Store {
    pub(crate) engine: Arc<Engine>,
    pub(crate) oplog: LocalOplog,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: StoreOptions,
    pub(crate) commits: CommitOrder,
    /// By collection ident and record id.
    pub(crate) record_locks: Arc<LockTable>,
    /// By 0 and the hash of index and key.
    pub(crate) unique_locks: Arc<LockTable>,
    /// Held while definitions change; and while a checkpoint is begun and frozen, so that none has half of a change.
    pub(crate) definition_lock: Mutex<()>,
    pub(crate) checkpoints: CheckpointState,
    pub(crate) sessions: SessionTable,
    pub(crate) open_transactions: OpenTransactions,
    pub(crate) large_commits: LargeCommits,
    pub(crate) retained: RetainedSnapshots,
    pub(crate) space: SpaceWatch,
    pub(crate) write_stop: WriteStop,
    pub(crate) set_aside: SetAsideList,
    pub(crate) expiry: ExpiryProgress,
    pub(crate) retention: Retention,
    pub(crate) write_freeze: WriteFreeze,
    pub(crate) feed: Feed,
    pub(crate) received: Received,
    pub(crate) background: Mutex<Option<BackgroundThreads>>,
    pub(crate) stopping: StopSignal,
    /// Index builds that are stopped from here on are to go on at the next start.
    pub(crate) keeps_builds: AtomicBool,
    pub(crate) foreground: Arc<Foreground>,
    pub(crate) working_memory: OnceLock<WorkingMemory>,
    /// Collections with indexes whose builds a restart has interrupted.
    pub(crate) interrupted_builds: Mutex<Vec<Arc<Collection>>>,
    recovery: collection::ReplaySummary,
}

impl Store {
    /// Opens a data directory, creating it if it is empty, and recovers it.
    ///
    /// # Errors
    /// `Engine`, `Oplog`, `Collection` when files cannot be used or are damaged; `OplogMissing`.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        options: StoreOptions,
    ) -> Result<Arc<Store>> {
        Store::open_filled(disk, clock, random, options, |_| Ok(OpensAs::Leader), |_, _| Ok(()))
    }

    /// The same for a member that follows a shared log. `catch_up` is called before the oplog is replayed: it brings the oplog to where that log is, and says
    /// whether it has claimed the lead. If so, what is appended to the oplog from there on is this member's.
    ///
    /// # Errors
    /// As `open`; `SharedLog` with the error of `catch_up`.
    pub fn open_caught_up<E: std::error::Error + Send + Sync + 'static>(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        options: StoreOptions,
        catch_up: impl FnOnce(&LocalOplog) -> std::result::Result<OpensAs, E>,
    ) -> Result<Arc<Store>> {
        let catch_up =
            |oplog: &LocalOplog| catch_up(oplog).map_err(|error| TransactionError::SharedLog(Box::new(error)));
        Store::open_filled(disk, clock, random, options, catch_up, |_, _| Ok(()))
    }

    /// Opens a data directory. `catch_up` is called with its oplog before that is replayed; `fill` with its catalog and engine before anybody else has them, and
    /// before the oplog is replayed, too.
    pub(crate) fn open_filled(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        options: StoreOptions,
        catch_up: impl FnOnce(&LocalOplog) -> Result<OpensAs>,
        fill: impl FnOnce(&Arc<Catalog>, &Arc<Engine>) -> Result<()>,
    ) -> Result<Arc<Store>> {
        let space = SpaceWatch::new(disk.clone(), options.space_reserve_bytes);
        let Opened { engine, oplog, clock } = Opened::open(disk, clock, &*random, &options)?;
        let opens_as = catch_up(&oplog)?;
        let from = replay_start(&engine, &oplog)?;
        // The checkpoint may have commits from after its mark. From here on every snapshot sees all there is: there are
        // no older versions in this life.
        engine.set_visible(oplog.last_timestamp());
        let catalog = Arc::new(Catalog::load(engine.clone(), clock.clone(), random)?);
        fill(&catalog, &engine)?;
        let sessions = SessionTable::new(clock.clone(), engine.memory());
        let lost_sessions = sessions.load_or_lose(&engine, &catalog)?;
        let how = (options.replay_threads, opens_as.decided_are());
        let recovery = collection::replay(&catalog, &engine, &oplog, from, how, &mut &sessions)?;
        keep_unread_entries(&oplog, &recovery.unread)?;
        options.interleaving.at(Moment::Recovered { timestamp: oplog.last_timestamp() });
        if opens_as == OpensAs::Leader {
            log_decided(&oplog, &recovery.decided, clock.wall_millis(), &options.interleaving)?;
        }
        engine.set_visible(oplog.last_timestamp());
        end_recovery(&engine, &catalog, &oplog)?;
        let retention = Retention::open(&oplog, options.oplog_retention_bytes, options.oplog_retention_time)?;
        let commits = CommitOrder::new(engine.clone(), oplog.end_position(), changed_counts(&catalog));
        let received = Received::new(opens_as, &recovery, oplog.first_position(), clock.monotonic());
        let store = Arc::new(Store {
            checkpoints: CheckpointState::new(from, clock.monotonic()),
            engine,
            oplog,
            catalog,
            clock,
            commits,
            record_locks: Arc::new(LockTable::new()),
            unique_locks: Arc::new(LockTable::new()),
            definition_lock: Mutex::new(()),
            retention,
            write_freeze: WriteFreeze::default(),
            feed: Feed::default(),
            received,
            background: Mutex::new(None),
            stopping: StopSignal::default(),
            keeps_builds: AtomicBool::new(false),
            foreground: Arc::clone(&options.foreground),
            working_memory: OnceLock::new(),
            interrupted_builds: Mutex::default(),
            sessions,
            open_transactions: OpenTransactions::default(),
            large_commits: LargeCommits::default(),
            retained: RetainedSnapshots::default(),
            space,
            write_stop: WriteStop::default(),
            set_aside: SetAsideList::default(),
            expiry: ExpiryProgress::new(options.ttl_interval),
            options,
            recovery,
        });
        if opens_as == OpensAs::Follower {
            store.follow();
        }
        store.note_start(lost_sessions);
        Ok(store)
    }

    /// What is looked at and told once a store is open.
    fn note_start(&self, lost_sessions: Option<SetAsideWork>) {
        self.watch_space();
        self.note_damage_of_start();
        self.note_interrupted_builds();
        self.note_lost_indexes();
        self.note_unread_entries();
        lost_sessions.into_iter().for_each(|work| self.set_aside(None, work));
    }

    /// Tells of the indexes that replay could not build again.
    fn note_lost_indexes(&self) {
        for lost in self.recovery.lost_indexes.clone() {
            let (what, advice) = (
                "building an index again from the oplog",
                "the index is gone, and the collection is served as far as it can be read. `plimsoll repair` saves what can be read; then create the index again",
            );
            let work = SetAsideWork { what, namespace: lost.namespace, index: lost.index, reason: lost.reason, advice };
            self.set_aside(None, work);
        }
    }

    /// The collections.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The storage engine: for its statistics.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The oplog: for its statistics, and for following it.
    pub fn oplog(&self) -> &LocalOplog {
        &self.oplog
    }

    /// Who is there beside work that lasts.
    pub fn foreground(&self) -> &Arc<Foreground> {
        &self.foreground
    }

    /// The clock that the store was opened with, as far as it is believed.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// How far the wall clock may be ahead of the newest commit at the start, and jump ahead later.
    pub fn clock_drift_max(&self) -> Duration {
        self.options.clock_drift_max
    }

    /// The logical sessions of clients.
    pub fn sessions(&self) -> &SessionTable {
        &self.sessions
    }

    /// What opening the store had to replay.
    pub fn recovery(&self) -> &collection::ReplaySummary {
        &self.recovery
    }

    /// A view of everything that readers see.
    pub fn read_view(&self) -> ReadView {
        ReadView::new(self.engine.clone())
    }

    /// The timestamp of the newest visible commit, confirmed or not.
    pub fn visible_timestamp(&self) -> Timestamp {
        self.engine.visible()
    }

    /// Waits for what the acknowledgement of a commit promises. Every command that wrote calls this once, with its
    /// greatest `CommitInfo`, before it answers.
    ///
    /// # Errors
    /// `Stopped`; `Oplog` when durability cannot be had (then nobody knows whether the write will survive), also for a commit that
    /// need only be visible: after a failure of the disk nothing is promised that a restart may not keep.
    pub fn acknowledge(&self, commit: &CommitInfo, acknowledgement: Acknowledgement) -> Result<()> {
        self.commits.wait_visible(commit.timestamp)?;
        match acknowledgement {
            Acknowledgement::Visible if self.oplog.durable_position() >= commit.end => Ok(()),
            Acknowledgement::Visible => Ok(self.oplog.check_writable()?),
            // The log has it on other machines.
            Acknowledgement::Durable if self.is_confirming() => self.wait_confirmed_within(commit.end, None).map(drop),
            Acknowledgement::Durable => Ok(self.oplog.wait_durable(commit.end)?),
        }
    }

    /// The same for durability, but waits for that not longer than `longest`; `false`: it is not durable yet, and will be.
    ///
    /// # Errors
    /// As `acknowledge`.
    pub fn acknowledge_within(&self, commit: &CommitInfo, longest: Duration) -> Result<bool> {
        self.commits.wait_visible(commit.timestamp)?;
        if self.is_confirming() {
            return self.wait_confirmed_within(commit.end, Some(longest));
        }
        Ok(self.oplog.wait_durable_within(commit.end, longest)?)
    }

    /// Whether writes can be accepted.
    ///
    /// # Errors
    /// `Stopped`, `Engine`, `Oplog`: why not.
    pub fn check_writable(&self) -> Result<()> {
        self.check_commits()?;
        Ok(self.oplog.check_writable()?)
    }

    /// Asked before each commit is logged: a commit that was logged and could not be applied is the last.
    pub(crate) fn check_commits(&self) -> Result<()> {
        self.engine.check_writable()?;
        self.check_catalog()?;
        self.commits.check_running()
    }

    /// Checks every record of a collection against every index, and the pages.
    ///
    /// # Errors
    /// `Engine`; `Collection(CollectionDropped)`.
    pub fn validate(
        &self,
        collection: &Arc<Collection>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<collection::ValidateReport> {
        Ok(collection::validate(&self.engine, collection, is_stopped)?)
    }

    /// Slows a writer down when the background cannot keep up. Called before locks are taken.
    pub(crate) fn pace(&self) {
        self.wait_until_writes_may_begin();
        let delay = self.engine.pace();
        if !delay.is_zero() {
            waiting(WaitKind::Room, || self.clock.sleep(delay));
        }
    }

    pub(crate) fn change_context(&self, validation: Validation) -> ChangeContext {
        ChangeContext { validation, wall_millis: self.clock.wall_millis(), update_style: UpdateStyle::Fields }
    }

    /// Logs and applies a prepared change. All locks it needs are held, and it is announced if it is large.
    pub(crate) fn commit(
        &self,
        access: &WriteAccess<'_>,
        change: &DocumentChange,
        statement: Option<&Statement>,
    ) -> Result<CommitInfo> {
        if !change.newly_multikey().is_empty() {
            self.catalog.add_multikey(access.collection, change.newly_multikey())?;
        }
        if is_large(change) {
            return self.commit_large_change(access, change, statement);
        }
        let (documents, bytes) = change.count_changes();
        let effect = Effect { collection: access.collection.clone(), documents, bytes };
        self.log_and_apply(&change.oplog_entry(), Some(effect), |appended| {
            self.engine.apply(change.batch(), appended.timestamp)?;
            if let Some(statement) = statement {
                self.statement_executed(statement, documents, appended.position);
            }
            Ok(())
        })
    }

    /// Notes it in the session. `documents`: by how many the collection has grown.
    pub(crate) fn statement_executed(&self, statement: &Statement, documents: i64, position: OplogPosition) {
        let has_details = match statement.details {
            StatementDetails::None => false,
            StatementDetails::Upserted => documents > 0,
            StatementDetails::ImageBefore | StatementDetails::ImageAfter => true,
        };
        let details = has_details.then_some(position);
        let executed = ExecutedStatement { id: statement.id, count_change: documents as i8, details };
        self.sessions.record_statement(&statement.session, statement.txn_number, executed);
    }

    /// As `commit`, for a capped collection, whose ring's lock is held.
    pub(crate) fn commit_to_ring(
        &self,
        access: &WriteAccess<'_>,
        writer: &RingWriter<'_>,
        change: &DocumentChange,
        document: &[u8],
        statement: Option<&Statement>,
    ) -> Result<CommitInfo> {
        if !change.newly_multikey().is_empty() {
            self.catalog.add_multikey(access.collection, change.newly_multikey())?;
        }
        let (documents, bytes) = change.count_changes();
        let effect = Effect { collection: access.collection.clone(), documents, bytes };
        let (engine, batch) = (&self.engine, change.batch());
        self.log_and_apply(&change.ring_oplog_entry(document), Some(effect), |appended| {
            let timestamp = appended.timestamp;
            match change.ring_change() {
                Some(RingChange::Insert(insert)) => {
                    engine.apply_ring_insert(writer, insert, document, batch, timestamp)?;
                }
                Some(RingChange::Override(change)) => {
                    engine.apply_ring_override(writer, *change, batch, Some(timestamp))?;
                }
                None => engine.apply(batch, timestamp)?,
            }
            if let Some(statement) = statement {
                let own = if document.is_empty() { documents } else { 1 };
                self.statement_executed(statement, own, appended.position);
            }
            Ok(())
        })
    }

    /// Appends an entry to the oplog, which makes it a commit, and applies it. After a failure of `apply` nothing can be
    /// written any more until the store is opened again.
    pub(crate) fn log_and_apply(
        &self,
        entry: &LoggedEntry<'_>,
        effect: Option<Effect>,
        apply: impl FnOnce(&Appended) -> Result<()>,
    ) -> Result<CommitInfo> {
        let _may_write = self.may_write()?;
        self.check_commits()?;
        let _others_wait = WorkScope::begin(WorkClass::Commit);
        let mut in_flight = self.commits.prepare();
        let appended = self.oplog.append(&mut |_, payload| entry.write(payload), &mut |timestamp, position| {
            in_flight.register(timestamp, position)
        })?;
        if self.is_confirming() && effect.as_ref().is_none_or(Effect::is_of_definitions) {
            self.commits.note_definition(appended.end);
        }
        self.options.interleaving.at_logged(appended.timestamp, entry);
        // What is logged is applied to its end, whoever wants the command to stop.
        let _unwatched = document::work::unwatched();
        apply(&appended).inspect_err(tell_why_stopped)?;
        self.note_set_aside();
        in_flight.complete(appended.end, effect);
        Ok(CommitInfo { timestamp: appended.timestamp, end: appended.end })
    }

    /// Applies changes that belong to no commit: entries of an index that nobody reads yet.
    pub(crate) fn apply_uncommitted(&self, batch: &Batch) -> Result<()> {
        Ok(self.engine.apply_settled(batch)?)
    }
}
