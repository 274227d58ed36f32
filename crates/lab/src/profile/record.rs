//! Samples a process of this machine through `perf`, which must be installed and allowed to look at the process.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::read;
use super::sampler::Sampling;
use super::stacks::Profile;
use crate::error::LabError;

/// perf writes its file when it is told to stop; for large ones this takes a while.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How callers are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Unwinding {
    /// By the tables in the program: exact for release builds, much data
    Dwarf,
    /// By frame pointers: little data, for programs built with them
    Fp,
}

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Where threads compute.
    OnCpu,
    /// Where threads wait, and for how long.
    OffCpu,
}

/// A running perf.
pub(crate) struct Recording {
    perf: Child,
    file: PathBuf,
}

impl Recording {
    /// Starts sampling.
    pub(crate) fn start(sampling: &Sampling, pid: u32) -> Result<Self, LabError> {
        let unwinding = match sampling.unwinding {
            Unwinding::Dwarf => "dwarf,16384",
            Unwinding::Fp => "fp",
        };
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "--clockid", "CLOCK_MONOTONIC", "--call-graph", unwinding]);
        match sampling.what {
            What::OnCpu => perf.args(["--event", "cpu-clock", "--freq", &sampling.frequency.to_string()]),
            What::OffCpu => perf.args(["--event", "context-switches", "--count", "1", "--switch-events"]),
        };
        perf.arg("--pid").arg(pid.to_string()).arg("--output").arg(&sampling.file);
        perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = perf.spawn().map_err(|error| failed(&format!("cannot be run: {error}")))?;
        let mut recording = Self { perf: child, file: sampling.file.clone() };
        // A refusal comes at once.
        std::thread::sleep(Duration::from_millis(300));
        match recording.perf.try_wait() {
            Ok(None) => Ok(recording),
            _ => Err(failed(&recording.complaint())),
        }
    }

    /// Stops sampling and reads what was sampled.
    pub(crate) fn finish(mut self) -> Result<Profile, LabError> {
        self.stop();
        let script = self.file.with_extension("script");
        let output = File::create(&script).map_err(LabError::output(&script))?;
        let mut perf = Command::new("perf");
        perf.args(["script", "--no-inline", "--show-switch-events", "--fields", "comm,pid,tid,time,event,ip,sym,dso"]);
        perf.arg("--input").arg(&self.file).stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let done = perf.output().map_err(|error| failed(&format!("script cannot be run: {error}")))?;
        let is_empty = std::fs::metadata(&script).is_ok_and(|script| script.len() == 0);
        let profile = match is_empty && done.status.success() {
            true => Err(failed("took no samples: the process used no processor meanwhile")),
            false => read::read(&script),
        };
        for file in [&self.file, &script] {
            // Only intermediate files of hundreds of megabytes; a failure to remove them changes no result.
            let _ = std::fs::remove_file(file);
        }
        if !done.status.success() {
            return Err(failed(String::from_utf8_lossy(&done.stderr).trim()));
        }
        profile
    }

    fn stop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.perf.id() as i32) {
            // It may have ended with the process that it looked at.
            let _ = kill_process(pid, Signal::INT);
        }
        let until = Instant::now() + STOP_PATIENCE;
        while Instant::now() < until {
            match self.perf.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.perf.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
        }
        let text = text.trim();
        if text.is_empty() { "ended at once without saying why".to_owned() } else { text.replace('\n', " ") }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if matches!(self.perf.try_wait(), Ok(None)) {
            let _ = self.perf.kill();
            let _ = self.perf.wait();
        }
    }
}

/// Whether perf is there.
#[cfg(test)]
pub(crate) fn is_available() -> bool {
    let perf = Command::new("perf").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    perf.is_ok_and(|status| status.success())
}

fn failed(reason: &str) -> LabError {
    LabError::Program { program: "perf".to_owned(), reason: reason.to_owned() }
}
