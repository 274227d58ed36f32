//! Options of MongoDB's server that this one has no counterpart of, each with the reason. Asked before the arguments are parsed, and for every key
//! of a configuration file. What is neither here nor among the options is refused as unknown.

use std::ffi::OsString;

const NO_MEMBERS: &str = "members of a set do not log in to one another; --auth has clients log in";
const NO_LDAP: &str = "users are in the database, and log in by SCRAM";
const OLD_NAME: &str = "it is an old name: see the options that begin with tls";
const ONE_CERTIFICATE: &str = "the server has one certificate, from --tlsCertificateKeyFile";
const NO_VAULT: &str = "`plimsoll serve --encryption-key-command` asks any vault by its own program";
const NO_SHARDING: &str = "there is no sharding";
const NO_PROFILER: &str = "it is set while the server runs, by the command `profile`";
const ONE_ENGINE: &str = "it is about another storage engine's files";

const REFUSED: &[(&str, &str)] = &[
    ("auditEncryptionKeyUID", "the audit log is not encrypted"),
    ("auditLocalKeyFile", "the audit log is not encrypted"),
    ("auditSchema", "events have MongoDB's own fields"),
    ("clusterAuthMode", NO_MEMBERS),
    ("configsvr", NO_SHARDING),
    ("cpu", "the log tells of it anyway"),
    ("directoryperdb", ONE_ENGINE),
    ("inMemorySizeGB", ONE_ENGINE),
    ("journalCommitInterval", "the log is synced in groups as commits come"),
    ("keyFile", NO_MEMBERS),
    ("kmipClientCertificateFile", NO_VAULT),
    ("kmipKeyIdentifier", NO_VAULT),
    ("kmipPort", NO_VAULT),
    ("kmipRotateMasterKey", NO_VAULT),
    ("kmipServerCAFile", NO_VAULT),
    ("kmipServerName", NO_VAULT),
    ("ldapServers", NO_LDAP),
    ("logRotate", "the log file is renamed, as by default"),
    ("master", "there is no replication of that kind"),
    ("notablescan", "it is set while the server runs"),
    ("processUmask", "files are for the process's user alone"),
    ("profile", NO_PROFILER),
    ("proxyPort", "there is no proxy protocol"),
    ("repair", "`plimsoll repair` saves what can be read of a damaged data directory"),
    ("rest", "there is no such interface"),
    ("httpinterface", "there is no such interface"),
    ("restoreLogFile", "there are no such backups"),
    ("shardsvr", NO_SHARDING),
    ("slave", "there is no replication of that kind"),
    ("slowOpSampleRate", NO_PROFILER),
    ("slowms", NO_PROFILER),
    ("syncdelay", "checkpoints are continuous"),
    ("syslog", "the log goes to standard output or to a file"),
    ("syslogFacility", "the log goes to standard output or to a file"),
    ("sslAllowConnectionsWithoutCertificates", OLD_NAME),
    ("sslCAFile", OLD_NAME),
    ("sslCRLFile", OLD_NAME),
    ("sslDisabledProtocols", OLD_NAME),
    ("sslMode", OLD_NAME),
    ("sslPEMKeyFile", OLD_NAME),
    ("sslPEMKeyPassword", OLD_NAME),
    ("tlsAllowInvalidCertificates", "a certificate that is shown is always verified"),
    ("tlsCertificateSelector", "there is no store of certificates: they are in files"),
    ("tlsClusterAuthX509ExtensionValue", NO_MEMBERS),
    ("tlsClusterCAFile", ONE_CERTIFICATE),
    ("tlsClusterCertificateSelector", ONE_CERTIFICATE),
    ("tlsClusterFile", ONE_CERTIFICATE),
    ("tlsClusterPassword", ONE_CERTIFICATE),
    ("tlsFIPSMode", "the cryptography is not certified by FIPS"),
    ("tlsLogVersions", "the log tells the version of each encrypted connection at the level debug"),
    ("transitionToAuth", NO_MEMBERS),
    ("vaultPort", NO_VAULT),
    ("vaultRotateMasterKey", NO_VAULT),
    ("vaultSecret", NO_VAULT),
    ("vaultServerCAFile", NO_VAULT),
    ("vaultServerName", NO_VAULT),
    ("vaultTokenFile", NO_VAULT),
    ("upgrade", "old data files are never read"),
    ("wiredTigerCollectionBlockCompressor", ONE_ENGINE),
    ("wiredTigerDirectoryForIndexes", ONE_ENGINE),
    ("wiredTigerEngineConfigString", ONE_ENGINE),
    ("wiredTigerIndexPrefixCompression", ONE_ENGINE),
    ("wiredTigerJournalCompressor", ONE_ENGINE),
];

/// Refuses the first of the arguments that is in the list.
pub(super) fn check_arguments(arguments: &[OsString]) -> Result<(), String> {
    let names = arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix("--"));
    names.map(|name| name.split('=').next().unwrap_or(name)).try_for_each(check_option)
}

/// Refuses an option of the list.
pub(super) fn check_option(name: &str) -> Result<(), String> {
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((name, reason)) => Err(format!("mongod's option --{name} is not implemented by Plimsoll: {reason}")),
        None => Ok(()),
    }
}
