//! Every setting once: its flag, its environment variable, its key in the file, its help.

use std::path::PathBuf;

use crate::configuration::{AuditMode, ReplicaSetInitiation, Size};
use crate::logging::LogFormat;
use crate::tls::{Passphrase, TlsMode};

/// Settings of `plimsoll serve`; each may be absent. A key in the file is the flag's name without the dashes.
#[derive(Debug, Clone, Default, clap::Args, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Directory that holds the data, made if absent [default: data]
    #[arg(long, env = "PLIMSOLL_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Keep all data in memory, for tests of applications: nothing is on disk, and all is gone when the server stops. A
    /// quarter of --memory caches pages, half of what that and 64 MiB leave is for the data [default: false]
    #[arg(long, env = "PLIMSOLL_EPHEMERAL", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub ephemeral: Option<bool>,

    /// Address to listen on; may be repeated, or be a list with commas [default: 127.0.0.1:27017]
    #[arg(long, env = "PLIMSOLL_LISTEN", value_name = "HOST:PORT", value_delimiter = ',')]
    pub listen: Option<Vec<String>>,

    /// Listen beyond this machine although nobody has to log in (--auth): whoever reaches the address can read and change all data, so something
    /// else must keep others away
    #[arg(long, env = "PLIMSOLL_INSECURE_NO_AUTHENTICATION", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub insecure_no_authentication: Option<bool>,

    /// The same, by its name of old
    #[arg(long, hide = true, env = "PLIMSOLL_ALLOW_REMOTE_WITHOUT_LOGIN", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub allow_remote_without_login: Option<bool>,

    /// How much disk is used to keep the server's figures of every second, for weeks back (plimsoll diagnose) [default: 200MiB]
    #[arg(long, env = "PLIMSOLL_FLIGHT_RECORDER_SIZE", value_name = "SIZE")]
    pub flight_recorder_size: Option<Size>,

    /// Keep no figures; warnings are found all the same [default: false]
    #[arg(long, env = "PLIMSOLL_NO_FLIGHT_RECORDER", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub no_flight_recorder: Option<bool>,

    /// Tell figures over HTTP for Prometheus (/metrics), and whether the server lives (/healthz) and takes writes (/readyz). A port alone is one
    /// of 127.0.0.1. Nobody has to log in there
    #[arg(long, env = "PLIMSOLL_METRICS", value_name = "HOST:PORT")]
    pub metrics: Option<String>,

    /// Send traces of operations to an OpenTelemetry collector there, by OTLP over HTTP: a span for each, with no values of documents. Without a path
    /// the URL is that of /v1/traces
    #[arg(long, env = "PLIMSOLL_OTLP", value_name = "URL")]
    pub otlp: Option<String>,

    /// The share of operations that are traced, from 0 to 1. Where a client says of an operation whether it is (comment: {traceparent: ...}) that counts
    /// [default: 1]
    #[arg(long, env = "PLIMSOLL_OTLP_SAMPLE", value_name = "SHARE")]
    pub otlp_sample: Option<f64>,

    /// Serve a console for browsers at this address: charts, operations, collections, queries, documents. A port alone is one of 127.0.0.1. With
    /// --auth browsers log in as clients do; without it an address beyond this machine is refused. With --tls-mode it is https
    #[arg(long, env = "PLIMSOLL_CONSOLE", value_name = "HOST:PORT")]
    pub console: Option<String>,

    /// Clients have to log in, and may do what their roles say; the first user is made from this machine [default: false]
    #[arg(long, env = "PLIMSOLL_AUTH", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub auth: Option<bool>,

    /// With --auth: whether the first user can be made from this machine without a login [default: true]
    #[arg(long, env = "PLIMSOLL_LOCALHOST_EXCEPTION", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub localhost_exception: Option<bool>,

    /// Write who does what, in the fields of MongoDB's audit messages: to this file, a JSON object a line, or with 'log' to the diagnostics log.
    /// The command logRotate begins a new file, and so does SIGUSR1
    #[arg(long, env = "PLIMSOLL_AUDIT", value_name = "FILE")]
    pub audit: Option<String>,

    /// What becomes of an event that cannot be written, as when the disk is full [default: relaxed]
    #[arg(long, env = "PLIMSOLL_AUDIT_MODE", value_enum, value_name = "MODE")]
    pub audit_mode: Option<AuditMode>,

    /// Begin a new file of the audit log when one has become so long, as 100MiB; the old one is renamed [default: never]
    #[arg(long, env = "PLIMSOLL_AUDIT_FILE_SIZE", value_name = "SIZE")]
    pub audit_file_size: Option<Size>,

    /// Which events are written: a query over them, as {"atype": {"$in": ["authenticate", "createUser"]}} [default: all]
    #[arg(long, env = "PLIMSOLL_AUDIT_FILTER", value_name = "QUERY")]
    pub audit_filter: Option<String>,

    /// Tell also what is allowed: an event authCheck for every command, of which --audit-filter chooses [default: false]
    #[arg(long, env = "PLIMSOLL_AUDIT_AUTHORIZATION_SUCCESS", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub audit_authorization_success: Option<bool>,

    /// Show no values of documents in the diagnostics log, and in authCheck of the audit log [default: false]
    #[arg(long, env = "PLIMSOLL_REDACT", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub redact: Option<bool>,

    /// The budget for all memory, as 512MiB, 4GiB or a share of what the machine or container has [default: 50%]
    #[arg(long, env = "PLIMSOLL_MEMORY", value_name = "SIZE")]
    pub memory: Option<Size>,

    /// The part of the budget that caches pages, as 256MiB, 1GiB or a share of --memory [default: 60%]
    #[arg(long, env = "PLIMSOLL_CACHE", value_name = "SIZE")]
    pub cache: Option<Size>,

    /// The most that is kept of old versions for open snapshots, in memory and on disk; beyond it the oldest snapshot is
    /// given up [default: 16GiB]
    #[arg(long, env = "PLIMSOLL_HISTORY", value_name = "SIZE")]
    pub history: Option<Size>,

    /// How much of the oplog is kept for change streams and readers of local.oplog.rs, beyond what recovery needs [default: 1GiB]
    #[arg(long, env = "PLIMSOLL_OPLOG_SIZE", value_name = "SIZE")]
    pub oplog_size: Option<Size>,

    /// For how many hours the oplog is kept at least, whatever space that takes [default: 0]
    #[arg(long, env = "PLIMSOLL_OPLOG_MIN_RETENTION_HOURS", value_name = "HOURS")]
    pub oplog_min_retention_hours: Option<f64>,

    /// The most connections at once; more are closed as soon as they are accepted [default: 65536, or what the limit on
    /// open files allows]
    #[arg(long, env = "PLIMSOLL_MAX_CONNECTIONS", value_name = "NUMBER")]
    pub max_connections: Option<usize>,

    /// The most connections from one address of another machine; of IPv6, from one network of 64 bits [default: four fifths of
    /// --max-connections]
    #[arg(long, env = "PLIMSOLL_MAX_CONNECTIONS_PER_ADDRESS", value_name = "NUMBER")]
    pub max_connections_per_address: Option<usize>,

    /// Encrypt the data directory, from its first start on. File with the key, 32 bytes in base64 (as `openssl rand -base64 32` makes them) or
    /// in hexadecimal; nobody else may read it
    #[arg(long, env = "PLIMSOLL_ENCRYPTION_KEY_FILE", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,

    /// The same, with the key in the environment variable of this name
    #[arg(long, env = "PLIMSOLL_ENCRYPTION_KEY_ENV", value_name = "NAME")]
    pub encryption_key_env: Option<String>,

    /// The same, with the key from a command of the shell, which prints it: so it can be in any vault
    #[arg(long, env = "PLIMSOLL_ENCRYPTION_KEY_COMMAND", hide_env_values = true, value_name = "COMMAND")]
    pub encryption_key_command: Option<String>,

    /// Encrypt backups and the archive with the key in this file, as --encryption-key-file has one [default: the key of an encrypted data
    /// directory; without one they are not encrypted]
    #[arg(long, env = "PLIMSOLL_BACKUP_KEY_FILE", value_name = "FILE")]
    pub backup_key_file: Option<PathBuf>,

    /// Send the oplog every few seconds to this place for backups, as file:///var/backups/plimsoll or s3://bucket/prefix, so that `plimsoll restore` gets to any
    /// moment. It is kept here until it is there
    #[arg(long, env = "PLIMSOLL_ARCHIVE", value_name = "URL")]
    pub archive: Option<String>,

    /// Which connections are encrypted [default: disabled]
    #[arg(long, env = "PLIMSOLL_TLS_MODE", value_enum, value_name = "MODE")]
    pub tls_mode: Option<TlsMode>,

    /// PEM file with the server's certificate, those between it and the authority's, and its private key. Read again at SIGHUP and by the
    /// command rotateCertificates, as are the others
    #[arg(long, env = "PLIMSOLL_TLS_CERTIFICATE_KEY_FILE", value_name = "FILE")]
    pub tls_certificate_key_file: Option<PathBuf>,

    /// File whose first line is the passphrase of an encrypted private key (PKCS#8)
    #[arg(long, env = "PLIMSOLL_TLS_CERTIFICATE_KEY_PASSWORD_FILE", value_name = "FILE")]
    pub tls_certificate_key_password_file: Option<PathBuf>,

    /// That passphrase itself, as MongoDB's command line gives it
    #[arg(skip)]
    #[serde(skip)]
    pub tls_certificate_key_password: Option<Passphrase>,

    /// PEM file with the authorities that clients' certificates are verified against; then clients must have one. Without it they are not
    /// asked
    #[arg(long, env = "PLIMSOLL_TLS_CA_FILE", value_name = "FILE")]
    pub tls_ca_file: Option<PathBuf>,

    /// PEM file with the authorities' lists of revoked certificates
    #[arg(long, env = "PLIMSOLL_TLS_CRL_FILE", value_name = "FILE")]
    pub tls_crl_file: Option<PathBuf>,

    /// Clients may have no certificate, although there is --tls-ca-file; one that they show must be valid
    #[arg(long, env = "PLIMSOLL_TLS_ALLOW_CONNECTIONS_WITHOUT_CERTIFICATES", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub tls_allow_connections_without_certificates: Option<bool>,

    /// Versions that are not spoken, of TLS1_2 and TLS1_3; older ones never are
    #[arg(long, env = "PLIMSOLL_TLS_DISABLED_PROTOCOLS", value_name = "NAMES", value_delimiter = ',')]
    pub tls_disabled_protocols: Option<Vec<String>>,

    /// Listen on a socket in the file system, too; clients want its name to end with .sock
    #[arg(long, env = "PLIMSOLL_UNIX_SOCKET", value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,

    /// Who may connect there: the mode of the socket's file [default: 0700]
    #[arg(long, env = "PLIMSOLL_UNIX_SOCKET_PERMISSIONS", value_name = "MODE")]
    pub unix_socket_permissions: Option<String>,

    /// Compression offered to clients, the best first: any of snappy, zstd, zlib, or 'disabled' [default:
    /// snappy,zstd,zlib]
    #[arg(long, env = "PLIMSOLL_COMPRESSORS", value_name = "NAMES", value_delimiter = ',')]
    pub compressors: Option<Vec<String>>,

    /// What diagnostic lines on standard error look like [default: text]
    #[arg(long, env = "PLIMSOLL_LOG_FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,

    /// Which diagnostic lines to write: error, warn, info, debug or trace, also by component, as info,network=debug
    /// [default: info]
    #[arg(long, env = "PLIMSOLL_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<String>,

    /// How long running commands may take to end when the server is stopped [default: 10]
    #[arg(long, env = "PLIMSOLL_STOP_GRACE_SECONDS", value_name = "SECONDS")]
    pub stop_grace_seconds: Option<u64>,

    /// Stop when standard input ends, so that the server ends with the program that started it, however that ends
    #[arg(long, env = "PLIMSOLL_STOP_WITH_INPUT", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub stop_with_input: Option<bool>,

    /// Be a member of the replica set of this name: the only one, unless --log says which log it shares with others. Clients connect with replicaSet=NAME
    #[arg(long, env = "PLIMSOLL_REPLICA_SET", value_name = "NAME")]
    pub replica_set: Option<String>,

    /// Have the commits of the replica set confirmed by a shared log before clients are told of them; dir:///DIRECTORY is one in a directory, which may be on
    /// another disk or a file server, and is made if it is not there; kafka://HOST:PORT,HOST:PORT/TOPIC is one in Kafka, which `plimsoll log create` makes
    #[arg(long, env = "PLIMSOLL_LOG", value_name = "URL")]
    pub log: Option<String>,

    /// With --log: how much of the shared log is kept for members that are away, as a time (12h, 7d) or a size of the oplog (10GiB). What is older is removed by
    /// the primary now and then, once a copy of the data is beside the log; 'off' keeps everything [default: 7d]
    #[arg(long, env = "PLIMSOLL_LOG_WINDOW", value_name = "WINDOW")]
    pub log_window: Option<String>,

    /// Whether the replica set begins by itself at the first start, or when a client sends replSetInitiate [default: automatic]
    #[arg(long, env = "PLIMSOLL_REPLICA_SET_INITIATION", value_enum, value_name = "WHEN")]
    pub replica_set_initiation: Option<ReplicaSetInitiation>,

    /// The address at which clients of the replica set find this server [default: the first of --listen, with the host's name
    /// where that is all addresses; then what replSetReconfig has set]
    #[arg(long, env = "PLIMSOLL_ADVERTISE", value_name = "HOST:PORT")]
    pub advertise: Option<String>,

    /// What this member of a replica set with a shared log is, for clients that choose where they read, as dc=east,disk=ssd
    #[arg(long, env = "PLIMSOLL_TAGS", value_delimiter = ',', value_name = "NAME=VALUE")]
    pub tags: Option<Vec<String>>,

    /// How many seconds the machine's clock may be ahead of the newest write at the start, and jump ahead later, before it is taken to be
    /// wrong [default: 31536000, a year]
    #[arg(long, env = "PLIMSOLL_MAX_CLOCK_DRIFT_SECONDS", value_name = "SECONDS")]
    pub max_clock_drift_seconds: Option<u64>,

    /// Let clients make commands fail on purpose (configureFailPoint), as tests of drivers want it
    #[arg(long, env = "PLIMSOLL_ENABLE_TEST_COMMANDS", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub enable_test_commands: Option<bool>,

    /// Run no JavaScript of clients: $where, $function and $accumulator are refused
    #[arg(
        long,
        env = "PLIMSOLL_NO_SCRIPTING",
        num_args = 0..=1,
        default_missing_value = "true",
        value_name = "BOOLEAN"
    )]
    pub no_scripting: Option<bool>,

    /// Compare what is allocated with what the memory budget accounts for, all the time: a difference of more than 15 % of --memory that lasts is told
    /// in the log and in serverStatus (plimsoll.memory.check). For tests; costs some percent of speed
    #[arg(long, env = "PLIMSOLL_CHECK_MEMORY", num_args = 0..=1, default_missing_value = "true", value_name = "BOOLEAN")]
    pub check_memory: Option<bool>,

    /// A TOML file with any of these settings, for those that neither a flag nor the environment gives
    #[arg(long, env = "PLIMSOLL_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

impl Settings {
    /// These settings, and where they are absent the other's.
    pub fn or(self, other: Settings) -> Settings {
        Settings {
            data: self.data.or(other.data),
            ephemeral: self.ephemeral.or(other.ephemeral),
            listen: self.listen.or(other.listen),
            auth: self.auth.or(other.auth),
            localhost_exception: self.localhost_exception.or(other.localhost_exception),
            insecure_no_authentication: self.insecure_no_authentication.or(other.insecure_no_authentication),
            allow_remote_without_login: self.allow_remote_without_login.or(other.allow_remote_without_login),
            audit: self.audit.or(other.audit),
            audit_mode: self.audit_mode.or(other.audit_mode),
            audit_file_size: self.audit_file_size.or(other.audit_file_size),
            audit_filter: self.audit_filter.or(other.audit_filter),
            audit_authorization_success: self.audit_authorization_success.or(other.audit_authorization_success),
            redact: self.redact.or(other.redact),
            memory: self.memory.or(other.memory),
            cache: self.cache.or(other.cache),
            history: self.history.or(other.history),
            oplog_size: self.oplog_size.or(other.oplog_size),
            oplog_min_retention_hours: self.oplog_min_retention_hours.or(other.oplog_min_retention_hours),
            max_connections: self.max_connections.or(other.max_connections),
            max_connections_per_address: self.max_connections_per_address.or(other.max_connections_per_address),
            encryption_key_file: self.encryption_key_file.or(other.encryption_key_file),
            encryption_key_env: self.encryption_key_env.or(other.encryption_key_env),
            encryption_key_command: self.encryption_key_command.or(other.encryption_key_command),
            backup_key_file: self.backup_key_file.or(other.backup_key_file),
            archive: self.archive.or(other.archive),
            tls_mode: self.tls_mode.or(other.tls_mode),
            tls_certificate_key_file: self.tls_certificate_key_file.or(other.tls_certificate_key_file),
            tls_certificate_key_password_file: self
                .tls_certificate_key_password_file
                .or(other.tls_certificate_key_password_file),
            tls_certificate_key_password: self.tls_certificate_key_password.or(other.tls_certificate_key_password),
            tls_ca_file: self.tls_ca_file.or(other.tls_ca_file),
            tls_crl_file: self.tls_crl_file.or(other.tls_crl_file),
            tls_allow_connections_without_certificates: self
                .tls_allow_connections_without_certificates
                .or(other.tls_allow_connections_without_certificates),
            tls_disabled_protocols: self.tls_disabled_protocols.or(other.tls_disabled_protocols),
            no_flight_recorder: self.no_flight_recorder.or(other.no_flight_recorder),
            flight_recorder_size: self.flight_recorder_size.or(other.flight_recorder_size),
            metrics: self.metrics.or(other.metrics),
            otlp: self.otlp.or(other.otlp),
            otlp_sample: self.otlp_sample.or(other.otlp_sample),
            console: self.console.or(other.console),
            unix_socket: self.unix_socket.or(other.unix_socket),
            unix_socket_permissions: self.unix_socket_permissions.or(other.unix_socket_permissions),
            compressors: self.compressors.or(other.compressors),
            log_format: self.log_format.or(other.log_format),
            log_level: self.log_level.or(other.log_level),
            stop_grace_seconds: self.stop_grace_seconds.or(other.stop_grace_seconds),
            stop_with_input: self.stop_with_input.or(other.stop_with_input),
            replica_set: self.replica_set.or(other.replica_set),
            log: self.log.or(other.log),
            log_window: self.log_window.or(other.log_window),
            replica_set_initiation: self.replica_set_initiation.or(other.replica_set_initiation),
            advertise: self.advertise.or(other.advertise),
            tags: self.tags.or(other.tags),
            max_clock_drift_seconds: self.max_clock_drift_seconds.or(other.max_clock_drift_seconds),
            enable_test_commands: self.enable_test_commands.or(other.enable_test_commands),
            no_scripting: self.no_scripting.or(other.no_scripting),
            check_memory: self.check_memory.or(other.check_memory),
            config: self.config.or(other.config),
        }
    }
}
