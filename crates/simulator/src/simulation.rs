//! One run: a store on a simulated disk, the model of it, and the loop of steps that a seed decides.
//!
//! Everything happens on one thread. Work in the midst of an operation (what other threads would do) comes through
//! `transaction::Interleaving`, which calls `at_moment`; therefore all state is behind locks that are held only for an instant and
//! never while the store is called.
//!
//! ```text
//! step ─ operations (clients) ─┬─ store ── at_moment ── nested operations, background
//!      ├ background            │
//!      ├ reading               ├─ model: what was logged, what is visible, what is durable
//!      └ lives (crash, reopen) ┴─ checks
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bson::RawDocument;
use parking_lot::Mutex;
use platform::{Random, SeededRandom, SimulatedClock, SimulatedDisk, Timestamp};
use transaction::{CommitInfo, Interleaving, Moment, Result, Store, TransactionError};

use crate::documents;
use crate::errors::{Kind, is_segment_unavailable, kind};
use crate::following::Following;
use crate::model::{CollectionNumber, Effect, Model};
use crate::plan::{Plan, Trouble, Wanted};
use crate::reading::Reader;
use crate::trace::Trace;

/// How deep operations happen inside operations.
const DEPTH_MAX: usize = 2;

/// What may go wrong just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Nothing.
    Good,
    /// An operation of the disk fails, or has failed without an effect on writes.
    Failing,
    /// The store has refused a write because the disk failed: it must refuse all from now on.
    Stopped,
    /// The disk is full.
    Full,
}

/// What the operation under way is going to do.
pub(crate) enum Intent {
    /// Change one document of a collection.
    Document { number: CollectionNumber, effect: Effect },
    /// Change definitions.
    Definition { effect: Effect },
    /// Build indexes, each of which is committed by itself.
    IndexBuild { number: CollectionNumber, indexes: Vec<u8> },
    /// Commit a transaction.
    Transaction { numbers: Vec<CollectionNumber>, effects: Arc<Vec<Effect>>, created: Option<Created> },
}

/// A collection that a transaction has created.
#[derive(Clone)]
pub(crate) struct Created {
    pub(crate) number: CollectionNumber,
    pub(crate) namespace: String,
    pub(crate) index: Option<u8>,
}

/// An operation under way.
struct UnderWay {
    intent: Intent,
    /// Whether the commit that has its effect was logged.
    is_logged: bool,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Commits that were logged.
    pub commits: u64,
    /// Times that the store was opened again.
    pub restarts: u64,
    /// Operations of the disk that failed on purpose.
    pub faults: u64,
    /// Commits that crashes lost; none of them had been acknowledged as durable. Of a set: tails of oplogs that were cut.
    pub lost: u64,
    /// Of a set: times that a member came to lead.
    pub terms: u64,
    /// Equal for equal runs.
    pub fingerprint: u64,
}

/// See the module's head.
pub(crate) struct Simulation {
    pub(crate) plan: Plan,
    pub(crate) random: SeededRandom,
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) trace: Trace,
    pub(crate) model: Mutex<Model>,
    pub(crate) readers: Mutex<Vec<Reader>>,
    /// Commits that their clients have not been told about.
    pub(crate) unacknowledged: Mutex<Vec<CommitInfo>>,
    pub(crate) health: Mutex<Health>,
    pub(crate) summary: Mutex<Summary>,
    /// The shared log that the store follows.
    pub(crate) following: Option<Following>,
    store: Mutex<Option<Arc<Store>>>,
    under_way: Mutex<Vec<UnderWay>>,
    /// The collections of the open transaction: who writes there might wait for it, for ever.
    pub(crate) in_transaction: Mutex<Vec<CollectionNumber>>,
    /// The disk was made to fail while the store was opened, which may have had no segment to spare made, and says so to writes.
    pub(crate) segment_may_lack: AtomicBool,
    /// It has said so: until the oplog is flushed next, which tries again.
    pub(crate) segment_was_refused: AtomicBool,
    itself: Weak<Simulation>,
}

impl Simulation {
    pub(crate) fn new(seed: u64, wanted: Wanted, is_verbose: bool) -> Arc<Simulation> {
        let random = SeededRandom::new(seed);
        let (rings, encryption) = (SeededRandom::new(seed ^ 0x5249_4e47), SeededRandom::new(seed ^ 0x4352_5950));
        let plan = Plan::draw(&random, &rings, &encryption, wanted);
        let clock = Arc::new(SimulatedClock::new(1_700_000_000_000));
        let disk = Arc::new(SimulatedDisk::with_clock(random.next_u64(), clock.clone()));
        if plan.is_encrypted {
            disk.fail_writes_between_sectors();
        }
        let trace = Trace::new(is_verbose);
        trace.line(0, format_args!("{plan:?}"));
        Arc::new_cyclic(|itself| Simulation {
            random,
            disk,
            clock,
            trace,
            model: Mutex::default(),
            readers: Mutex::default(),
            unacknowledged: Mutex::default(),
            health: Mutex::new(Health::Good),
            summary: Mutex::default(),
            following: plan.follows_log.then(|| Following::new(seed)),
            store: Mutex::new(None),
            under_way: Mutex::default(),
            in_transaction: Mutex::default(),
            plan,
            segment_may_lack: AtomicBool::new(false),
            segment_was_refused: AtomicBool::new(false),
            itself: itself.clone(),
        })
    }

    /// The whole run.
    ///
    /// # Panics
    /// When something is not as it must be: the caller catches it and shows the seed and the trace.
    pub(crate) fn run(&self) -> Summary {
        if self.plan.trouble == Trouble::BitFlips {
            self.model.lock().keep_versions();
        }
        self.open_first();
        for _ in 0..self.plan.steps {
            self.step();
            if self.disk.is_down() {
                self.recover_from_power_loss();
            }
        }
        self.finish();
        let mut summary = *self.summary.lock();
        summary.fingerprint = self.trace.fingerprint();
        summary
    }

    fn step(&self) {
        self.clock.advance(std::time::Duration::from_micros(self.random.below(2_000)));
        if self.random.chance(self.plan.crash_chance) {
            return self.crash_somehow();
        }
        if self.random.chance(0.02) {
            return self.cause_trouble();
        }
        self.ship_a_little();
        let background = if self.plan.is_background_busy { 40 } else { 15 };
        match self.random.below(100 + background) {
            0..70 => self.client_operation(&[]),
            70..85 => self.acknowledge_one(),
            85..100 => self.read_something(),
            _ => self.background_step(),
        }
    }

    /// The random troubles of the plan, which begin and end at any time.
    fn cause_trouble(&self) {
        match self.plan.trouble {
            Trouble::Errors => self.toggle_errors(),
            Trouble::FullDisk => self.toggle_full_disk(),
            Trouble::PowerLoss | Trouble::BitFlips => self.check_all("at a quiet moment"),
        }
    }

    pub(crate) fn chance(&self, probability: f64) -> bool {
        self.random.chance(probability)
    }

    /// The store in use.
    pub(crate) fn store(&self) -> Arc<Store> {
        self.store.lock().clone().unwrap_or_else(|| self.fail(format_args!("no store is open")))
    }

    pub(crate) fn set_store(&self, store: Option<Arc<Store>>) {
        let before = std::mem::replace(&mut *self.store.lock(), store);
        drop(before);
    }

    pub(crate) fn depth(&self) -> usize {
        self.under_way.lock().len()
    }

    pub(crate) fn say(&self, text: std::fmt::Arguments<'_>) {
        self.trace.line(self.depth(), text);
    }

    /// Ends the run: something is not as it must be.
    #[allow(clippy::panic, reason = "a failed check ends the run; the caller of `run` catches it")]
    pub(crate) fn fail(&self, text: std::fmt::Arguments<'_>) -> ! {
        panic!("{text}")
    }

    pub(crate) fn health(&self) -> Health {
        *self.health.lock()
    }

    /// Whether the newest state may lack what was logged last: a logged commit could not be applied, and only a restart helps.
    pub(crate) fn is_stopped(&self) -> bool {
        self.health() == Health::Stopped || self.disk.is_down()
    }

    pub(crate) fn interleaving(&self) -> Interleaving {
        let itself = self.itself.clone();
        Interleaving::new(move |moment| {
            if let Some(simulation) = itself.upgrade() {
                simulation.at_moment(moment);
            }
        })
    }

    /// Runs an operation that logs. The error is one that may happen just now.
    pub(crate) fn perform<T>(&self, intent: Intent, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let store = self.store();
        self.under_way.lock().push(UnderWay { intent, is_logged: false });
        let result = work(&store);
        let ended = self.under_way.lock().pop();
        let was_logged = ended.is_some_and(|operation| operation.is_logged);
        if let Err(error) = &result {
            self.check_error(error, was_logged);
        }
        result
    }

    fn check_error(&self, error: &TransactionError, was_logged: bool) {
        self.say(format_args!("  {error}"));
        if self.disk.is_down() {
            return;
        }
        if is_segment_unavailable(error) && self.segment_may_lack.load(Ordering::Relaxed) {
            self.segment_was_refused.store(true, Ordering::Relaxed);
            return;
        }
        match kind(error) {
            Kind::DuplicateKey | Kind::Dropped => {}
            Kind::DiskFull if self.health() == Health::Full => {}
            Kind::Disk if matches!(self.health(), Health::Failing | Health::Stopped) => self.note_failure(was_logged),
            // What was logged last may not be there.
            Kind::Other if self.is_stopped() && !was_logged => {}
            _ => self.fail(format_args!("unexpected error: {error}")),
        }
    }

    /// An operation failed because the disk did. When its commit had been logged, or writes are refused by now, nothing may be
    /// written any more.
    pub(crate) fn note_failure(&self, was_logged: bool) {
        let store = self.store();
        let is_stopped = store.check_writable().is_err();
        if was_logged && !is_stopped {
            self.fail(format_args!("a logged commit failed, and writes go on"));
        }
        if is_stopped {
            *self.health.lock() = Health::Stopped;
        }
    }

    /// Called in the midst of operations.
    fn at_moment(&self, moment: Moment<'_>) {
        if let Moment::Recovered { timestamp } = moment {
            return self.model.lock().note_recovered(timestamp);
        }
        if let Moment::Unconfirmed { end } = moment {
            self.ship_until(&self.store(), end);
            return;
        }
        let mut locked = self.in_transaction.lock().clone();
        let mut inside_definition = false;
        {
            let mut under_way = self.under_way.lock();
            if let (Moment::Logged { timestamp, .. }, true) = (moment, under_way.is_empty()) {
                let completed = self.model.lock().log_completed(timestamp);
                return completed.unwrap_or_else(|problem| self.fail(format_args!("{problem}")));
            }
            if let (Moment::Logged { timestamp, entry }, Some(operation)) = (moment, under_way.last_mut()) {
                let effect = operation.intent.effect_of(entry);
                // The beginning of an index build and its end without success have none; what a transaction creates goes with it.
                let is_creation = matches!(operation.intent, Intent::Transaction { .. }) && effect.is_of_definition();
                operation.is_logged |= !matches!(effect, Effect::Nothing) && !is_creation;
                self.log(timestamp, effect);
            }
            for operation in under_way.iter() {
                match &operation.intent {
                    Intent::Document { number, .. } => locked.push(*number),
                    Intent::Transaction { numbers, created, .. } => {
                        locked.extend(numbers);
                        inside_definition |= created.is_some();
                    }
                    Intent::Definition { .. } => inside_definition = true,
                    Intent::IndexBuild { .. } => {}
                }
            }
            if let (Moment::Logged { .. }, Some(UnderWay { intent: Intent::IndexBuild { .. }, .. })) =
                (moment, under_way.last())
            {
                inside_definition = true;
            }
        }
        if matches!(moment, Moment::LargeCommitOnFullDisk) && self.health() == Health::Full {
            return self.give_space_back();
        }
        if inside_definition || self.disk.is_down() || self.depth() > DEPTH_MAX {
            return;
        }
        let is_logged = matches!(moment, Moment::Logged { .. });
        if self.random.chance(if is_logged { 0.06 } else { 0.03 }) {
            for _ in 0..=self.random.below(3) {
                self.nested_step(&locked, is_logged);
            }
        }
    }

    /// What other threads may do while the collections in `locked` have a change under way.
    fn nested_step(&self, locked: &[CollectionNumber], is_commit_under_way: bool) {
        match self.random.below(10) {
            0..5 if is_commit_under_way => self.document_operation(locked),
            0..5 => self.client_operation(locked),
            5..9 => self.background_step(),
            _ if self.plan.crash_chance > 0.0 && self.random.chance(0.2) => self.arm_power_loss(),
            _ => self.read_something(),
        }
    }

    fn log(&self, timestamp: Timestamp, effect: Effect) {
        if self.health() == Health::Stopped && !self.disk.is_down() {
            self.fail(format_args!("a commit was logged after the disk had failed"));
        }
        self.summary.lock().commits += 1;
        let logged = self.model.lock().log(timestamp, effect);
        logged.unwrap_or_else(|problem| self.fail(format_args!("{problem}")));
    }

    /// The collections that an index is being built on.
    pub(crate) fn building(&self) -> Vec<CollectionNumber> {
        let under_way = self.under_way.lock();
        let building = under_way.iter().filter_map(|operation| match &operation.intent {
            Intent::IndexBuild { number, .. } => Some(*number),
            _ => None,
        });
        building.collect()
    }
}

impl Intent {
    fn effect_of(&self, entry: &[u8]) -> Effect {
        match self {
            Intent::Document { effect: Effect::PutInRing { number, id, document, .. }, .. } => {
                let field = |name| RawDocument::from_bytes(entry).ok().and_then(|entry| entry.get_i64(name).ok());
                let (place, head) = (field("rid").unwrap_or(-1), field("rh").unwrap_or(-1));
                Effect::PutInRing { number: *number, id: *id, document: document.clone(), place, head }
            }
            Intent::Document { effect, .. } | Intent::Definition { effect } => effect.clone(),
            Intent::IndexBuild { number, indexes } if has_word(entry, b"commitIndexBuild") => {
                let is_named = |index: &&u8| has_word(entry, &bson_string(&documents::index_name(**index)));
                let named = indexes.iter().find(is_named).copied();
                named.map_or(Effect::Nothing, |index| Effect::AddIndex { number: *number, index })
            }
            Intent::IndexBuild { .. } => Effect::Nothing,
            Intent::Transaction { created: Some(created), .. } if created.effect_of(entry).is_some() => {
                created.effect_of(entry).unwrap_or(Effect::Nothing)
            }
            Intent::Transaction { effects, .. } if has_word(entry, b"decides") => Effect::Decide(effects.clone()),
            Intent::Transaction { .. } if has_word(entry, b"partialTxn") => Effect::Nothing,
            Intent::Transaction { effects, .. } => Effect::All(effects.clone()),
        }
    }
}

impl Created {
    /// What an entry of a definition does.
    fn effect_of(&self, entry: &[u8]) -> Option<Effect> {
        let number = self.number;
        if has_word(entry, b"\x02create\0") {
            return Some(Effect::Create { number, namespace: self.namespace.clone(), capped: None });
        }
        if has_word(entry, b"\x02drop\0") {
            return Some(Effect::Drop { number });
        }
        let index = self.index.filter(|_| has_word(entry, b"commitIndexBuild"))?;
        Some(Effect::AddIndex { number, index })
    }
}

/// A string as it lies in a BSON document: its length, itself, a zero.
fn bson_string(text: &str) -> Vec<u8> {
    [&(text.len() as u32 + 1).to_le_bytes()[..], text.as_bytes(), &[0]].concat()
}

fn has_word(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}
