//! The worst change comes first, with the builds between which it happened.

use super::*;
use crate::result::{FORMAT, PhaseResult};

#[test]
fn the_worst_change_is_named_first_with_its_builds() {
    let results = (0..24).map(|number| {
        let mut run = RunResult { format: FORMAT, scenario: "s".to_owned(), complete: true, ..RunResult::default() };
        run.started_at = format!("2026-01-{:02}T00:00:00Z", number + 1);
        run.target.version = Some(format!("1.{number}"));
        let wobble = 1.0 + 0.01 * f64::from(number % 3);
        run.phases.push(PhaseResult {
            name: "run".to_owned(),
            throughput_unit: "operations".to_owned(),
            operations_per_second: if number < 14 { 1000.0 } else { 800.0 } * wobble,
            storage_bytes: Some((if number < 8 { 4e9 } else { 2e9 } * wobble) as u64),
            ..PhaseResult::default()
        });
        run
    });
    let history = of(results.collect());
    let [worst, better] = &history.changes[..] else { panic!("{:?}", history.changes) };
    assert_eq!(
        (worst.figure.as_str(), worst.is_worse, worst.build_before.as_str(), worst.build.as_str()),
        ("throughput", true, "1.13", "1.14")
    );
    assert!((worst.change + 0.2).abs() < 0.02, "{}", worst.change);
    assert_eq!((better.figure.as_str(), better.is_worse), ("storage", false));
    let text = in_text(&history);
    assert!(text.find("WORSE").unwrap() < text.find("better").unwrap(), "{text}");
}
