//! What the command line and the configuration file of MongoDB's server come to.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use server::configuration::{Configuration, ReplicaSetInitiation, Size};
use server::{Passphrase, TlsMode, TlsVersion};

use super::*;

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

fn options(text: &str) -> Options {
    Options::try_parse_from(std::iter::once(OsString::from("mongod")).chain(words(text))).unwrap()
}

fn refusal(text: &str) -> String {
    match refused::check_arguments(&words(text)) {
        Err(refusal) => refusal,
        Ok(()) => {
            let parsed = Options::try_parse_from(std::iter::once(OsString::from("mongod")).chain(words(text)));
            parsed.unwrap_err().to_string()
        }
    }
}

#[test]
fn all_data_is_in_memory_with_mongodbs_engines_for_that() {
    for (given, data, ephemeral) in [
        ("--storageEngine wiredTiger", Some(PathBuf::from("/d")), None),
        ("--storageEngine inMemory", None, Some(true)),
        ("--storageEngine ephemeralForTest", None, Some(true)),
    ] {
        let settings = settings(&options(given), PathBuf::from("/d")).unwrap();
        assert_eq!((settings.data, settings.ephemeral), (data, ephemeral), "{given}");
    }
}

#[test]
fn options_become_settings() {
    let given = "--dbpath /d --port 5 --bind_ip localhost,::1,h --replSet rs0 --oplogSize 10 --wiredTigerCacheSizeGB 0.25 \
                 --storageEngine wiredTiger --noauth --nojournal --maxConns 9 --quiet --setParameter enableTestCommands=1 \
                 --setParameter maxAcceptableLogicalClockDriftSecs=77 \
                 --setParameter transactionLifetimeLimitSeconds=30 --setParameter diagnosticDataCollectionEnabled=false";
    let given = options(given);
    let settings = settings(&given, PathBuf::from("/d")).unwrap();
    assert_eq!(settings.listen.unwrap(), ["127.0.0.1:5", "[::1]:5", "h:5"]);
    assert_eq!((settings.cache, settings.oplog_size), (Some(Size::Bytes(1 << 28)), Some(Size::Bytes(10 << 20))));
    assert_eq!((settings.max_connections, settings.enable_test_commands), (Some(9), Some(true)));
    assert_eq!((settings.max_clock_drift_seconds, settings.insecure_no_authentication), (Some(77), Some(true)));
    assert_eq!(settings.replica_set.as_deref(), Some("rs0"));
    assert_eq!(settings.replica_set_initiation, Some(ReplicaSetInitiation::OnCommand));
    assert_eq!(settings.log_level.as_deref(), Some("info,network=warn"));
    let expected = [("transactionLifetimeLimitSeconds".to_owned(), "30".to_owned())];
    assert_eq!(parameters(&given).unwrap(), expected);
    assert_eq!(options("").addresses(27017), ["127.0.0.1:27017"]);
    assert_eq!(options("--bind_ip_all --ipv6").addresses(1), ["0.0.0.0:1", "[::]:1"]);
    assert_eq!(options("--port 1 --port 2").port, Some(2));
}

#[test]
fn encryption_and_the_socket_in_the_file_system() {
    let given = "--tlsMode preferTLS --tlsCertificateKeyFile /k --tlsCertificateKeyFilePassword secret --tlsCAFile /a --tlsCRLFile /r \
                 --tlsAllowConnectionsWithoutCertificates --tlsAllowInvalidHostnames --tlsDisabledProtocols TLS1_0,TLS1_2 --port 5";
    let given = settings(&options(given), PathBuf::new()).unwrap();
    assert!(!format!("{given:?}").contains("secret"));
    assert_eq!(given.unix_socket.as_deref(), Some(Path::new("/tmp").join("mongodb-5.sock").as_path()));
    let resolved = Configuration::resolve(given, 1 << 30).unwrap();
    let tls = resolved.tls.unwrap();
    assert_eq!((tls.mode, tls.allows_without_certificate), (TlsMode::Prefer, true));
    assert_eq!((tls.passphrase, tls.versions), (Some(Passphrase::Text("secret".to_owned())), vec![TlsVersion::V1_3]));
    assert_eq!((tls.authority_file, tls.revocation_file), (Some(PathBuf::from("/a")), Some(PathBuf::from("/r"))));
    assert_eq!(resolved.unix_socket.unwrap().permissions, 0o700);
    let text = "net:\n  tls:\n    mode: requireTLS\n    certificateKeyFile: /k\n    certificateKeyFilePassword: secret\n    disabledProtocols: TLS1_0\n\
                \x20   FIPSMode: false\n  unixDomainSocket:\n    enabled: true\n    pathPrefix: /run\n    filePermissions: 0770\n";
    let mut all = configuration_file::arguments(text).unwrap();
    all.insert(0, OsString::from("mongod"));
    let given = settings(&Options::try_parse_from(all).unwrap(), PathBuf::new()).unwrap();
    let resolved = Configuration::resolve(given, 1 << 30).unwrap();
    assert_eq!(resolved.tls.unwrap().mode, TlsMode::Require);
    let socket = resolved.unix_socket.unwrap();
    assert_eq!((socket.path.as_path(), socket.permissions), (Path::new("/run/mongodb-27017.sock"), 0o770));
    let unwanted = ["--nounixsocket", "--port 0"];
    assert!(unwanted.iter().all(|words| settings(&options(words), PathBuf::new()).unwrap().unix_socket.is_none()));
    assert_eq!(
        configuration_file::arguments("net:\n  unixDomainSocket:\n    enabled: false\n").unwrap(),
        ["--nounixsocket"]
    );
    for (words, problem) in [
        ("--tlsMode requireTLS", "tls-certificate-key-file"),
        ("--tlsCAFile /a", "tls-mode"),
        ("--tlsMode disabled --tlsCertificateKeyFilePassword x", "tlsCertificateKeyFilePassword"),
        ("--tlsMode allowTLS --tlsCertificateKeyFile /k --tlsCRLFile /r", "tls-ca-file"),
        ("--tlsMode allowTLS --tlsCertificateKeyFile /k --tlsDisabledProtocols none", "never spoken"),
        ("--tlsMode allowTLS --tlsCertificateKeyFile /k --tlsDisabledProtocols TLS1_2,TLS1_3", "nothing is left"),
        ("--tlsMode allowTLS --tlsCertificateKeyFile /k --tlsDisabledProtocols SSL3", "SSL3"),
        ("--filePermissions 0999", "0999"),
        ("--filePermissions 01777", "01777"),
    ] {
        let given = settings(&options(words), PathBuf::new()).unwrap();
        let refused = Configuration::resolve(given, 1 << 30).unwrap_err().to_string();
        assert!(refused.contains(problem), "{words}: {refused}");
    }
}

#[test]
fn encryption_of_the_data_directory() {
    let key_file = |words: &str| settings(&options(words), PathBuf::new()).map(|settings| settings.encryption_key_file);
    let both = "--enableEncryption --encryptionKeyFile /k --encryptionCipherMode AES256-GCM";
    assert_eq!(key_file(both).unwrap(), Some(PathBuf::from("/k")));
    assert_eq!(key_file("--enableEncryption=false").unwrap(), None);
    assert!(key_file("--enableEncryption").unwrap_err().contains("--encryptionKeyFile"));
    assert!(key_file("--encryptionKeyFile /k").unwrap_err().contains("--enableEncryption"));
    assert!(refusal("--encryptionCipherMode AES256-CBC").contains("encryptionCipherMode"));
    let text = "security:\n  enableEncryption: true\n  encryptionKeyFile: /k\n";
    assert_eq!(configuration_file::arguments(text).unwrap(), ["--enableEncryption", "--encryptionKeyFile=/k"]);
    let vault = "security:\n  vault:\n    serverName: v\n";
    assert!(configuration_file::arguments(vault).unwrap_err().contains("--encryption-key-command"));
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    for option in [
        "--ldapServers x",
        "--keyFile=/k",
        "--shardsvr",
        "--tlsFIPSMode",
        "--sslMode x",
        "--directoryperdb",
        "--profile 1",
    ] {
        let name = option.split(['=', ' ']).next().unwrap();
        let refusal = refusal(option);
        assert!(refusal.contains(name) && refusal.contains("not implemented"), "{refusal}");
    }
    for option in ["--storageEngine mmapv1", "--tlsMode requireSSL", "--noSuchOption"] {
        let name = option.split(' ').next().unwrap();
        assert!(refusal(option).contains(name), "{option}");
    }
    assert_eq!(
        settings(&options("--auth --setParameter enableLocalhostAuthBypass=0"), PathBuf::new())
            .unwrap()
            .localhost_exception,
        Some(false)
    );
    assert!(log_destination(&options("--logappend")).is_err());
    assert!(parameters(&options("--setParameter x")).is_err());
    assert!(settings(&options("--wiredTigerCacheSizeGB 0"), PathBuf::new()).is_err());
    assert!(settings(&options("--setParameter maxAcceptableLogicalClockDriftSecs=0"), PathBuf::new()).is_err());
    assert_eq!(settings(&options("--bind_ip_all"), PathBuf::new()).unwrap().insecure_no_authentication, None);
}

#[test]
fn a_configuration_file_is_read_as_options() {
    let text = "# mongod.conf\nstorage:\n  dbPath: /var/lib/mongodb\n  journal:\n    enabled: true\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 1.5\n\
                systemLog:\n  destination: file\n  logAppend: true\n  path: /var/log/mongod.log\n  verbosity: 2\n\
                net:\n  port: 27018\n  bindIp: 127.0.0.1,::1\nprocessManagement:\n  timeZoneInfo: /usr/share/zoneinfo\n\
                security:\n#replication:\nsetParameter:\n  enableTestCommands: true\n";
    let arguments = configuration_file::arguments(text).unwrap();
    let mut arguments: Vec<_> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
    arguments.sort_unstable();
    let expected = [
        "--bind_ip=127.0.0.1,::1",
        "--dbpath=/var/lib/mongodb",
        "--logappend",
        "--logpath=/var/log/mongod.log",
        "--port=27018",
        "--setParameter=enableTestCommands=true",
        "--wiredTigerCacheSizeGB=1.5",
        "-vv",
    ];
    assert_eq!(arguments, expected);
    assert!(configuration_file::arguments("# nothing\n").unwrap().is_empty());
    assert_eq!(configuration_file::arguments("security:\n  authorization: disabled\n").unwrap(), ["--noauth"]);
    assert_eq!(configuration_file::arguments("security:\n  authorization: enabled\n").unwrap(), ["--auth"]);
    assert_eq!(settings(&options("--auth"), PathBuf::new()).unwrap().auth, Some(true));
    for (text, key) in [
        ("security:\n  authorization: perhaps\n", "security.authorization"),
        ("security:\n  keyFile: /k\n", "security.keyFile"),
        ("sharding:\n  clusterRole: shardsvr\n", "sharding.clusterRole"),
        ("storage:\n  journal:\n    enabled: false\n", "storage.journal.enabled"),
        ("net:\n  port: [1]\n", "net.port"),
        ("net:\n  ipv6: maybe\n", "net.ipv6"),
    ] {
        let refusal = configuration_file::arguments(text).unwrap_err();
        assert!(refusal.contains(key), "{refusal}");
    }
    assert!(configuration_file::arguments("net: [\n").is_err());
}
