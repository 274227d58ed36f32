//! Two members with whole stores that take the lead from each other at any moment, over a log that behaves as badly as it may.
//!
//! Whatever a client was told, or has read anywhere, must be there in the end, once; and the log must be the oplog of whoever leads. A member that has logged what
//! the set has not begins anew from the log.

use std::collections::BTreeSet;

use platform::Random;
use shared_log::RestlessLog;

use super::*;

/// Of a connection: fewer than so many things arrive at a time, and how often it is given up.
const ARRIVALS: u64 = 3;
const GIVEN_UP: f64 = 0.1;

struct Running {
    store: Arc<Store>,
    shipper: Shipper,
    /// Written and not told: `_id` and commit.
    untold: Vec<(i32, CommitInfo)>,
}

struct World {
    log: MemoryLog,
    random: SeededRandom,
    machines: [Machine; 2],
    running: [Option<Running>; 2],
    sent: i32,
    told: BTreeSet<i32>,
    begun_anew: u32,
    overtaken: u32,
}

fn ids(store: &Store) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let Some(collection) = store.catalog().lookup("db.c") else { return found };
    let mut cursor = store.read_view().record_cursor(&collection);
    while cursor.next().unwrap().is_some() {
        assert!(found.insert(cursor.document().unwrap().get_i32("_id").unwrap()), "a document is there twice");
    }
    found
}

impl World {
    fn new(seed: u64) -> World {
        let random = SeededRandom::new(seed);
        let log = MemoryLog::new(random.next_u64());
        let rate = [0.0, 0.05, 0.2][random.below(3) as usize];
        log.set_faults(Faults::at_rate(rate));
        let (machines, running) = ([Machine::new(1), Machine::new(2)], [None, None]);
        World { log, random, machines, running, sent: 0, told: BTreeSet::new(), begun_anew: 0, overtaken: 0 }
    }

    /// Somebody starts, and takes the lead. `false`: he could not.
    fn start(&mut self, place: usize) -> bool {
        self.running[place] = None;
        let machine = &mut self.machines[place];
        machine.lives += 1;
        let random = SeededRandom::new(self.random.next_u64());
        let log = Arc::new(RestlessLog::new(&self.log, random, ARRIVALS, GIVEN_UP));
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) = (machine.disk.clone(), machine.clock.clone());
        let me = Leader { node: machine.node, incarnation: machine.lives, address: "db:27017".to_owned() };
        let mut joined: Option<Joined> = None;
        let random = Arc::new(SeededRandom::new(self.random.next_u64()));
        let opened = Store::open_caught_up(
            disk.clone(),
            clock.clone(),
            random,
            Machine::options(),
            |oplog| -> Result<OpensAs> {
                joined = Some(join(&*log, oplog, StandingFile::open(disk)?, me, &clock)?);
                Ok(OpensAs::Leader)
            },
        );
        let store = match opened {
            Ok(store) => store,
            Err(TransactionError::SharedLog(error)) => {
                match *error.downcast::<ReplicationError>().unwrap() {
                    ReplicationError::Differs { .. } => {
                        let lives = machine.lives;
                        self.machines[place] = Machine { lives, ..Machine::new(place as u64 + 1) };
                        self.begun_anew += 1;
                    }
                    ReplicationError::OtherLeads { .. } | ReplicationError::NoAnswer { .. } => {}
                    error => panic!("{error}"),
                }
                return false;
            }
            Err(error) => panic!("{error}"),
        };
        let mut shipper = Shipper::begin(log, clock, joined.unwrap(), &store);
        // He serves once all that he has is confirmed.
        for _ in 0..5_000 {
            if store.is_confirmed(store.oplog().end_position()) {
                self.running[place] = Some(Running { store, shipper, untold: Vec::new() });
                return true;
            }
            shipper.step(&store).unwrap();
            if !shipper.leads() {
                return false;
            }
        }
        panic!("what was logged is not confirmed");
    }

    fn step(&mut self) {
        let place = self.random.below(2) as usize;
        match self.random.below(100) {
            0..2 => {
                if self.running[place].take().is_some() && self.random.chance(0.5) {
                    self.machines[place].lose_power();
                }
            }
            2..5 => drop(self.start(place)),
            5..50 => self.write(place),
            50..80 => self.ship(place),
            80..90 => {
                if let Some(running) = &self.running[place] {
                    self.told.extend(ids(&running.store));
                }
            }
            90..93 => {
                if let Some(running) = &self.running[place] {
                    running.store.oplog().flush_step().unwrap();
                }
            }
            _ => drop(self.log.deliver()),
        }
    }

    fn write(&mut self, place: usize) {
        let Some(running) = &mut self.running[place] else { return };
        self.sent += 1;
        let collection = running.store.collection_or_create(&Namespace::parse("db.c").unwrap());
        let document = rawdoc! { "_id": self.sent, "a": "x".repeat(self.random.below(300) as usize) };
        let written = collection.and_then(|collection| {
            running.store.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce)
        });
        match written {
            Ok(commit) => running.untold.push((self.sent, commit)),
            Err(TransactionError::TermLost) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn ship(&mut self, place: usize) {
        let Some(running) = &mut self.running[place] else { return };
        running.shipper.step(&running.store).unwrap();
        let store = &running.store;
        let told = running.untold.extract_if(.., |(_, commit)| store.is_confirmed(commit.end));
        self.told.extend(told.map(|(id, _)| id));
        if !running.shipper.leads() {
            assert!(matches!(store.leadership(), Leadership::Lost));
            self.overtaken += 1;
            // What it can still be asked for is as it was.
            self.told.extend(ids(store));
            self.running[place] = None;
        }
    }

    /// All is well again: whoever leads last has what was told.
    fn end(mut self) -> (u32, u32) {
        self.log.set_faults(Faults::none());
        self.running = [None, None];
        while !self.start(0) {}
        let Some(last) = &self.running[0] else { unreachable!() };
        let found = ids(&last.store);
        let missing: Vec<_> = self.told.difference(&found).collect();
        assert!(missing.is_empty(), "told or seen, and not there: {missing:?}");
        let (begins, bytes) = counted(&self.log);
        assert!(bytes == logged(&last.store, begins), "the log is not the oplog");
        (self.begun_anew, self.overtaken)
    }
}

#[test]
fn what_was_told_or_seen_is_there_whoever_leads() {
    let (mut begun_anew, mut overtaken) = (0, 0);
    for seed in 0..120 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        let (anew, over) = world.end();
        begun_anew += anew;
        overtaken += over;
    }
    assert!(begun_anew > 10 && overtaken > 10, "{begun_anew} began anew, {overtaken} were overtaken");
}
