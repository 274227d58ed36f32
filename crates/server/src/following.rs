//! A server whose commits a shared log confirms (`--log`): opens the log, has the store join its set, and runs the thread that leads or follows.
//!
//! Called by `main`. A member that is overtaken with commits that nobody was told of opens its store again in the same process; one that cannot follow the log stops,
//! and says why.

mod copies;
mod fetching;
pub mod log_care;
pub mod log_objects;
mod log_opening;
pub mod log_restoring;
mod log_trimming;
mod log_watch;
mod notice_board;
mod recent_copy;
mod role_changes;
mod set_aside;
mod set_state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::ServerHandle;
use crate::configuration::Configuration;
use commands::{ServerContext, SetMembers, StepDown};
use oplog::{Oplog, OplogPosition};
use parking_lot::Mutex;
use platform::{Clock, Disk, Random, SystemClock, SystemRandom};
use replication::{Entered, Member, ReplicationError, StandingFile, enter};
use shared_log::{Leader, SharedLog, SharedLogError};
use transaction::{OpensAs, Store, StoreOptions, TransactionError};

use self::copies::Copies;
use self::log_opening::open_log;
use self::log_trimming::Trimming;
use self::notice_board::NoticeBoard;
use self::set_state::{Asked, SetState};

/// How long a start waits until the log has all that the oplog has.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server that stops waits for another member to catch up.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(1);
/// How long the member's thread rests while somebody waits for news of others.
const SHORT_REST: Duration = Duration::from_millis(2);
/// Pause after an error of this machine's disk.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// How often a start cuts what this member has logged and the set has not, before it is given up.
const CUTS_MAX: usize = 5;

/// The threads of a member.
pub(crate) struct Following {
    state: Arc<SetState>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Following {
    /// Ends them. The store has been closed.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.state.wake();
        for thread in self.threads.lock().drain(..) {
            thread.thread().unpark();
            // It panicked: that is in the log.
            let _ = thread.join();
        }
    }

    /// The server stops: whoever is to lead next begins at once.
    pub(crate) fn hand_over(&self) {
        self.state.close();
        if !self.state.look().members.iter().any(|member| member.is_alive && !member.is_self) {
            return;
        }
        let how = StepDown { longest: Duration::ZERO, patience: HAND_OVER_PATIENCE, is_forced: false };
        if self.state.leads()
            && let Err(refused) = self.state.step_down(&how)
        {
            tracing::info!(target: "replication", ?refused, "nobody takes the lead at once");
        }
    }

    /// What commands ask of the set.
    pub(crate) fn members(&self) -> Arc<dyn SetMembers> {
        self.state.clone()
    }

    /// From now on the server's state is told when the role changes.
    ///
    /// # Errors
    /// No thread could be started.
    pub(crate) fn serve(&self, context: Arc<ServerContext>) -> Result<(), String> {
        let thread = role_changes::begin(self.state.clone(), self.stop.clone(), context);
        self.threads.lock().push(thread.map_err(|error| format!("cannot start a thread of the replica set: {error}"))?);
        Ok(())
    }
}

/// Opens the store: alone, as a member that leads and has everything confirmed, or as one that follows. `address`: where clients find this server.
///
/// # Errors
/// As `Store::open`; `SharedLog`.
pub(crate) fn open_store(
    configuration: &Configuration,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: StoreOptions,
    (handle, address): (&ServerHandle, String),
) -> Result<(Arc<Store>, Option<Following>), TransactionError> {
    let set = configuration.replica_set.as_ref();
    let Some((set, place)) = set.and_then(|set| Some((set, set.log.as_ref()?))) else {
        return Ok((Store::open(disk, clock, Arc::new(SystemRandom), options)?, None));
    };
    let standing = StandingFile::open(disk.clone()).map_err(failed)?;
    // A log that was followed and is not there is a file system that is not mounted, and must not be begun anew.
    let key = configuration.encryption_key.as_ref();
    let log = open_log(place, standing.stored().is_none(), key).map_err(|error| failed(error.into()))?;
    let me = Leader { node: Leader::node_at(&address), incarnation: SystemRandom.next_u64(), address };
    let data = disk.clone();
    let (store, entered) = join_set(&*log, (disk, clock.clone()), options, &me)?;
    let leads = matches!(entered, Entered::Leads(_));
    let member = Member::begin(log.clone(), clock, Arc::new(SystemRandom), me.clone(), entered, &store);
    let state = Arc::new(SetState::new(log, me, set.tags.clone(), store.clone(), leads));
    let stop = Arc::new(AtomicBool::new(false));
    let thread = begin(member, store.clone(), state.clone(), (handle.clone(), stop.clone()))?;
    let mut threads = vec![thread];
    if let Some(copies) = Copies::of_log(place, configuration.encryption_key.clone()) {
        let giver = copies::begin_giving(copies, state.clone(), data, stop.clone());
        threads.push(giver.map_err(TransactionError::Thread)?);
    }
    let trimming = Trimming {
        place: place.clone(),
        key: configuration.encryption_key.clone(),
        window: set.log_window,
        state: state.clone(),
        stop: stop.clone(),
    };
    threads.extend(log_trimming::begin(trimming).map_err(TransactionError::Thread)?);
    threads.push(log_watch::begin(state.clone(), stop.clone()).map_err(TransactionError::Thread)?);
    let following = Following { state, stop, threads: Mutex::new(threads) };
    let began = SystemClock::new();
    let is_over = || began.monotonic() >= PATIENCE;
    if !leads {
        return Ok((store, Some(following)));
    }
    match store.wait_confirmed(store.oplog().end_position(), &is_over) {
        Ok(true) => Ok((store, Some(following))),
        outcome => {
            following.stop();
            outcome?;
            Err(failed(ReplicationError::NoAnswer { seconds: PATIENCE.as_secs() }))
        }
    }
}

/// Before the data directory is used: gets the data of another member if this one is new, or was away for long, and the log does not have everything that it needs.
///
/// # Errors
/// Why it cannot.
pub(crate) fn prepare(configuration: &Configuration, address: String) -> Result<(), String> {
    let log = configuration.replica_set.as_ref().and_then(|set| set.log.as_ref());
    let Some(place) = log else { return Ok(()) };
    match open_log(place, false, configuration.encryption_key.as_ref()) {
        // It is made when the store is opened, or refused then.
        Err(SharedLogError::Absent) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(log) => {
            let copies = Copies::of_log(place, configuration.encryption_key.clone());
            let directory = (&*configuration.data, configuration.encryption_key.as_ref());
            fetching::fetch_if_needed(copies, &*log, directory, &address)
        }
    }
}

fn failed(error: ReplicationError) -> TransactionError {
    TransactionError::SharedLog(Box::new(error))
}

/// Opens the store where the log is. What this member has logged and the set has not is cut first, if another one leads: nobody was told of it. Nothing is cut of
/// a server that has never followed this log: what it has is its own, and is not the set's.
fn join_set(
    log: &dyn SharedLog,
    (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>),
    options: StoreOptions,
    me: &Leader,
) -> Result<(Arc<Store>, Entered), TransactionError> {
    let mut cuts = 0;
    loop {
        let mut entered: Option<Entered> = None;
        let random = Arc::new(SystemRandom);
        let catch_up = |oplog: &oplog::LocalOplog| {
            let standing = StandingFile::open(disk.clone())?;
            let found = enter(log, oplog, standing, me.clone(), &clock)?;
            let opens_as = if matches!(found, Entered::Leads(_)) { OpensAs::Leader } else { OpensAs::Follower };
            entered = Some(found);
            Ok::<_, ReplicationError>(opens_as)
        };
        let error = match Store::open_caught_up(disk.clone(), clock.clone(), random, options.clone(), catch_up) {
            Ok(store) => {
                let entered = entered.ok_or_else(|| failed(ReplicationError::NoAnswer { seconds: 0 }))?;
                return Ok((store, entered));
            }
            Err(TransactionError::SharedLog(error)) => error,
            Err(error) => return Err(error),
        };
        let from = match error.downcast_ref::<ReplicationError>() {
            Some(ReplicationError::Unconfirmed { from } | ReplicationError::Differs { from, .. }) => *from,
            _ => return Err(TransactionError::SharedLog(error)),
        };
        cuts += 1;
        let is_of_the_set = StandingFile::open(disk.clone()).map_err(failed)?.stored().is_some();
        if !is_of_the_set {
            tracing::error!(
                target: "replication",
                "this server has data of its own, which is not the replica set's: start it with an empty data directory to have it join"
            );
        }
        if cuts > CUTS_MAX || !is_of_the_set {
            return Err(TransactionError::SharedLog(error));
        }
        tracing::warn!(target: "replication", from, "cuts what was logged here and never confirmed: {error}");
        let directory = options.oplog.directory.clone();
        oplog::cut_from(disk.clone(), clock.clone(), directory, OplogPosition(from))?;
    }
}

/// Starts the thread that leads or follows.
fn begin(
    mut member: Member,
    store: Arc<Store>,
    state: Arc<SetState>,
    (handle, stop): (ServerHandle, Arc<AtomicBool>),
) -> Result<JoinHandle<()>, TransactionError> {
    let thread = platform::spawn_named("log-member", move || {
        storage_engine::mark_background_thread();
        let (clock, mut told) = (SystemClock::new(), String::new());
        let (mut board, mut leadership) = (NoticeBoard::new(), store.leadership());
        let leaving = state.clone();
        member.call_when_leaving(move || leaving.set_leads(false));
        while !stop.load(Ordering::Acquire) {
            for asked in state.take_asked() {
                match asked {
                    Asked::StepDown { successor } => {
                        let led = state.leads();
                        state.answer_step_down(member.step_down(&store, successor), led);
                    }
                    Asked::Freeze(longest) => member.freeze(longest),
                }
            }
            let stepped = member.step(&store);
            // Clients that wait for news are told at once that the log does not answer, and that it does again.
            let before = std::mem::replace(&mut leadership, store.leadership());
            if before != leadership {
                state.wake();
            }
            if member.has_caught_up() {
                state.note_caught_up();
            }
            state.note(member.standpoint());
            state.set_may_lead(member.may_lead());
            member.needs().into_iter().for_each(|needs| state.set_needs(needs));
            member.next_record().into_iter().for_each(|next| state.set_next_record(next));
            board.turn(&state, &store, &clock);
            if state.is_over() {
                tracing::warn!(target: "replication", "another member leads: the store is opened again");
                return handle.request_reopening();
            }
            match stepped {
                Ok(true) => {
                    told.clear();
                    // What others log is to be here soon: a copy that is made beside it gives way, as to clients.
                    store.foreground().note_finished();
                }
                // Somebody waits until others have applied something.
                Ok(false) if state.is_waited_for() => clock.sleep(SHORT_REST),
                Ok(false) => member.rest(&store),
                Err(ReplicationError::Log(error @ SharedLogError::Trimmed { .. })) => {
                    tracing::warn!(target: "replication", %error, "the shared log was trimmed while this server was away: it gets another member's data");
                    return handle.request_reopening();
                }
                Err(error) if error.is_final() => {
                    tracing::error!(target: "replication", %error, "the shared log cannot be followed: the server stops");
                    return handle.request_stop();
                }
                Err(error) => {
                    let message = error.to_string();
                    if message != told {
                        tracing::error!(target: "replication", %error, "the member could not go on");
                        told = message;
                    }
                    clock.sleep(ERROR_PAUSE);
                }
            }
        }
    });
    thread.map_err(TransactionError::Thread)
}
