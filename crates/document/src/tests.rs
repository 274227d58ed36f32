//! Property tests and golden tables of this crate, one file per concern.

mod comparing;
mod numbers;
mod paths;
mod reading;
mod validating;
