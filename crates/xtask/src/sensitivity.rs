//! `cargo xtask sensitivity`: how sure `plimsoll compare` is. A build is compared with itself twenty times, and twenty times
//! with a build that the feature `slowdown-demonstration` makes five percent slower in one function.
//!
//! By instructions, with one client: several change the trees in an order of their own in every run. `docs/benchmarks.md` has
//! the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::driver_tests::target_folder;
use crate::{Outcome, step};

const PAIRS: u32 = 20;
const FALSE_MAX: u32 = 1;
const FOUND_MIN: u32 = 19;
/// The function that the feature slows down, as the sentence of a comparison names it.
const SLOWED: &str = "::change_leaf` changed most";
/// The slowdown is refused where nothing is asserted, as in release builds; the sound build is to differ in nothing else.
const SETTINGS: &str = "profile.dist.package.storage_engine.debug-assertions=true";
const WORKLOAD: &str = "--scenario server-44991 --set threads=1 --set collections=1 --set documents=1000 --rounds 1";

/// What a comparison said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Noise,
    /// Worse, and which function it is.
    Found,
    /// Worse, with another function; or better.
    Wrong,
}

/// Builds both programs, or takes those that were built before, and compares them.
///
/// # Errors
/// A build or a comparison fails, or too many verdicts are wrong.
pub fn run(root: &Path, programs: &[&str]) -> Outcome {
    let folder = root.join("target/sensitivity");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (sound, slowed) = match programs {
        [] => (build(root, &folder, "sound", &[])?, build(root, &folder, "slowed", &["slowdown-demonstration"])?),
        [sound, slowed] => (PathBuf::from(sound), PathBuf::from(slowed)),
        _ => return Err("name two programs, the sound and the slowed one, or none to have them built".to_owned()),
    };
    step::run(step::cargo(&["build", "--release", "--package", "lab", "--bin", "plimsoll-lab"]).current_dir(root))?;
    let lab = target_folder(root).join("release/plimsoll-lab");
    let same = compare_often(&lab, &folder.join("same"), &sound, &sound)?;
    let slower = compare_often(&lab, &folder.join("slowed"), &sound, &slowed)?;
    let count = |all: &[Said], wanted: Said| all.iter().filter(|said| **said == wanted).count() as u32;
    let wrong = PAIRS - count(&same, Said::Noise);
    let found = count(&slower, Said::Found);
    println!("the same build: {wrong} false verdicts in {PAIRS} comparisons (at most {FALSE_MAX})");
    println!("five percent slower in one function: found and named {found} times in {PAIRS} (at least {FOUND_MIN})");
    if wrong <= FALSE_MAX && found >= FOUND_MIN { Ok(()) } else { Err("compare is not sure enough".to_owned()) }
}

fn build(root: &Path, folder: &Path, name: &str, features: &[&str]) -> Result<PathBuf, String> {
    let mut command = step::cargo(&["build", "--profile", "dist", "--package", "server", "--bin", "plimsoll"]);
    command.args(["--config", SETTINGS]).args(features.iter().flat_map(|feature| ["--features", feature]));
    step::run(command.current_dir(root))?;
    let (built, kept) = (target_folder(root).join("dist/plimsoll"), folder.join(name));
    fs::copy(&built, &kept).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(kept)
}

fn compare_often(lab: &Path, results: &Path, a: &Path, b: &Path) -> Result<Vec<Said>, String> {
    let mut all = Vec::new();
    let name = results.display();
    for pair in 1..=PAIRS {
        let output = format!("{name}-{pair:02}");
        let mut command = Command::new(lab);
        command.arg("compare").arg(a).arg(b).args(WORKLOAD.split(' '));
        command.arg("--instructions").arg("--output").arg(&output);
        if pair == 1 {
            step::announce(&command);
        }
        let done = command.output().map_err(|error| format!("{}: {error}", lab.display()))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let (Some(said), Some(last)) = (said(&text), sentence(&text)) else {
            return Err(format!("the comparison failed: {}", String::from_utf8_lossy(&done.stderr)));
        };
        println!("{name} {pair}: {last}");
        all.push(said);
    }
    Ok(all)
}

fn sentence(text: &str) -> Option<&str> {
    text.lines().find(|line| line.starts_with("B is ") || line.starts_with("No figure differs"))
}

fn said(text: &str) -> Option<Said> {
    let sentence = sentence(text)?;
    Some(match sentence {
        _ if sentence.starts_with("No figure differs") => Said::Noise,
        _ if sentence.starts_with("B is worse") && sentence.contains(SLOWED) => Said::Found,
        _ => Said::Wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_slowed_function_is_a_find() {
        let text = |sentence: &str| format!("A: one\nB: two\n\n{sentence}\nwritten: somewhere\n");
        assert_eq!(said(&text("No figure differs by more than noise.")), Some(Said::Noise));
        let worse = "B is worse: instructions of all phases rose by 5.0 %.";
        assert_eq!(said(&text(&format!("{worse} By itself `a::change_leaf` changed most: 9."))), Some(Said::Found));
        assert_eq!(said(&text(&format!("{worse} By itself `a::search` changed most: 9."))), Some(Said::Wrong));
        assert_eq!(said(&text("B is better: instructions fell by 5.0 %.")), Some(Said::Wrong));
        assert_eq!(said("plimsoll: cannot be run"), None);
    }
}
