//! `cargo xtask docs`: documents that are generated from the code.
//!
//! The generator is this crate's test `compatibility`, because a test may depend on the crates that hold the registries
//! while `cargo xtask` itself stays quick to build. Without the variable the test compares instead of writing.

use std::path::Path;

use crate::{Outcome, step};

/// Writes `docs/compatibility.md` anew.
///
/// # Errors
/// The registries' crates do not build, or the file cannot be written.
pub fn write(root: &Path) -> Outcome {
    let mut command = step::cargo(&["test", "--quiet", "--package", "xtask", "--test", "compatibility"]);
    step::run(command.current_dir(root).env("XTASK_WRITE_DOCUMENTS", "1"))
}
