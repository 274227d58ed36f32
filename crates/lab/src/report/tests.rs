//! Reports stand alone and keep what they are given from becoming markup.

use super::*;
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
fn an_empty_history_says_so() {
    let html = history(&crate::history::of(Vec::new()));
    check(&html);
    assert!(html.contains("No figure has changed for good"));
}
