//! Opens a database's store and puts the commands on top of it. Called by `database`.

use std::path::Path;
use std::sync::Arc;

use commands::{ServerContext, ServerFacts};
use platform::{Disk, Random, RealDisk, SystemRandom, TemporaryStore, WorkingMemory};
use storage_engine::EngineOptions;
use transaction::{ApplyingBy, StoreOptions, TransactionError};

use super::{OpenError, TEMPORARY_DIRECTORY};
use crate::archiving::{self, Archiving};
use crate::configuration::Configuration;
use crate::data_disk::{self, DataDisk};
use crate::database_service::{DatabaseService, Hooks, RecentLines, Threads};
use crate::following::Following;
use crate::logging::STARTUP_WARNINGS;
use crate::memory_plan::MemoryPlan;
use crate::otlp::TraceExport;
use crate::{decoy_secret, following, left_user, memory_watch, small_disk};

/// Seconds until the operator has started the server again.
const ENOUGH_FOR_A_START: i64 = 3600;
/// Threads that apply what the primary of a replica set has logged, at most: one thread reads for them all.
const APPLYING_MAX: usize = 8;

/// Opens the data directory, which recovers what the last run left, and puts the commands on top of it.
///
/// # Errors
/// As `Database::open`.
pub(super) fn open_service(
    configuration: &Configuration,
    plan: MemoryPlan,
    facts: ServerFacts,
    mut hooks: Hooks,
) -> Result<DatabaseService, OpenError> {
    let data = &configuration.data;
    let cannot = |what: &str, cause: &dyn std::fmt::Display| format!("{what} {}: {cause}", data.display());
    // Only a replica set's members need one.
    let address = facts.replica_set.as_ref().map(|set| set.host().to_owned()).unwrap_or_default();
    following::prepare(configuration, address.clone())?;
    let DataDisk { disk, memory: disk_in_memory, lock } = data_disk::open_for_server(configuration)?;
    let clock = Arc::clone(&hooks.clock);
    let random = Arc::new(SystemRandom);
    let options = store_options(configuration, &plan, &*random);
    hooks.backup = archiving::facts(configuration)?;
    hooks.figures = figures_disk(configuration).ok().flatten();
    let traces = configuration.traces.as_ref().map(TraceExport::begin).transpose()?;
    hooks.traces = traces.as_ref().map(TraceExport::settings);
    hooks.decoy_secret = decoy_secret::of_directory(&*disk, &*random);
    let temporary = TemporaryStore::open(disk.clone(), Path::new(TEMPORARY_DIRECTORY))
        .map_err(|error| cannot("cannot use the temporary files of", &error))?;
    let (store, following) =
        following::open_store(configuration, disk, clock.clone(), options, (&hooks.handle, address))
            .map_err(|error| not_opened(error, data))?;
    hooks.members = following.as_ref().map(Following::members);
    let recovery = store.recovery();
    tracing::info!(target: "storage", ?recovery, "the database is open");
    if let Some(reason) = store.writes_stopped() {
        tracing::warn!(target: STARTUP_WARNINGS, reason, "the server takes no writes");
    }
    if configuration.checks_memory {
        memory_watch::begin(&store, &plan.budget, &plan.reserved, disk_in_memory);
    }
    store.start_background().map_err(|error| cannot("cannot start the background work of", &error))?;
    let archiving = Archiving::begin(configuration, &store, &hooks.backup)?;
    hooks.archive = archiving.as_ref().map(Archiving::watch);
    let lines = RecentLines { log: hooks.handle.log().clone(), warnings: Arc::clone(&hooks.warnings) };
    let lines = Arc::new(lines);
    let memory = WorkingMemory::new(plan.budget, temporary);
    let clock = store.clock().clone();
    let context = ServerContext::new(store, clock, &*random, facts, Arc::new(hooks), lines, memory);
    context.begin().map_err(|error| cannot("cannot take up the replica set in", &error))?;
    following.as_ref().map_or(Ok(()), |following| following.serve(context.clone()))?;
    context.redact(configuration.redacts);
    context.audit_itself("startup").map_err(|error| error.message)?;
    context.note_start();
    if let Err(error) = context.store_own_documents() {
        // A disk that is full: everything else works.
        tracing::warn!(target: STARTUP_WARNINGS, %error, "the document of the feature compatibility version could not be stored");
    }
    if let Err(error) = context.drop_abandoned_outputs() {
        tracing::warn!(target: STARTUP_WARNINGS, %error, "what an unfinished $out has left could not be dropped");
    }
    let directory = lock.as_ref().map(|_| data.clone());
    if let Some(data) = &directory {
        left_user::take_in(data, &context);
    }
    Ok(DatabaseService::new(context, lock, plan.reserved, directory, Threads { archiving, following, traces }))
}

fn store_options(configuration: &Configuration, plan: &MemoryPlan, random: &dyn Random) -> StoreOptions {
    let mut database_uuid = [0; 16];
    random.fill(&mut database_uuid);
    let engine = EngineOptions {
        history_memory_bytes: plan.history_bytes,
        history_quota_bytes: configuration.history_bytes,
        ring_buffer_bytes: plan.ring_bytes,
        memory: Arc::clone(&plan.budget),
        cache_bytes: usize::try_from(configuration.cache_bytes).unwrap_or(usize::MAX),
        database_uuid,
        ..EngineOptions::default()
    };
    let mut options = StoreOptions { engine, ..StoreOptions::default() };
    options.applying_by = ApplyingBy::Threads(platform::processors().min(APPLYING_MAX));
    options.clock_drift_max = configuration.clock_drift_max;
    options.oplog_retention_bytes = configuration.oplog_bytes;
    options.oplog_retention_time = configuration.oplog_time;
    options.oplog.buffer_bytes_max = plan.log_bytes;
    if let Some(bytes) = configuration.ephemeral_bytes {
        small_disk::fit(&mut options, bytes);
    }
    options
}

/// Where figures are recorded. Not the store's disk: they have nothing of documents in them, and are read without a key.
pub(super) fn figures_disk(configuration: &Configuration) -> std::io::Result<Option<Arc<dyn Disk>>> {
    match configuration.ephemeral_bytes {
        Some(_) => Ok(None),
        None => RealDisk::new(&configuration.data).map(|disk| Some(Arc::new(disk) as Arc<dyn Disk>)),
    }
}

fn not_opened(error: TransactionError, data: &Path) -> OpenError {
    let message = format!("cannot open the database in {}: {error}", data.display()) + &way_out(&error, data);
    match error {
        error if error.is_damage() => OpenError::Damaged(message),
        TransactionError::ClockAhead { .. } => OpenError::ClockAhead(message),
        _ => OpenError::Refused(message),
    }
}

/// What to do about a database that does not open.
fn way_out(error: &TransactionError, data: &Path) -> String {
    let data = data.display();
    if error.is_damage() {
        return format!(
            ". Opening it would lose something, so nothing was changed. `plimsoll repair --data {data} --into NEWDIR` saves everything that can be read \
             into a new directory, and says what cannot"
        );
    }
    if let TransactionError::ClockAhead { ahead_seconds, .. } = error {
        let enough = ahead_seconds + ENOUGH_FOR_A_START;
        return format!(
            ". Nothing was changed. Set the clock right; if it is right, because nobody has written for so long, start once with \
             --max-clock-drift-seconds {enough} (mongod: --setParameter maxAcceptableLogicalClockDriftSecs={enough})"
        );
    }
    String::new()
}
