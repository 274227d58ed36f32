//! Generation of ObjectIds: seconds, five random bytes of the process, a counter.
//!
//! Time and randomness are parameters, so that a simulated run repeats. Called by insert and upsert.

use std::sync::atomic::{AtomicU32, Ordering};

use bson::oid::ObjectId;

/// Generates ObjectIds that are unique within this process and increase within one second.
#[derive(Debug)]
pub struct ObjectIdGenerator {
    process: [u8; 5],
    counter: AtomicU32,
}

impl ObjectIdGenerator {
    /// A generator with the process's random bytes and a random start of the counter (its lower 24 bits).
    pub fn new(process: [u8; 5], counter_start: u32) -> Self {
        Self { process, counter: AtomicU32::new(counter_start) }
    }

    /// The next ObjectId, for the given seconds since 1970.
    pub fn next(&self, seconds: u32) -> ObjectId {
        let [_, counter @ ..] = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        ObjectId::from_parts(seconds, self.process, counter)
    }
}
