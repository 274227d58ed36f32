//! The benchmarks end to end against a small server inside the test: complete runs, and runs that must say they are not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types, missing_docs)]

mod fake_server;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use fake_server::{FakeServer, Misbehaviour};
use lab::{BenchArguments, CertifyArguments, LabError};
use serde_json::Value;

#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    benchmark: BenchArguments,
}

/// Runs a command line; the report is in the directory.
async fn bench(line: &str, target: &str, output: &Path) -> Result<ExitCode, LabError> {
    let words = ["bench"].into_iter().chain(line.split_whitespace()).chain(["--target", target]);
    let output = ["--output".to_owned(), output.display().to_string()];
    let arguments = CommandLine::try_parse_from(words.map(str::to_owned).chain(output)).unwrap();
    lab::run(arguments.benchmark).await
}

fn report(output: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(output.join(format!("{name}.json"))).unwrap()).unwrap()
}

fn succeeded(code: ExitCode) -> bool {
    format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS)
}

const SMALL: &str = "server-44991 --documents 2500 --collections 3 --indexes 2 --threads 2 --rounds 5";

#[tokio::test(flavor = "multi_thread")]
async fn server_44991_completes_and_cleans_up() {
    let server = FakeServer::start(Misbehaviour::None);
    let output = tempfile::tempdir().unwrap();
    assert!(succeeded(bench(SMALL, &server.uri(), output.path()).await.unwrap()));
    let report = report(output.path(), "result");
    assert_eq!((&report["complete"], &report["failure"]), (&Value::Bool(true), &Value::Null));
    let phase = |name: &str| {
        let phases = report["phases"].as_array().unwrap();
        phases.iter().find(|phase| phase["name"] == name).unwrap_or_else(|| panic!("no phase {name}: {report}"))
    };
    let (load, update) = (phase("load"), phase("update"));
    assert_eq!((load["documents"].as_u64(), load["operations"].as_u64()), (Some(7500), Some(9)));
    assert_eq!((update["documents"].as_u64(), update["operations"].as_u64()), (Some(3 * 5 * 25), Some(15)));
    for phase in [load, update] {
        assert!(phase["server_cpu_seconds"].is_number(), "the server is this process");
        assert_eq!(phase["complete"], true);
    }
    assert_eq!(report["target"]["pid"].as_u64(), Some(u64::from(std::process::id())));
    assert_eq!(server.collections(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_are_kept_when_asked() {
    let server = FakeServer::start(Misbehaviour::None);
    let output = tempfile::tempdir().unwrap();
    let line = format!("{SMALL} --keep --numbers double");
    assert!(succeeded(bench(&line, &server.uri(), output.path()).await.unwrap()));
    assert_eq!(server.collections(), ["server_44991_0", "server_44991_1", "server_44991_2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_leaves_partial_results() {
    let server = FakeServer::start(Misbehaviour::DiesAtUpdate(8));
    let output = tempfile::tempdir().unwrap();
    assert!(!succeeded(bench(SMALL, &server.uri(), output.path()).await.unwrap()));
    let report = report(output.path(), "result");
    assert_eq!(report["complete"], false);
    assert!(report["failure"].as_str().unwrap().contains("update phase stopped early"), "{}", report["failure"]);
    let phases = report["phases"].as_array().unwrap();
    let update = phases.iter().find(|phase| phase["name"] == "update").unwrap();
    assert!(phases.iter().filter(|phase| phase["name"] != "update").all(|phase| phase["complete"] == true));
    assert_eq!(update["complete"], false);
    let acknowledged = update["documents"].as_u64().unwrap();
    assert!((6 * 25..=7 * 25).contains(&acknowledged), "{acknowledged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_updates_too_little_fails() {
    let server = FakeServer::start(Misbehaviour::MissesOneDocument);
    let output = tempfile::tempdir().unwrap();
    assert!(!succeeded(bench(SMALL, &server.uri(), output.path()).await.unwrap()));
    let report = report(output.path(), "result");
    assert!(report["failure"].as_str().unwrap().contains("24 documents where the scenario expects 25"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn point_operations_complete_with_both_clients() {
    let server = FakeServer::start(Misbehaviour::None);
    for client in ["raw", "driver"] {
        let output = tempfile::tempdir().unwrap();
        let line = format!("point-ops --connections 3 --seconds 1 --documents 500 --client {client}");
        assert!(succeeded(bench(&line, &server.uri(), output.path()).await.unwrap()));
        let report = report(output.path(), "point-ops");
        assert_eq!((report["complete"].as_bool(), report["document_bytes"].as_u64()), (Some(true), Some(190)));
        let operations = report["operations"].as_array().unwrap();
        let names: Vec<_> = operations.iter().map(|operation| operation["operation"].as_str().unwrap()).collect();
        assert_eq!(names, ["findOne", "insertOne", "updateOne", "deleteOne"]);
        let page = std::fs::read_to_string(output.path().join("report.html")).unwrap();
        assert!(page.contains("Phase updateOne") && page.contains("The load generator itself took"));
        let histograms = std::fs::read_to_string(output.path().join("latency.hlog")).unwrap();
        assert_eq!(histograms.matches("Tag=").count(), 4, "{histograms}");
        for operation in operations {
            assert!(operation["operations"].as_u64().unwrap() > 0, "{client}: {operation}");
            assert!(operation["latency_microseconds"]["p99"].as_f64().unwrap() > 0.0);
            assert!(operation["server_cpu_microseconds_per_operation"].is_number());
        }
    }
}

#[derive(Parser)]
struct CertifyLine {
    #[command(flatten)]
    arguments: CertifyArguments,
}

/// Certifies a fake server; gives the exit code and what `certify.json` says.
async fn certify(line: &str, server: &FakeServer) -> (ExitCode, Value) {
    let output = tempfile::tempdir().unwrap();
    let directory = output.path().display().to_string();
    let uri = server.uri();
    let words = ["certify", "--target", &uri, "--output", &directory].into_iter().chain(line.split_whitespace());
    let arguments = CertifyLine::try_parse_from(words).unwrap().arguments;
    let code = lab::certify(arguments).await.unwrap();
    assert!(std::fs::read_to_string(output.path().join("report.html")).unwrap().contains("Guarantees of fake"));
    (code, report(output.path(), "certify"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_tested_from_outside_is_never_a_pass() {
    let server = FakeServer::start(Misbehaviour::None);
    let (code, certificate) = certify("--only G6,G9,G14,G18,G20,G21,G22", &server).await;
    assert!(succeeded(code));
    let judgements = certificate["judgements"].as_array().unwrap();
    assert_eq!(judgements.len(), 7);
    for judgement in judgements {
        assert_eq!(judgement["verdict"], "not judged", "{judgement}");
        assert!(judgement["not_judged"].as_str().unwrap().len() > 20, "{judgement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_cannot_do_is_broken_and_a_small_test_passes_nothing() {
    let server = FakeServer::start(Misbehaviour::None);
    let (code, certificate) = certify("--only G2,G7,G25 --scale 0.001 --seconds 0.4", &server).await;
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(3)));
    let judgement = |number: &str| {
        let judgements = certificate["judgements"].as_array().unwrap();
        judgements.iter().find(|judgement| judgement["guarantee"] == number).unwrap().clone()
    };
    assert_eq!(judgement("G7")["verdict"], "fail");
    assert!(judgement("G7")["broken"][0].as_str().unwrap().contains("not supported by this server"));
    // Whether it held depends on the machine; it is not passed in any case.
    assert_ne!(judgement("G2")["verdict"], "pass");
    assert!(!judgement("G2")["left_out"].as_array().unwrap().is_empty());
    // Its number of tickets cannot be fixed.
    assert_eq!(judgement("G25")["verdict"], "not judged");
    assert_eq!(server.collections(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_is_told_within_seconds() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let error = bench(SMALL, &format!("mongodb://user:secret@{free}"), output.path()).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(matches!(error, LabError::Unreachable { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains(&free.to_string()) && message.contains("refused") && !message.contains("secret"),
        "{message}"
    );
}
