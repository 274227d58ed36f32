//! `cargo xtask suites`: test suites that others wrote, run against the built server.
//!
//! Too long for every run of the tests, so no part of `cargo xtask test`. A suite comes from its own source distribution, in the
//! pinned version. What it is known to fail is listed beside `tests/suites`, each with its reason; the list only shrinks: a test
//! that fails twice and is not listed fails the suite, and so does one that is listed and passes.

mod expected_failures;
mod pymongo;
mod server;

use std::path::{Path, PathBuf};

use self::expected_failures::ExpectedFailures;
use crate::{Outcome, driver_tests};

/// Runs tests against the server at a port: those named, or all.
type RunTests = fn(&Path, u16, &[String]) -> Result<Vec<Finished>, String>;
/// The folder of a suite's sources.
type Sources = fn(&Path) -> Result<PathBuf, String>;

/// A suite, and the server that it is run against.
struct Suite {
    name: &'static str,
    /// `SOURCES` stands for the folder of the suite's sources.
    server_arguments: &'static [&'static str],
    /// Files of tests; without any it is all.
    tests: &'static [&'static str],
    sources: Sources,
    run: RunTests,
}

/// What stands for the folder of a suite's sources.
const SOURCES: &str = "SOURCES";
/// PyMongo's tests of logins and of encryption. The certificates are those that the tests know.
const LOGIN_TESTS: &[&str] = &[
    "test/test_auth.py",
    "test/test_auth_spec.py",
    "test/test_database.py",
    "test/test_saslprep.py",
    "test/test_ssl.py",
];
const ENCRYPTED: &[&str] = &[
    "--tls-mode",
    "require",
    "--tls-certificate-key-file",
    "SOURCES/test/certificates/server.pem",
    "--tls-ca-file",
    "SOURCES/test/certificates/ca.pem",
    "--tls-allow-connections-without-certificates",
];
const ENCRYPTED_LOGINS: &[&str] = &[
    "--auth",
    "--tls-mode",
    "require",
    "--tls-certificate-key-file",
    "SOURCES/test/certificates/server.pem",
    "--tls-ca-file",
    "SOURCES/test/certificates/ca.pem",
    "--tls-allow-connections-without-certificates",
];

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Passed,
    Failed,
    Skipped,
}

/// A test that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finished {
    test: String,
    ending: Ending,
}

const PYMONGO: Suite =
    Suite { name: "pymongo", server_arguments: &[], tests: &[], sources: pymongo::sources, run: pymongo::run };

static SUITES: &[Suite] = &[
    PYMONGO,
    Suite { name: "pymongo-replica-set", server_arguments: &["--replica-set", "rs0"], ..PYMONGO },
    Suite { name: "pymongo-logins", server_arguments: &["--auth"], tests: LOGIN_TESTS, ..PYMONGO },
    Suite { name: "pymongo-tls", server_arguments: ENCRYPTED, tests: LOGIN_TESTS, ..PYMONGO },
    Suite { name: "pymongo-tls-logins", server_arguments: ENCRYPTED_LOGINS, tests: LOGIN_TESTS, ..PYMONGO },
];

/// Runs the suites of these names, or all.
///
/// # Errors
/// A suite does not exist or could not be run, or its failures are others than those that are listed.
pub fn run(root: &Path, names: &[&str]) -> Outcome {
    if let Some(unknown) = names.iter().find(|name| SUITES.iter().all(|suite| suite.name != **name)) {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("no suite {unknown:?}; there are: {}", known.join(", ")));
    }
    let server = driver_tests::build_server(root)?;
    let chosen = SUITES.iter().filter(|suite| names.is_empty() || names.contains(&suite.name));
    let complaints: Vec<String> = chosen.filter_map(|suite| run_suite(root, &server, suite).err()).collect();
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn run_suite(root: &Path, program: &Path, suite: &Suite) -> Outcome {
    let expected = ExpectedFailures::read(&root.join("tests/suites").join(format!("{}.txt", suite.name)))?;
    let sources = (suite.sources)(root)?.display().to_string();
    let arguments: Vec<String> = suite.server_arguments.iter().map(|word| word.replace(SOURCES, &sources)).collect();
    let server = server::Server::start(program, &arguments)?;
    let tests: Vec<String> = suite.tests.iter().map(|file| (*file).to_owned()).collect();
    let mut finished = (suite.run)(root, server.port(), &tests)?;
    run_again(root, suite, &server, &expected.unlisted(&finished), &mut finished)?;
    let count = |ending| finished.iter().filter(|test| test.ending == ending).count();
    let (passed, failed) = (count(Ending::Passed), count(Ending::Failed));
    println!("{}: {passed} passed, {failed} failed, {} skipped", suite.name, count(Ending::Skipped));
    expected.compare(&finished).map_err(|message| format!("{}: {message}", suite.name))
}

/// Runs `tests` once more by themselves: many have limits of milliseconds, which a busy machine exceeds. Fails count only if they come again.
fn run_again(
    root: &Path,
    suite: &Suite,
    server: &server::Server,
    tests: &[String],
    finished: &mut [Finished],
) -> Outcome {
    if tests.is_empty() {
        return Ok(());
    }
    println!("{}: {} tests failed that are not listed, and are run once more", suite.name, tests.len());
    for again in (suite.run)(root, server.port(), tests)? {
        if let Some(first) = finished.iter_mut().find(|first| first.test == again.test) {
            first.ending = again.ending;
        }
    }
    Ok(())
}
