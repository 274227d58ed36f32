//! The tasks of this repository: checking, testing, measuring, and holding documents in step with the code.
//!
//! Called by the binary of the same name (`cargo xtask`) and by this crate's tests, so that `cargo test` applies the tidy
//! rules too. It reads the repository as files and runs other programs; it must not know what the server does.
//!
//! Read `tidy` for the rules, `test_run` for what CI runs.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// A development tool works on the real disk; the simulator has no use for it.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bench;
pub mod chaos;
pub mod check;
pub mod dist;
pub mod documents;
mod driver_tests;
mod failures;
pub mod fuzz;
pub mod kafka;
pub mod longer;
pub mod package;
pub mod races;
pub mod sensitivity;
pub mod simulation;
pub mod step;
mod suite_files;
pub mod suites;
pub mod test_run;
pub mod tidy;
pub mod workspace;

/// What a task ends with: nothing, or what went wrong in words for a person.
pub type Outcome = Result<(), String>;
