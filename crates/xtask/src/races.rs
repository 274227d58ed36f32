//! `cargo xtask races`: the storage engine's threads under the compiler's thread sanitizer.
//!
//! Called by `test_run`, and by whoever has changed what frames, latches or trees share. The sanitizer is an option that the compiler
//! calls unstable, so the compiler is told that we know (`RUSTC_BOOTSTRAP`). The standard library is built with it, too:
//! of what it has not seen it would tell races that are none. That wants the library's sources, which are installed if
//! they are missing.

use std::path::Path;
use std::process::Command;

use crate::test_run::{Ended, Tally, cargo_line, run_counted};
use crate::{Outcome, driver_tests, failures, step};

/// The tests of several threads: names, or parts of them.
const TESTS: &[&str] = &["threads", "merging", "stuck_disk", "beside"];
/// `watch_races` has pages copied by loops that the sanitizer looks into.
const FLAGS: &str = "-Zsanitizer=thread --cfg watch_races";

/// Runs them.
///
/// # Errors
/// A test failed, the sanitizer has found a race, or it cannot be had here.
pub fn run(root: &Path) -> Outcome {
    let ended = test(root)?;
    match ended.tally {
        Tally { failed: 0, skipped: 0, .. } => Ok(()),
        Tally { failed: 0, .. } => Err("they were not run".to_owned()),
        Tally { failed, .. } => Err(format!("{failed} failed")),
    }
}

/// Runs them, as one of several suites; where the library's sources cannot be had they are skipped.
pub(crate) fn test(root: &Path) -> Result<Ended, String> {
    if !has_sources()? {
        println!("SKIPPED: data races, because rustup cannot install the sources of the standard library (rust-src)");
        return Ok(Ended::from(Tally { skipped: 1, ..Tally::default() }));
    }
    let (ended, succeeded) = run_counted(&mut command(root, &step::host()?), cargo_line, failures::OF_CARGO)?;
    match ended.tally {
        Tally { passed: 0, failed: 0, .. } => Err("they could not be built".to_owned()),
        Tally { failed: 0, .. } if !succeeded => Err("a race was found".to_owned()),
        _ => Ok(ended),
    }
}

fn command(root: &Path, target: &str) -> Command {
    let mut command = step::cargo(&["test", "-Zbuild-std", "--package", "storage_engine", "--lib", "--target", target]);
    command.arg("--").args(TESTS).current_dir(root);
    command.env("CARGO_TARGET_DIR", driver_tests::target_folder(root).join("races"));
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS);
    command
}

fn has_sources() -> Result<bool, String> {
    let sources = Path::new(step::ask_compiler(&["--print", "sysroot"])?.trim())
        .join("lib/rustlib/src/rust/library/std/Cargo.toml");
    if !sources.is_file() {
        // Where it fails, or there is no rustup, they are still missing.
        let _tried = step::run(Command::new("rustup").args(["component", "add", "rust-src"]));
    }
    Ok(sources.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn what_is_built_with_a_sanitizer_is_kept_apart() {
        let command = command(&workspace::root(), "some-target");
        let folder = command.get_envs().find(|(name, _)| *name == "CARGO_TARGET_DIR");
        assert!(Path::new(folder.unwrap().1.unwrap()).ends_with("races"));
    }
}
