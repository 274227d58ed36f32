//! Reports stand alone and keep what they are given from becoming markup.

use super::*;
use crate::certify::Certificate;
use crate::certify::judgement::{Bound, Judgement};
use crate::result::{FORMAT, PhaseResult, RunResult};

fn check(html: &str) {
    assert!(html.starts_with("<!doctype html>"));
    assert!(html.contains("name=\"viewport\"") && html.contains("prefers-color-scheme: dark"));
    // Nothing is loaded: no address but those of the SVG name space, inside data.
    for marker in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!html.contains(marker), "{marker}");
    }
    assert!(html.contains("id=\"data\""));
    assert!(!html.contains("<script>alert"));
}

#[test]
fn a_run_s_report_stands_alone_and_escapes() {
    let mut result = RunResult { format: FORMAT, scenario: "s".to_owned(), ..RunResult::default() };
    result.failure = Some("<script>alert(1)</script>".to_owned());
    result.phases.push(PhaseResult { name: "</script><script>alert(2)".to_owned(), ..PhaseResult::default() });
    let html = bench(&result, &[("flame".to_owned(), "<svg height=\"70\"></svg>".to_owned())]);
    check(&html);
    assert!(html.contains("Partial results"));
    let data = html.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let read: RunResult = serde_json::from_str(data).unwrap();
    assert_eq!(read.phases[0].name, result.phases[0].name);
}

#[test]
fn a_certificate_shows_every_verdict_and_the_load_behind_it() {
    let mut broken = Judgement::of("G2");
    broken.figure("p99", 300.0, "ms", Bound::Below(250.0)).leaves_out("<script>alert(3)</script>");
    let mut phase = PhaseResult { throughput_unit: "operations".to_owned(), ..PhaseResult::default() };
    phase.seconds.push(crate::Second { second: 0, length_seconds: 1.0, per_second: 5.0, ..Default::default() });
    phase.server_series.cache_used_share = vec![0.5, 0.9];
    phase.server_series.cache_dirty_share = vec![0.1, 0.2];
    phase.second_latencies.p99 = vec![1000.0, 2000.0];
    broken.evidence("Four times as much offered", &phase);
    let unjudged = Judgement::not_judged("G20", "it needs a disk whose fsync fails");
    let html = certificate(&Certificate::of_tests(vec![broken, unjudged]));
    check(&html);
    for part in [
        "1 FAILED",
        "BROKEN",
        "&lt; 250 ms",
        "Share of the cache",
        "Throughput",
        "Latency",
        "needs a disk whose fsync fails",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn an_empty_history_says_so() {
    let html = history(&crate::history::of(Vec::new()));
    check(&html);
    assert!(html.contains("No figure has changed for good"));
}
