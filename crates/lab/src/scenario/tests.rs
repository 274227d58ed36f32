//! Shipped scenarios are sound, files say what is wrong with them, and runs against a null server keep their promises.

use std::time::Duration;

use super::*;
use crate::null_server::{Misbehaviour, NullServer};

#[test]
fn every_shipped_scenario_is_sound() {
    for (name, _) in shipped::SHIPPED {
        let scenario = Scenario::shipped(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(scenario.name(), *name);
        assert!(!scenario.description().is_empty(), "{name} says nothing of itself");
    }
}

#[test]
fn a_bad_file_says_what_and_where() {
    let phases = "phases: [{seconds: 1, mix: [{findOne: {collection: a}}]}]";
    for (yaml, parts) in [
        ("name: x\nphases: [", vec!["line 2"]),
        ("name: x\nphasses: []", vec!["phasses", "phases", "2"]),
        ("name: x\nphases: []", vec!["phases: there is none"]),
        ("name: a/b\nphases: []", vec!["only letters"]),
        ("name: x\nphases: [{mix: [{findOne: {collection: a}}]}]", vec!["phase 1", "never ends"]),
        ("name: x\nphases: [{seconds: 1, mix: [{findOn: {collection: a}}]}]", vec!["findOn", "findOne"]),
        ("name: x\nphases: [{seconds: 1, mix: [{findOne: {}}]}]", vec!["phase 1: findOne: `collection` is missing"]),
        (
            "name: x\nphases: [{seconds: soon, mix: [{findOne: {collection: a}}]}]",
            vec!["seconds: must be a number, not text"],
        ),
        ("name: x\nphases: [{name: p, load: [b]}]", vec!["phase \"p\"", "no collection \"b\""]),
        (
            "name: x\nphases: [{seconds: 1, threads: 0, mix: [{findOne: {collection: a}}]}]",
            vec!["threads: must lie between"],
        ),
        (
            "name: x\nphases: [{seconds: 1, arrival: even, mix: [{findOne: {collection: a}}]}]",
            vec!["`arrival` needs a `rate`"],
        ),
        (
            "name: x\nphases: [{seconds: 1, mix: [{findOne: {collection: a}, pause: {}}]}]",
            vec!["exactly one operation"],
        ),
        (
            "name: x\nphases: [{seconds: 1, mix: [{findOne: {collection: a, filter: {_id: =rendom}}}]}]",
            vec!["filter", "=rendom"],
        ),
        (&format!("name: x\nparameters: {{a: [1]}}\n{phases}"), vec!["parameter \"a\""]),
    ] {
        let message = Scenario::parse(yaml, &[]).err().unwrap_or_else(|| panic!("{yaml} was taken")).to_string();
        for part in parts {
            assert!(message.contains(part), "{yaml}\n{message}");
        }
    }
    let message = Scenario::find("nothing", &[]).err().unwrap().to_string();
    assert!(message.contains("ycsb-a"), "{message}");
}

fn closed(extra: &str) -> Scenario {
    let yaml = format!(
        "name: t\ncollections: {{a: {{documents: 2500, document: {{_id: =number}}}}}}\nphases:\n  - {{name: load, load: [a], threads: 2}}\n  \
         - {{name: run, threads: 4, {extra}, mix: [{{findOne: {{collection: a, filter: {{_id: {{=random: {{to: 2500}}}}}}, expect: 1}}}}, \
         {{weight: 2, updateOne: {{collection: a, filter: {{_id: 3}}, update: {{$inc: {{a: 1}}}}}}}}]}}"
    );
    Scenario::parse(&yaml, &[]).unwrap()
}

async fn run_against(server: &NullServer, scenario: &Scenario) -> Outcome {
    run(scenario, RunOptions::new(&server.uri())).await.unwrap()
}

#[tokio::test]
async fn a_closed_loop_does_what_it_is_told() {
    let server = NullServer::start("127.0.0.1:0", Misbehaviour::default()).unwrap();
    let outcome = run_against(&server, &closed("operations_total: 600")).await;
    let result = &outcome.result;
    assert!(result.complete, "{:?}", result.failure);
    let [load, run] = &result.phases[..] else { panic!("two phases") };
    assert_eq!((load.documents, load.operations, load.throughput_unit.as_str()), (2500, 3, "documents"));
    assert_eq!(run.operations, 600);
    assert_eq!(server.commands(), 603);
    let [find, update] = &run.steps[..] else { panic!("two kinds of operations") };
    assert_eq!(find.operations + update.operations, 600);
    assert!((120..280).contains(&find.operations), "{}", find.operations);
    assert_eq!(run.tenths.operations.iter().sum::<u64>(), 600);
    assert!(run.overhead.client_cpu_microseconds_per_operation >= 0.0);
    assert!(!find.histogram.is_empty());
}

#[tokio::test]
async fn an_open_loop_counts_what_a_stall_made_wait() {
    let stall = Some((Duration::from_millis(800), Duration::from_millis(500)));
    let server = NullServer::start("127.0.0.1:0", Misbehaviour { stalls: stall, ..Misbehaviour::default() }).unwrap();
    let yaml = "name: t\nphases: [{name: run, threads: 2, rate: 200, arrival: even, seconds: 2, mix: [{findOne: {collection: a}}]}]";
    let outcome = run_against(&server, &Scenario::parse(yaml, &[]).unwrap()).await;
    let run = &outcome.result.phases[0];
    // However crowded the machine: every operation that was due was answered or is counted as never started.
    let due = run.operations + run.unstarted + run.unanswered;
    assert!((396..=402).contains(&due), "{} answered, {} never started", run.operations, run.unstarted);
    // Two clients met the stall, but the hundred operations that were due in it count as late as well.
    assert!(run.latency_microseconds.p90 > 50_000.0, "{:?}", run.latency_microseconds);
    assert!(run.longest_gap.seconds >= 0.4, "{:?}", run.longest_gap);
    assert_eq!(run.offered_per_second, Some(200.0));
}

#[tokio::test]
async fn a_server_that_dies_leaves_partial_results() {
    let dying = Misbehaviour { dies_after: Some(300), ..Misbehaviour::default() };
    let server = NullServer::start("127.0.0.1:0", dying).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = RunOptions {
        output: Some(directory.path().to_owned()),
        ..RunOptions::new(&format!("{}/?serverSelectionTimeoutMS=500&retryWrites=false&retryReads=false", server.uri()))
    };
    let outcome = run(&closed("seconds: 30"), options).await.unwrap();
    assert!(!outcome.result.complete);
    let failure = outcome.result.failure.clone().unwrap();
    assert!(failure.starts_with("the run phase stopped early:"), "{failure}");
    let kept = crate::result::RunResult::read(directory.path()).unwrap();
    assert_eq!(kept.failure.as_deref(), Some(failure.as_str()));
    let run = kept.phase("run").unwrap();
    assert!(!run.complete && (200..=300).contains(&run.operations), "{}", run.operations);
    assert!(directory.path().join("latency.hlog").exists() && directory.path().join("series.jsonl").exists());
}

#[tokio::test]
async fn counted_errors_do_not_end_a_run_and_are_named() {
    let refusing = Misbehaviour { refuses_every: Some(10), ..Misbehaviour::default() };
    let server = NullServer::start("127.0.0.1:0", refusing).unwrap();
    let yaml =
        "name: t\nphases: [{name: run, errors: count, operations_total: 200, mix: [{command: {command: {doIt: 1}}}]}]";
    let outcome = run_against(&server, &Scenario::parse(yaml, &[]).unwrap()).await;
    let run = &outcome.result.phases[0];
    assert!(outcome.result.complete, "{:?}", outcome.result.failure);
    let failed: u64 = run.errors.values().sum();
    assert_eq!(run.operations + failed, 200);
    assert!(failed == 0 || run.errors.keys().all(|name| name.contains("462")), "{:?}", run.errors);
}

#[tokio::test]
async fn an_unreachable_target_is_told_before_anything_is_written() {
    let options = RunOptions { output: Some("never-made".into()), ..RunOptions::new("mongodb://127.0.0.1:1") };
    let error = run(&closed("seconds: 1"), options).await.unwrap_err().to_string();
    assert!(error.contains("cannot reach a server at 127.0.0.1:1"), "{error}");
    assert!(!Path::new("never-made").exists());
    let error = run(&closed("seconds: 1"), RunOptions::new("http://x")).await.unwrap_err().to_string();
    assert!(error.contains("--target"), "{error}");
}

/// So many that the second phase runs.
const COMMANDS_BEFORE_THE_STOP: u64 = 100;

#[tokio::test]
async fn a_caller_can_stop_a_run() {
    let server = NullServer::start("127.0.0.1:0", Misbehaviour::default()).unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let options = RunOptions { stop: Some(stopped), ..RunOptions::new(&server.uri()) };
    let scenario = closed("seconds: 30");
    let stopping = async {
        while server.commands() < COMMANDS_BEFORE_THE_STOP {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send_replace(true);
    };
    let (outcome, ()) = tokio::join!(run(&scenario, options), stopping);
    let outcome = outcome.unwrap();
    assert!(!outcome.result.complete);
    assert!(outcome.result.failure.unwrap().contains("interrupted"));
    assert!(outcome.result.phases[1].operations > 0);
}
