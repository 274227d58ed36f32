//! Server parameters: those of MongoDB that have a meaning here, what they are, and how those that can be changed are changed.
//!
//! Used by `getParameter` and `setParameter`; the values are read where they are used. Other parameters of MongoDB are refused by name.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bson::RawDocument;
use executor::ScanSharing;
use parking_lot::Mutex;

use super::versions::{AUTHENTICATION_SCHEMA_VERSION, FEATURE_COMPATIBILITY_VERSION};
use crate::DocumentWriter;
use crate::request::arguments::Field;
use crate::request::declaration::Class;
use crate::request::error::{CommandError, Result};
use crate::state::admission::Algorithm;
use crate::state::context::ServerContext;
use crate::state::server_hooks::LogVerbosity;
use crate::state::session_end::TIMEOUT_MINUTES;

/// How long a transaction may be open, in seconds, unless told otherwise.
const TRANSACTION_LIFETIME_SECONDS: u64 = 60;
/// How long a cursor may be idle, unless told otherwise.
const CURSOR_TIMEOUT_MILLIS: u64 = 10 * 60 * 1000;

/// Documents of a piece where scans are always shared.
const TEST_PIECE_DOCUMENTS: u64 = 16;

/// The values that commands and background work read.
#[derive(Debug)]
pub(crate) struct Parameters {
    transaction_lifetime_seconds: AtomicU64,
    cursor_timeout_millis: AtomicU64,
    forbids_collection_scans: AtomicBool,
    scan_sharing: Mutex<ScanSharing>,
    redacts: AtomicBool,
    verbosity: Mutex<LogVerbosity>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            transaction_lifetime_seconds: AtomicU64::new(TRANSACTION_LIFETIME_SECONDS),
            cursor_timeout_millis: AtomicU64::new(CURSOR_TIMEOUT_MILLIS),
            forbids_collection_scans: AtomicBool::new(false),
            scan_sharing: Mutex::default(),
            redacts: AtomicBool::new(false),
            verbosity: Mutex::default(),
        }
    }
}

impl Parameters {
    /// `transactionLifetimeLimitSeconds`.
    pub(crate) fn transaction_lifetime_seconds(&self) -> u64 {
        self.transaction_lifetime_seconds.load(Ordering::Relaxed)
    }

    /// `cursorTimeoutMillis`.
    pub(crate) fn cursor_timeout(&self) -> Duration {
        Duration::from_millis(self.cursor_timeout_millis.load(Ordering::Relaxed))
    }

    /// `redactClientLogData`.
    pub(crate) fn redacts(&self) -> bool {
        self.redacts.load(Ordering::Relaxed)
    }

    /// `plimsollScanSharing`.
    pub(crate) fn scan_sharing(&self) -> ScanSharing {
        *self.scan_sharing.lock()
    }

    /// `notablescan`.
    pub(crate) fn forbids_collection_scans(&self) -> bool {
        self.forbids_collection_scans.load(Ordering::Relaxed)
    }
}

impl ServerContext {
    /// `redactClientLogData`: whether the diagnostics log shows no values of documents. Called by the server, too.
    pub fn redact(&self, redacts: bool) {
        self.parameters.redacts.store(redacts, Ordering::Relaxed);
        self.hooks.set_redaction(redacts);
    }
}

fn set_audit_of_success(server: &ServerContext, field: Field<'_>) -> Result<()> {
    if !server.audit.is_on() {
        return Err(CommandError::named("InvalidOptions", "there is no audit log (--audit)"));
    }
    server.audit.tell_success(field.boolean()?);
    Ok(())
}

/// The parameters of a server: all that `getParameter` and `setParameter` see of it.
#[derive(Clone, Copy)]
pub(crate) struct ServerParameters<'a>(&'a ServerContext);

impl ServerContext {
    /// Its parameters.
    pub(crate) fn server_parameters(&self) -> ServerParameters<'_> {
        ServerParameters(self)
    }
}

impl ServerParameters<'_> {
    /// Writes the value of one under a name.
    pub(crate) fn write(self, parameter: &Parameter, name: &str, out: &mut DocumentWriter<'_>) {
        (parameter.read)(self.0, name, out);
    }

    /// Changes one.
    ///
    /// # Errors
    /// The value is none that it may have.
    pub(crate) fn change(self, change: Change, field: Field<'_>) -> Result<()> {
        change(self.0, field)
    }
}

/// How a parameter is changed.
pub(crate) type Change = fn(&ServerContext, Field<'_>) -> Result<()>;

/// A parameter.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Writes its value under a name.
    read: fn(&ServerContext, &str, &mut DocumentWriter<'_>),
    /// Changes it; `None`: it can not be changed while the server runs.
    pub(crate) set: Option<Change>,
    /// Whether there is a way to set it when the server is started.
    pub(crate) is_of_startup: bool,
}

/// One that can only be read.
const fn fixed(name: &'static str, read: fn(&ServerContext, &str, &mut DocumentWriter<'_>)) -> Parameter {
    Parameter { name, read, set: None, is_of_startup: false }
}

/// One that can be changed.
const fn changeable(
    name: &'static str,
    read: fn(&ServerContext, &str, &mut DocumentWriter<'_>),
    set: Change,
) -> Parameter {
    Parameter { name, read, set: Some(set), is_of_startup: false }
}

/// All parameters, sorted.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        is_of_startup: true,
        ..changeable(
            "auditAuthorizationSuccess",
            |server, name, out| out.boolean(name, server.audit.tells_success()),
            set_audit_of_success,
        )
    },
    fixed("authSchemaVersion", |_, name, out| out.int32(name, AUTHENTICATION_SCHEMA_VERSION)),
    changeable(
        "cursorTimeoutMillis",
        |server, name, out| out.size(name, server.parameters.cursor_timeout().as_millis() as u64),
        |server, field| {
            server.parameters.cursor_timeout_millis.store(at_least(field, 1)?, Ordering::Relaxed);
            Ok(())
        },
    ),
    changeable(
        "diagnosticDataCollectionEnabled",
        |_, name, out| out.boolean(name, false),
        // There is none, so it can be switched off.
        |_, field| if field.boolean()? { Err(field.not_implemented()) } else { Ok(()) },
    ),
    Parameter {
        is_of_startup: true,
        ..fixed("enableLocalhostAuthBypass", |server, name, out| {
            out.boolean(name, server.access.allows_localhost_exception());
        })
    },
    Parameter {
        is_of_startup: true,
        ..fixed("enableTestCommands", |server, name, out| out.boolean(name, server.facts.has_test_commands))
    },
    fixed("featureCompatibilityVersion", |_, name, out| {
        out.document(name, |value| value.string("version", FEATURE_COMPATIBILITY_VERSION));
    }),
    changeable(
        "internalQueryStatsRateLimit",
        |server, name, out| {
            let rate = server.query_statistics.rate();
            out.int32(name, i32::try_from(rate).unwrap_or(i32::MAX));
        },
        |server, field| match field.required(Field::integer)? {
            rate @ -1..=2_147_483_647 => {
                server.query_statistics.set_rate(rate);
                Ok(())
            }
            rate => Err(CommandError::bad_value(format!("the rate must be -1 or more, not {rate}"))),
        },
    ),
    fixed("localLogicalSessionTimeoutMinutes", |_, name, out| out.int32(name, TIMEOUT_MINUTES)),
    changeable("logComponentVerbosity", write_component_verbosity, set_component_verbosity),
    changeable(
        "logLevel",
        |server, name, out| out.int32(name, server.parameters.verbosity.lock().level),
        |server, field| {
            let level = verbosity(field)?;
            change_verbosity(server, |verbosity| verbosity.level = level.max(0))
        },
    ),
    Parameter {
        is_of_startup: true,
        ..fixed("maxAcceptableLogicalClockDriftSecs", |server, name, out| {
            out.size(name, server.store.clock_drift_max().as_secs());
        })
    },
    changeable(
        "notablescan",
        |server, name, out| out.boolean(name, server.parameters.forbids_collection_scans()),
        |server, field| {
            server.parameters.forbids_collection_scans.store(field.boolean()?, Ordering::Relaxed);
            Ok(())
        },
    ),
    changeable(
        "plimsollScanSharing",
        |server, name, out| out.string(name, sharing_name(server.parameters.scan_sharing())),
        |server, field| {
            *server.parameters.scan_sharing.lock() = scan_sharing(server, field)?;
            Ok(())
        },
    ),
    changeable(
        "quiet",
        |server, name, out| out.boolean(name, server.parameters.verbosity.lock().is_quiet),
        |server, field| {
            let is_quiet = field.boolean()?;
            change_verbosity(server, |verbosity| verbosity.is_quiet = is_quiet)
        },
    ),
    Parameter {
        is_of_startup: true,
        ..changeable(
            "redactClientLogData",
            |server, name, out| out.boolean(name, server.parameters.redacts()),
            |server, field| {
                server.redact(field.boolean()?);
                Ok(())
            },
        )
    },
    changeable(
        "requireApiVersion",
        |_, name, out| out.boolean(name, false),
        |_, field| if field.boolean()? { Err(field.not_implemented()) } else { Ok(()) },
    ),
    changeable(
        "storageEngineConcurrencyAdjustmentAlgorithm",
        |server, name, out| out.string(name, algorithm_name(server.admission.algorithm())),
        |server, field| {
            server.admission.set_algorithm(algorithm(field)?);
            Ok(())
        },
    ),
    changeable(
        "storageEngineConcurrentReadTransactions",
        |server, name, out| out.count(name, server.admission.limit(Class::Read).unwrap_or_default()),
        |server, field| set_tickets(server, field, Class::Read),
    ),
    changeable(
        "storageEngineConcurrentWriteTransactions",
        |server, name, out| out.count(name, server.admission.limit(Class::Write).unwrap_or_default()),
        |server, field| set_tickets(server, field, Class::Write),
    ),
    changeable(
        "transactionLifetimeLimitSeconds",
        |server, name, out| out.count(name, server.parameters.transaction_lifetime_seconds()),
        |server, field| {
            let seconds = at_least(field, 1)?;
            server.parameters.transaction_lifetime_seconds.store(seconds, Ordering::Relaxed);
            Ok(())
        },
    ),
    changeable(
        "ttlMonitorEnabled",
        |server, name, out| out.boolean(name, server.store.expires_documents()),
        |server, field| {
            server.store.set_expires_documents(field.boolean()?);
            Ok(())
        },
    ),
    changeable(
        "ttlMonitorSleepSecs",
        |server, name, out| out.count(name, server.store.ttl_interval().as_secs()),
        |server, field| {
            server.store.set_ttl_interval(Duration::from_secs(at_least(field, 1)?));
            Ok(())
        },
    ),
];

/// MongoDB's components of the log that have parts of this server behind them: those that write lines.
const COMPONENTS: &[(&str, &[&str])] = &[
    ("command", &["command", "commands"]),
    ("control", &["control", "server"]),
    ("index", &["index_key"]),
    ("network", &["network", "wire_protocol"]),
    ("query", &["planner", "executor", "query_language", "aggregation"]),
    ("storage", &["storage", "storage_engine", "oplog", "collection"]),
    ("transaction", &["transaction"]),
];

fn write_component_verbosity(server: &ServerContext, name: &str, out: &mut DocumentWriter<'_>) {
    let verbosity = server.parameters.verbosity.lock().clone();
    out.document(name, |components| {
        components.int32("verbosity", verbosity.level);
        for (component, parts) in COMPONENTS {
            let own = parts.first().and_then(|part| verbosity.parts.iter().find(|(named, _)| named == part));
            // As MongoDB has it: -1 is that of the whole.
            components.document(component, |value| value.int32("verbosity", own.map_or(-1, |(_, level)| *level)));
        }
    });
}

fn set_component_verbosity(server: &ServerContext, field: Field<'_>) -> Result<()> {
    let mut changed = server.parameters.verbosity.lock().clone();
    for element in document::elements(field.required(Field::document)?) {
        let option = Field::of("logComponentVerbosity", element);
        if option.name() == "verbosity" {
            changed.level = verbosity(option)?.max(0);
            continue;
        }
        let Some((_, parts)) = COMPONENTS.iter().find(|(name, _)| *name == option.name()) else {
            return Err(option.not_implemented());
        };
        let level = component_level(option.required(Field::document)?)?;
        changed.parts.retain(|(part, _)| !parts.contains(part));
        changed.parts.extend(parts.iter().filter(|_| level >= 0).map(|part| (*part, level)));
    }
    change_verbosity(server, |verbosity| *verbosity = changed)
}

fn component_level(options: &RawDocument) -> Result<i32> {
    let mut level = -1;
    for element in document::elements(options) {
        let option = Field::of("logComponentVerbosity", element);
        match option.name() {
            "verbosity" => level = verbosity(option)?,
            _ => return Err(option.not_implemented()),
        }
    }
    Ok(level)
}

fn verbosity(field: Field<'_>) -> Result<i32> {
    match field.required(Field::integer)? {
        level @ -1..=5 => Ok(level as i32),
        level => Err(CommandError::bad_value(format!("the verbosity must lie between -1 and 5, not {level}"))),
    }
}

fn change_verbosity(server: &ServerContext, change: impl FnOnce(&mut LogVerbosity)) -> Result<()> {
    let mut verbosity = server.parameters.verbosity.lock();
    let mut changed = verbosity.clone();
    change(&mut changed);
    server.hooks.set_log_verbosity(&changed).map_err(|problem| CommandError::named("OperationFailed", problem))?;
    *verbosity = changed;
    Ok(())
}

/// The value of `plimsollScanSharing`.
fn sharing_name(sharing: ScanSharing) -> &'static str {
    match sharing {
        ScanSharing::WhenSpare => "whenSpare",
        ScanSharing::Never => "never",
        ScanSharing::Always(_) => "always",
    }
}

fn scan_sharing(server: &ServerContext, field: Field<'_>) -> Result<ScanSharing> {
    Ok(match field.required(Field::string)? {
        "whenSpare" => ScanSharing::WhenSpare,
        "never" => ScanSharing::Never,
        // For tests: at others' cost, and in pieces that small collections have several of.
        "always" if server.facts.has_test_commands => ScanSharing::Always(TEST_PIECE_DOCUMENTS),
        other => {
            return Err(CommandError::bad_value(format!(
                "plimsollScanSharing must be whenSpare or never, not {other}"
            )));
        }
    })
}

/// The value of `storageEngineConcurrencyAdjustmentAlgorithm`.
fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::ThroughputProbing => "throughputProbing",
        Algorithm::Fixed => "fixedConcurrentTransactions",
    }
}

fn algorithm(field: Field<'_>) -> Result<Algorithm> {
    let name = field.required(Field::string)?;
    let named = |algorithm: &Algorithm| algorithm_name(*algorithm) == name;
    [Algorithm::ThroughputProbing, Algorithm::Fixed].into_iter().find(named).ok_or_else(|| {
        CommandError::bad_value(format!(
            "'{name}' is not a value of {}: throughputProbing or fixedConcurrentTransactions",
            field.name()
        ))
    })
}

/// Sets how many commands of a kind may run at once.
fn set_tickets(server: &ServerContext, field: Field<'_>, class: Class) -> Result<()> {
    let tickets = usize::try_from(at_least(field, 1)?).unwrap_or(usize::MAX);
    if server.admission.algorithm() == Algorithm::ThroughputProbing {
        let what = if class == Class::Read { "read" } else { "write" };
        let message =
            format!("Cannot modify concurrent {what} transactions limit when it is being dynamically adjusted");
        return Err(CommandError::named("IllegalOperation", message));
    }
    server.admission.set_limit(class, tickets);
    Ok(())
}

fn at_least(field: Field<'_>, least: u64) -> Result<u64> {
    match u64::try_from(field.required(Field::integer)?) {
        Ok(value) if value >= least => Ok(value),
        _ => Err(CommandError::bad_value(format!("{} must be greater than or equal to {least}", field.name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(PARAMETERS.is_sorted_by(|left, right| left.name < right.name));
    }
}
