//! Property tests and golden tables of this crate, one file per concern.

mod bounds;
mod generation;
mod golden;
mod order;
mod patterns;
mod reading;
mod record_ids;
