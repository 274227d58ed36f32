//! A store that follows a shared log: what was told or seen must be there after any crash, from the local disk and the log together.
//!
//! In some plans. The log loses, repeats, delays and overtakes; this machine's disk loses what was not synced, which clients do not wait for here. All that is random
//! about it has random numbers of its own, so that plans without it run as they did.

use std::sync::Arc;

use oplog::{LocalOplog, OplogPosition};
use parking_lot::Mutex;
use platform::{Clock, Disk, Random, SeededRandom, Timestamp};
use replication::{Joined, ReplicationError, Shipper, StandingFile, join};
use shared_log::{Faults, Leader, MemoryLog, RestlessLog};
use transaction::{Leadership, OpensAs, Result, Store, TransactionError};

use crate::simulation::Simulation;

/// Turns after which what should be confirmed is not going to be.
const TURNS_MAX: u64 = 20_000;
/// Of a connection: fewer than so many things arrive at a time, and how often it is given up.
const ARRIVALS: u64 = 4;
const GIVEN_UP: f64 = 0.05;

/// The log, and this life's part in it.
pub(crate) struct Following {
    log: MemoryLog,
    random: SeededRandom,
    shipper: Mutex<Option<(Shipper, Arc<RestlessLog>)>>,
    lives: Mutex<u64>,
}

impl Following {
    pub(crate) fn new(seed: u64) -> Following {
        let random = SeededRandom::new(seed ^ 0x5348_4950);
        let log = MemoryLog::new(random.next_u64());
        if random.chance(0.8) {
            let rate = [0.01, 0.05, 0.2][random.below(3) as usize];
            log.set_faults(Faults::at_rate(rate));
        }
        Following { log, random, shipper: Mutex::new(None), lives: Mutex::new(0) }
    }

    /// This life is over; what it has sent is still on its way.
    pub(crate) fn end_life(&self) {
        *self.shipper.lock() = None;
    }
}

impl Simulation {
    /// As `Store::open`; the member joins before its oplog is replayed, and all that it has is confirmed before anybody is served.
    pub(crate) fn open_following(
        &self,
        following: &Following,
        disk: Arc<dyn Disk>,
        open: impl FnOnce(
            &mut dyn FnMut(&LocalOplog) -> std::result::Result<OpensAs, ReplicationError>,
        ) -> Result<Arc<Store>>,
    ) -> Result<Arc<Store>> {
        following.end_life();
        let random = SeededRandom::new(following.random.next_u64());
        let log = Arc::new(RestlessLog::new(&following.log, random, ARRIVALS, GIVEN_UP));
        let incarnation = {
            let mut lives = following.lives.lock();
            *lives += 1;
            *lives
        };
        let clock: Arc<dyn Clock> = self.clock.clone();
        let mut joined: Option<Joined> = None;
        let store = open(&mut |oplog| {
            let me = Leader { node: 1, incarnation, address: "simulated:27017".to_owned() };
            joined = Some(join(&*log, oplog, StandingFile::open(disk.clone())?, me, &clock)?);
            Ok(OpensAs::Leader)
        })?;
        let Some(joined) = joined else { self.fail(format_args!("a store was opened that has not joined")) };
        self.say(format_args!("leads in term {}", joined.term()));
        let shipper = Shipper::begin(log.clone(), clock, joined, &store);
        *following.shipper.lock() = Some((shipper, log));
        self.ship_until(&store, oplog::Oplog::end_position(store.oplog()));
        // The disk has failed meanwhile.
        if store.leadership() == Leadership::Lost { Err(TransactionError::TermLost) } else { Ok(store) }
    }

    /// One turn of the shipper.
    pub(crate) fn ship_a_little(&self) {
        let Some(following) = &self.following else { return };
        if following.random.chance(0.3) {
            let store = self.store();
            self.ship_once(following, &store);
        }
    }

    /// `false`: the disk has failed it.
    fn ship_once(&self, following: &Following, store: &Store) -> bool {
        let mut shipper = following.shipper.lock();
        let Some((shipper, log)) = shipper.as_mut() else { return false };
        log.let_things_happen();
        match shipper.step(store) {
            Ok(_) if !shipper.leads() => self.fail(format_args!("nobody else is there, and the lead is lost")),
            Ok(_) => true,
            Err(ReplicationError::Log(error)) => self.fail(format_args!("the log cannot be followed: {error}")),
            Err(error) => {
                self.say(format_args!("the shipper failed: {error}"));
                if self.health() == crate::simulation::Health::Good && !self.disk.is_down() {
                    self.fail(format_args!("the shipper failed on a good disk: {error}"));
                }
                false
            }
        }
    }

    /// Somebody waits: ships until everything before `end` is confirmed. When the disk has failed, nothing more will be.
    /// `false`: it is not, as the disk has failed.
    pub(crate) fn ship_until(&self, store: &Store, end: OplogPosition) -> bool {
        let Some(following) = &self.following else { return true };
        for _ in 0..TURNS_MAX {
            if store.is_confirmed(end) {
                return true;
            }
            if !self.ship_once(following, store) {
                store.set_leadership(Leadership::Lost);
                return false;
            }
        }
        self.fail(format_args!("what is logged up to {end} is not confirmed after {TURNS_MAX} turns"))
    }

    /// Has all that is logged confirmed, so that the newest state is what readers see. `false`: it is not, as the disk has failed.
    pub(crate) fn confirm_all(&self) -> bool {
        let store = self.store();
        self.following.is_none() || self.ship_until(&store, oplog::Oplog::end_position(store.oplog()))
    }

    /// A client has seen the state of this time: it must never be undone.
    pub(crate) fn note_seen(&self, timestamp: Timestamp) {
        if self.following.is_some() {
            self.model.lock().set_durable(timestamp);
        }
    }
}
