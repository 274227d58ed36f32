//! `cargo xtask`: the one entry point for people and for CI. See `docs/testing.md`.
//!
//! Called through the alias in `.cargo/config.toml`. Each task is a function of the library beside this file.

use std::process::ExitCode;

use xtask::{
    bench, chaos, check, dist, documents, fuzz, kafka, longer, package, races, sensitivity, simulation, suites,
    test_run, tidy, workspace,
};

const USAGE: &str = "\
Tasks of this repository:

  cargo xtask check            formatting, lints, tidy rules, dependency licences
  cargo xtask test             every test: cargo test, the simulator, then PyMongo, mongosh and Node drivers against the built server
  cargo xtask test drivers     only the driver and crash tests
  cargo xtask test --with kafka the log in Kafka, on three brokers of this machine: Java 17, Maven, ten minutes
  cargo xtask suites [NAME ...] test suites that others wrote, against the built server: pymongo, pymongo-replica-set; half an hour each
  cargo xtask chaos [...]      honest clients beside hostile ones, kills, a full disk, a clock that is set; --minutes N, --seed N
  cargo xtask longer [PART ...] what is too long for every change: chaos, simulator, fuzz, suites; two hours
  cargo xtask fuzz [TARGET]    inputs that lead to new code, for each target of fuzz/; --seconds N each (300)
  cargo xtask simulate [...]   the deterministic simulator; options as --seed N --verbose, --seeds COUNT, --trouble NAME
  cargo xtask races            the storage engine's threads under the thread sanitizer; three minutes
  cargo xtask dist             the programs as they are shipped: optimised across crates, debug information beside them; ten minutes
  cargo xtask package [...]    what people install: Debian package, wheel, npm package; --static: an archive for any Linux; --programs DIR takes programs that are built
  cargo xtask bench [NAME ...] lists the benchmarks of docs/benchmarks.md, or runs one with its options
  cargo xtask sensitivity      how often `plimsoll compare` is wrong: 40 comparisons by instructions (valgrind), 15 minutes
  cargo xtask tidy             the rules that no compiler checks
  cargo xtask docs             writes docs/compatibility.md and docs/privileges.md anew
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = workspace::root();
    let outcome = match words.as_slice() {
        ["check"] => check::run(&root),
        ["test"] => test_run::run_all(&root),
        ["test", "--with", "kafka"] => kafka::run(&root),
        ["test", "drivers"] => test_run::run_drivers(&root),
        ["chaos", options @ ..] => chaos::run(&root, options),
        ["longer", parts @ ..] => longer::run(&root, parts),
        ["fuzz", options @ ..] => fuzz::run(&root, options),
        ["suites", names @ ..] => suites::run(&root, names),
        ["simulate", options @ ..] => simulation::run(&root, options),
        ["races"] => races::run(&root),
        ["dist"] => dist::run(&root),
        ["package", options @ ..] => package::run(&root, options),
        ["bench"] => bench::list(&root),
        ["bench", name, options @ ..] => bench::run(&root, name, options),
        ["sensitivity", programs @ ..] => sensitivity::run(&root, programs),
        ["tidy"] => tidy::run(&root),
        ["docs"] => documents::write(&root),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
