//! G23: the updates of SERVER-44991 on keys of four shapes: those of the report, which are all alike but for their ends, and
//! 200 bytes in common, each against random texts of the same length.

use super::judgement::{Bound, Judgement};
use super::rig::{Rig, only_phase};
use crate::error::LabError;
use crate::result::PhaseResult;

const KEY_SHAPE: &str = include_str!("../../scenarios/certify/key-shape.yaml");
/// Of a document of 20 bytes of text with its eleven index entries, on disk in memory's form.
const DOCUMENT_BYTES: f64 = 800.0;
/// Data, in caches: so much that its pages are written and read all the time.
const CACHES: f64 = 2.0;
const COPIES: f64 = 2.0;
const COUNTER: &str = "plimsoll.keysMaterialisedWritingPages";

/// A shape and what it is measured against.
struct Pair {
    name: &'static str,
    shape: (usize, u32),
    random: (usize, u32),
}

/// Bytes that all keys begin with, and random bytes after them.
const PAIRS: [Pair; 2] = [
    Pair { name: "SERVER-44991 (20 bytes alike)", shape: (20, 0), random: (0, 20) },
    Pair { name: "200 bytes in common", shape: (200, 20), random: (0, 220) },
];

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let mut judgement = rig.judgement("G23");
    let (mut keys, mut is_counted) = (0.0, true);
    for pair in PAIRS {
        let shaped = updates(rig, pair.shape).await?;
        let random = updates(rig, pair.random).await?;
        for phase in [&shaped, &random] {
            keys += phase.counters.get(COUNTER).copied().unwrap_or(0.0);
        }
        is_counted &= rig.number(COUNTER).await.is_some();
        let rate = shaped.documents_per_second / random.documents_per_second.max(1.0);
        let cost = shaped.server_cpu_microseconds_per_unit.zip(random.server_cpu_microseconds_per_unit);
        match cost {
            Some((shaped, random)) => {
                let what = format!("{}: server CPU a document / random keys", pair.name);
                judgement.figure(&what, shaped / random.max(1e-9), "x", Bound::AtMost(1.3));
                judgement.figure(
                    &format!("{}: random keys' documents/s / its own", pair.name),
                    1.0 / rate,
                    "x",
                    Bound::Shown,
                );
                judgement.figure(&format!("{}: server CPU a document", pair.name), shaped, "us", Bound::Shown);
            }
            None => {
                let what = format!("{}: random keys' documents/s / its own", pair.name);
                judgement.figure(&what, 1.0 / rate.max(1e-9), "x", Bound::AtMost(1.3));
            }
        }
        judgement.evidence(pair.name, &shaped);
        judgement.evidence(&format!("Random keys, for {}", pair.name), &random);
    }
    if is_counted {
        judgement.figure("keys materialised when pages were written", keys, "", Bound::AtMost(0.0));
    } else {
        judgement.leaves_out("this server does not count the keys that it builds when it writes pages");
    }
    Ok(vec![judgement])
}

async fn updates(rig: &mut Rig, (constant, random): (usize, u32)) -> Result<PhaseResult, LabError> {
    let bytes = rig.cache_bytes.unwrap_or(64.0 * 1_048_576.0).min(1024.0 * 1_048_576.0);
    let documents = (bytes * CACHES / COPIES / DOCUMENT_BYTES / 100.0).ceil() * 100.0;
    let changes =
        [("documents", documents.to_string()), ("constant", "x".repeat(constant)), ("random", random.to_string())];
    only_phase(rig.run(KEY_SHAPE, &changes).await?)
}
