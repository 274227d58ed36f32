//! The text of metrics, and the dashboard that reads it.

use std::collections::HashSet;

use bson::rawdoc;

use super::super::families::Kind;
use super::*;

#[test]
fn figures_become_samples_and_what_is_not_counted_is_left_out() {
    let status = rawdoc! {
        "version": "8 \"x\"\\",
        "connections": { "current": 3_i64, "active": 1_i32 },
        "plimsoll": { "writes": { "areAccepted": true }, "setAside": [{ "what": "index" }, {}] },
    };
    let text = text(&status);
    for line in [
        "# TYPE plimsoll_connections gauge",
        "plimsoll_connections{state=\"current\"} 3",
        "plimsoll_connections{state=\"active\"} 1",
        "plimsoll_writes_accepted 1",
        "plimsoll_set_aside 2",
        "plimsoll_info{version=\"8 \\\"x\\\"\\\\\"} 1",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("plimsoll_oplog"), "{text}");
}

#[test]
fn a_histogram_is_cumulative_and_ends_with_all() {
    let status = rawdoc! { "opLatencies": { "reads": {
        "histogram": [{ "micros": 8_i64, "count": 2_i64 }, { "micros": 16_i64, "count": 3_i64 }, { "micros": 1_i64 << 30, "count": 1_i64 }],
        "latency": 2_000_000_i64, "ops": 6_i64,
    } } };
    let text = text(&status);
    for line in [
        "plimsoll_operation_duration_seconds_bucket{kind=\"reads\",le=\"0.000016\"} 2",
        "plimsoll_operation_duration_seconds_bucket{kind=\"reads\",le=\"0.000032\"} 5",
        "plimsoll_operation_duration_seconds_bucket{kind=\"reads\",le=\"67.108864\"} 5",
        "plimsoll_operation_duration_seconds_bucket{kind=\"reads\",le=\"+Inf\"} 6",
        "plimsoll_operation_duration_seconds_sum{kind=\"reads\"} 2",
        "plimsoll_operation_duration_seconds_count{kind=\"reads\"} 6",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
}

/// <https://prometheus.io/docs/practices/naming/>: counters end with `_total`, nothing else does, and names are of small letters.
#[test]
fn families_are_named_as_prometheus_wants() {
    let mut seen = HashSet::new();
    for family in FAMILIES {
        let name = family.name;
        assert!(seen.insert(name), "{name} stands twice");
        assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
        assert!(name.chars().all(|one| one.is_ascii_lowercase() || one == '_'), "{name}");
        assert!(!family.help.is_empty() && family.help.ends_with('.'), "{name}");
        assert!(name.starts_with("plimsoll_") || name.starts_with("process_"), "{name}");
    }
}

/// The dashboard that comes with the server asks for nothing that it does not tell.
#[test]
fn the_dashboard_knows_only_families_that_there_are() {
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../docs/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = HashSet::new();
    for expression in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let text = expression["expr"].as_str().unwrap();
        let words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
        asked.extend(words.filter(|word| word.starts_with("plimsoll_") || word.starts_with("process_")));
    }
    assert!(panels.len() > 10 && asked.len() > 20);
    for name in asked {
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(FAMILIES.iter().any(|known| known.name == family), "{name}");
    }
}
