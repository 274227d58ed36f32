//! A machine of a set and the process on it: starting as a server does, a turn of its member, and what a store's errors mean.
//!
//! Called by `world` and `troubles`. As `server::following` does, what a member has logged and the set has not is cut when it starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oplog::{LocalOplog, Oplog, OplogPosition};
use parking_lot::Mutex;
use platform::{Clock, Disk, Random, SeededRandom, SimulatedClock, SimulatedDisk};
use replication::{Entered, Member, ReplicationError, StandingFile, Standpoint, enter};
use shared_log::Leader;
use transaction::{Leadership, OpensAs, Store, StoreOptions, TransactionError};

use super::connection::{Cut, SetConnection};
use super::mistakes::Mistake;
use super::world::World;
use crate::errors::{Kind, kind};

/// How often a start cuts before it is given up.
const CUTS_MAX: usize = 5;
const WALL_MILLIS: i64 = 1_700_000_000_000;

/// See the module's head.
pub(super) struct Machine {
    pub(super) disk: Arc<SimulatedDisk>,
    pub(super) clock: Arc<SimulatedClock>,
    address: String,
    node: u64,
    process: Mutex<Process>,
}

#[derive(Default)]
struct Process {
    running: Option<Arc<Running>>,
    lives: u64,
    /// For so many turns it is stopped.
    paused: u64,
    /// For so many turns the network between it and the log is cut, and how.
    cut_for: u64,
    cut: Cut,
    is_busy: bool,
    /// The disk was made to fail since the last start.
    is_disk_bad: bool,
}

/// A process that runs.
pub(super) struct Running {
    pub(super) store: Arc<Store>,
    pub(super) member: Mutex<Member>,
    pub(super) connection: Arc<SetConnection>,
    /// Which life of all.
    pub(super) life: u64,
    /// It serves once this is confirmed.
    serves_from: OplogPosition,
    is_doomed: AtomicBool,
}

impl Running {
    /// Its process ends as soon as nothing is under way there.
    pub(super) fn doom(&self) {
        self.is_doomed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_doomed(&self) -> bool {
        self.is_doomed.load(Ordering::Relaxed)
    }

    /// Whether clients are served.
    pub(super) fn serves(&self) -> bool {
        self.store.is_confirmed(self.serves_from)
    }
}

impl Machine {
    pub(super) fn new(place: usize, seed: u64, behind: Duration) -> Machine {
        let clock = Arc::new(SimulatedClock::new(WALL_MILLIS - behind.as_millis() as i64));
        let disk = Arc::new(SimulatedDisk::with_clock(seed, clock.clone()));
        let address = format!("db{place}:27017");
        Machine { disk, clock, node: place as u64 + 1, address, process: Mutex::default() }
    }

    /// The process on it, if there is one.
    pub(super) fn running(&self) -> Option<Arc<Running>> {
        self.process.lock().running.clone()
    }

    /// The same if it goes on, and nothing is under way there.
    pub(super) fn idle(&self) -> Option<Arc<Running>> {
        let process = self.process.lock();
        let is_idle = process.paused == 0 && !process.is_busy && !self.disk.is_down();
        process.running.clone().filter(|running| is_idle && !running.is_doomed())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.process.lock().is_busy
    }

    pub(super) fn is_disk_bad(&self) -> bool {
        self.process.lock().is_disk_bad
    }

    pub(super) fn spoil_disk(&self) {
        self.process.lock().is_disk_bad = true;
    }

    /// Does something there that nobody may be beside of.
    pub(super) fn busily<T>(&self, work: impl FnOnce() -> T) -> T {
        self.process.lock().is_busy = true;
        let result = work();
        self.process.lock().is_busy = false;
        result
    }

    pub(super) fn pause(&self, turns: u64) {
        self.process.lock().paused = turns;
    }

    pub(super) fn cut_off(&self, turns: u64, cut: Cut) {
        let mut process = self.process.lock();
        (process.cut_for, process.cut) = (turns, cut);
        process.running.iter().for_each(|running| running.connection.cut(cut));
    }

    /// The process is gone.
    pub(super) fn take(&self) -> Option<Arc<Running>> {
        self.process.lock().running.take()
    }

    /// Whether it is stopped; a turn of that is over then.
    fn passes_turn(&self) -> bool {
        let mut process = self.process.lock();
        if process.cut_for > 0 {
            process.cut_for -= 1;
            if process.cut_for == 0 {
                process.cut = Cut::Not;
                process.running.iter().for_each(|running| running.connection.cut(Cut::Not));
            }
        }
        let is_paused = process.paused > 0;
        process.paused = process.paused.saturating_sub(1);
        is_paused
    }
}

/// What opening has come to.
enum Opened {
    Serves(Arc<Running>),
    /// To be cut from there.
    Cut(OplogPosition),
    /// The log did not answer, or the disk failed.
    Not,
}

impl World {
    pub(super) fn start_if_down(&self, place: usize) {
        let machine = &self.machines[place];
        if machine.running().is_none() && !machine.is_busy() {
            self.start(place);
        }
    }

    /// Starts a process, as a server does that finds this data.
    pub(super) fn start(&self, place: usize) {
        let machine = &self.machines[place];
        machine.disk.power_on();
        machine.disk.clear_faults();
        machine.process.lock().is_disk_bad = false;
        if self.is_troubled() && self.chance(0.1) {
            self.arm_power_loss(place);
        }
        let mut tail = None;
        for _ in 0..CUTS_MAX {
            match machine.busily(|| self.open(place, &mut tail)) {
                Opened::Serves(running) => {
                    let mut process = machine.process.lock();
                    running.connection.cut(process.cut);
                    process.running = Some(running);
                    return;
                }
                Opened::Not => return,
                Opened::Cut(from) => {
                    self.say(format_args!("member {place} cuts its oplog from {from}"));
                    self.summary.lock().lost += 1;
                    let (disk, clock) = (machine.disk.clone(), machine.clock.clone());
                    let directory = self.plan.options.oplog.directory.clone();
                    if let Err(error) = oplog::cut_from(disk, clock, directory, from) {
                        return self.judge_start(place, &error.into());
                    }
                }
            }
        }
        self.fail(format_args!("member {place} cuts its oplog again and again"))
    }

    fn open(&self, place: usize, tail: &mut Option<Vec<u8>>) -> Opened {
        let machine = &self.machines[place];
        let life = {
            let mut process = machine.process.lock();
            process.lives += 1;
            process.lives
        };
        let random = SeededRandom::new(self.random.next_u64());
        let connection = Arc::new(SetConnection::new(&self.log, random, self.mistake, self.terms.clone()));
        connection.cut(machine.process.lock().cut);
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) = (machine.disk.clone(), machine.clock.clone());
        let me = Leader { node: machine.node, incarnation: life, address: machine.address.clone() };
        let options = StoreOptions { interleaving: self.interleaving(place), ..self.plan.options.clone() };
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(self.random.next_u64()));
        let mut entered = None;
        let opened = Store::open_caught_up(disk.clone(), clock.clone(), random.clone(), options, |oplog| {
            let found = enter(&*connection, oplog, StandingFile::open(disk)?, me.clone(), &clock);
            if let Err(ReplicationError::Unconfirmed { from }) = &found {
                *tail = self.tail_to_keep(oplog, *from);
            }
            let opens_as = match found? {
                Entered::Leads(joined) => (entered = Some(Entered::Leads(joined)), OpensAs::Leader).1,
                Entered::Follows(follows) => {
                    if let Some(tail) = tail.take() {
                        oplog.append_received(&tail)?;
                    }
                    (entered = Some(Entered::Follows(follows)), OpensAs::Follower).1
                }
            };
            Ok::<_, ReplicationError>(opens_as)
        });
        let (store, entered) = match (opened, entered) {
            (Ok(store), Some(entered)) => (store, entered),
            (Ok(_), None) => self.fail(format_args!("a store was opened that has not joined")),
            (Err(error), _) => return self.judge_opening(place, &error),
        };
        let how = if matches!(entered, Entered::Leads(_)) { "leads" } else { "follows" };
        let serves_from = store.oplog().end_position();
        self.say(format_args!("member {place} starts, {how}, its oplog ends at {serves_from}"));
        {
            let mut summary = self.summary.lock();
            summary.restarts += 1;
            summary.terms += u64::from(how == "leads");
        }
        let member = Member::begin(connection.clone(), clock, random, me, entered, &store);
        let (member, is_doomed) = (Mutex::new(member), AtomicBool::new(false));
        Opened::Serves(Arc::new(Running { store, member, connection, life, serves_from, is_doomed }))
    }

    /// What a member that keeps its tail has behind `from`.
    fn tail_to_keep(&self, oplog: &LocalOplog, from: u64) -> Option<Vec<u8>> {
        if self.mistake != Some(Mistake::KeepsTheTail) {
            return None;
        }
        let mut bytes = Vec::new();
        oplog.read_canonical(OplogPosition(from)).ok()?.read(&mut bytes, usize::MAX).ok()?;
        Some(bytes)
    }

    fn judge_opening(&self, place: usize, error: &TransactionError) -> Opened {
        if let TransactionError::SharedLog(cause) = error
            && let Some(ReplicationError::Unconfirmed { from } | ReplicationError::Differs { from, .. }) =
                cause.downcast_ref::<ReplicationError>()
            && !self.machines[place].disk.is_down()
        {
            return Opened::Cut(OplogPosition(*from));
        }
        self.judge_start(place, error);
        Opened::Not
    }

    /// Why a start failed; only a disk or a log that cannot be reached may be the cause.
    fn judge_start(&self, place: usize, error: &TransactionError) {
        self.say(format_args!("member {place} does not start: {error}"));
        let is_unanswered = matches!(error, TransactionError::SharedLog(cause)
            if matches!(cause.downcast_ref::<ReplicationError>(), Some(ReplicationError::NoAnswer { .. })));
        if !self.machines[place].disk.is_down() && !is_unanswered {
            self.fail(format_args!("member {place} cannot be started: {error}"));
        }
    }

    /// A turn of a member's thread.
    pub(super) fn turn(&self, place: usize) {
        let machine = &self.machines[place];
        if machine.passes_turn() {
            return;
        }
        let Some(running) = machine.running().filter(|running| !running.is_doomed()) else { return };
        // What it applies would wait for what is under way, which is on this thread.
        if machine.is_busy() && running.store.leadership() != Leadership::Held {
            return;
        }
        // Its own thread is in the midst of something.
        let Some(mut member) = running.member.try_lock() else { return };
        let before = member.standpoint();
        let stepped = member.step(&running.store);
        let after = member.standpoint();
        if self.mistake == Some(Mistake::BelievesWhatIsShipped) && matches!(after, Standpoint::Leads { .. }) {
            running.store.confirm(running.store.oplog().end_position());
        }
        drop(member);
        if before != after {
            self.say(format_args!("member {place}: {after:?}"));
            if let Standpoint::Leads { .. } = after {
                self.summary.lock().terms += 1;
            }
        }
        match stepped {
            Err(error) if error.is_final() => self.fail(format_args!("member {place} cannot follow the log: {error}")),
            Err(error) => self.judge_member_error(place, &running, &error),
            Ok(_) if after == Standpoint::IsOver => running.doom(),
            Ok(_) => {}
        }
    }

    fn judge_member_error(&self, place: usize, running: &Running, error: &ReplicationError) {
        self.say(format_args!("member {place} could not go on: {error}"));
        let machine = &self.machines[place];
        // The store was given up, as what it waited for was not confirmed.
        let is_over = running.store.leadership() == Leadership::Lost;
        if !machine.disk.is_down() && !machine.is_disk_bad() && !is_over && !running.is_doomed() {
            self.fail(format_args!("member {place} could not go on though its disk is good: {error}"));
        }
        // Somebody restarts it.
        if machine.is_disk_bad() && self.chance(0.3) {
            running.doom();
        }
    }

    /// What a store says that is no fault of its own.
    pub(super) fn judge_error(&self, place: usize, running: &Running, error: &TransactionError) {
        self.say(format_args!("  {error}"));
        let machine = &self.machines[place];
        let is_expected = matches!(
            error,
            TransactionError::TermLost
                | TransactionError::NotPrimary
                | TransactionError::LogUnreachable
                | TransactionError::Unconfirmed
                | TransactionError::Undecided
        );
        if machine.disk.is_down() || is_expected || running.is_doomed() {
            return;
        }
        if machine.is_disk_bad() && matches!(kind(error), Kind::Disk | Kind::DiskFull) {
            if self.chance(0.3) {
                running.doom();
            }
            return;
        }
        self.fail(format_args!("member {place}: {error}"))
    }
}
