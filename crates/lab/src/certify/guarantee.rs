//! The guarantees: numbers, titles, and which test judges each, in the order in which the tests run.

/// What is tested together, because one load shows several guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Overload,
    Definitions,
    Checkpoints,
    IdleSnapshot,
    History,
    Visibility,
    Concurrency,
    Diagnostics,
    IndexBuild,
    HugeTransaction,
    DeleteStorm,
    KeyShapes,
    Memory,
    ManyCollections,
    ReplicaSet,
    /// Needs what a client cannot do: it is only said how it is proved.
    Elsewhere,
}

/// A guarantee.
pub(super) struct Guarantee {
    /// `G2`
    pub(super) number: &'static str,
    pub(super) title: &'static str,
    pub(super) test: Test,
}

const fn guarantee(number: &'static str, title: &'static str, test: Test) -> Guarantee {
    Guarantee { number, title, test }
}

/// All that this program can say something of.
pub(super) const GUARANTEES: &[Guarantee] = &[
    guarantee("G1", "Client threads never evict, write pages or checkpoint", Test::Overload),
    guarantee("G2", "Writers are paced, not frozen", Test::Overload),
    guarantee("G3", "Reads survive write overload", Test::Overload),
    guarantee("G4", "Overload is said", Test::Overload),
    guarantee("G5", "Checkpoints are invisible", Test::Checkpoints),
    guarantee("G6", "Everything stays evictable during a checkpoint", Test::Elsewhere),
    guarantee("G7", "A huge transaction harms only itself", Test::HugeTransaction),
    guarantee("G8", "An idle snapshot costs disk, not speed", Test::IdleSnapshot),
    guarantee("G9", "History is bounded", Test::History),
    guarantee("G10", "A dead or slow replica costs the primary nothing", Test::ReplicaSet),
    guarantee("G12", "A new member costs the primary nothing", Test::ReplicaSet),
    guarantee("G13", "No long oplog hole", Test::Visibility),
    guarantee("G14", "The memory limit is hard", Test::Memory),
    guarantee("G15", "Index builds yield", Test::IndexBuild),
    guarantee("G16", "A TTL or delete storm is harmless", Test::DeleteStorm),
    guarantee("G17", "Space returns by itself", Test::DeleteStorm),
    guarantee("G18", "Start-up does not depend on the number of collections", Test::ManyCollections),
    guarantee("G19", "DDL never blocks", Test::Definitions),
    guarantee("G20", "fsync failure is fail-stop", Test::Elsewhere),
    guarantee("G21", "Power loss at any point recovers", Test::Elsewhere),
    guarantee("G22", "Disk full heals", Test::Elsewhere),
    guarantee("G23", "No cliff from key shape", Test::KeyShapes),
    guarantee("G25", "Admission adapts", Test::Concurrency),
    guarantee("G26", "Diagnostics are off the hot path", Test::Diagnostics),
    guarantee("G29", "Another primary within seconds, and nothing acknowledged lost", Test::ReplicaSet),
];

/// In this order the tests run: those that only read and update the working set first, those that delete it later.
pub(super) const ORDER: &[Test] = &[
    Test::Overload,
    Test::Definitions,
    Test::Checkpoints,
    Test::IdleSnapshot,
    Test::Visibility,
    Test::Concurrency,
    Test::Diagnostics,
    Test::HugeTransaction,
    Test::Memory,
    Test::IndexBuild,
    Test::DeleteStorm,
    Test::KeyShapes,
    Test::History,
    Test::ManyCollections,
    Test::ReplicaSet,
    Test::Elsewhere,
];

/// Its title.
pub(super) fn title(number: &str) -> &'static str {
    GUARANTEES.iter().find(|guarantee| guarantee.number == number).map_or("", |guarantee| guarantee.title)
}

/// Why a guarantee is not judged by a client, and what proves it for our own server.
pub(super) fn proved_elsewhere(number: &str) -> &'static str {
    match number {
        "G6" => {
            "a checkpoint cannot be slowed down from outside; for Plimsoll: cargo test -p storage_engine slow_checkpoint, in which one \
             lasts two minutes beside changes of many times the cache while the dirty share stays level"
        }
        "G20" => "it needs a disk whose fsync fails; for Plimsoll: cargo xtask simulate --trouble errors",
        "G21" => {
            "it needs a disk that loses power; for Plimsoll: cargo xtask simulate --seeds 10000, which crashes at any \
             operation of the disk"
        }
        "G22" => "it needs a disk that fills up; for Plimsoll: cargo xtask simulate --trouble full-disk",
        _ => "there is no test of it here",
    }
}
