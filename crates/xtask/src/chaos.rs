//! `cargo xtask chaos`: honest clients beside hostile ones, while the server is killed, stopped, its disk filled and its clock set.
//!
//! The program is `tests/chaos`. It measures how long clients wait, so the server is built optimised, unless `PLIMSOLL_BINARY`
//! names one.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, driver_tests, step};

/// Builds the server and runs the program with its own options (`--minutes`, `--seed`, `--losses-only`).
///
/// # Errors
/// Something was lost or went wrong: the program says what.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let server = match std::env::var_os("PLIMSOLL_BINARY") {
        Some(named) => named.into(),
        None => driver_tests::build_released_server(root)?,
    };
    let mut command = Command::new(driver_tests::install_python(root)?);
    command.arg("tests/chaos").args(options).current_dir(root).env("PLIMSOLL_BINARY", server);
    step::run(command.env("PYTHONDONTWRITEBYTECODE", "1"))
}
