//! `cargo xtask check`: what must hold before a change is merged, apart from the tests.
//!
//! Every step runs even when an earlier one failed, so that one run shows everything.

use std::path::Path;

use crate::{Outcome, step, tidy};

type Step = fn(&Path) -> Outcome;

/// Formatting, lints, tidy rules, licences of dependencies.
///
/// # Errors
/// Which steps failed.
pub fn run(root: &Path) -> Outcome {
    let steps: [(&str, Step); 4] =
        [("formatting", formatting), ("lints", lints), ("tidy", tidy::run), ("licences", licences)];
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
        println!("SKIPPED: licences and advisories of dependencies, because cargo-deny is not installed");
        return Ok(());
    }
    step::run(step::cargo(&["deny", "check"]).current_dir(root))
}
