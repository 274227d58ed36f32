//! The options of MongoDB's server that have a meaning here.

use std::path::PathBuf;

use server::{Passphrase, TlsMode};

/// What was given. An option that is given twice counts as it was given last.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "mongod",
    about = "Plimsoll, started by the command line of MongoDB's server. `plimsoll serve --help` tells all that can be set.",
    args_override_self = true,
    disable_version_flag = true
)]
pub(crate) struct Options {
    /// Show the version and end
    #[arg(long)]
    pub(crate) version: bool,
    /// A YAML file with options, as MongoDB's manual describes it
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory that holds the data, made if absent [default: /data/db]
    #[arg(long, value_name = "DIR")]
    pub(crate) dbpath: Option<PathBuf>,
    /// Port to listen on [default: 27017]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Addresses to listen on, with commas between them [default: localhost]
    #[arg(long = "bind_ip", value_name = "ADDRESSES", value_delimiter = ',')]
    bind_ip: Option<Vec<String>>,
    /// Listen on all addresses
    #[arg(long = "bind_ip_all")]
    bind_ip_all: bool,
    /// With --bind_ip_all: those of IPv6, too
    #[arg(long)]
    ipv6: bool,
    /// Be the member of the replica set of this name; it begins with replSetInitiate
    #[arg(long = "replSet", value_name = "NAME")]
    pub(crate) repl_set: Option<String>,
    /// How much of the oplog is kept, in megabytes
    #[arg(long = "oplogSize", value_name = "MB")]
    pub(crate) oplog_size: Option<f64>,
    /// For how many hours the oplog is kept at least
    #[arg(long = "oplogMinRetentionHours", value_name = "HOURS")]
    pub(crate) oplog_min_retention_hours: Option<f64>,
    /// Clients have to log in, and may do what their roles say
    #[arg(long, overrides_with = "noauth")]
    auth: bool,
    /// Nobody has to log in; it has to be said where other machines reach the server
    #[arg(long)]
    pub(crate) noauth: bool,
    /// wiredTiger stands for the one engine there is; with inMemory (of old ephemeralForTest) all data is in memory, and gone with the process
    #[arg(long = "storageEngine", value_name = "NAME", value_parser = ["wiredTiger", "inMemory", "ephemeralForTest"])]
    storage_engine: Option<String>,
    /// The part of the memory that caches pages, in gigabytes
    #[arg(long = "wiredTigerCacheSizeGB", value_name = "GB")]
    pub(crate) wired_tiger_cache_size_gb: Option<f64>,
    /// The most connections at once
    #[arg(long = "maxConns", value_name = "NUMBER")]
    pub(crate) max_conns: Option<usize>,
    /// Compression offered to clients: any of snappy, zstd, zlib, or 'disabled'
    #[arg(long = "networkMessageCompressors", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) network_message_compressors: Option<Vec<String>>,
    /// Write the log to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) logpath: Option<PathBuf>,
    /// Add to the log file; without this an old one is renamed
    #[arg(long)]
    pub(crate) logappend: bool,
    /// Log warnings only, of what concerns connections
    #[arg(long)]
    quiet: bool,
    /// Log more; may be repeated
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How times look in the log; there is one way
    #[arg(long = "timeStampFormat", value_name = "FORMAT", value_parser = ["iso8601-utc"])]
    time_stamp_format: Option<String>,
    /// Run in the background
    #[arg(long)]
    pub(crate) fork: bool,
    /// Set for the process in the background
    #[arg(long, hide = true)]
    pub(crate) forked: bool,
    /// Write the process's number into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) pidfilepath: Option<PathBuf>,
    /// Set a server parameter; may be repeated
    #[arg(long = "setParameter", value_name = "NAME=VALUE")]
    set_parameter: Vec<String>,
    /// Stop the server that uses --dbpath
    #[arg(long)]
    pub(crate) shutdown: bool,
    /// No socket in the file system
    #[arg(long)]
    nounixsocket: bool,
    /// Directory of the socket in the file system, mongodb-PORT.sock [default: /tmp]
    #[arg(long = "unixSocketPrefix", value_name = "DIR", conflicts_with = "nounixsocket")]
    unix_socket_prefix: Option<PathBuf>,
    /// Who may connect there: the mode of the socket's file [default: 0700]
    #[arg(long = "filePermissions", value_name = "MODE", conflicts_with = "nounixsocket")]
    pub(crate) file_permissions: Option<String>,
    /// Changes are in the log before they are acknowledged; so it always is
    #[arg(long)]
    journal: bool,
    /// Of old versions; changes are logged all the same
    #[arg(long)]
    nojournal: bool,
    /// Of old versions; there is no such interface
    #[arg(long)]
    nohttpinterface: bool,
    /// Of old versions; files are never made larger in advance than they are used
    #[arg(long)]
    noprealloc: bool,
    /// Of old versions; files are as large as what they hold
    #[arg(long)]
    smallfiles: bool,
    /// No JavaScript on the server: $where, $function and $accumulator are refused
    #[arg(long)]
    pub(crate) noscripting: bool,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
    #[command(flatten)]
    pub(crate) encryption: EncryptionOptions,
    #[command(flatten)]
    pub(crate) audit: AuditOptions,
    /// Show no values of documents in the log
    #[arg(long = "redactClientLogData")]
    pub(crate) redact_client_log_data: bool,
    /// Reads of what a majority has; always possible
    #[arg(long = "enableMajorityReadConcern", value_name = "BOOLEAN", num_args = 0..=1, value_parser = ["true"], default_missing_value = "true")]
    majority_read_concern: Option<String>,
    /// What the server reports about itself to others: nothing
    #[arg(long = "enableFreeMonitoring", value_name = "STATE", value_parser = ["off"])]
    free_monitoring: Option<String>,
}

/// Encryption of connections.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TlsOptions {
    /// Which connections are encrypted [default: disabled]
    #[arg(long = "tlsMode", value_name = "MODE", value_parser = ["disabled", "allowTLS", "preferTLS", "requireTLS"])]
    mode: Option<String>,
    /// PEM file with the server's certificate and private key
    #[arg(long = "tlsCertificateKeyFile", value_name = "FILE")]
    pub(crate) certificate_key_file: Option<PathBuf>,
    /// Passphrase of an encrypted private key (PKCS#8). Other users of the machine see command lines: better in the configuration file
    #[arg(long = "tlsCertificateKeyFilePassword", value_name = "PASSPHRASE", value_parser = passphrase)]
    pub(crate) certificate_key_file_password: Option<Passphrase>,
    /// PEM file with the authorities that clients' certificates are verified against
    #[arg(long = "tlsCAFile", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// PEM file with the authorities' lists of revoked certificates
    #[arg(long = "tlsCRLFile", value_name = "FILE")]
    pub(crate) crl_file: Option<PathBuf>,
    /// Clients may have no certificate; one that they show must be valid
    #[arg(long = "tlsAllowConnectionsWithoutCertificates")]
    pub(crate) allow_connections_without_certificates: bool,
    /// Of other members' certificates; the server connects to nobody
    #[arg(long = "tlsAllowInvalidHostnames")]
    allow_invalid_hostnames: bool,
    /// Versions that are not spoken; of those before TLS1_2 none ever is
    #[arg(long = "tlsDisabledProtocols", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) disabled_protocols: Option<Vec<String>>,
}

/// Encryption of the data directory.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EncryptionOptions {
    /// Encrypt the data directory, from its first start on
    #[arg(long = "enableEncryption", value_name = "BOOLEAN", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    is_enabled: Option<bool>,
    /// File with the key, 32 bytes in base64
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The cipher; there is one
    #[arg(long = "encryptionCipherMode", value_name = "CIPHER", value_parser = ["AES256-GCM"])]
    cipher: Option<String>,
}

impl EncryptionOptions {
    /// The file with the key, if there is to be encryption.
    pub(crate) fn key_file(&self) -> Result<Option<PathBuf>, String> {
        match (self.is_enabled.unwrap_or(false), &self.key_file) {
            (true, None) => Err("--enableEncryption needs --encryptionKeyFile, the file with the key".to_owned()),
            (true, key_file) => Ok(key_file.clone()),
            (false, None) if self.cipher.is_none() => Ok(None),
            (false, _) => {
                Err("--encryptionKeyFile and --encryptionCipherMode mean nothing without --enableEncryption".to_owned())
            }
        }
    }
}

/// Who does what.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AuditOptions {
    /// Write who does what: to a file
    #[arg(long = "auditDestination", value_name = "WHERE", value_parser = ["file"])]
    destination: Option<String>,
    /// What the file is like
    #[arg(long = "auditFormat", value_name = "FORMAT", value_parser = ["JSON"])]
    format: Option<String>,
    /// The file
    #[arg(long = "auditPath", value_name = "FILE")]
    path: Option<String>,
    /// Which events are written: a query over them
    #[arg(long = "auditFilter", value_name = "QUERY")]
    pub(crate) filter: Option<String>,
}

impl TlsOptions {
    pub(crate) fn mode(&self) -> Option<TlsMode> {
        Some(match self.mode.as_deref()? {
            "allowTLS" => TlsMode::Allow,
            "preferTLS" => TlsMode::Prefer,
            "requireTLS" => TlsMode::Require,
            _ => TlsMode::Disabled,
        })
    }
}

#[allow(clippy::unnecessary_wraps, reason = "what the parser of arguments wants")]
fn passphrase(text: &str) -> Result<Passphrase, String> {
    Ok(Passphrase::Text(text.to_owned()))
}

impl Options {
    /// Whether clients have to log in.
    pub(crate) fn auth(&self) -> bool {
        self.auth && !self.noauth
    }

    /// Whether all data is in memory.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.storage_engine.as_deref().is_some_and(|name| name != "wiredTiger")
    }

    /// The audit log's file.
    pub(crate) fn audit_path(&self) -> Result<Option<String>, String> {
        let AuditOptions { destination, format, path, .. } = &self.audit;
        match (destination, path) {
            (Some(_), Some(path)) if format.is_some() => Ok(Some(path.clone())),
            (Some(_), _) => Err("--auditDestination file needs --auditFormat JSON and --auditPath".to_owned()),
            (None, None) if format.is_none() => Ok(None),
            (None, _) => Err("--auditFormat and --auditPath mean nothing without --auditDestination file".to_owned()),
        }
    }

    /// The socket in the file system, which there is unless it is not wanted.
    pub(crate) fn unix_socket(&self, default_port: u16) -> Option<PathBuf> {
        let directory = self.unix_socket_prefix.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        let port = self.port.unwrap_or(default_port);
        // A port that the system chooses is not known yet.
        (!self.nounixsocket && port != 0).then(|| directory.join(format!("mongodb-{port}.sock")))
    }

    /// The addresses to listen on.
    pub(crate) fn addresses(&self, default_port: u16) -> Vec<String> {
        let port = self.port.unwrap_or(default_port);
        if self.bind_ip_all {
            let all = ["0.0.0.0", "[::]"];
            return all.iter().take(if self.ipv6 { 2 } else { 1 }).map(|host| format!("{host}:{port}")).collect();
        }
        let hosts = self.bind_ip.clone().unwrap_or_else(|| vec!["127.0.0.1".to_owned()]);
        hosts.iter().map(|host| with_port(host.trim(), port)).collect()
    }

    /// Which lines are logged; `None`: as usual.
    pub(crate) fn log_level(&self) -> Option<String> {
        match (self.verbose, self.quiet) {
            (0, false) => None,
            (0, true) => Some("info,network=warn".to_owned()),
            (1, _) => Some("debug".to_owned()),
            _ => Some("trace".to_owned()),
        }
    }

    /// The server parameters, each with its value.
    pub(crate) fn parameters(&self) -> Result<Vec<(String, String)>, String> {
        let pair = |text: &String| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
            _ => Err(format!("--setParameter {text}: it is not NAME=VALUE")),
        };
        self.set_parameter.iter().map(pair).collect()
    }
}

/// `localhost` is an address of IPv4 alone, as it is for MongoDB unless it is told to use IPv6.
fn with_port(host: &str, port: u16) -> String {
    match host {
        "localhost" => format!("127.0.0.1:{port}"),
        "*" => format!("0.0.0.0:{port}"),
        address if address.contains(':') && !address.starts_with('[') => format!("[{address}]:{port}"),
        name => format!("{name}:{port}"),
    }
}
