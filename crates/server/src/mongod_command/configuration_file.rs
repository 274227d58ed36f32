//! The configuration file of MongoDB's server (`mongod.conf`, YAML): each of its keys is an option of the command line.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::refused;

/// How the value of a key becomes an argument.
#[derive(Clone, Copy)]
enum Kind {
    /// `--option=value`.
    Value,
    /// `--option` when it is true; nothing when it is false.
    Switch,
    /// `--option` when it is false; nothing when it is true.
    SwitchOff,
    /// Nothing when it is this; otherwise it is refused.
    Only(&'static str),
    /// `--auth` or `--noauth`.
    Authorization,
    /// Each entry is a server parameter.
    Parameters,
    /// So many `-v`.
    Verbosity,
}

/// Every key that has a meaning here, its path with dots.
const KEYS: &[(&str, &str, Kind)] = &[
    ("auditLog.destination", "auditDestination", Kind::Value),
    ("auditLog.filter", "auditFilter", Kind::Value),
    ("auditLog.format", "auditFormat", Kind::Value),
    ("auditLog.path", "auditPath", Kind::Value),
    ("auditLog.schema", "auditSchema", Kind::Only("mongo")),
    ("net.bindIp", "bind_ip", Kind::Value),
    ("net.bindIpAll", "bind_ip_all", Kind::Switch),
    ("net.compression.compressors", "networkMessageCompressors", Kind::Value),
    ("net.ipv6", "ipv6", Kind::Switch),
    ("net.maxIncomingConnections", "maxConns", Kind::Value),
    ("net.port", "port", Kind::Value),
    ("net.tls.CAFile", "tlsCAFile", Kind::Value),
    ("net.tls.CRLFile", "tlsCRLFile", Kind::Value),
    ("net.tls.allowConnectionsWithoutCertificates", "tlsAllowConnectionsWithoutCertificates", Kind::Switch),
    ("net.tls.allowInvalidCertificates", "tlsAllowInvalidCertificates", Kind::Only("false")),
    ("net.tls.allowInvalidHostnames", "tlsAllowInvalidHostnames", Kind::Switch),
    ("net.tls.certificateKeyFile", "tlsCertificateKeyFile", Kind::Value),
    ("net.tls.certificateKeyFilePassword", "tlsCertificateKeyFilePassword", Kind::Value),
    ("net.tls.certificateSelector", "tlsCertificateSelector", Kind::Value),
    ("net.tls.clusterCAFile", "tlsClusterCAFile", Kind::Value),
    ("net.tls.clusterFile", "tlsClusterFile", Kind::Value),
    ("net.tls.clusterPassword", "tlsClusterPassword", Kind::Value),
    ("net.tls.disabledProtocols", "tlsDisabledProtocols", Kind::Value),
    ("net.tls.FIPSMode", "tlsFIPSMode", Kind::Only("false")),
    ("net.tls.logVersions", "tlsLogVersions", Kind::Value),
    ("net.tls.mode", "tlsMode", Kind::Value),
    ("net.unixDomainSocket.enabled", "nounixsocket", Kind::SwitchOff),
    ("net.unixDomainSocket.filePermissions", "filePermissions", Kind::Value),
    ("net.unixDomainSocket.pathPrefix", "unixSocketPrefix", Kind::Value),
    ("processManagement.fork", "fork", Kind::Switch),
    ("processManagement.pidFilePath", "pidfilepath", Kind::Value),
    // Zones come with the program.
    ("processManagement.timeZoneInfo", "timeZoneInfo", Kind::Only("/usr/share/zoneinfo")),
    ("replication.enableMajorityReadConcern", "enableMajorityReadConcern", Kind::Value),
    ("replication.oplogSizeMB", "oplogSize", Kind::Value),
    ("replication.replSetName", "replSet", Kind::Value),
    ("security.authorization", "auth", Kind::Authorization),
    ("security.enableEncryption", "enableEncryption", Kind::Switch),
    ("security.encryptionCipherMode", "encryptionCipherMode", Kind::Value),
    ("security.encryptionKeyFile", "encryptionKeyFile", Kind::Value),
    ("security.javascriptEnabled", "noscripting", Kind::SwitchOff),
    ("security.redactClientLogData", "redactClientLogData", Kind::Switch),
    ("security.keyFile", "keyFile", Kind::Value),
    ("security.kmip.serverName", "kmipServerName", Kind::Value),
    ("security.vault.serverName", "vaultServerName", Kind::Value),
    ("setParameter", "setParameter", Kind::Parameters),
    ("storage.dbPath", "dbpath", Kind::Value),
    ("storage.engine", "storageEngine", Kind::Value),
    ("storage.journal.enabled", "nojournal", Kind::Only("true")),
    ("storage.oplogMinRetentionHours", "oplogMinRetentionHours", Kind::Value),
    ("storage.wiredTiger.engineConfig.cacheSizeGB", "wiredTigerCacheSizeGB", Kind::Value),
    ("systemLog.destination", "syslog", Kind::Only("file")),
    ("systemLog.logAppend", "logappend", Kind::Switch),
    ("systemLog.path", "logpath", Kind::Value),
    ("systemLog.quiet", "quiet", Kind::Switch),
    ("systemLog.timeStampFormat", "timeStampFormat", Kind::Value),
    ("systemLog.verbosity", "verbose", Kind::Verbosity),
];

/// The arguments that a file stands for.
#[allow(clippy::disallowed_methods, reason = "read once, before there is a disk to go through")]
pub(super) fn read(path: &Path) -> Result<Vec<OsString>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the configuration file {}: {error}", path.display()))?;
    arguments(&text).map_err(|error| format!("in the configuration file {}: {error}", path.display()))
}

pub(super) fn arguments(text: &str) -> Result<Vec<OsString>, String> {
    let mut arguments = Vec::new();
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(arguments);
    }
    let root: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    add(String::new(), &root, &mut arguments)?;
    Ok(arguments.into_iter().collect())
}

fn add(path: String, value: &Value, arguments: &mut Vec<OsString>) -> Result<(), String> {
    if let Some((_, option, kind)) = KEYS.iter().find(|(key, ..)| *key == path) {
        return add_option(&path, option, *kind, value, arguments);
    }
    match value {
        // A section without keys, as where all are commented out.
        Value::Null => Ok(()),
        Value::Object(section) => section.iter().try_for_each(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            add(path, value, arguments)
        }),
        _ => Err(format!("the key {path} is not one that Plimsoll knows")),
    }
}

fn add_option(
    path: &str,
    option: &str,
    kind: Kind,
    value: &Value,
    arguments: &mut Vec<OsString>,
) -> Result<(), String> {
    if let (Kind::Parameters, Value::Object(parameters)) = (kind, value) {
        for (name, value) in parameters {
            arguments.push(format!("--setParameter={name}={}", scalar(&format!("{path}.{name}"), value)?).into());
        }
        return Ok(());
    }
    let text = scalar(path, value)?;
    let argument = match (kind, text.as_str()) {
        (Kind::Value, text) => {
            refused::check_option(option).map_err(|error| format!("the key {path}: {error}"))?;
            format!("--{option}={text}")
        }
        (Kind::Switch, "true") | (Kind::SwitchOff, "false") => format!("--{option}"),
        (Kind::Switch, "false") | (Kind::SwitchOff, "true") => return Ok(()),
        (Kind::Only(wanted), text) if text == wanted => return Ok(()),
        (Kind::Authorization, "enabled") => "--auth".to_owned(),
        (Kind::Authorization, "disabled") => "--noauth".to_owned(),
        (Kind::Only(wanted), text) => {
            return Err(format!("the key {path} is '{text}': Plimsoll does nothing else than '{wanted}'"));
        }
        (Kind::Verbosity, text) => match text.parse::<usize>() {
            Ok(0) => return Ok(()),
            Ok(times) => format!("-{}", "v".repeat(times.min(5))),
            Err(_) => return Err(format!("the key {path} must be a number")),
        },
        (Kind::Switch | Kind::SwitchOff | Kind::Parameters | Kind::Authorization, text) => {
            return Err(format!("the key {path} must not be '{text}'"));
        }
    };
    arguments.push(argument.into());
    Ok(())
}

fn scalar(path: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        // A mode of a file begins with a zero, and is then no integer of YAML.
        Value::Number(number) => Ok(number.to_string().trim_end_matches(".0").to_owned()),
        Value::Bool(value) => Ok(value.to_string()),
        _ => Err(format!("the key {path} must have a single value")),
    }
}
