//! `cargo xtask bench`: the benchmarks that `docs/benchmarks.md` describes, listed or run.
//!
//! A benchmark there is a heading of the form ``### `name`: what it measures``; its name is the subcommand of `plimsoll bench`, but for one.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, dist, step};

const PAGE: &str = "docs/benchmarks.md";

/// The one that is no subcommand, but an example of `commands`: it is about what happens within a command.
const IN_PROCESS: &str = "queries";

/// A benchmark of the page.
#[derive(Debug, PartialEq, Eq)]
struct Benchmark {
    name: String,
    measures: String,
}

/// Prints all benchmarks.
///
/// # Errors
/// The page cannot be read.
pub fn list(root: &Path) -> Outcome {
    for benchmark in read(root)? {
        println!("{:20} {}", benchmark.name, benchmark.measures);
    }
    println!("\nRun one with: cargo xtask bench NAME [OPTIONS]; the options are in {PAGE}");
    Ok(())
}

/// Runs one benchmark as it is shipped, with the options of `plimsoll bench`.
///
/// # Errors
/// There is none of this name, or it fails.
pub fn run(root: &Path, name: &str, options: &[&str]) -> Outcome {
    let benchmarks = read(root)?;
    if !benchmarks.iter().any(|benchmark| benchmark.name == name) {
        let names: Vec<&str> = benchmarks.iter().map(|benchmark| benchmark.name.as_str()).collect();
        return Err(format!("no benchmark {name:?} in {PAGE}; there are: {}", names.join(", ")));
    }
    if name == IN_PROCESS {
        let example = [
            "run",
            "--release",
            "--config",
            "profile.release.opt-level=3",
            "-p",
            "commands",
            "--example",
            IN_PROCESS,
            "--",
        ];
        return step::run(Command::new("cargo").args(example).args(options).current_dir(root));
    }
    let mut command = Command::new(dist::build(root, dist::Linked::Dynamically)?.join("plimsoll"));
    step::run(command.args(["bench", name]).args(options).current_dir(root))
}

fn read(root: &Path) -> Result<Vec<Benchmark>, String> {
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Benchmark> {
    let (name, measures) = line.strip_prefix("### `")?.split_once("`: ")?;
    Some(Benchmark { name: name.to_owned(), measures: measures.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_with_a_name_is_a_benchmark() {
        let expected = Benchmark { name: "load".into(), measures: "how fast".into() };
        assert_eq!(parse("### `load`: how fast"), Some(expected));
        assert_eq!(parse("## How to run them"), None);
    }
}
