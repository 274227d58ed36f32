//! Model test of the version history: every record that some snapshot may need is read back as it was appended.

use std::sync::Arc;

use platform::SimulatedDisk;
use proptest::prelude::*;

use super::chunk_ring::CHUNK_BYTES;
use super::*;

fn history(memory_bytes: usize) -> History {
    History::new(Arc::new(SimulatedDisk::new(1)), memory_bytes, u64::MAX).unwrap()
}

fn state(since: u64) -> EntryState {
    EntryState { presence: Presence::Live, version: Version::Chained { since, position: since * 3 }, overflow: false }
}

#[derive(Debug, Clone)]
enum Step {
    Append { bytes: usize, is_concealed: bool },
    Trim { behind: u64, settled_behind: u64 },
    Spill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..6000, any::<bool>()).prop_map(|(bytes, is_concealed)| Step::Append { bytes, is_concealed }),
        1 => (0u64..200, 0u64..50).prop_map(|(behind, settled_behind)| Step::Trim { behind, settled_behind }),
        1 => Just(Step::Spill),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_needed_is_kept(steps in steps()) {
        let history = history(2 * CHUNK_BYTES);
        let mut kept: Vec<(u64, bool, u64, Vec<u8>)> = Vec::new();
        let mut clock = 0;
        for step in steps {
            match step {
                Step::Append { bytes, is_concealed } => {
                    clock += 1;
                    let value = vec![clock as u8; bytes];
                    let chain = (clock % 7 == 0).then_some(PageId(clock));
                    let position = history.append(state(clock), &value, chain, (clock, is_concealed));
                    kept.push((clock, is_concealed, position, value));
                }
                Step::Trim { behind, settled_behind } => {
                    let oldest = clock.saturating_sub(behind);
                    let settled = oldest.saturating_sub(settled_behind);
                    let mut chains = Vec::new();
                    history.trim(oldest, settled, &mut chains);
                    kept.retain(|(at, is_concealed, ..)| *at > if *is_concealed { settled } else { oldest });
                    let is_kept = |chain: &PageId| kept.iter().any(|(at, ..)| *at == chain.0);
                    prop_assert!(!chains.iter().any(is_kept), "a chain still needed was freed");
                }
                Step::Spill => while history.spill_step().unwrap() {},
            }
        }
        for (replaced_at, _, position, value) in kept {
            let mut found = Vec::new();
            prop_assert_eq!(history.read(position, &mut found).unwrap(), state(replaced_at));
            prop_assert_eq!(found, value);
        }
        let mut chains = Vec::new();
        history.trim(u64::MAX, u64::MAX, &mut chains);
        prop_assert_eq!(history.statistics(), HistoryStatistics::default());
        prop_assert!(history.overflow_heads().is_empty());
    }
}

#[test]
fn dropped_records_say_that_the_snapshot_is_too_old() {
    let history = history(CHUNK_BYTES);
    let position = history.append(state(1), b"old", None, (1, false));
    let concealed = history.append(state(1), b"old", None, (1, true));
    history.trim(1, 0, &mut Vec::new());
    assert!(matches!(history.read(position, &mut Vec::new()), Err(EngineError::SnapshotTooOld)));
    assert_eq!(history.read(concealed, &mut Vec::new()).unwrap(), state(1));
    history.trim(1, 1, &mut Vec::new());
    assert!(matches!(history.read(concealed, &mut Vec::new()), Err(EngineError::SnapshotTooOld)));
}
