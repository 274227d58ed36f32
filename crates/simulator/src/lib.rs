//! The deterministic simulator: a whole store on a simulated disk and clock, driven by one thread that a seed commands.
//!
//! Called by its binary, by its tests and by `cargo xtask simulate`. Built on `transaction` and everything below it; nothing
//! depends on it.
//!
//! A run is clients that write and read, the background's work in small pieces, checkpoints, faults and power losses, in an order that the seed
//! decides, down to what happens between a commit's append to the oplog and its application. Beside it a model says
//! what must be there: everything acknowledged as durable, a prefix of what was logged, nothing half applied; each index as the
//! records; each page whole. The same seed is the same run.
//!
//! Read `simulation`, `model`, `operations`, `lives`; `set` is a whole replica set, with a model of its own.

mod background;
mod bit_flips;
mod checks;
mod documents;
mod errors;
mod following;
mod full_disk;
mod lives;
mod model;
mod operations;
mod plan;
mod reading;
mod ring_model;
mod rings;
mod set;
mod simulation;
mod trace;
mod transactions;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use plan::{Trouble, Wanted};
pub use set::Mistake;
use simulation::Simulation;
pub use simulation::Summary;

/// A run that ended with something that must not be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
    pub problem: String,
    /// The last lines of its trace.
    pub trace: String,
}

/// Runs one seed.
///
/// # Errors
/// The failure, also of an assertion of the product.
pub fn run_seed(seed: u64, wanted: impl Into<Wanted>, is_verbose: bool) -> Result<Summary, Box<Failure>> {
    let simulation = Simulation::new(seed, wanted.into(), is_verbose);
    caught(seed, || simulation.run(), || simulation.trace.tail())
}

/// Runs one seed of a whole replica set, with something done wrongly on purpose or not.
///
/// # Errors
/// As `run_seed`.
pub fn run_set_seed(seed: u64, mistake: Option<Mistake>, is_verbose: bool) -> Result<Summary, Box<Failure>> {
    let world = set::World::new(seed, mistake, is_verbose);
    caught(seed, || world.run(), || world.trace.tail())
}

fn caught(seed: u64, run: impl FnOnce() -> Summary, trace: impl FnOnce() -> String) -> Result<Summary, Box<Failure>> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let problem = text.unwrap_or_else(|| "a panic without a message".to_owned());
        Box::new(Failure { seed, problem, trace: trace() })
    })
}
