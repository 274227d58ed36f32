//! What commands ask of the program around them, and what that tells them.
//!
//! Implemented by `server`; [`ServerHooks`] is given to commands once, at the start. It must not know of commands.

use std::sync::Arc;
use std::time::Duration;

use crate::state::audit::{AuditSettings, AuditSink};
use crate::state::backups::{ArchiveFigures, BackupFacts};
use crate::state::replica_set::members::SetMembers;
use crate::state::traces::TraceSettings;

/// How much is logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogVerbosity {
    /// 0 as configured, up to 5.
    pub level: i32,
    /// Parts of the program with levels of their own.
    pub parts: Vec<(&'static str, i32)>,
    /// Whether connections that come and go are not told of.
    pub is_quiet: bool,
}

/// What commands ask of the program around them.
pub trait ServerHooks: Send + Sync {
    /// Begins an orderly shutdown; the caller's reply is still sent.
    fn shut_down(&self);
    /// Connections now, and all since the start.
    fn connections(&self) -> (u64, u64);
    /// Traffic, and what connections do.
    fn network(&self) -> NetworkFigures;
    /// Logs so much from now on; an error text when that cannot be.
    fn set_log_verbosity(&self, verbosity: &LogVerbosity) -> Result<(), String>;
    /// Starts a new diagnostics log file; an error text when there is none to rotate.
    fn rotate_log(&self) -> Result<(), String>;
    /// Reads the server's certificates again, for connections that come from now on; an error text when that cannot be, and then those
    /// that there were stay.
    fn rotate_certificates(&self) -> Result<(), String>;
    /// What the audit log takes, if there is one. Asked once.
    fn audit_settings(&self) -> Option<AuditSettings> {
        None
    }
    /// The audit log.
    fn audit(&self) -> Option<&dyn AuditSink> {
        None
    }
    /// Whether the diagnostics log shows no values of documents from now on.
    fn set_redaction(&self, _redacts: bool) {}
    /// What the salts and keys of users who do not exist follow from, if it is kept. Asked once.
    fn decoy_secret(&self) -> Option<[u8; 32]> {
        None
    }
    /// What is traced, if anything is. Asked once.
    fn traces(&self) -> Option<TraceSettings> {
        None
    }
    /// What backups are made with.
    fn backup_facts(&self) -> BackupFacts {
        BackupFacts::default()
    }
    /// The files of recorded figures with their sizes; an error text when they cannot be looked at.
    fn recorded_figures(&self) -> Result<Vec<(String, u64)>, String> {
        Ok(Vec::new())
    }
    /// At most so many bytes of one of them from an offset on, fewer only at its end; an error text when there is no such file.
    fn read_figures(&self, name: &str, _offset: u64, _bytes_max: usize) -> Result<Vec<u8>, String> {
        Err(format!("there are no figures {name}"))
    }
    /// How far the archive is, if there is to be one. Never waits for its place.
    fn archive(&self) -> Option<ArchiveFigures> {
        None
    }
    /// The members of the replica set, if they follow a shared log. Asked once.
    fn set_members(&self) -> Option<Arc<dyn SetMembers>> {
        None
    }
    /// Encrypted connections.
    fn transport(&self) -> TransportFigures {
        TransportFigures::default()
    }
    /// What the server's own figures warn of at present.
    fn warnings(&self) -> Vec<StandingWarning> {
        Vec::new()
    }
    /// What `hello` says has changed: runs the requests again that wait for that.
    fn topology_changed(&self);
    /// The calling thread's command is about to wait, for the disk or for data, and uses nothing meanwhile.
    fn command_waits(&self) {}
    /// Samples where the program computes, for so long and so often a second; folded stacks, or why it cannot be done.
    fn sample_profile(&self, length: Duration, hertz: u32) -> Result<String, String>;
    /// Has the wall clock so far ahead of the machine's, or behind it: for tests.
    fn set_wall_clock_ahead(&self, millis: i64);
}

/// Trouble that the server sees coming in its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingWarning {
    /// What kind it is.
    pub pattern: &'static str,
    /// How bad it is.
    pub severity: &'static str,
    /// Since when, in milliseconds since 1970.
    pub since_millis: i64,
    /// What is seen, in a sentence.
    pub what: String,
    /// What to do about it.
    pub advice: &'static str,
}

/// The recent lines of the diagnostics log, for `getLog`.
pub trait DiagnosticLog: Send + Sync {
    /// The lines kept, oldest first, and how many there were in all.
    fn recent(&self) -> (Vec<String>, u64);
    /// The warnings of the start, and how many there were.
    fn startup_warnings(&self) -> (Vec<String>, u64);
}

/// Traffic since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkFigures {
    /// Bytes of messages that came, decompressed.
    pub bytes_in: u64,
    /// Bytes of messages that were sent, before compression.
    pub bytes_out: u64,
    /// Bytes that came.
    pub physical_bytes_in: u64,
    /// Bytes that were sent.
    pub physical_bytes_out: u64,
    /// Requests that came.
    pub requests: u64,
    /// Connections that were closed at once because there were too many.
    pub connections_refused: u64,
    /// Connections with a command that runs now.
    pub connections_active: u64,
}

/// Encrypted connections since the start, and the certificate that clients see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransportFigures {
    /// Of TLS 1.2.
    pub tls_1_2: u64,
    /// Of TLS 1.3.
    pub tls_1_3: u64,
    /// The server's, if there is one.
    pub certificate: Option<TransportCertificate>,
}

/// The server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportCertificate {
    /// Whose it is, as RFC 2253 writes it.
    pub subject: String,
    /// When it expires, in milliseconds since 1970.
    pub expires_millis: i64,
    /// Whether clients' certificates are verified.
    pub has_authority: bool,
}
