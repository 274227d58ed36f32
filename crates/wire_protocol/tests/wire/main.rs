#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The wire protocol from outside: frames built by hand, every malformed case, and arbitrary bytes.

mod frames;
mod malformed;
mod properties;
mod round_trips;
mod scripts;
