//! One run of a set: its log, machines and clients, and the loop of steps that a seed decides.
//!
//! Everything happens on one thread. What happens in the midst of a commit comes through `transaction::Interleaving`, so all state is behind locks that are held
//! for an instant only, and never while a store is called. The member under way is *busy*: nobody else writes there or ends it meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use oplog::{OplogOptions, OplogPosition};
use parking_lot::Mutex;
use platform::{Foreground, Random, SeededRandom};
use shared_log::{Faults, MemoryLog};
use storage_engine::EngineOptions;
use transaction::{ApplyingBy, Interleaving, Leadership, Moment, StoreOptions};

use super::client::Client;
use super::machine::Machine;
use super::mistakes::{Mistake, Terms};
use super::truth::Truth;
use crate::documents::Sizes;
use crate::simulation::Summary;
use crate::trace::Trace;

/// How many members there are.
pub(super) const MEMBERS: usize = 3;
/// How deep things happen inside other things.
const DEPTH_MAX: usize = 2;
/// Turns after which what a member waits for is not going to be confirmed: it is killed then.
const TURNS_MAX: usize = 60;
/// How far the clocks of two machines may be apart.
const CLOCKS_APART: Duration = Duration::from_secs(3_600);

/// What a seed decides before the first step.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) steps: u64,
    pub(super) clients: u64,
    /// Clients append to so many lists.
    pub(super) lists: u64,
    pub(super) sizes: Sizes,
    /// Probability that a step is trouble: a crash, a cut, a pause, a step-down.
    pub(super) trouble: f64,
    /// Whether disks fail beside losing their power.
    pub(super) disks_fail: bool,
    /// Probability that something happens in the midst of a commit.
    pub(super) nesting: f64,
    pub(super) options: StoreOptions,
}

impl Plan {
    fn draw(random: &SeededRandom) -> Plan {
        Plan {
            steps: 1_500 + random.below(4_500),
            clients: 1 + random.below(5),
            lists: 1 + random.below(6),
            sizes: if random.chance(0.7) { Sizes::Tiny } else { Sizes::Small },
            trouble: [0.005, 0.015, 0.04][random.below(3) as usize],
            disks_fail: random.chance(0.3),
            nesting: [0.0, 0.05, 0.3][random.below(3) as usize],
            options: options(random),
        }
    }
}

fn options(random: &SeededRandom) -> StoreOptions {
    let one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
    StoreOptions {
        engine: EngineOptions {
            cache_bytes: 4 << 20,
            history_memory_bytes: one_of(&[16 << 10, 1 << 20]) as usize,
            extent_bytes: one_of(&[64 << 10, 256 << 10]) as u32,
            ring_buffer_bytes: one_of(&[4 << 10, 64 << 10]),
            ..EngineOptions::default()
        },
        oplog: OplogOptions {
            directory: PathBuf::from("oplog"),
            segment_bytes: one_of(&[16 << 10, 128 << 10]),
            buffer_bytes_max: 1 << 20,
            flush_interval: Duration::from_millis(50),
        },
        oplog_retention_bytes: one_of(&[0, 64 << 10]),
        oplog_retention_time: Some(Duration::ZERO),
        checkpoint_log_bytes: one_of(&[8 << 10, 128 << 10]),
        checkpoint_interval: Duration::from_secs(60),
        checkpoint_spread: Duration::ZERO,
        space_reserve_bytes: 0,
        ttl_interval: Duration::from_secs(60),
        replay_threads: 0,
        applying_by: ApplyingBy::Caller { queues: one_of(&[1, 2, 3, 4]) as usize },
        index_piece_bytes: one_of(&[500, 20 << 10, 8 << 20]) as usize,
        clock_drift_max: Duration::from_secs(365 * 24 * 3600),
        large_transaction_bytes: one_of(&[500, 4 << 10, 1 << 20]) as usize,
        engine_threads: false,
        foreground: Arc::new(Foreground::new(2)),
        interleaving: Interleaving::default(),
    }
}

/// See the module's head.
pub(crate) struct World {
    pub(super) plan: Plan,
    pub(super) random: SeededRandom,
    pub(crate) trace: Trace,
    pub(super) log: MemoryLog,
    pub(super) machines: Vec<Machine>,
    /// `None`: it is at work.
    pub(super) clients: Vec<Mutex<Option<Client>>>,
    pub(super) truth: Mutex<Truth>,
    pub(super) mistake: Option<Mistake>,
    pub(super) terms: Arc<Terms>,
    pub(super) summary: Mutex<Summary>,
    depth: Mutex<usize>,
    is_well: AtomicBool,
    itself: Weak<World>,
}

impl World {
    pub(crate) fn new(seed: u64, mistake: Option<Mistake>, is_verbose: bool) -> Arc<World> {
        let random = SeededRandom::new(seed ^ 0x5345_5421);
        let plan = Plan::draw(&random);
        let trace = Trace::new(is_verbose);
        trace.line(0, format_args!("{plan:?}"));
        let log = MemoryLog::new(random.next_u64());
        log.set_faults(Faults::at_rate([0.0, 0.02, 0.1, 0.2][random.below(4) as usize]));
        let behind = || Duration::from_millis(random.below(CLOCKS_APART.as_millis() as u64));
        let machines = (0..MEMBERS).map(|place| Machine::new(place, random.next_u64(), behind())).collect();
        let clients = (0..plan.clients).map(|_| Mutex::new(Some(Client::new(&random)))).collect();
        let terms = Arc::new(Terms::new(&log));
        Arc::new_cyclic(|itself| World {
            truth: Mutex::new(Truth::new(MEMBERS)),
            plan,
            random,
            trace,
            log,
            machines,
            clients,
            mistake,
            terms,
            summary: Mutex::default(),
            depth: Mutex::new(0),
            is_well: AtomicBool::new(false),
            itself: itself.clone(),
        })
    }

    /// The whole run.
    ///
    /// # Panics
    /// When something is not as it must be: the caller catches it.
    pub(crate) fn run(&self) -> Summary {
        for place in 0..MEMBERS {
            self.start(place);
        }
        for _ in 0..self.plan.steps {
            self.step();
            self.bury_the_dead();
        }
        self.come_to_an_end();
        let mut summary = *self.summary.lock();
        summary.fingerprint = self.trace.fingerprint();
        summary
    }

    fn step(&self) {
        let passed = self.random.below(if self.chance(0.02) { 3_000 } else { 100 });
        self.let_time_pass(Duration::from_millis(passed));
        if self.chance(self.plan.trouble) {
            return self.cause_trouble();
        }
        let place = self.any_place();
        match self.random.below(100) {
            0..32 => self.client_turn(),
            32..75 => self.turn(place),
            75..82 => self.look(place),
            82..93 => self.background_step(place),
            93..96 => self.start_if_down(place),
            _ => drop(self.log.deliver()),
        }
    }

    pub(super) fn any_place(&self) -> usize {
        self.random.below(MEMBERS as u64) as usize
    }

    /// Some place for trouble: half of the time that of whoever leads.
    pub(super) fn troubled_place(&self) -> usize {
        let leads =
            |machine: &Machine| machine.running().is_some_and(|running| running.store.leadership() == Leadership::Held);
        let leader = self.machines.iter().position(leads);
        leader.filter(|_| self.chance(0.5)).unwrap_or_else(|| self.any_place())
    }

    /// Whether things still go wrong.
    pub(super) fn is_troubled(&self) -> bool {
        !self.is_well.load(Ordering::Relaxed)
    }

    /// Nothing goes wrong from now on.
    pub(super) fn make_well(&self) {
        self.is_well.store(true, Ordering::Relaxed);
    }

    pub(super) fn let_time_pass(&self, duration: Duration) {
        self.machines.iter().for_each(|machine| machine.clock.advance(duration));
    }

    /// What runs in the midst of something that a store does.
    pub(super) fn interleaving(&self, place: usize) -> Interleaving {
        let world = self.itself.clone();
        Interleaving::new(move |moment| {
            if let Some(world) = world.upgrade() {
                world.at_moment(place, moment);
            }
        })
    }

    fn at_moment(&self, place: usize, moment: Moment<'_>) {
        match moment {
            Moment::Unconfirmed { end } => self.wait_confirmed(place, end),
            Moment::Recovered { .. } | Moment::LargeCommitOnFullDisk => {}
            Moment::Logged { .. } | Moment::LargeCommit | Moment::IndexBuild => {
                if *self.depth.lock() < DEPTH_MAX && self.chance(self.plan.nesting) {
                    self.deeper(|| (0..=self.random.below(4)).for_each(|_| self.nested_step(place)));
                }
            }
        }
    }

    fn deeper(&self, work: impl FnOnce()) {
        *self.depth.lock() += 1;
        work();
        *self.depth.lock() -= 1;
    }

    /// What others do while a member has something under way.
    fn nested_step(&self, place: usize) {
        let other = self.any_place();
        match self.random.below(20) {
            0..8 => self.turn(other),
            // It ships what is not applied yet.
            8..12 => self.turn(place),
            12..15 => drop(self.log.deliver()),
            15..17 => self.look(other),
            17 => self.client_turn(),
            18 if self.is_troubled() && self.chance(self.plan.trouble) => self.arm_power_loss(place),
            _ => self.let_time_pass(Duration::from_millis(self.random.below(300))),
        }
    }

    /// Somebody waits in a store until the log has everything before `end`. One who waits in vain is killed, and does not wait any longer.
    fn wait_confirmed(&self, place: usize, end: OplogPosition) {
        let Some(running) = self.machines[place].running() else { return };
        self.deeper(|| {
            for _ in 0..TURNS_MAX {
                if running.store.is_confirmed(end) || running.store.leadership() == Leadership::Lost {
                    return;
                }
                self.turn(place);
                self.turn(self.any_place());
                self.let_time_pass(Duration::from_millis(20));
                self.log.deliver();
            }
        });
        if !running.store.is_confirmed(end) {
            self.say(format_args!("member {place} waits in vain for {end}"));
            running.store.set_leadership(Leadership::Lost);
            running.doom();
        }
    }

    pub(super) fn chance(&self, probability: f64) -> bool {
        self.random.chance(probability)
    }

    pub(super) fn say(&self, text: std::fmt::Arguments<'_>) {
        self.trace.line(*self.depth.lock(), text);
    }

    /// Ends the run: something is not as it must be.
    #[allow(clippy::panic, reason = "a failed check ends the run; the caller of `run` catches it")]
    pub(super) fn fail(&self, text: std::fmt::Arguments<'_>) -> ! {
        panic!("{text}")
    }
}
