//! `cargo xtask check`: what must hold before a change is merged, apart from the tests.
//!
//! Every step runs even when an earlier one failed, so that one run shows everything.

use std::path::Path;

use crate::{Outcome, step, tidy};

type Step = fn(&Path) -> Outcome;

/// Formatting, lints, tidy rules; licences, sources and known faults of dependencies.
///
/// # Errors
/// Which steps failed.
pub fn run(root: &Path) -> Outcome {
    let steps: [(&str, Step); 5] = [
        ("formatting", formatting),
        ("lints", lints),
        ("tidy", tidy::run),
        ("licences", licences),
        ("advisories", advisories),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        if let Err(message) = step(root) {
            eprintln!("{message}");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("check: all steps passed");
        Ok(())
    } else {
        Err(format!("check: failed: {}", failed.join(", ")))
    }
}

fn formatting(root: &Path) -> Outcome {
    step::run(step::cargo(&["fmt", "--all", "--check"]).current_dir(root))
}

fn lints(root: &Path) -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    step::run(step::cargo(&arguments).current_dir(root))
}

fn licences(root: &Path) -> Outcome {
    if !step::is_installed("cargo-deny", &["--version"]) {
        println!("SKIPPED: licences and sources of dependencies, because cargo-deny is not installed");
        return Ok(());
    }
    step::run(step::cargo(&["deny", "check", "bans", "licenses", "sources"]).current_dir(root))
}

/// Faults of dependencies that are known. What `cargo audit` tells is from the same database.
fn advisories(root: &Path) -> Outcome {
    let reason = if !step::is_installed("cargo-deny", &["--version"]) {
        "cargo-deny is not installed"
    } else if step::run(step::cargo(&["deny", "fetch", "db"]).current_dir(root)).is_err() {
        "their database cannot be fetched"
    } else {
        return step::run(step::cargo(&["deny", "--offline", "check", "advisories"]).current_dir(root));
    };
    println!("SKIPPED: advisories about dependencies, because {reason}");
    Ok(())
}
