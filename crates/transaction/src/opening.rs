//! How a store is opened: engine and oplog as the disk has them, from where the oplog is replayed, and what is done once it is.
//!
//! Called by `store` only, in the order of the functions' needs.

use std::sync::Arc;

use collection::{Catalog, Collection, DecidedAre, TransactionCommit, TransactionEncoder};
use oplog::{Checkpointed, LocalOplog, Oplog, OplogError, OplogPosition};
use platform::{Clock, Disk, Random};
use storage_engine::Engine;

use crate::bounded_clock::BoundedClock;
use crate::error::{Result, TransactionError};
use crate::interleaving::{Interleaving, Moment};
use crate::store::StoreOptions;

/// As what a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpensAs {
    /// What it logs happens: it is alone, or leads its replica set.
    Leader,
    /// It applies what others have logged.
    Follower,
}

impl OpensAs {
    /// What becomes of transactions that are decided.
    pub(crate) fn decided_are(self) -> DecidedAre {
        match self {
            OpensAs::Leader => DecidedAre::Applied,
            OpensAs::Follower => DecidedAre::Left,
        }
    }
}

/// The collections whose counts replay has changed, in a fixed order, so that a simulated run can be repeated.
pub(crate) fn changed_counts(catalog: &Catalog) -> Vec<Arc<Collection>> {
    let mut changed = catalog.all_collections();
    changed.retain(|collection| collection.counts().has_changed());
    changed.sort_by_key(|collection| collection.ident());
    changed
}

/// Gives back what nobody needs once everything is replayed.
pub(crate) fn end_recovery(engine: &Engine, catalog: &Catalog, oplog: &LocalOplog) -> Result<()> {
    // A capped collection that cannot be opened keeps its file for a repair.
    if catalog.is_whole() && catalog.all_collections().iter().all(|collection| collection.aside().is_none()) {
        engine.remove_unknown_rings()?;
    }
    // On a disk that is full that is tried again at the next start.
    if let Err(error) = oplog.put_passed_over_aside() {
        tracing::warn!(%error, "damaged segments of the oplog keep their names");
    }
    Ok(engine.end_recovery()?)
}

/// Logs the commits of transactions that a crash interrupted between their decision and their commit, for those who follow the oplog.
pub(crate) fn log_decided(
    oplog: &LocalOplog,
    decided: &[TransactionCommit],
    wall_millis: i64,
    interleaving: &Interleaving,
) -> Result<()> {
    for commit in decided {
        let mut entry = TransactionEncoder::new();
        let payload = entry.finish_commit(&commit.parts, commit.transaction, wall_millis);
        match oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut |_, _| {}) {
            // It is applied all the same; a store on a full disk is to open.
            Err(error @ OplogError::DiskFull) => {
                tracing::warn!(%error, "the commit of a transaction could not be logged")
            }
            appended => interleaving.at(Moment::Logged { timestamp: appended?.timestamp, entry: payload }),
        }
    }
    if decided.is_empty() {
        return Ok(());
    }
    // So that their commits stay where they are now.
    match oplog.wait_durable(oplog.end_position()) {
        Err(error @ OplogError::DiskFull) => tracing::warn!(%error, "the commit of a transaction is not durable"),
        durable => durable?,
    }
    Ok(())
}

/// The engine at its last checkpoint and the oplog behind it, nothing replayed yet.
pub(crate) struct Opened {
    pub(crate) engine: Arc<Engine>,
    pub(crate) oplog: LocalOplog,
    /// As far as it is believed.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Opened {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: &dyn Random,
        options: &StoreOptions,
    ) -> Result<Opened> {
        let mut engine_options = options.engine.clone();
        random.fill(&mut engine_options.database_uuid);
        let bounded = Arc::new(BoundedClock::new(clock, options.clock_drift_max));
        let clock: Arc<dyn Clock> = bounded.clone();
        let engine = Engine::open(disk.clone(), clock.clone(), engine_options)?;
        engine.begin_recovery();
        let checkpointed = engine.recovered().map(|mark| Checkpointed {
            position: OplogPosition(mark.oplog_position),
            oplog_end: OplogPosition(mark.oplog_end),
            timestamp: mark.timestamp,
        });
        let oplog = LocalOplog::open_behind(disk, clock.clone(), options.oplog.clone(), checkpointed)?;
        tell_set_aside(&oplog, options);
        bounded.check_start(oplog.last_timestamp())?;
        if options.engine_threads {
            engine.start_background()?;
        }
        Ok(Opened { engine, oplog, clock })
    }
}

/// Says what a damaged oplog costs that nobody's data needed.
fn tell_set_aside(oplog: &LocalOplog, options: &StoreOptions) {
    let Some(aside) = oplog.set_aside() else { return };
    tracing::warn!(
        damage = %aside.damage,
        files = aside.files.join(", "),
        directory = %options.oplog.directory.display(),
        begins_after = %aside.begins_after,
        "the oplog was damaged where the last checkpoint has everything: no document is lost. These files are put aside; what is damaged without being in one of \
         them is passed over. Change streams \
         that are resumed at or before this time get ChangeStreamHistoryLost (286), local.oplog.rs and pre-images begin behind it, and a retry of an upsert or a \
         findAndModify from before gets IncompleteTransactionHistory (217). The files may be removed"
    );
}

/// From where the oplog is replayed.
pub(crate) fn replay_start(engine: &Engine, oplog: &LocalOplog) -> Result<OplogPosition> {
    let (first, end) = (oplog.first_position(), oplog.end_position());
    let from = match engine.recovered() {
        Some(mark) => OplogPosition(mark.oplog_position),
        None => OplogPosition::default().max(first),
    };
    if engine.recovered().is_none() && first > OplogPosition::default() {
        return Err(TransactionError::OplogMissing(format!("there is no checkpoint, and the oplog begins at {first}")));
    }
    if from < first || from > end {
        let message = format!("the checkpoint is at {from}, the oplog has {first} to {end}");
        return Err(TransactionError::OplogMissing(message));
    }
    if let Some(mark) = engine.recovered().filter(|mark| mark.oplog_end > end.0) {
        let message = format!("the checkpoint has commits up to {}, the oplog ends at {end}", mark.oplog_end);
        return Err(TransactionError::OplogMissing(message));
    }
    Ok(from)
}
