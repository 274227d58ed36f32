//! Configuration: precedence, defaults, refusals.

use std::io::Write;

use super::*;

const GIB: u64 = 1 << 30;

fn resolve(given: Settings) -> Result<Configuration, ConfigurationError> {
    Configuration::resolve(given, 8 * GIB)
}

fn refusal(given: Settings) -> String {
    resolve(given).unwrap_err().to_string()
}

fn file(text: &str) -> (tempfile::NamedTempFile, Settings) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let settings = Settings { config: Some(file.path().to_owned()), ..Settings::default() };
    (file, settings)
}

#[test]
fn defaults() {
    let configuration = resolve(Settings::default()).unwrap();
    assert_eq!(configuration.data, PathBuf::from("data"));
    assert_eq!(configuration.listen, ["127.0.0.1:27017"]);
    assert_eq!(configuration.memory_bytes, 4 * GIB);
    assert_eq!(configuration.cache_bytes, 4 * GIB * 60 / 100);
    assert_eq!(configuration.compressors, [Compressor::Snappy, Compressor::Zstd, Compressor::Zlib]);
}

#[test]
fn what_is_given_wins_over_the_file() {
    let text = "data = \"/from/file\"\nlisten = [\"h1\", \"h2:1\"]\nmemory = \"25%\"\ncache = 1073741824\nlog-format = \"json\"\n";
    let (_file, mut settings) = file(text);
    settings.data = Some("/given".into());
    let configuration = resolve(settings).unwrap();
    assert_eq!(configuration.data, PathBuf::from("/given"));
    assert_eq!(configuration.listen, ["h1:27017", "h2:1"]);
    assert_eq!(configuration.memory_bytes, 2 * GIB);
    assert_eq!(configuration.cache_bytes, GIB);
    assert_eq!(configuration.log_format, LogFormat::Json);
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let (_file, settings) = file("data = \"x\"\ncahce = \"1GiB\"\n");
    let message = refusal(settings);
    assert!(message.contains("cahce") && message.contains("cache") && message.contains("line 2"), "{message}");
    let (_file, settings) = file("config = \"x\"\n");
    assert!(refusal(settings).contains("config"));
    let (_file, settings) = file("memory = \"lots\"\n");
    assert!(refusal(settings).contains("lots"));
    let absent = Settings { config: Some("/nowhere/at/all".into()), ..Settings::default() };
    assert!(refusal(absent).contains("/nowhere/at/all"));
}

#[test]
fn a_small_budget_has_more_for_commands() {
    let cache = |memory: &str| {
        let settings = Settings { memory: Some(memory.parse().unwrap()), ..Settings::default() };
        Configuration::resolve(settings, 8 * GIB).unwrap().cache_bytes >> 20
    };
    assert_eq!([cache("64MiB"), cache("256MiB"), cache("320MiB"), cache("1000MiB")], [16, 96, 160, 600]);
}

#[test]
fn memory_and_cache_must_fit() {
    let sizes = |memory: Option<&str>, cache: Option<&str>| Settings {
        memory: memory.map(|size| size.parse().unwrap()),
        cache: cache.map(|size| size.parse().unwrap()),
        ..Settings::default()
    };
    let configuration = resolve(sizes(None, Some("5GiB"))).unwrap();
    assert_eq!((configuration.memory_bytes, configuration.cache_bytes), (5 * GIB * 125 / 100, 5 * GIB));
    let configuration = resolve(sizes(Some("1GiB"), Some("50%"))).unwrap();
    assert_eq!(configuration.cache_bytes, GIB / 2);
    assert!(refusal(sizes(Some("1GiB"), Some("1GiB"))).starts_with("cache:"));
    assert!(refusal(sizes(Some("9GiB"), None)).starts_with("memory:"));
    assert!(refusal(sizes(Some("1MiB"), None)).starts_with("memory:"));
    assert!(refusal(sizes(Some("1GiB"), Some("1MiB"))).starts_with("cache:"));
}

#[test]
fn the_history_has_a_size_of_its_own() {
    let history = |size: &str| Settings { history: Some(size.parse().unwrap()), ..Settings::default() };
    assert_eq!(resolve(Settings::default()).unwrap().history_bytes, 16 * GIB);
    assert_eq!(resolve(history("1GiB")).unwrap().history_bytes, GIB);
    assert!(refusal(history("1MiB")).starts_with("history:"));
    assert!(refusal(history("10%")).starts_with("history:"));
}

#[test]
fn addresses_of_http_are_of_this_machine_unless_they_say_otherwise() {
    for (text, address) in
        [("8080", "127.0.0.1:8080"), (":8080", "127.0.0.1:8080"), ("db:1", "db:1"), ("[::1]:1", "[::1]:1")]
    {
        assert_eq!(http_address("console", text).unwrap(), address);
    }
    let refused = resolve(Settings { console: Some("db".to_owned()), ..Settings::default() }).unwrap_err().to_string();
    assert!(refused.contains("console: 'db' is not HOST:PORT"), "{refused}");
}

#[test]
fn addresses() {
    for (text, address) in
        [("localhost", "localhost:27017"), ("0.0.0.0:1", "0.0.0.0:1"), ("[::1]:5", "[::1]:5"), ("[::1]", "[::1]:27017")]
    {
        assert_eq!(listen_address(text).unwrap(), address);
    }
    for text in ["", ":27017", "::1", "host:", "host:99999", "host:x"] {
        assert!(listen_address(text).is_err(), "{text}");
    }
}

#[test]
fn other_bad_values() {
    let with_compressors = |names: &[&str]| Settings {
        compressors: Some(names.iter().map(ToString::to_string).collect()),
        ..Settings::default()
    };
    assert!(refusal(with_compressors(&["lz4"])).contains("lz4"));
    assert!(resolve(with_compressors(&["disabled"])).unwrap().compressors.is_empty());
    assert_eq!(resolve(with_compressors(&["zlib"])).unwrap().compressors, [Compressor::Zlib]);
    assert!(refusal(Settings { max_connections: Some(0), ..Settings::default() }).contains("max-connections"));
    assert!(refusal(Settings { log_level: Some("a=loud".into()), ..Settings::default() }).contains("loud"));
}

#[test]
fn a_replica_set_has_a_name_and_what_belongs_to_it() {
    let named = || Settings { replica_set: Some("rs0".to_owned()), ..Settings::default() };
    let set = resolve(named()).unwrap().replica_set.unwrap();
    assert_eq!((set.name.as_str(), set.initiation), ("rs0", ReplicaSetInitiation::Automatic));
    assert_eq!(set.advertised, None);
    for (given, told) in [("db1", "db1:27017"), ("db1:5", "db1:5"), ("[::1]", "[::1]:27017")] {
        let settings = Settings { advertise: Some(given.to_owned()), ..named() };
        assert_eq!(resolve(settings).unwrap().replica_set.unwrap().advertised.as_deref(), Some(told));
    }
    for wrong in ["", "db1:", "db1:0", ":5", "::1"] {
        let settings = Settings { advertise: Some(wrong.to_owned()), ..named() };
        assert!(refusal(settings).starts_with("advertise"), "{wrong}");
    }
    assert_eq!(resolve(Settings::default()).unwrap().replica_set, None);
    let without = Settings { advertise: Some("db1".to_owned()), ..Settings::default() };
    assert!(refusal(without).contains("--replica-set"));
    assert!(
        refusal(Settings { replica_set: Some("a b".to_owned()), ..Settings::default() }).starts_with("replica-set")
    );
    let logged = |url: &str| Settings { log: Some(url.to_owned()), ..named() };
    let tagged =
        |tags: &[&str]| Settings { tags: Some(tags.iter().map(ToString::to_string).collect()), ..logged("dir:///a/b") };
    let tags = resolve(tagged(&["dc=east", "disk=a=b"])).unwrap().replica_set.unwrap().tags;
    assert_eq!(tags, [("dc", "east"), ("disk", "a=b")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    for wrong in [&["dc"][..], &["=east"], &["dc="], &["dc=east", "dc=west"]] {
        assert!(refusal(tagged(wrong)).starts_with("tags"), "{wrong:?}");
    }
    assert!(refusal(Settings { log: None, ..tagged(&["dc=east"]) }).contains("--log"));
    assert_eq!(
        resolve(logged("dir:///a/b")).unwrap().replica_set.unwrap().log,
        Some(LogPlace::Directory("/a/b".into()))
    );
    for wrong in ["/a/b", "dir://a/b", ""] {
        assert!(refusal(logged(wrong)).contains("dir:///"), "{wrong}");
    }
    let in_objects = |url: &str| resolve(logged(url)).unwrap().replica_set.unwrap().log.unwrap();
    assert!(matches!(in_objects("s3://bucket/rs0"), LogPlace::Objects { copies: None, .. }));
    let with_copies = in_objects("gs://bucket/rs0?copies=/beside");
    assert_eq!(with_copies.shared_directory(), Some(std::path::Path::new("/beside")));
    for wrong in ["s3://", "s3://bucket?copies=beside", "az://bucket?acks=1"] {
        assert!(refusal(logged(wrong)).starts_with("log"), "{wrong}");
    }
    assert!(refusal(logged("kafka://a/rs0?acks=1")).contains("'acks'"));
    let in_kafka = resolve(logged("kafka://a/rs0"));
    match cfg!(feature = "kafka") {
        true => assert!(matches!(in_kafka.unwrap().replica_set.unwrap().log, Some(LogPlace::Kafka(_)))),
        false => assert!(in_kafka.unwrap_err().to_string().contains("--features kafka")),
    }
    assert!(refusal(Settings { ephemeral: Some(true), ..logged("dir:///a") }).starts_with("log"));
    let kept = |window: &str| Settings { log_window: Some(window.to_owned()), ..logged("dir:///a") };
    assert_eq!(resolve(kept("off")).unwrap().replica_set.unwrap().log_window, LogWindow::Off);
    assert_eq!(resolve(logged("dir:///a")).unwrap().replica_set.unwrap().log_window, LogWindow::default());
    assert!(refusal(kept("soon")).contains("'soon'"));
    assert!(refusal(Settings { log: None, ..kept("1h") }).contains("--log"));
    for place in ["dir:///a", "s3://bucket/rs0"] {
        let encrypted = Settings { encryption_key_file: Some("key".into()), ..logged(place) };
        assert!(resolve(encrypted).unwrap().encryption_key.is_some());
    }
    assert!(refusal(Settings { log: Some("dir:///a".to_owned()), ..Settings::default() }).contains("--replica-set"));
    let (_file, from_file) = file("replica-set = \"rs1\"\nreplica-set-initiation = \"on-command\"\n");
    assert_eq!(resolve(from_file).unwrap().replica_set.unwrap().initiation, ReplicaSetInitiation::OnCommand);
}
