//! Scenarios: workloads written as short YAML files, and the runner that runs them against any server.
//!
//! A library for whoever needs a workload with figures (`bench`, `compare`, certification):
//!
//! ```no_run
//! # async fn example() -> Result<(), lab::LabError> {
//! use lab::scenario::{RunOptions, Scenario, run};
//! let scenario = Scenario::shipped("ycsb-a", &[("seconds".to_owned(), "10".to_owned())])?;
//! let outcome = run(&scenario, RunOptions::new("mongodb://127.0.0.1:27017")).await?;
//! for phase in &outcome.result.phases {
//!     println!("{}: {} operations/s", phase.name, phase.operations_per_second);
//! }
//! # Ok(()) }
//! ```
//!
//! `definition` is the file as written, `plan` what is run, `runner` runs it: its `lane`s send `operation`s made of
//! `template`s at the pace of `pacing` and write a `recorder`; the `observer` watches the server; `measured` makes figures.
//! The scenarios of this program are in `shipped`, their files in `crates/lab/scenarios`.

use std::fs;
use std::path::Path;

use crate::error::LabError;

mod definition;
mod lane;
mod measured;
mod node;
mod observer;
mod operation;
mod own_waits;
mod pacing;
mod parameters;
mod plan;
mod recorder;
mod runner;
mod shipped;
mod stolen_time;
mod template;

pub(crate) use runner::give_way;
pub use runner::{Outcome, RunOptions, run};
pub(crate) use template::text;

use definition::Definition;
use plan::Plan;

/// A workload ready to run.
pub struct Scenario {
    plan: Plan,
}

impl Scenario {
    /// One of the scenarios that come with this program, with some of its parameters changed.
    ///
    /// # Errors
    /// There is none of this name, or it has no such parameter.
    pub fn shipped(name: &str, changes: &[(String, String)]) -> Result<Self, LabError> {
        Self::parse(shipped::text(name)?, changes)
    }

    /// The scenario of a file.
    ///
    /// # Errors
    /// It cannot be read, or is not a scenario: the message says where and why.
    pub fn read(path: &Path, changes: &[(String, String)]) -> Result<Self, LabError> {
        let text = fs::read_to_string(path)
            .map_err(|error| LabError::Input { path: path.to_owned(), reason: error.to_string() })?;
        Self::parse(&text, changes).map_err(|error| LabError::Scenario(format!("{}: {error}", path.display())))
    }

    /// The scenario of a text.
    ///
    /// # Errors
    /// It is not a scenario: the message says where and why.
    pub fn parse(text: &str, changes: &[(String, String)]) -> Result<Self, LabError> {
        Ok(Self { plan: Plan::build(&definition(text)?, changes)? })
    }

    /// A shipped scenario by its name, or the file at a path, whichever there is.
    ///
    /// # Errors
    /// As [`Scenario::shipped`] and [`Scenario::read`].
    pub fn find(name_or_path: &str, changes: &[(String, String)]) -> Result<Self, LabError> {
        let path = Path::new(name_or_path);
        if path.extension().is_some() || path.components().count() > 1 {
            return Self::read(path, changes);
        }
        Self::shipped(name_or_path, changes)
    }

    /// As the file names it.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// What the file says of itself.
    pub fn description(&self) -> &str {
        &self.plan.description
    }

    /// Names and values of its parameters.
    pub fn parameters(&self) -> Vec<(String, String)> {
        self.plan.parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// The names of the scenarios that come with this program, each with what it says of itself.
pub fn shipped_scenarios() -> Vec<(&'static str, String)> {
    shipped::SHIPPED
        .iter()
        .map(|(name, text)| (*name, definition(text).map(|definition| definition.description).unwrap_or_default()))
        .collect()
}

fn definition(text: &str) -> Result<Definition, LabError> {
    serde_saphyr::from_str(text).map_err(|error| LabError::Scenario(error.to_string().trim_end().to_owned()))
}

#[cfg(test)]
mod tests;
