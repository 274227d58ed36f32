//! Functions in JavaScript that clients send: `$function`, `$accumulator`, `$where`, `mapReduce`.
//!
//! QuickJS runs them, in an engine of the thread that works for a command. The engine is made when the first function
//! is called and is gone when the command (or the batch of a cursor) ends. It has the types of MongoDB's shell and
//! nothing of the machine: no files, no network, no modules.
//!
//! How it is bounded: it asks whether the command is to stop (`document::work`) every some thousand steps; its memory
//! is the thread's, so the allocator counts it with the command, and `MEMORY_BYTES_MAX` is the most; its stack is
//! bounded.
//!
//! Called by `query_language`; `commands` says at the beginning of each command whether scripts may run (`begin`). It
//! must not know of filters, expressions, commands or storage.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bounded_memory;
mod engine;
mod from_script;
mod natives;
mod session;
#[cfg(test)]
mod tests;
mod to_script;

pub use engine::MEMORY_BYTES_MAX;
pub use session::{Function, Kind, Running, ScriptError, Scripting, begin, check_enabled};
