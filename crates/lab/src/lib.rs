//! The regression lab: workloads, profiles and verdicts for any server that speaks the MongoDB wire protocol; what
//! `plimsoll bench`, `profile`, `compare`, `history`, `certify` and `layout` run.
//!
//! Called by the `plimsoll-lab` binary, which mounts [`BenchArguments`] under `bench` and awaits [`run`]. It knows servers only
//! by a connection string (and, on the same machine, by `/proc`): it must not know any other crate of this workspace, so
//! that it measures ours exactly as it measures theirs. `plimsoll diagnose` alone is for ours: it reads `flight_recorder`'s files.
//!
//! [`scenario`] is the library that runs workloads: [`scenario::run`] takes a [`scenario::Scenario`] (a shipped one, or
//! YAML) and [`scenario::RunOptions`], and gives an [`scenario::Outcome`] whose [`result::RunResult`] holds, for each phase,
//! figures, latency percentiles of every kind of operation, the series of each second and each 0.1 s, the longest gap,
//! failures by code, the server's CPU, memory and counters. A run that is cut short gives the same, not `complete`, with the
//! reason. [`point_operations`] measures single-document operations from a minimal client; [`null_server`] measures the
//! load generator. The rest are parts of these: `target` (connect, identify, find the process), `throughput` and `latency`
//! (figures), `output` and `chart` (files).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures other programs with the machine's own clock, threads and files; the simulator never runs it"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod backup;
mod bench;
mod callgrind;
mod certify;
mod chart;
mod compare;
mod diagnose;
mod error;
mod glance;
mod history;
mod latency;
mod launch;
mod layout;
pub mod null_server;
mod op_message;
mod output;
mod point_operations;
mod profile;
mod progress;
mod random;
mod report;
pub mod result;
mod ring_workload;
pub mod scenario;
mod server_counters;
mod server_process;
mod target;
mod throughput;

pub use backup::{BackupArguments, run as backup};
pub use bench::{BenchArguments, run};
pub use certify::{CertifyArguments, run as certify};
pub use compare::{CompareArguments, run as compare};
pub use diagnose::{DiagnoseArguments, run as diagnose};
pub use error::LabError;
pub use glance::{StatusArguments, TopArguments, status, top};
pub use history::{HistoryArguments, run as history};
pub use latency::LatencySummary;
pub use launch::EphemeralServer;
pub use layout::{LayoutArguments, run as layout};
pub use profile::{ProfileArguments, run as profile};
pub use target::TargetDescription;
pub use throughput::{Gap, Second, ThroughputSource};
