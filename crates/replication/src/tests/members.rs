//! Members with whole stores that follow each other, take the lead and give it up, over a log that behaves as badly as it may.
//!
//! Whatever a client was told, or has read anywhere, must be on all of them in the end, once; all stores must be the same; and their indexes must fit their records.

use std::collections::{BTreeMap, BTreeSet};

use bson::RawDocumentBuf;
use collection::{CappedOptions, CollectionOptions, IndexSpecification};
use platform::Random;
use shared_log::RestlessLog;
use transaction::{ApplyingBy, Decision};

use super::*;
use crate::{Entered, Member as SetMember, Standpoint, enter};

const ARRIVALS: u64 = 3;
const GIVEN_UP: f64 = 0.1;
/// Documents are changed by their number modulo this.
const IDS: i32 = 400;

struct Running {
    store: Arc<Store>,
    member: SetMember,
    /// It serves once this is confirmed: what a start has found is visible to readers.
    serves_from: OplogPosition,
    /// Written and not told.
    untold: Vec<(i32, i32, CommitInfo)>,
}

struct World {
    log: MemoryLog,
    random: SeededRandom,
    machines: Vec<Machine>,
    running: Vec<Option<Running>>,
    /// As if so many threads applied.
    queues: usize,
    /// The newest version of each document, as it was sent.
    sent: i32,
    /// What was told, or seen: by document, the least version that it must have in the end.
    told: BTreeMap<i32, i32>,
    /// For so many turns they do not ship or read.
    paused: Vec<u64>,
    cut: u32,
    led: BTreeSet<(usize, u64)>,
}

fn specification(document: RawDocumentBuf) -> IndexSpecification {
    IndexSpecification::parse(&document).unwrap()
}

fn documents(store: &Store, name: &str) -> BTreeMap<i32, i32> {
    let mut found = BTreeMap::new();
    let Some(collection) = store.catalog().lookup(name) else { return found };
    let mut cursor = store.read_view().record_cursor(&collection);
    while cursor.next().unwrap().is_some() {
        let document = cursor.document().unwrap();
        let before = found.insert(document.get_i32("_id").unwrap(), document.get_i32("v").unwrap());
        assert!(before.is_none(), "a document is there twice");
    }
    found
}

impl World {
    fn new(seed: u64, members: usize) -> World {
        let random = SeededRandom::new(seed);
        let log = MemoryLog::new(random.next_u64());
        log.set_faults(Faults::at_rate([0.0, 0.05, 0.2][random.below(3) as usize]));
        let machines = (0..members).map(|number| Machine::new(number as u64 + 1)).collect();
        let running = (0..members).map(|_| None).collect();
        let (told, led) = (BTreeMap::new(), BTreeSet::new());
        let queues = 1 + seed as usize % 4;
        World { log, random, machines, running, queues, sent: 0, told, paused: vec![0; members], cut: 0, led }
    }

    fn start(&mut self, place: usize) {
        self.running[place] = None;
        let machine = &mut self.machines[place];
        for _ in 0..4 {
            machine.lives += 1;
            let random = SeededRandom::new(self.random.next_u64());
            let log = Arc::new(RestlessLog::new(&self.log, random, ARRIVALS, GIVEN_UP));
            let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) = (machine.disk.clone(), machine.clock.clone());
            let me = Leader { node: machine.node, incarnation: machine.lives, address: format!("db{place}:27017") };
            let mut entered: Option<Entered> = None;
            let random = Arc::new(SeededRandom::new(self.random.next_u64()));
            let opened = Store::open_caught_up(
                disk.clone(),
                clock.clone(),
                random.clone(),
                StoreOptions {
                    large_transaction_bytes: 2_000,
                    applying_by: ApplyingBy::Caller { queues: self.queues },
                    ..Machine::options()
                },
                |oplog| -> Result<OpensAs> {
                    let found = enter(&*log, oplog, StandingFile::open(disk.clone())?, me.clone(), &clock)?;
                    let opens_as = match &found {
                        Entered::Leads(_) => OpensAs::Leader,
                        Entered::Follows(_) => OpensAs::Follower,
                    };
                    entered = Some(found);
                    Ok(opens_as)
                },
            );
            match opened {
                Ok(store) => {
                    let member = SetMember::begin(log, clock, random, me, entered.unwrap(), &store);
                    let serves_from = store.oplog().end_position();
                    self.running[place] = Some(Running { store, member, serves_from, untold: Vec::new() });
                    return;
                }
                Err(TransactionError::SharedLog(error)) => match *error.downcast::<ReplicationError>().unwrap() {
                    ReplicationError::Unconfirmed { from } | ReplicationError::Differs { from, .. } => {
                        self.cut += 1;
                        let directory = Machine::options().oplog.directory;
                        oplog::cut_from(disk, clock, directory, OplogPosition(from)).unwrap();
                    }
                    ReplicationError::NoAnswer { .. } => return,
                    error => panic!("{error}"),
                },
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn step(&mut self) {
        let place = self.random.below(self.running.len() as u64) as usize;
        match self.random.below(100) {
            0 => {
                if let Some(running) = self.running[place].take()
                    && self.random.chance(0.5)
                {
                    // What it has logged last may be on its disk.
                    running.store.oplog().flush_step().unwrap();
                }
                if self.random.chance(0.5) {
                    self.machines[place].lose_power();
                }
            }
            1 if self.running[place].is_none() => self.start(place),
            // It is stopped for a while, or cut off.
            2 if self.random.chance(0.2) => self.paused[place] = self.random.below(600),
            3..40 => self.write(place),
            40..75 => self.turn(place),
            75..80 => self.look(place),
            80..83 => {
                if let Some(running) = &self.running[place] {
                    running.store.oplog().flush_step().unwrap();
                }
            }
            83 => {
                if let Some(running) = &self.running[place] {
                    // Others may not have confirmed it yet: then it is made later.
                    if running.store.is_confirmed(running.store.oplog().end_position()) {
                        let made = running.store.checkpoint_step(Urgency::Now);
                        assert!(matches!(made, Ok(_) | Err(TransactionError::Undecided)), "{made:?}");
                    }
                }
            }
            84 => {
                if let Some(running) = &mut self.running[place] {
                    let successor = self.random.below(3) + 1;
                    running.member.step_down(&running.store, Some(successor));
                }
            }
            85 => {
                if let Some(running) = &self.running[place] {
                    running.store.fill_received_builds();
                }
            }
            86..92 => self.machines.iter().for_each(|machine| machine.clock.advance(Duration::from_millis(500))),
            _ => drop(self.log.deliver()),
        }
    }

    fn write(&mut self, place: usize) {
        let Some(running) = &mut self.running[place] else { return };
        if running.store.leadership() != Leadership::Held {
            return;
        }
        self.sent += 1;
        let (id, version) = (self.random.below(IDS as u64) as i32, self.sent);
        // Some are so large that they are committed in parts.
        let bytes = if self.random.chance(0.05) { 5_000 } else { self.random.below(300) as usize };
        let written = match self.random.below(20) {
            0 => index(&running.store, self.random.below(3)),
            1 => capped(&running.store, version).map(|_| None),
            2 => come_and_go(&running.store, version).map(|()| None),
            _ => put(&running.store, id, version, bytes),
        };
        match written {
            Ok(Some(commit)) => running.untold.push((id, version, commit)),
            Ok(None) => {}
            Err(
                TransactionError::TermLost
                | TransactionError::NotPrimary
                | TransactionError::LogUnreachable
                | TransactionError::Collection(_),
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn turn(&mut self, place: usize) {
        if self.paused[place] > 0 {
            self.paused[place] -= 1;
            return;
        }
        let Some(running) = &mut self.running[place] else { return };
        match running.member.step(&running.store) {
            Ok(_) => {}
            Err(error) => panic!("member {place}: {error}"),
        }
        let store = &running.store;
        for (id, version, _) in running.untold.extract_if(.., |(_, _, commit)| store.is_confirmed(commit.end)) {
            let told = self.told.entry(id).or_default();
            *told = version.max(*told);
        }
        match running.member.standpoint() {
            Standpoint::Leads { term } => drop(self.led.insert((place, term))),
            Standpoint::Follows { .. } => {}
            Standpoint::IsOver => {
                self.look(place);
                self.running[place] = None;
            }
        }
    }

    /// A client reads: what it has seen must never be undone.
    fn look(&mut self, place: usize) {
        let Some(running) = &self.running[place] else { return };
        if !running.store.is_confirmed(running.serves_from) {
            return;
        }
        for (id, version) in documents(&running.store, "db.c") {
            let told = self.told.entry(id).or_default();
            *told = version.max(*told);
        }
    }

    /// All is well again: everybody has what was told.
    fn end(mut self) -> (u32, usize) {
        self.log.set_faults(Faults::none());
        self.paused.fill(0);
        for place in 0..self.running.len() {
            if self.running[place].is_none() {
                self.start(place);
            }
        }
        self.let_things_happen(4_000);
        for running in self.running.iter().flatten().filter(|running| running.store.leadership() == Leadership::Held) {
            for collection in running.store.interrupted_builds() {
                // One that cannot be built is gone.
                let _ = running.store.resume_index_builds(&collection, &|| false);
            }
        }
        self.let_things_happen(200);
        let stores: Vec<_> = self.running.iter().map(|running| running.as_ref().unwrap().store.clone()).collect();
        let found = documents(&stores[0], "db.c");
        for (id, version) in &self.told {
            assert!(found.get(id).is_some_and(|found| found >= version), "{id}: {version}, and {:?}", found.get(id));
        }
        for (place, store) in stores.iter().enumerate() {
            let ends = (store.oplog().end_position(), stores[0].oplog().end_position());
            assert_eq!(ends.0, ends.1, "member {place} is behind: {:?}", self.standpoints());
            assert_eq!(documents(store, "db.c"), found, "member {place}");
            for name in ["db.ring", "db.d"] {
                assert_eq!(documents(store, name), documents(&stores[0], name), "member {place}, {name}");
            }
            for collection in store.catalog().all_collections() {
                let report = store.validate(&collection, &|| false).unwrap();
                assert!(report.is_valid(), "member {place}, {}: {report:?}", collection.namespace());
            }
        }
        (self.cut, self.led.len())
    }

    fn let_things_happen(&mut self, turns: u32) {
        for _ in 0..turns {
            for place in 0..self.running.len() {
                self.turn(place);
                if self.running[place].is_none() {
                    self.start(place);
                }
            }
            self.machines.iter().for_each(|machine| machine.clock.advance(Duration::from_millis(10)));
            while self.log.deliver() {}
        }
    }

    fn standpoints(&self) -> Vec<Standpoint> {
        self.running.iter().flatten().map(|running| running.member.standpoint()).collect()
    }
}

fn put(store: &Store, id: i32, version: i32, bytes: usize) -> transaction::Result<Option<CommitInfo>> {
    let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap())?;
    let text = "x".repeat(bytes);
    let words: Vec<String> = (0..bytes / 20).map(|number| format!("{version}-{number}")).collect();
    let words = bson::RawArrayBuf::from_iter(words.iter().map(String::as_str));
    let document = rawdoc! { "_id": id, "v": version, "a": version % 7, "text": text, "words": words };
    let mut cursor = store.newest_view().record_cursor(&collection);
    while let Some(record) = cursor.next()? {
        if cursor.document()?.get_i32("_id").ok() != Some(id) {
            continue;
        }
        let context = &mut WriteContext::new();
        let changed = store.change_document(context, &collection, record, Validation::Enforce, |_, new| {
            new.extend_from_slice(document.as_bytes());
            Ok::<_, TransactionError>(Decision::Replace)
        })?;
        return Ok(changed.commit());
    }
    store.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce).map(Some)
}

/// Deletes the newest of some documents, or adds one.
fn come_and_go(store: &Store, version: i32) -> transaction::Result<()> {
    let collection = store.collection_or_create(&Namespace::parse("db.d").unwrap())?;
    let context = &mut WriteContext::new();
    if version % 2 == 0 {
        let document = rawdoc! { "_id": version, "v": version };
        return store.insert_document(context, &collection, &document, Validation::Enforce).map(drop);
    }
    let mut cursor = store.newest_view().record_cursor(&collection);
    let mut last = None;
    while let Some(record) = cursor.next()? {
        last = Some(record);
    }
    let Some(last) = last else { return Ok(()) };
    let delete = |_: &bson::RawDocument, _: &mut Vec<u8>| Ok::<_, TransactionError>(Decision::Delete);
    store.change_document(context, &collection, last, Validation::Enforce, delete).map(drop)
}

fn index(store: &Store, which: u64) -> transaction::Result<Option<CommitInfo>> {
    let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap())?;
    let wanted = match which {
        0 => rawdoc! { "key": { "a": 1 }, "name": "a_1" },
        1 => rawdoc! { "key": { "words": 1 }, "name": "words_1" },
        _ => rawdoc! { "key": { "v": 1 }, "name": "v_1", "unique": true },
    };
    if collection.indexes().find(wanted.get_str("name").unwrap()).is_some() {
        let name = wanted.get_str("name").unwrap().to_owned();
        store.drop_indexes(&collection, transaction::WhichIndexes::Names(vec![name]))?;
        return Ok(None);
    }
    store.create_indexes(&collection, vec![specification(wanted)])?;
    Ok(None)
}

fn capped(store: &Store, version: i32) -> transaction::Result<CommitInfo> {
    let namespace = Namespace::parse("db.ring").unwrap();
    let collection = match store.catalog().lookup("db.ring") {
        Some(collection) => collection,
        None => {
            let capped = CappedOptions { size: 8_192, max: None };
            store.create_collection(&namespace, CollectionOptions { capped: Some(capped), ..Default::default() })?.0
        }
    };
    let document = rawdoc! { "_id": version, "v": version, "text": "x".repeat(200) };
    store.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce)
}

#[test]
fn what_was_told_or_seen_is_with_all_members_whoever_leads() {
    let (mut cut, mut led) = (0, 0);
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        println!("seed {seed}");
        let mut world = World::new(seed, 3);
        for place in 0..3 {
            world.start(place);
        }
        for _ in 0..3_000 {
            world.step();
        }
        let (once_cut, once_led) = world.end();
        (cut, led) = (cut + once_cut, led + once_led);
    }
    assert!(cut > 5 && led > 100, "{cut} had a tail cut, {led} terms were led");
}

/// Where others write all the time, there is always something to read.
#[test]
fn a_member_has_caught_up_though_others_write_all_the_time() {
    let mut world = World::new(1, 2);
    world.log.set_faults(Faults::none());
    world.start(0);
    world.let_things_happen(20);
    for _ in 0..100 {
        world.write(0);
        world.turn(0);
    }
    world.start(1);
    for turn in 0.. {
        assert!(turn < 1_000, "{:?}", world.standpoints());
        world.write(0);
        world.turn(0);
        while world.log.deliver() {}
        world.turn(0);
        world.machines.iter().for_each(|machine| machine.clock.advance(Duration::from_millis(1)));
        world.turn(1);
        if world.running[1].as_ref().is_some_and(|running| running.member.has_caught_up()) {
            break;
        }
    }
    world.end();
}
