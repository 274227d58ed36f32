//! Collations: the order and equality of text that a language has, as `{locale: "de", strength: 1}` asks for it.
//!
//! `specification` checks what a client wrote, `collator` compares and makes sort keys by ICU4X, `in_force` holds the
//! collator that this thread's command compares by. Comparison and hashing of this crate obey the one in force, so that
//! the pure functions of filters, expressions and updates need not hand one around. Stored things bring their own: the
//! keys of an index, a validator, the filter of a partial index.
//!
//! Called by `commands` (which sets one for each command or statement), `collection` (of collections and indexes),
//! `index_key` and `planner`.

mod backwards;
mod collator;
mod in_force;
mod locale;
mod specification;

pub use collator::{Collator, DATA_VERSION};
pub use in_force::{InForce, agrees, enter, in_force, is_in_force};
pub(crate) use in_force::{compare_text, hash_text};
pub use specification::{CollationError, parse};
