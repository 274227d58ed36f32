//! What can go wrong in a benchmark. The binary prints it and exits with a failure; results measured so far are written by
//! the benchmark itself before that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mongodb::error::{Error as DriverError, ErrorKind as DriverErrorKind, WriteFailure};

/// Longer names of failures are cut.
const SHORT_NAME_MAX: usize = 100;

/// Why a benchmark could not start, stopped early, or could not write its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The connection string is malformed, or names something this build has not (`mongodb+srv`).
    #[error("not a usable --target: {}", driver_reason(.0))]
    BadTarget(Box<DriverError>),
    /// No server answered at the addresses of `--target`.
    #[error("cannot reach a server at {addresses}: {reason}")]
    Unreachable {
        /// The hosts of the connection string, without its credentials.
        addresses: String,
        /// The driver's or system's reason, in one line.
        reason: String,
    },
    /// A server answered, but it is older or newer than the official driver speaks to.
    #[error("the server at {addresses} cannot be measured through the official driver: {reason}")]
    Incompatible {
        /// The hosts of the connection string, without its credentials.
        addresses: String,
        /// The driver's reason: which versions it wants.
        reason: String,
    },
    /// The target refused a command, or the connection broke while it ran.
    #[error("{command} failed: {}", driver_reason(source))]
    Command {
        /// Name of the command and what it was for.
        command: String,
        /// As the driver reports it.
        source: Box<DriverError>,
    },
    /// The raw client's connection broke.
    #[error("connection to {address} broke: {source}")]
    Connection {
        /// Host and port.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The target replied, but not with what the operation must give: its figures would mean nothing.
    #[error("wrong reply: {0}")]
    WrongReply(String),
    /// A scenario that cannot be read or run: what and where.
    #[error("{0}")]
    Scenario(String),
    /// Options that cannot be combined, or that the chosen client cannot honour.
    #[error("{0}")]
    Unsupported(String),
    /// Results could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file given to be read cannot be.
    #[error("cannot read {}: {reason}", path.display())]
    Input {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A program that was to be run failed.
    #[error("{program}: {reason}")]
    Program {
        /// Its name.
        program: String,
        /// What happened.
        reason: String,
    },
    /// A phase ended before its workload was done; its results were kept.
    #[error("the {phase} phase stopped early: {failure}")]
    Stopped {
        /// Name of the phase.
        phase: String,
        /// Why, in one line.
        failure: String,
    },
    /// The server's process, which runs on this machine, is gone.
    #[error("the server's process has ended")]
    ServerEnded,
    /// Operations failed for so long that the server must be gone.
    #[error("the server has answered nothing for {seconds} s: {error}")]
    NoAnswer {
        /// For how long.
        seconds: u64,
        /// The last failure.
        error: String,
    },
    /// Operations were sent but not answered, even after the phase had ended.
    #[error("{operations} operations had no answer {seconds} s after the phase had ended")]
    Silent {
        /// How many.
        operations: u64,
        /// How long was waited.
        seconds: u64,
    },
    /// SIGINT.
    #[error("interrupted")]
    Interrupted,
    /// A worker panicked: a defect of the lab.
    #[error("a worker of the benchmark ended abnormally: {0}")]
    Worker(String),
}

impl LabError {
    /// Wraps the driver's error with the command it belongs to.
    pub(crate) fn command(command: impl Into<String>) -> impl FnOnce(DriverError) -> Self {
        let command = command.into();
        move |source| Self::Command { command, source: Box::new(source) }
    }

    /// The code or kind under which failures are counted.
    pub(crate) fn short_name(&self) -> String {
        let Self::Command { source, .. } = self else {
            return match self {
                Self::WrongReply(_) => "wrong reply".to_owned(),
                other => other.to_string(),
            };
        };
        match &*source.kind {
            DriverErrorKind::Command(error) => format!("{} {}", error.code, error.code_name).trim().to_owned(),
            DriverErrorKind::Write(WriteFailure::WriteError(error)) => format!("{} (write)", error.code),
            DriverErrorKind::Write(WriteFailure::WriteConcernError(error)) => format!("{} (write concern)", error.code),
            DriverErrorKind::InsertMany(_) => "insertMany".to_owned(),
            DriverErrorKind::Io(_) => "connection broke".to_owned(),
            DriverErrorKind::ServerSelection { .. } => "no server reachable".to_owned(),
            DriverErrorKind::ConnectionPoolCleared { .. } => "connection pool cleared".to_owned(),
            other => format!("driver: {other}").chars().take(SHORT_NAME_MAX).collect(),
        }
    }

    /// The labels that the server or the driver put on it.
    pub(crate) fn labels(&self) -> BTreeSet<String> {
        match self {
            Self::Command { source, .. } => source.labels().iter().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Whether the server could not be spoken to.
    pub(crate) fn is_connection_loss(&self) -> bool {
        let kind = |source: &DriverError| {
            matches!(
                &*source.kind,
                DriverErrorKind::Io(_)
                    | DriverErrorKind::ServerSelection { .. }
                    | DriverErrorKind::ConnectionPoolCleared { .. }
            )
        };
        matches!(self, Self::Command { source, .. } if kind(source)) || matches!(self, Self::Connection { .. })
    }

    /// Whether the driver itself refused, because the server lacks what was asked for: transactions, sessions.
    pub(crate) fn is_refusal_of_the_driver(&self) -> bool {
        let kind = |source: &DriverError| {
            matches!(
                &*source.kind,
                DriverErrorKind::InvalidArgument { .. }
                    | DriverErrorKind::SessionsNotSupported
                    | DriverErrorKind::Transaction { .. }
            )
        };
        matches!(self, Self::Command { source, .. } if kind(source))
    }

    /// Wraps a failed write of results.
    pub(crate) fn output(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Output { path, source }
    }
}

/// What the driver says happened, without its labels and copies of replies.
pub(crate) fn driver_reason(error: &DriverError) -> String {
    error.kind.to_string()
}
