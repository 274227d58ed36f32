//! Takes a profile of a server with the best means that there is: perf, our own server's sampler, or `/proc`.
//!
//! `plimsoll profile` and `plimsoll bench --profile` both start one, wait, and finish it.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use mongodb::Client;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::record::{Recording, Unwinding, What};
use super::stacks::Profile;
use super::{server_sampler, threads};
use crate::error::LabError;

/// What samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Means {
    /// `perf record`, of any process of this machine
    Perf,
    /// Our own server itself, asked over the wire; it may run on another machine
    Server,
    /// `/proc`: threads, without functions
    Threads,
}

/// What to sample, and how.
pub(crate) struct Sampling {
    /// The server's process, when it runs on this machine.
    pub(crate) pid: Option<u32>,
    /// The server, when it is known by an address.
    pub(crate) client: Option<Client>,
    /// A second and thread.
    pub(crate) frequency: u32,
    pub(crate) unwinding: Unwinding,
    pub(crate) what: What,
    /// Where perf's own file goes meanwhile.
    pub(crate) file: PathBuf,
}

/// A profile that is being taken.
pub(crate) struct Sampler {
    pub(crate) means: Means,
    taking: Taking,
}

enum Taking {
    Perf(Recording),
    Polling { stop: oneshot::Sender<()>, profile: JoinHandle<Result<Profile, LabError>> },
}

/// Comes when a sampler that polls is to end.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Means {
    /// For captions.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Perf => "sampled by perf",
            Self::Server => "sampled by the server itself, perf being missing or refused",
            Self::Threads => "threads from /proc without functions, perf being missing or refused",
        }
    }
}

impl Sampler {
    /// Starts with the means that were asked for, or with the best that works; why a better one does not is printed.
    ///
    /// # Errors
    /// The means asked for does not work, or none does.
    pub(crate) async fn start(sampling: &Sampling, means: Option<Means>) -> Result<Self, LabError> {
        if let Some(means) = means {
            return Self::start_with(sampling, means).await;
        }
        let reason = match Self::start_with(sampling, Means::Perf).await {
            Err(LabError::Program { reason, .. } | LabError::Unsupported(reason)) => reason,
            started => return started,
        };
        eprintln!("perf does not serve ({reason}): the server is asked to sample itself");
        let error = match Self::start_with(sampling, Means::Server).await {
            Err(error @ (LabError::Command { .. } | LabError::Unsupported(_))) => error,
            started => return started,
        };
        if sampling.pid.is_none() {
            let message = format!("the server cannot be sampled: {reason}; {error}");
            return Err(LabError::Unsupported(message));
        }
        eprintln!("nor does the server sample itself ({error}): threads from /proc instead, without functions");
        Self::start_with(sampling, Means::Threads).await
    }

    async fn start_with(sampling: &Sampling, means: Means) -> Result<Self, LabError> {
        let local = || {
            let message = "the server does not run on this machine, or its process was not found (--pid names it)";
            sampling.pid.ok_or_else(|| LabError::Unsupported(message.to_owned()))
        };
        let taking = match means {
            Means::Perf => Taking::Perf(Recording::start(sampling, local()?)?),
            Means::Server => {
                let client = server_client(sampling)?;
                let frequency = sampling.frequency;
                // Its first second says whether the server can do it at all.
                let first = server_sampler::second(&client, frequency).await?;
                polling(move |stop| server_sampler::sample(client, frequency, first, stop))
            }
            Means::Threads => {
                let (pid, frequency, what) = (local()?, sampling.frequency, sampling.what);
                polling(move |stop| threads::sample(pid, frequency, what, stop))
            }
        };
        Ok(Self { means, taking })
    }

    /// Stops sampling and gives what was sampled.
    pub(crate) async fn finish(self) -> Result<Profile, LabError> {
        match self.taking {
            Taking::Perf(recording) => recording.finish(),
            Taking::Polling { stop, profile } => {
                // It may have ended with its process.
                let _ = stop.send(());
                let ended = profile.await;
                ended.unwrap_or_else(|error| Err(LabError::Worker(format!("the sampler broke off: {error}"))))
            }
        }
    }
}

fn server_client(sampling: &Sampling) -> Result<Client, LabError> {
    if sampling.what == What::OffCpu {
        return Err(LabError::Unsupported("a server that samples itself sees only where it computes".to_owned()));
    }
    let unnamed = "a server that is to sample itself is named by --target URI";
    sampling.client.clone().ok_or_else(|| LabError::Unsupported(unnamed.to_owned()))
}

fn polling<P>(start: impl FnOnce(Stop) -> P) -> Taking
where
    P: Future<Output = Result<Profile, LabError>> + Send + 'static,
{
    let (stop, stopped) = oneshot::channel();
    // A sender that is gone stops it as well.
    let profile = tokio::spawn(start(Box::pin(async move { drop(stopped.await) })));
    Taking::Polling { stop, profile }
}

/// Until the time is over, or Ctrl-C.
pub(super) async fn wait(length: Duration) {
    tokio::select! {
        () = tokio::time::sleep(length) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
