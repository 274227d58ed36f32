//! Words: what of a text is in a text index, with which score, and what a `$text` query asks for.
//!
//! Called by `index_key` (the terms of a document), `collection` (options of a text index), `query_language` (`$text`)
//! and `planner` (which terms are looked up). Pure functions of text and documents. Must not know: keys, indexes,
//! filters, commands.
//!
//! ```text
//! text → words (`characters`) → without stop words, stemmed, folded (`terms`) → scores of a document (`scores`)
//! $search → terms, negated terms, phrases (`query`) → whether a document has them (`matching`)
//! ```
//!
//! Sources: the manual's pages on text indexes and `$text`; for the score the formula as it is published in answers to
//! users.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod characters;
mod definition;
mod error;
mod language;
mod matching;
mod query;
mod scores;
mod terms;
#[cfg(test)]
mod tests;

pub use definition::{TextDefinition, VERSION};
pub use error::{Result, TextError};
pub use language::Language;
pub use query::{Sensitivity, TextQuery};
pub use scores::{Scores, scores};
