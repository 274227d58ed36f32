//! The built binary: its command line, its log, its stop on a signal.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use bson::rawdoc;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;

struct Server {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
    data: tempfile::TempDir,
}

fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.env_clear();
    command
}

/// Starts the binary and reads its log until it listens.
fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Server {
    let data = tempfile::tempdir().unwrap();
    let mut process = plimsoll()
        .args(arguments)
        .args(["--listen", "127.0.0.1:0", "--memory", "256MiB", "--data"])
        .arg(data.path())
        .envs(environment.iter().copied())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Waiting for connections") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "ended: {:?}", process.wait());
    }
    let start = line.find("127.0.0.1:").unwrap();
    let address: String = line[start..].chars().take_while(|c| c.is_ascii_digit() || ['.', ':'].contains(c)).collect();
    Server { process, log, address, data }
}

impl Server {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// The rest of the log, once the process has ended.
    fn finish(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        let status = self.process.wait().unwrap();
        drop(self.data);
        (status.code(), rest)
    }
}

fn refused(arguments: &[&str]) -> String {
    let output = plimsoll().args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn it_serves_without_a_command_and_stops_on_a_signal() {
    for (arguments, signal) in [(&[][..], Signal::TERM), (&["serve"][..], Signal::INT)] {
        let server = start(arguments, &[]);
        let mut client = Client::connect(server.address.parse().unwrap());
        assert!(client.run(&rawdoc! { "ping": 1, "$db": "admin" }).get_f64("ok").is_ok());
        server.signal(signal);
        assert!(client.is_closed());
        let (code, log) = server.finish();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("the server is stopping") && log.contains("stopped"), "{log}");
    }
}

#[test]
fn environment_and_flags_are_heeded() {
    let server =
        start(&["--log-format", "json"], &[("PLIMSOLL_LOG_FORMAT", "text"), ("PLIMSOLL_MAX_CONNECTIONS", "1")]);
    let address = server.address.parse().unwrap();
    let mut client = Client::connect(address);
    client.run(&rawdoc! { "ping": 1, "$db": "admin" });
    assert!(Client::connect(address).is_closed());
    server.signal(Signal::TERM);
    let (_, log) = server.finish();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["t"]["$date"].is_string() && line["msg"].is_string(), "{line}");
    }
    assert!(log.contains("too many open connections"), "{log}");
}

#[test]
fn malformed_frames_are_logged_with_address_and_reason() {
    let server = start(&[], &[]);
    let mut client = Client::connect(server.address.parse().unwrap());
    let remote = client.stream.local_addr().unwrap().to_string();
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    assert!(client.is_closed());
    server.signal(Signal::TERM);
    let (_, log) = server.finish();
    let line = log.lines().find(|line| line.contains("malformed")).unwrap();
    assert!(line.contains(&remote) && line.contains("exceeds the maximum"), "{line}");
}

#[test]
fn what_it_cannot_do_it_says() {
    let server = start(&[], &[]);
    let in_use = refused(&["--listen", &server.address]);
    assert!(in_use.contains(&format!("address in use: another server runs on {}", server.address)), "{in_use}");
    server.signal(Signal::TERM);
    server.finish();
    assert!(refused(&["--no-such-flag"]).contains("--no-such-flag"));
    assert!(refused(&["no-such-command"]).contains("no-such-command"));
    assert!(refused(&["--memory", "lots"]).contains("'lots' is no size"));
    assert!(refused(&["--config", "/nowhere/at/all"]).contains("/nowhere/at/all"));
    assert!(refused(&["--listen", ":1"]).contains("':1' is not HOST:PORT"));
}

#[test]
fn help_names_every_setting() {
    let output = plimsoll().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for name in ["DATA", "LISTEN", "MEMORY", "CACHE", "LOG_FORMAT", "LOG_LEVEL", "CONFIG", "MAX_CONNECTIONS"] {
        assert!(help.contains(&format!("PLIMSOLL_{name}")), "{help}");
    }
    let output = plimsoll().arg("--help").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("serve"));
}

#[test]
fn what_the_lab_does_is_handed_to_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("plimsoll");
    std::fs::copy(env!("CARGO_BIN_EXE_plimsoll"), &program).unwrap();
    let run = |words: &[&str]| Command::new(&program).args(words).output().unwrap();
    let missing = run(&["bench", "ycsb-a"]);
    let said = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(said.contains("plimsoll-lab, which is not beside this one") && said.contains("build"), "{said}");
    let lab = folder.path().join("plimsoll-lab");
    std::fs::write(&lab, "#!/bin/sh\necho \"$@\"\nexit 3\n").unwrap();
    std::fs::set_permissions(&lab, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for words in [
        &["bench", "ycsb-a", "--help"][..],
        &["profile", "--read", "a.svg"],
        &["compare", "a", "b"],
        &["history", "-h"],
        &["layout", "--target", "x"],
        &["certify"],
    ] {
        let done = run(words);
        assert_eq!(done.status.code(), Some(3), "{words:?}");
        assert_eq!(String::from_utf8(done.stdout).unwrap().trim_end(), words.join(" "));
    }
    assert_eq!(run(&["help", "certify"]).stdout, b"certify --help\n");
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    for command in ["bench", "profile", "compare", "history", "layout", "certify"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{help}");
    }
}
