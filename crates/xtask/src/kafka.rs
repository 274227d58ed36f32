//! `cargo xtask test --with kafka`: the log in Kafka on real brokers, three of them on this machine.
//!
//! No part of `cargo xtask test`: the brokers come from Maven Central (`tests/kafka/pom.xml`), need Java 17, some 800 MB of memory and ten minutes. First the
//! tests of the crate that need brokers, then `tests/crash/test_kafka.py` and `test_kafka_cut_off.py`, which start brokers of their own to kill them and to cut them off.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::driver_tests::{install_once, install_python, target_folder};
use crate::{Outcome, step};

const BROKERS: &str = "tests/kafka/brokers.py";
const SUITES: [&str; 2] = ["tests/crash/test_kafka.py", "tests/crash/test_kafka_cut_off.py"];

/// Runs both.
///
/// # Errors
/// A test failed, or something could not be built or installed.
pub fn run(root: &Path) -> Outcome {
    let (jars, python) = (install_brokers(root)?, install_python(root)?);
    let mut crate_tests = Command::new(&python);
    crate_tests.arg(BROKERS).arg(&jars).arg("--").arg(step::cargo(&[]).get_program());
    crate_tests.args(["test", "--package", "kafka_log", "--features", "client", "--lib", "--", "--include-ignored"]);
    let in_crate = step::run(crate_tests.current_dir(root));
    step::run(
        step::cargo(&["build", "--package", "server", "--bin", "plimsoll", "--features", "kafka"]).current_dir(root),
    )?;
    let mut whole = Command::new(&python);
    whole.args(["-m", "pytest", "-v", "-s", "--color=no"]).args(SUITES).current_dir(root);
    whole.env("PLIMSOLL_BINARY", target_folder(root).join("debug/plimsoll"));
    whole.env("PLIMSOLL_KAFKA_JARS", &jars).env("PYTHONDONTWRITEBYTECODE", "1");
    step::run(&mut whole)?;
    in_crate
}

/// The folder of what a broker is made of.
fn install_brokers(root: &Path) -> Result<PathBuf, String> {
    let folder = target_folder(root).join("driver-tests/kafka");
    let jars = folder.join("jars");
    let manifest = root.join("tests/kafka/pom.xml");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    install_once(&manifest, &folder, |manifest| {
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "--file"]).arg(manifest);
        maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies");
        maven.arg(format!("-DoutputDirectory={}", jars.display())).arg("-DincludeScope=runtime");
        step::run(&mut maven)
    })?;
    Ok(jars)
}
