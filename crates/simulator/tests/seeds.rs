//! A few seeds of every trouble in `cargo test`; `cargo xtask simulate` runs thousands.
#![allow(clippy::unwrap_used, clippy::panic)]

use simulator::{Trouble, run_seed};

fn run(trouble: Trouble) {
    for seed in 1..=12 {
        if let Err(failure) = run_seed(seed, Some(trouble), false) {
            panic!("{}seed {seed} of {trouble:?}: {}", failure.trace, failure.problem);
        }
    }
}

#[test]
fn power_loss_at_any_operation_loses_nothing_durable() {
    run(Trouble::PowerLoss);
}

#[test]
fn a_failing_disk_stops_writes_for_good() {
    run(Trouble::Errors);
}

#[test]
fn a_full_disk_serves_reads_and_deletes_and_heals() {
    run(Trouble::FullDisk);
}

#[test]
fn flipped_bits_are_found_named_and_repaired_around() {
    run(Trouble::BitFlips);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 100..106 {
        let fingerprint = || run_seed(seed, None, false).unwrap().fingerprint;
        assert_eq!(fingerprint(), fingerprint());
    }
}
