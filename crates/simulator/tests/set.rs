//! A few seeds of whole replica sets in `cargo test`; `cargo xtask simulate --set` runs thousands.
#![allow(clippy::unwrap_used, clippy::panic)]

use simulator::{Mistake, run_set_seed};

/// A mistake is noticed by one of so many seeds.
const SEEDS_MAX: u64 = 300;

#[test]
fn what_a_set_has_told_or_shown_is_with_all_members_whoever_leads() {
    for seed in 1..=30 {
        if let Err(failure) = run_set_seed(seed, None, false) {
            panic!("{}seed {seed}: {}", failure.trace, failure.problem);
        }
    }
}

#[test]
fn the_same_seed_is_the_same_set() {
    for seed in 100..106 {
        let fingerprint = || run_set_seed(seed, None, false).unwrap().fingerprint;
        assert_eq!(fingerprint(), fingerprint());
    }
}

#[test]
fn each_mistake_is_noticed() {
    for mistake in Mistake::ALL {
        let noticed = (1..=SEEDS_MAX).find(|seed| run_set_seed(*seed, Some(mistake), false).is_err());
        println!("{mistake:?}: noticed by seed {noticed:?}");
        assert!(noticed.is_some(), "{mistake:?} was not noticed by {SEEDS_MAX} seeds");
    }
}
