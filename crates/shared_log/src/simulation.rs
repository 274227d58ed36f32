//! A replica set on a shared log that misbehaves, by seed: what was acknowledged is found by everybody, once, in one order.
//!
//! One run is a few hundred steps of three members in one thread: entries, appends that are lost, late, repeated or overtaken, answers that
//! are lost, members that die and go on from an older checkpoint, claims at any moment (nobody waits for silence, so that there are many primaries at
//! once), step-downs. Then all faults end, everybody reads to the end, and the sequences are compared.
//!
//! What must be noticed is tried as well: each `Mistake` is a rule, or a member, that is wrong in one place.

mod member;
mod mistakes;
mod model;
mod world;

use self::mistakes::{MEMBER_MISTAKES, MemberMistake, Mistake, RULE_MISTAKES};
use self::model::Model;
use self::world::{Tally, World};
use crate::{MemoryLog, Reading, Rule, Standing};

/// Runs in every test run.
const RUNS: u64 = 1_500;
/// Within so many runs each mistake is noticed.
const RUNS_OF_MISTAKE: u64 = 4_000;
/// Names how many runs `very_many_runs` makes.
const RUNS_VARIABLE: &str = "SHARED_LOG_RUNS";

/// A rule whose state can be stored and read again.
trait Stored: Rule {
    /// What a member has that goes on from what it has stored now.
    fn stored(&self) -> Self;
}

impl Stored for Reading {
    fn stored(&self) -> Reading {
        Reading::resumed(Standing::decode(&self.standing().encode()).unwrap())
    }
}

/// All runs of `seeds`, or the first failure.
fn run_all<R: Stored>(
    seeds: std::ops::Range<u64>,
    mistake: Option<MemberMistake>,
    beginning: impl Fn(&MemoryLog) -> R,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for seed in seeds {
        let world = World::new(seed, mistake, &beginning);
        tally.add(&world.run().map_err(|message| format!("seed {seed}: {message}"))?);
    }
    Ok(tally)
}

fn product(log: &MemoryLog) -> Reading {
    Reading::new(world::identity(log), world::BEGINNING)
}

#[test]
fn what_was_acknowledged_is_found_by_everybody_once() {
    let tally = run_all(0..RUNS, None, product).unwrap();
    // The runs are about what they are to be about.
    assert!(tally.acknowledged > RUNS && tally.claims > 2 * RUNS && tally.crashes > RUNS, "{tally:?}");
    assert!(tally.step_downs > RUNS / 20 && tally.repeats > RUNS && tally.gaps > RUNS / 10, "{tally:?}");
    assert!(tally.halves > RUNS / 10 && tally.late > RUNS, "{tally:?}");
}

/// `SHARED_LOG_RUNS=100000 cargo test --profile simulation -p shared_log very_many_runs -- --ignored --nocapture`
#[test]
#[ignore = "minutes; cargo xtask longer"]
fn very_many_runs() {
    let runs = std::env::var(RUNS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    println!("{runs} runs: {:?}", run_all(RUNS..RUNS + runs, None, product).unwrap());
}

#[test]
fn every_mistake_is_noticed() {
    let mut unnoticed = Vec::new();
    for mistake in RULE_MISTAKES {
        match run_all(0..RUNS_OF_MISTAKE, None, |_| Model::new(Some(*mistake))) {
            Ok(_) => unnoticed.push(format!("{mistake:?}")),
            Err(message) => println!("{mistake:?}: {message}"),
        }
    }
    for mistake in MEMBER_MISTAKES {
        // Without the product's own checks, which stop a member that has been misled.
        match run_all(0..RUNS_OF_MISTAKE, Some(*mistake), |_| Model::new(None)) {
            Ok(_) => unnoticed.push(format!("{mistake:?}")),
            Err(message) => println!("{mistake:?}: {message}"),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

/// Then that member stops, or those whose primary it has become; never do two go on with other entries.
#[test]
fn who_misreads_the_log_is_stopped() {
    let mut stopped = 0;
    for seed in 0..RUNS {
        match World::new(seed, Some(MemberMistake::Misreads), product).run() {
            Ok(_) => {}
            Err(message) if message.contains("stops: ") => stopped += 1,
            Err(message) => panic!("seed {seed}: {message}"),
        }
    }
    assert!(stopped > RUNS / 20, "{stopped}");
}

#[test]
fn the_model_without_a_mistake_is_the_rule() {
    let tally = run_all(0..RUNS / 4, None, |_| Model::new(None::<Mistake>)).unwrap();
    assert_eq!(format!("{tally:?}"), format!("{:?}", run_all(0..RUNS / 4, None, product).unwrap()));
}
