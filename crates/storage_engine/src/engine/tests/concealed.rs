//! Commits that are concealed while they are applied, beside others.

use super::*;

/// Others' old versions are kept within the quota while a commit is concealed, and no snapshot is given up for what that commit keeps.
#[test]
fn a_concealed_commit_does_not_keep_what_others_replace() {
    let quota = 1 << 20;
    let disk = Arc::new(SimulatedDisk::new(7));
    let options = EngineOptions { history_memory_bytes: 512 << 10, history_quota_bytes: quota, ..options() };
    let engine = Engine::open(disk, Arc::new(SimulatedClock::new(0)), options).unwrap();
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    put_numbers(&engine, tree, 4_000, &mut clock);
    clock += 1;
    let concealed = Timestamp(clock);
    engine.conceal(concealed);
    let (mut most, mut kept) = (0, None);
    for number in 0..20_000_u32 {
        if number % 10 == 0 {
            batch.clear();
            batch.put(tree, &(number / 10).to_be_bytes(), &[8; 1000]);
            engine.apply(&batch, concealed).unwrap();
        }
        let snapshot = engine.begin_snapshot();
        batch.clear();
        batch.put(tree, &(2_000 + number % 2_000).to_be_bytes(), &[number as u8; 300]);
        commit(&engine, &batch, &mut clock);
        if number % 100 == 0 {
            while engine.reclaim_step().unwrap() || engine.evict_batch().unwrap() > 0 {}
            snapshot.check().unwrap();
            let held = engine.statistics().unwrap().history;
            most = most.max(held.memory_bytes + held.spilled_bytes);
        }
        if number == 10_000 {
            kept = Some(snapshot);
        }
    }
    assert!(kept.unwrap().check().is_err(), "what is kept for it exceeds the quota");
    assert!((quota..2 * quota).contains(&most), "{most} bytes of history");
    let before = all(&engine, &engine.begin_snapshot(), tree);
    assert!(before.iter().all(|(_, value)| value[0] != 8 || value.len() == 300), "half of the commit is seen");
    clock += 1;
    engine.reveal(concealed, Timestamp(clock));
    engine.set_visible(Timestamp(clock));
    while engine.reclaim_step().unwrap() {}
    let after = all(&engine, &engine.begin_snapshot(), tree);
    assert_eq!(after.iter().filter(|(_, value)| value.len() == 1000).count(), 2_000);
    let held = engine.statistics().unwrap().history;
    assert_eq!(held.memory_bytes + held.spilled_bytes, 0);
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}
