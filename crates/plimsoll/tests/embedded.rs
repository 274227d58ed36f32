#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
//! Databases inside this program: over their addresses by the Rust driver, by direct calls, closed, dropped, killed, several at once.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use plimsoll::bson::{RawDocumentBuf, rawdoc};
use plimsoll::{CommandError, Connection, OpenError, Options};

/// Of the program that is killed: the directory.
const KILLED_IN: &str = "PLIMSOLL_TEST_KILLED_IN";

fn small(options: Options) -> Options {
    options.memory_bytes(128 << 20)
}

fn insert(connection: &mut Connection, id: i32) -> Result<RawDocumentBuf, CommandError> {
    connection.run("shop", &rawdoc! { "insert": "orders", "documents": [{ "_id": id }], "writeConcern": { "j": true } })
}

fn count(connection: &mut Connection) -> i32 {
    connection.run("shop", &rawdoc! { "count": "orders" }).unwrap().get_i32("n").unwrap()
}

/// Runs what a driver does.
fn with_driver<T>(address: &str, act: impl AsyncFnOnce(Client) -> mongodb::error::Result<T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { act(Client::with_uri_str(address).await?).await }).unwrap()
}

async fn insert_and_count(client: Client, id: i32) -> mongodb::error::Result<u64> {
    let orders = client.database("shop").collection::<Document>("orders");
    orders.insert_one(doc! { "_id": id }).await?;
    orders.count_documents(doc! {}).await
}

#[test]
fn a_driver_and_direct_calls_see_the_same() {
    let database = small(Options::in_memory()).open().unwrap();
    let mut connection = database.connect().unwrap();
    assert_eq!(insert(&mut connection, 1).unwrap().get_i32("n").unwrap(), 1);
    let seen = with_driver(database.address().unwrap(), async |client| insert_and_count(client, 2).await);
    assert_eq!((seen, count(&mut connection)), (2, 2));
    // Errors of single documents are in the reply, those of commands are errors.
    let twice = insert(&mut connection, 1).unwrap();
    let first = twice.get_array("writeErrors").unwrap().get_document(0).unwrap();
    assert_eq!(first.get_i32("code").unwrap(), 11000);
    let unknown = connection.run("shop", &rawdoc! { "noSuchCommand": 1 });
    let Err(CommandError::Failed { code: 59, name, message, .. }) = unknown else { panic!("{unknown:?}") };
    assert_eq!(name, "CommandNotFound");
    assert!(message.contains("noSuchCommand"), "{message}");
    let garbage = connection.run("shop", &RawDocumentBuf::new());
    assert!(garbage.is_err(), "{garbage:?}");
    database.close().unwrap();
}

#[test]
fn a_socket_in_the_file_system_is_an_address_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.sock");
    let database = small(Options::in_memory()).unix_socket(&path).open().unwrap();
    let address = database.address().unwrap();
    assert!(address.contains("own.sock") && !address.contains("127.0.0.1"), "{address}");
    assert_eq!(with_driver(address, async |client| insert_and_count(client, 1).await), 1);
    database.close().unwrap();
    assert!(!path.exists());
}

#[test]
fn transactions_run_in_a_replica_set_of_one() {
    let database = small(Options::in_memory()).replica_set("own").open().unwrap();
    let seen = with_driver(database.address().unwrap(), async |client| {
        let orders = client.database("shop").collection::<Document>("orders");
        let mut session = client.start_session().await?;
        session.start_transaction().await?;
        orders.insert_one(doc! { "_id": 1 }).session(&mut session).await?;
        let outside = orders.count_documents(doc! {}).await?;
        session.commit_transaction().await?;
        Ok((outside, orders.count_documents(doc! {}).await?))
    });
    assert_eq!(seen, (0, 1));
}

#[test]
fn two_at_once_know_nothing_of_each_other_and_one_directory_has_one() {
    let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |directory: &Path| small(Options::new(directory)).open();
    let (first, second) = (open(left.path()).unwrap(), open(right.path()).unwrap());
    assert_ne!(first.address(), second.address());
    let mut connections = [first.connect().unwrap(), second.connect().unwrap()];
    insert(&mut connections[0], 1).unwrap();
    insert(&mut connections[0], 2).unwrap();
    insert(&mut connections[1], 1).unwrap();
    assert_eq!(connections.each_mut().map(count), [2, 1]);
    let refused = open(left.path()).err();
    let Some(OpenError::InUse { directory, process }) = refused else { panic!("{refused:?}") };
    assert_eq!((directory.as_path(), process), (left.path(), std::process::id().to_string()));
    first.close().unwrap();
    // What was closed lets go of its directory, though connections of it are still there; the other one goes on.
    let again = open(left.path()).unwrap();
    assert_eq!(count(&mut again.connect().unwrap()), 2);
    assert!(matches!(insert(&mut connections[0], 3), Err(CommandError::Closed)));
    insert(&mut connections[1], 2).unwrap();
}

#[test]
fn dropped_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let database = small(Options::new(directory.path())).open().unwrap();
    let address = database.address().unwrap().to_owned();
    let host = address.trim_start_matches("mongodb://").split('/').next().unwrap().to_owned();
    TcpStream::connect(&host).unwrap();
    let mut connection = database.connect().unwrap();
    insert(&mut connection, 1).unwrap();
    drop(database);
    assert!(TcpStream::connect(&host).is_err());
    assert!(matches!(insert(&mut connection, 2), Err(CommandError::Closed)));
    let database = small(Options::new(directory.path())).without_address().open().unwrap();
    assert_eq!(database.address(), None);
    assert_eq!(count(&mut database.connect().unwrap()), 1);
}

#[test]
fn closing_ends_what_waits() {
    for options in [Options::in_memory().without_address(), Options::in_memory()] {
        let database = small(options).open().unwrap();
        let mut connection = database.connect().unwrap();
        connection.run("shop", &rawdoc! { "create": "queue", "capped": true, "size": 4096 }).unwrap();
        connection.run("shop", &rawdoc! { "insert": "queue", "documents": [{ "_id": 1 }] }).unwrap();
        let tail = rawdoc! { "find": "queue", "tailable": true, "awaitData": true };
        let found = connection.run("shop", &tail).unwrap();
        let cursor = found.get_document("cursor").unwrap().get_i64("id").unwrap();
        let waiting = std::thread::spawn(move || {
            let more = rawdoc! { "getMore": cursor, "collection": "queue", "maxTimeMS": 60_000 };
            connection.run("shop", &more)
        });
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished());
        let began = Instant::now();
        database.close().unwrap();
        let ended = waiting.join().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(matches!(ended, Err(CommandError::Failed { .. }) | Ok(_)), "{ended:?}");
    }
}

#[test]
fn a_client_may_shut_it_down() {
    let database = small(Options::in_memory()).open().unwrap();
    let mut connection = database.connect().unwrap();
    connection.run("admin", &rawdoc! { "shutdown": 1 }).ok();
    let began = Instant::now();
    while !matches!(connection.run("admin", &rawdoc! { "ping": 1 }), Err(CommandError::Closed)) {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    database.close().unwrap();
}

#[test]
fn what_is_the_programs_is_left_to_it() {
    let caught = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigCgt:")).unwrap().to_owned();
        let mask = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        // SIGHUP, SIGINT, SIGUSR1, SIGTERM.
        [1, 2, 10, 15].map(|signal| mask & (1 << (signal - 1)) != 0)
    };
    assert_eq!(caught(), [false; 4]);
    let database = small(Options::in_memory()).open().unwrap();
    assert_eq!(caught(), [false; 4]);
    let profile = database.connect().unwrap().run("admin", &rawdoc! { "plimsollProfile": 1, "seconds": 1 });
    assert!(matches!(profile, Err(CommandError::Failed { .. })), "{profile:?}");
}

#[test]
fn options_that_cannot_be_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Options::new(directory.path()).listen(taken.local_addr().unwrap().to_string()).open();
    assert!(matches!(address.err(), Some(OpenError::Address(_))));
    let little = Options::new(directory.path()).memory_bytes(1).open();
    assert!(matches!(little.err(), Some(OpenError::Option(_))));
    let remote = Options::new(directory.path()).listen("0.0.0.0:0").open();
    assert!(matches!(remote.err(), Some(OpenError::Failed(told)) if told.contains("log in")));
    // Nothing of that holds the directory.
    small(Options::new(directory.path())).open().unwrap();
}

/// Not a test of its own: what [`a_killed_program_loses_nothing_acknowledged`] kills.
#[test]
fn inserts_until_it_is_killed() {
    let Some(directory) = std::env::var_os(KILLED_IN) else { return };
    let database = small(Options::new(directory)).without_address().open().unwrap();
    let mut connection = database.connect().unwrap();
    for id in 0.. {
        insert(&mut connection, id).unwrap();
        println!("\nacknowledged {id}");
    }
}

#[test]
fn a_killed_program_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inserts_until_it_is_killed", "--nocapture"])
        .env(KILLED_IN, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = |line: String| line.strip_prefix("acknowledged ").and_then(|id| id.parse::<i32>().ok());
    let newest = lines.map_while(Result::ok).filter_map(acknowledged).find(|id| *id >= 200).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let database = small(Options::new(directory.path())).open().unwrap();
    let mut connection = database.connect().unwrap();
    let there = count(&mut connection);
    assert!(there > newest, "{there} documents, and {newest} was acknowledged");
    let checked = connection.run("shop", &rawdoc! { "validate": "orders", "full": true }).unwrap();
    assert!(checked.get_bool("valid").unwrap());
}
