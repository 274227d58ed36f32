//! The socket in the file system: who may use it, what becomes of its file, and what of one that was left.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use bson::rawdoc;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::test_service::eventually;

fn start(folder: &std::path::Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .env_clear()
        .args(["--listen", "127.0.0.1:0", "--memory", "256MiB", "--data"])
        .arg(folder.join("data"))
        .arg("--unix-socket")
        .arg(folder.join("plimsoll.sock"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn its_file_is_for_its_user_alone_comes_and_goes_and_one_that_was_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plimsoll.sock");
    // What a server leaves that is killed.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let mut process = start(folder.path());
    let mut stream = None;
    eventually("it listens", || {
        stream = UnixStream::connect(&path).ok();
        stream.is_some()
    });
    let found = std::fs::metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o700);
    let mut client = Client { stream: stream.unwrap() };
    let reply = client.run(&rawdoc! { "hello": 1, "$db": "admin" });
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0);
    let own = client.run(&rawdoc! { "whatsmyuri": 1, "$db": "admin" });
    assert_eq!(own.get_str("you").unwrap(), "anonymous unix socket");

    let another = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path().join("another"))
        .arg("--unix-socket")
        .arg(&path)
        .output()
        .unwrap();
    assert!(!another.status.success());
    assert!(String::from_utf8_lossy(&another.stderr).contains("plimsoll.sock"), "{another:?}");
    assert!(path.exists(), "the first server's is not touched");

    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert!(process.wait().unwrap().success());
    assert!(!path.exists(), "it goes with the server");
    std::fs::write(&path, "somebody's").unwrap();
    let refused = start(folder.path()).wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no socket"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
}
