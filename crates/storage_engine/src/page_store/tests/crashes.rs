//! A failure or power loss at every single disk operation of a scenario: what was acknowledged is found, nothing else.

use platform::{InjectedError, Operation, SimulatedDisk};

use super::*;

const OPERATIONS: [Operation; 10] = [
    Operation::Open,
    Operation::CreateDirectory,
    Operation::Remove,
    Operation::Rename,
    Operation::SyncDirectory,
    Operation::Write,
    Operation::Sync,
    Operation::SetLength,
    Operation::PunchHole,
    Operation::Allocate,
];

/// What the scenario has been told is published, and what it was just publishing.
#[derive(Default)]
struct Progress {
    published: (u64, BTreeMap<PageId, u64>),
    publishing: Option<(u64, BTreeMap<PageId, u64>)>,
}

/// Writes, changes and frees pages over some checkpoints with cleaning, in one opened store after the other.
fn scenario(disk: &SimulatedDisk, progress: &mut Progress) -> Result<()> {
    for _ in 0..2 {
        let store = open_with(disk, small_options())?;
        let mut content = progress.published.1.clone();
        for round in 0..4 {
            let number = progress.published.0 + 1;
            let created: Vec<_> = (0..12).map(|_| store.allocate_page_id()).collect::<Result<_>>()?;
            content.extend(created.into_iter().map(|page| (page, number)));
            for (page, version) in content.iter_mut().filter(|(page, _)| (page.0 + number).is_multiple_of(5)) {
                *version = number * 100 + page.0;
            }
            let deleted: Vec<_> = content.keys().copied().filter(|page| (page.0 + round) % 7 == 6).collect();
            content.retain(|page, _| !deleted.contains(page));
            let old: BTreeMap<_, _> = progress.published.1.clone();
            let changed: Vec<_> = content.iter().filter(|(page, version)| old.get(page) != Some(version)).collect();
            let changed: Vec<_> = changed.into_iter().map(|(page, version)| (*page, *version)).collect();
            write(&store, &changed, store.epoch())?;
            deleted.iter().for_each(|page| store.free_page(*page));
            store.clean_step(CleaningEffort::Thorough, &|_, _, _| true)?;
            progress.publishing = Some((number, content.clone()));
            checkpoint(&store, &number.to_le_bytes())?;
            progress.published = (number, content.clone());
            progress.publishing = None;
        }
        store.close()?;
    }
    Ok(())
}

fn assert_recovered(disk: &SimulatedDisk, progress: &mut Progress) {
    let store = open(disk);
    let found = store.recovered().map_or(0, |recovered| recovered.number);
    if let Some(publishing) = progress.publishing.take().filter(|(number, _)| *number == found) {
        progress.published = publishing;
    }
    assert_eq!(found, progress.published.0);
    assert_durable(&store, &progress.published.1);
    assert_sound(&store);
}

fn sweep(operation: Operation, crash: impl Fn(&SimulatedDisk, &mut Progress)) {
    let mut failures = 0;
    for after in 0..400 {
        let disk = SimulatedDisk::new(after);
        let mut progress = Progress::default();
        disk.fail_after(operation, after, InjectedError::InputOutput);
        let outcome = scenario(&disk, &mut progress);
        disk.clear_faults();
        crash(&disk, &mut progress);
        if outcome.is_ok() {
            break;
        }
        failures += 1;
    }
    assert!((1..400).contains(&failures), "{operation:?} failed {failures} times");
}

#[test]
fn power_loss_after_a_failure_at_every_operation() {
    for operation in OPERATIONS {
        sweep(operation, |disk, progress| {
            disk.power_loss();
            assert_recovered(disk, progress);
        });
    }
}

#[test]
fn process_restarts_after_a_failure_at_every_operation_and_power_is_lost_later() {
    for operation in [Operation::Write, Operation::Sync, Operation::SyncDirectory] {
        sweep(operation, |disk, progress| {
            disk.process_crash();
            assert_recovered(disk, progress);
            // What a failed sync lost must not be needed after it.
            disk.power_loss();
            assert_recovered(disk, progress);
            {
                let store = open(disk);
                let page = store.allocate_page_id().unwrap();
                write(&store, &[(page, 7)], store.epoch()).unwrap();
                checkpoint(&store, b"later").unwrap();
                progress.published.0 += 1;
                progress.published.1.insert(page, 7);
            }
            disk.power_loss();
            assert_recovered(disk, progress);
        });
    }
}

#[test]
fn power_loss_without_any_failure() {
    for seed in 0..60 {
        let disk = SimulatedDisk::new(seed);
        let mut progress = Progress::default();
        disk.fail_after(Operation::Write, 20 + seed * 2, InjectedError::NoSpace);
        let _ = scenario(&disk, &mut progress);
        disk.clear_faults();
        disk.power_loss();
        assert_recovered(&disk, &mut progress);
    }
}
