//! Golden scripts: cases in a readable text format, run against a function and compared with what the script expects.
//!
//! Called by the integration tests of other crates; a test tool, never linked into the server. It knows BSON and text,
//! nothing of queries or commands.
//!
//! # Format
//!
//! A script is a `.txt` file of cases. A line starting with `#` is a comment. A case starts with `== its name`; inside it,
//! a line starting with `word:` opens a section, which goes on until the next section, case or the end. Values are written
//! as in the shell or as extended JSON (see [`literal`]).
//!
//! ```text
//! # What $gt does on arrays.
//! == an array matches by any element
//! documents:
//! {_id: 1, a: [1, 9]}
//! {_id: 2, a: [1, 2]}
//! filter: {a: {$gt: 5}}
//! expect: 1
//!
//! == the same documents serve until others are given
//! filter: {a: {$gt: 1}}
//! expect: 1 2
//!
//! == an error
//! filter: {a: {$foo: 1}}
//! expect: error BadValue: unknown operator: $foo
//! ```
//!
//! Sections named in [`Suite::carry_over`] stay in force for later cases of the file until they are given again.
//!
//! # Use
//!
//! ```no_run
//! script_test::Suite::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts/filter")).carry_over("documents").run(|case| {
//!     let filter = case.document("filter");
//!     let documents = case.documents("documents");
//!     // ... what the case does, as text: lines compared with the section `expect`.
//!     format!("{} {}", documents.len(), script_test::print_document(&filter))
//! });
//! ```
//!
//! Lines of the expectation and of the outcome are equal when their text is, or when both parse to the same value.
//! With `SCRIPT_TEST_RECORD=1` in the environment the scripts are rewritten with the outcome instead (review the diff).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// A test tool: it reads and records scripts on the real disk.
#![allow(clippy::disallowed_methods)]

pub mod literal;
mod print;
mod script;
mod suite;

pub use literal::{parse_document, parse_value};
pub use print::{print_document, print_value};
pub use script::Case;
pub use suite::Suite;
