//! The engine against a sorted map with versions: changes of all kinds, concealed commits, snapshots, checkpoints, eviction and crashes in any order.

use proptest::prelude::*;

use super::*;

/// What a commit makes of keys; none: it deletes them.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Debug, Clone)]
enum Step {
    Put {
        key: u16,
        bytes: usize,
    },
    Delete {
        key: u16,
    },
    /// Inserts the key blindly if it is absent, removes it blindly if it is there.
    Flip {
        key: u16,
        bytes: usize,
    },
    /// As `Put` or `Delete`, by a commit that is concealed until `Reveal`.
    Concealed {
        key: u16,
        bytes: Option<usize>,
    },
    Reveal,
    Snapshot,
    Release,
    Checkpoint,
    Evict,
    Merge,
    Reclaim,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![8 => 0usize..300, 1 => 3000usize..5000, 1 => 16_000usize..60_000];
    let step = prop_oneof![
        40 => (0u16..400, bytes).prop_map(|(key, bytes)| Step::Put { key, bytes }),
        20 => (0u16..400).prop_map(|key| Step::Delete { key }),
        60 => (0u16..400, 0usize..60).prop_map(|(key, bytes)| Step::Flip { key, bytes }),
        10 => (0u16..400, proptest::option::of(0usize..300)).prop_map(|(key, bytes)| Step::Concealed { key, bytes }),
        1 => Just(Step::Reveal),
        3 => Just(Step::Snapshot),
        3 => Just(Step::Release),
        2 => Just(Step::Checkpoint),
        8 => Just(Step::Evict),
        1 => Just(Step::Merge),
        4 => Just(Step::Reclaim),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..600)
}

fn key_bytes(key: u16) -> Vec<u8> {
    // Long common beginnings, and keys that are beginnings of others.
    let mut bytes = format!("collection/{:02}/", key % 10).into_bytes();
    bytes.extend(std::iter::repeat_n(b'x', usize::from(key % 13) * 3));
    bytes.extend_from_slice(&(key / 10).to_be_bytes());
    bytes
}

/// An engine, what it should hold, and what its last checkpoint holds.
struct ModelRun {
    disk: Arc<SimulatedDisk>,
    engine: Arc<Engine>,
    tree: TreeId,
    model: Model,
    durable: Model,
    snapshots: Vec<(Snapshot, Model)>,
    /// The commit that is concealed, and what it has changed.
    concealed: Option<(Timestamp, Changes)>,
    clock: u64,
    batch: Batch,
}

impl ModelRun {
    fn start() -> Self {
        let disk = Arc::new(SimulatedDisk::new(7));
        let engine = open(&disk);
        let tree = engine.create_tree().unwrap();
        checkpoint(&engine);
        let (model, durable, snapshots) = Default::default();
        Self { disk, engine, tree, model, durable, snapshots, concealed: None, clock: 0, batch: Batch::new() }
    }

    /// Whether the concealed commit has changed a key, which nobody else changes then.
    fn is_owned(&self, key: u16) -> bool {
        self.concealed.as_ref().is_some_and(|(_, changes)| changes.contains_key(&key_bytes(key)))
    }

    fn change_concealed(&mut self, key: Vec<u8>, bytes: Option<usize>) {
        if self.concealed.is_none() {
            self.clock += 1;
            self.engine.conceal(Timestamp(self.clock));
            self.concealed = Some((Timestamp(self.clock), Changes::new()));
        }
        let Some((timestamp, changes)) = &mut self.concealed else { return };
        let value = bytes.map(|bytes| vec![self.clock as u8; bytes]);
        match (&value, self.model.contains_key(&key)) {
            (Some(value), false) => self.batch.blind_insert(self.tree, &key, value),
            (Some(value), true) => self.batch.put(self.tree, &key, value),
            (None, _) => self.batch.delete(self.tree, &key),
        }
        self.engine.apply(&self.batch, *timestamp).unwrap();
        changes.insert(key, value);
    }

    fn reveal(&mut self) {
        let Some((timestamp, changes)) = self.concealed.take() else { return };
        self.clock += 1;
        self.engine.reveal(timestamp, Timestamp(self.clock));
        self.engine.set_visible(Timestamp(self.clock));
        for (key, value) in changes {
            match value {
                Some(value) => drop(self.model.insert(key, value)),
                None => drop(self.model.remove(&key)),
            }
        }
    }

    fn commit(&mut self) {
        commit(&self.engine, &self.batch, &mut self.clock);
    }

    fn flip(&mut self, key: Vec<u8>, bytes: usize) {
        match self.model.get(&key) {
            // Blind removals are for short values.
            Some(value) if value.len() > 255 => self.batch.delete(self.tree, &key),
            Some(_) => self.batch.blind_remove(self.tree, &key),
            None => self.batch.blind_insert(self.tree, &key, &vec![self.clock as u8; bytes]),
        }
        self.commit();
        if self.model.remove(&key).is_none() {
            self.model.insert(key, vec![(self.clock - 1) as u8; bytes]);
        }
    }

    fn step(&mut self, step: Step) {
        self.batch.clear();
        match step {
            Step::Put { key, .. } | Step::Delete { key } | Step::Flip { key, .. } | Step::Concealed { key, .. }
                if self.is_owned(key) => {}
            Step::Concealed { key, bytes } => self.change_concealed(key_bytes(key), bytes),
            Step::Reveal => self.reveal(),
            Step::Put { key, bytes } => {
                let value = vec![self.clock as u8; bytes];
                self.batch.put(self.tree, &key_bytes(key), &value);
                self.commit();
                self.model.insert(key_bytes(key), value);
            }
            Step::Delete { key } => {
                self.batch.delete(self.tree, &key_bytes(key));
                self.commit();
                self.model.remove(&key_bytes(key));
            }
            Step::Flip { key, bytes } => self.flip(key_bytes(key), bytes),
            Step::Merge => {
                let pages = self.engine.trees.cache.changes.buffered_page_ids();
                pages.chunks(16).for_each(|pages| self.engine.trees.cache.changes.merge_on_disk(pages).unwrap());
            }
            Step::Snapshot => self.snapshots.push((self.engine.begin_snapshot(), self.model.clone())),
            Step::Release if self.snapshots.is_empty() => {}
            Step::Release => drop(self.snapshots.swap_remove(self.clock as usize % self.snapshots.len())),
            Step::Checkpoint => {
                // What is half applied would have to be replayed.
                self.reveal();
                checkpoint(&self.engine);
                self.durable = self.model.clone();
            }
            Step::Evict => while self.engine.trees.cache.evict_all().unwrap() > 0 {},
            Step::Reclaim => while self.engine.reclaim_step().unwrap() {},
            Step::Crash => self.crash(),
        }
    }

    fn crash(&mut self) {
        self.snapshots.clear();
        self.concealed = None;
        self.engine = Engine::open(
            Arc::new(SimulatedDisk::new(0)),
            Arc::new(SimulatedClock::new(0)),
            EngineOptions { cache_bytes: 0, ..options() },
        )
        .unwrap();
        self.disk.power_loss();
        self.engine = open(&self.disk);
        self.model = self.durable.clone();
        self.clock += 1;
        self.engine.set_visible(Timestamp(self.clock));
    }

    fn check(mut self) {
        self.snapshots.push((self.engine.begin_snapshot(), self.model.clone()));
        self.reveal();
        self.snapshots.push((self.engine.begin_snapshot(), self.model));
        for (snapshot, model) in &self.snapshots {
            assert_eq!(all(&self.engine, snapshot, self.tree), model.clone().into_iter().collect::<Vec<_>>());
            for key in 0..400 {
                let mut value = Vec::new();
                let found = self.engine.get(snapshot, self.tree, &key_bytes(key), &mut value).unwrap();
                assert_eq!(found.then_some(value), model.get(&key_bytes(key)).cloned());
            }
            for (low, high) in [(0, 400), (37, 38), (50, 303), (120, 60)] {
                let (low, high) = (key_bytes(low), key_bytes(high));
                let expected = model.keys().filter(|key| **key >= low && **key < high).count();
                assert_eq!(count(&self.engine, snapshot, self.tree, &low, &high), expected as u64);
            }
        }
        assert_sound(&self.engine, &[TreeId::CATALOG, self.tree]);
        self.snapshots.clear();
        while self.engine.reclaim_step().unwrap() {}
        checkpoint(&self.engine);
        assert_sound(&self.engine, &[TreeId::CATALOG, self.tree]);
    }
}

/// How many entries a range has, counted by leaves; what `next` yields then is behind them.
fn count(engine: &Engine, snapshot: &Snapshot, tree: TreeId, low: &[u8], high: &[u8]) -> u64 {
    let mut cursor = engine.cursor(snapshot, tree);
    cursor.seek(low).unwrap();
    let mut entries = 0;
    loop {
        let counted = cursor.count_below(high).unwrap();
        entries += counted.entries;
        if counted.is_end {
            assert!(!cursor.next().unwrap() || cursor.key() >= high || low > high);
            return entries;
        }
    }
}

fn run(steps: Vec<Step>) {
    let mut run = ModelRun::start();
    steps.into_iter().for_each(|step| run.step(step));
    run.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn the_engine_is_a_map_with_snapshots(steps in steps()) {
        run(steps);
    }
}
