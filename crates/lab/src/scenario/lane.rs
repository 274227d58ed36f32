//! A lane: one thread of the load generator with a single-threaded runtime and a driver client of its own, on which some of
//! a phase's clients run. Lanes share nothing but a few counters, so that the driver costs no more than it must: two lanes
//! do half as many operations again as the driver does on one runtime of two threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::operation::Sender;
use super::own_waits::OwnWaits;
use super::pacing::{Arrivals, PreciseTimer};
use super::plan::{Group, OnError, Pace, Work};
use super::recorder::{Ended, Live, Record};
use super::template::Moment;
use crate::error::LabError;
use crate::random::Random;

mod load;

/// After an error that no server answered, a client waits this long: neither is a dead server asked a million times, nor do
/// clients whose operations the driver refuses take the processor from the others.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// What all lanes of a phase share.
pub(crate) struct PhaseShared {
    pub(crate) live: Live,
    /// Set once all lanes are connected.
    pub(crate) times: OnceLock<PhaseTimes>,
    /// Clients end after the operation they are at.
    pub(crate) stop: AtomicBool,
    /// Clients that wait end too.
    pub(crate) stopped: Notify,
    /// The first failure of a group that stops at failures.
    pub(crate) failure: Mutex<Option<LabError>>,
    pub(crate) failed: Notify,
    /// Clients of groups that end by themselves which have not ended.
    pub(crate) bounded_left: AtomicU64,
    pub(crate) bounded_ended: Notify,
    /// Operations begun, by group.
    pub(crate) numbers: Vec<AtomicU64>,
    pub(crate) last_error: Mutex<Option<String>>,
}

/// When a phase begins and ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseTimes {
    pub(crate) begin: Instant,
    /// End of the warm-up.
    pub(crate) series_start: Instant,
    pub(crate) deadline: Option<Instant>,
}

/// A client of a group that is to run on a lane.
#[derive(Clone)]
pub(crate) struct ClientSeat {
    pub(crate) group: Arc<Group>,
    pub(crate) group_number: usize,
    /// Number of the group's first step among all steps of the phase.
    pub(crate) first_step: usize,
    /// Among the clients of its group.
    pub(crate) thread: u32,
    /// Among all clients of the phase.
    pub(crate) seat: u64,
}

/// A lane about to run.
pub(crate) struct Lane {
    pub(crate) seats: Vec<ClientSeat>,
    pub(crate) options: ClientOptions,
    pub(crate) database: String,
    pub(crate) steps: usize,
    pub(crate) seed: u64,
    pub(crate) shared: Arc<PhaseShared>,
    /// Becomes true when the lane may begin.
    pub(crate) begin: watch::Receiver<bool>,
    /// Becomes true when the lane must end, whatever is unanswered.
    pub(crate) abandon: watch::Receiver<bool>,
    pub(crate) leaves_out_own_waits: bool,
}

/// What the clients of a lane share.
struct LaneState {
    record: Mutex<Record>,
    /// When each client's operation was meant to start that has not been answered yet.
    in_flight: Mutex<Vec<Option<Instant>>>,
    /// Arrivals by group.
    arrivals: Vec<Option<Mutex<Arrivals>>>,
    client: Client,
    database: Database,
    options: ClientOptions,
    shared: Arc<PhaseShared>,
    own_waits: OwnWaits,
}

impl Lane {
    /// Runs the lane on the thread of the caller. `ready` is called once it is connected.
    pub(crate) fn run(mut self, ready: impl FnOnce()) -> Result<Record, LabError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| LabError::Worker(format!("cannot start a runtime: {error}")))?;
        let outcome = runtime.block_on(async {
            let client = Client::with_options(self.options.clone()).map_err(LabError::command("connect"))?;
            connect_ahead(&client, self.seats.len()).await;
            ready();
            if self.begin.wait_for(|begin| *begin).await.is_err() {
                return Err(LabError::Interrupted);
            }
            self.run_clients(client).await
        });
        runtime.shutdown_background();
        outcome
    }

    async fn run_clients(mut self, client: Client) -> Result<Record, LabError> {
        let Some(times) = self.shared.times.get().copied() else { return Err(LabError::Interrupted) };
        let state = Arc::new(LaneState {
            record: Mutex::new(Record::new(times.series_start, times.deadline, self.steps)),
            in_flight: Mutex::new(vec![None; self.seats.len()]),
            arrivals: self.arrivals(times.begin),
            database: client.database(&self.database),
            client,
            options: self.options.clone(),
            shared: Arc::clone(&self.shared),
            // Its runtime has no other thread.
            own_waits: if self.leaves_out_own_waits { OwnWaits::of_this_thread() } else { OwnWaits::none() },
        });
        let mut clients = JoinSet::new();
        for (place, seat) in self.seats.iter().enumerate() {
            let random = Random::stream(self.seed, seat.seat);
            clients.spawn(run_client(seat.clone(), place, random, Arc::clone(&state), times));
        }
        tokio::select! {
            () = async { while clients.join_next().await.is_some() {} } => {}
            _ = self.abandon.wait_for(|abandon| *abandon) => clients.shutdown().await,
        }
        let end = times.deadline.map_or_else(Instant::now, |deadline| deadline.min(Instant::now()));
        state.note_unfinished(end);
        let mut record = state.record().clone();
        record.settle_undisturbed(None, &self.shared.live);
        Ok(record)
    }

    /// The lane's share of each open group's arrivals.
    fn arrivals(&self, begin: Instant) -> Vec<Option<Mutex<Arrivals>>> {
        let groups = self.seats.iter().map(|seat| seat.group_number + 1).max().unwrap_or(0);
        let share = |number: usize| {
            let seats: Vec<&ClientSeat> = self.seats.iter().filter(|seat| seat.group_number == number).collect();
            let first = seats.first()?;
            let Pace::Open { rate, arrival } = first.group.pace else { return None };
            let rate = rate * seats.len() as f64 / f64::from(first.group.threads);
            let start = begin + Duration::from_secs_f64(first.group.start_after_seconds);
            let random = Random::stream(self.seed ^ 0xA11, first.seat);
            Some(Mutex::new(Arrivals::new(start, rate, arrival, random)))
        };
        (0..groups).map(share).collect()
    }
}

/// Opens the connections that the clients will use, so that the first operations do not pay for them.
async fn connect_ahead(client: &Client, connections: usize) {
    let mut pings = JoinSet::new();
    for _ in 0..connections {
        let database = client.database("admin");
        pings.spawn(async move { database.run_command(bson::doc! { "ping": 1 }).await });
    }
    // A server that does not answer shows in the phase itself.
    while pings.join_next().await.is_some() {}
}

impl PhaseShared {
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Lets all clients end.
    pub(crate) fn stop_clients(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stopped.notify_waiters();
    }

    fn fail(&self, error: LabError) {
        lock(&self.failure).get_or_insert(error);
        self.failed.notify_one();
    }

    fn bounded_client_ended(&self) {
        if self.bounded_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.bounded_ended.notify_one();
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A client that panicked ends the run anyway; what it had recorded is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LaneState {
    fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    fn set_in_flight(&self, place: usize, intended: Option<Instant>) {
        if let Some(entry) = lock(&self.in_flight).get_mut(place) {
            *entry = intended;
        }
    }

    /// What was sent and never answered, and what should have been sent and was not.
    fn note_unfinished(&self, end: Instant) {
        let unanswered = lock(&self.in_flight).iter().flatten().count() as u64;
        let mut record = self.record();
        record.unanswered += unanswered;
        for arrivals in self.arrivals.iter().flatten() {
            let mut arrivals = lock(arrivals);
            // No run is so long that this many wait; it bounds a mistaken rate.
            for _ in 0..10_000_000 {
                let intended = arrivals.take();
                if intended >= end {
                    break;
                }
                record.unstarted(intended, end);
            }
        }
    }
}

/// One client: sends operation after operation until its group, the phase or the run ends.
async fn run_client(seat: ClientSeat, place: usize, random: Random, state: Arc<LaneState>, times: PhaseTimes) {
    let shared = Arc::clone(&state.shared);
    let is_bounded = seat.group.is_bounded();
    let start = times.begin + Duration::from_secs_f64(seat.group.start_after_seconds);
    let mut client =
        RunningClient { seat, place, random, state, times, timer: PreciseTimer::new(), own_lateness: Duration::ZERO };
    if client.wait_until(start).await {
        let outcome = match &client.seat.group.clone().work {
            Work::Load { targets, batch } => client.load(targets, *batch).await,
            Work::Mix { .. } => client.run_mix().await,
        };
        if let Err(error) = outcome {
            shared.fail(error);
        }
    }
    if is_bounded {
        shared.bounded_client_ended();
    }
}

struct RunningClient {
    seat: ClientSeat,
    place: usize,
    random: Random,
    state: Arc<LaneState>,
    times: PhaseTimes,
    timer: PreciseTimer,
    /// Of the operation that is next, as far as it is not the server's; zero unless own waits are left out.
    own_lateness: Duration,
}

impl RunningClient {
    /// False when the phase was stopped meanwhile, or the moment is past its end.
    async fn wait_until(&self, moment: Instant) -> bool {
        if self.state.shared.has_stopped() || self.times.deadline.is_some_and(|deadline| moment >= deadline) {
            return false;
        }
        if moment > Instant::now() {
            let stopped = self.state.shared.stopped.notified();
            tokio::select! {
                () = self.timer.wait_until(moment) => {}
                () = stopped => return false,
            }
        }
        !self.state.shared.has_stopped()
    }

    async fn run_mix(&mut self) -> Result<(), LabError> {
        let group = Arc::clone(&self.seat.group);
        let Work::Mix { steps, weight_total } = &group.work else { return Ok(()) };
        let Some(rounds) = group.rounds else {
            while let Some((intended, number)) = self.next_operation().await {
                let mut weight = self.random.below(*weight_total);
                let chosen = steps.iter().position(|step| {
                    let chosen = weight < step.weight;
                    weight = weight.saturating_sub(step.weight);
                    chosen
                });
                self.operate(chosen.unwrap_or(0), intended, number, 0, self.seat.thread).await?;
            }
            return Ok(());
        };
        let copies = steps.iter().map(|step| step.operation.copies()).max().unwrap_or(1);
        for round in 0..rounds {
            for copy in copies_of(self.seat.thread, group.threads, copies) {
                for step in 0..steps.len() {
                    let Some((intended, number)) = self.next_operation().await else { return Ok(()) };
                    self.operate(step, intended, number, round, copy).await?;
                }
            }
        }
        Ok(())
    }

    /// When the next operation is meant to start and its number in the group; none when there is no next.
    async fn next_operation(&mut self) -> Option<(Instant, u64)> {
        let group = &self.seat.group;
        let now = Instant::now();
        let arrivals = self.state.arrivals.get(self.seat.group_number).and_then(Option::as_ref);
        let intended = match (group.pace, arrivals) {
            (Pace::Open { .. }, Some(arrivals)) => {
                // Arrivals left when the time is up are counted as unstarted, so none is taken any more.
                if self.times.deadline.is_some_and(|deadline| now >= deadline) {
                    return None;
                }
                lock(arrivals).take()
            }
            (Pace::Closed { think_seconds }, _) if think_seconds > 0.0 => {
                now + Duration::from_secs_f64(think_seconds * self.random.exponential())
            }
            _ => now,
        };
        let waited = self.state.own_waits.so_far();
        if !self.wait_until(intended).await {
            return None;
        }
        // Its timer went off, and then it may have had to wait for a processor.
        self.own_lateness = self.state.own_waits.so_far().saturating_sub(waited).min(intended.elapsed());
        if intended > now && matches!(group.pace, Pace::Open { .. }) {
            self.state.record().start_delays.record(intended.elapsed());
        }
        let number = self.state.shared.numbers.get(self.seat.group_number)?.fetch_add(1, Ordering::Relaxed);
        if group.operations_total.is_some_and(|total| number >= total) {
            return None;
        }
        let intended = if matches!(group.pace, Pace::Open { .. }) { intended } else { Instant::now() };
        Some((intended, number))
    }

    async fn operate(
        &mut self,
        step: usize,
        intended: Instant,
        number: u64,
        round: u32,
        copy: u32,
    ) -> Result<(), LabError> {
        let group = Arc::clone(&self.seat.group);
        let Work::Mix { steps, .. } = &group.work else { return Ok(()) };
        let Some(chosen) = steps.get(step) else { return Ok(()) };
        let state = Arc::clone(&self.state);
        let sender = Sender { client: &state.client, database: &state.database, options: &state.options };
        let mut moment = Moment { random: &mut self.random, number, thread: self.seat.thread, copy, round };
        state.set_in_flight(self.place, Some(intended));
        let waited = state.own_waits.so_far();
        let sent = Instant::now();
        let outcome = chosen.operation.execute(&sender, &mut moment).await;
        let took = sent.elapsed();
        let waited = state.own_waits.so_far().saturating_sub(waited).min(took);
        state.set_in_flight(self.place, None);
        let ended = Ended {
            step: self.seat.first_step + step,
            intended: intended + self.own_lateness,
            sent,
            ended: sent + (took - waited),
            left_out: state.own_waits.are_counted().then_some(self.own_lateness + waited),
        };
        self.note(ended, outcome.map(|done| done.documents)).await
    }

    /// Writes down what an operation did. An error of a group that stops at errors is returned.
    async fn note(&self, ended: Ended, outcome: Result<u64, LabError>) -> Result<(), LabError> {
        let shared = &self.state.shared;
        match outcome {
            Ok(documents) => self.state.record().success(ended, documents, &shared.live),
            Err(error) => {
                self.state.record().failure(ended, &error, &shared.live);
                let is_wrong = matches!(error, LabError::WrongReply(_) | LabError::Scenario(_));
                if is_wrong || self.seat.group.on_error == OnError::Stop {
                    return Err(error);
                }
                let must_pause = error.is_connection_loss() || error.is_refusal_of_the_driver();
                *lock(&shared.last_error) = Some(error.to_string());
                if must_pause {
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
        Ok(())
    }
}

/// The copies of a collection that a client visits in each round: dealt out in turn; clients left over share them.
fn copies_of(thread: u32, threads: u32, copies: usize) -> Vec<u32> {
    let copies = u32::try_from(copies).unwrap_or(u32::MAX);
    if thread < copies {
        (thread..copies).step_by(threads.max(1) as usize).collect()
    } else {
        vec![thread % copies.max(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_dealt_out() {
        assert_eq!(copies_of(0, 2, 5), [0, 2, 4]);
        assert_eq!(copies_of(1, 2, 5), [1, 3]);
        assert_eq!(copies_of(6, 7, 5), [1]);
        assert_eq!(copies_of(3, 5, 1), [0]);
    }
}
