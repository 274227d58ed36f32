//! Starts a server program on this machine for one run: a free port, a data directory of its own that is removed at the
//! end, and an orderly stop. Optionally under valgrind's callgrind, which counts instructions by function.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::LabError;
use crate::target::Target;

/// How a program is started when nothing else is said: our own server's way.
pub(crate) const DEFAULT_COMMAND: &str = "{binary} serve --data {data} --listen 127.0.0.1:{port}";
const EPHEMERAL_COMMAND: &str = "{binary} serve --ephemeral --listen 127.0.0.1:{port}";
/// A program under callgrind is some fifty times slower.
const START_PATIENCE: Duration = Duration::from_secs(120);
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// The program of our own server, which lies beside the lab's.
pub(crate) fn own_server() -> Result<PathBuf, LabError> {
    let missing = |reason: String| LabError::Program { program: "plimsoll".to_owned(), reason };
    let own = std::env::current_exe().map_err(|error| missing(format!("cannot be looked for: {error}")))?;
    let server = own.with_file_name("plimsoll");
    if server.exists() {
        return Ok(server);
    }
    let folder = own.parent().unwrap_or(&own).display();
    Err(missing(format!(
        "is not in {folder}: build it with `cargo build --release -p server`, or name a program or a running server"
    )))
}

/// A running server.
pub(crate) struct LaunchedServer {
    child: Child,
    pub(crate) uri: String,
    data: PathBuf,
    callgrind: Option<PathBuf>,
    binary: String,
    /// Its command line.
    words: Vec<String>,
    log: PathBuf,
}

/// How a server is stopped before it is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Orderly,
    /// `kill -9`.
    Kill,
    /// In order, and its data are removed.
    ForGood,
}

impl LaunchedServer {
    /// Starts `binary` as `command` says, with data and log in `scratch`, and waits until it answers.
    pub(crate) async fn start(binary: &Path, command: &str, scratch: &Path, count: bool) -> Result<Self, LabError> {
        let name = binary.display().to_string();
        let failed = |reason: String| LabError::Program { program: name.clone(), reason };
        let port = free_port().map_err(|error| failed(format!("no port is free: {error}")))?;
        let data = scratch.join("data");
        let log = scratch.join("server.log");
        std::fs::create_dir_all(&data).map_err(LabError::output(&data))?;
        let callgrind = count.then(|| scratch.join("callgrind.out"));
        let mut words: Vec<String> = Vec::new();
        if let Some(file) = &callgrind {
            words.extend(["valgrind", "--tool=callgrind", "--quiet"].map(str::to_owned));
            words.push(format!("--callgrind-out-file={}", file.display()));
        }
        for word in command.split_whitespace() {
            let word = word.replace("{binary}", &name).replace("{data}", &data.display().to_string());
            words.push(word.replace("{port}", &port.to_string()));
        }
        let child = spawn(&words, &log, &name)?;
        let uri = format!("mongodb://127.0.0.1:{port}");
        let mut launched = Self { child, uri, data, callgrind, binary: name, words, log };
        launched.wait_until_it_answers().await?;
        Ok(launched)
    }

    /// Stops it, starts it again at the same port, on the same data if they are there, and gives the time from its start to its first answer.
    pub(crate) async fn restart(&mut self, stop: Stop) -> Result<Duration, LabError> {
        match stop {
            Stop::Orderly => self.end(),
            Stop::Kill => self.kill(),
            Stop::ForGood => {
                self.end();
                let renewed = std::fs::remove_dir_all(&self.data).and_then(|()| std::fs::create_dir_all(&self.data));
                renewed.map_err(LabError::output(&self.data))?;
            }
        }
        let started = Instant::now();
        self.child = spawn(&self.words, &self.log, &self.binary)?;
        self.wait_until_it_answers().await?;
        Ok(started.elapsed())
    }

    /// `kill -9`. It can be started again with `restart`.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn program(&self) -> &str {
        &self.binary
    }

    /// Of the server; under valgrind that is the same process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), LabError> {
        let until = Instant::now() + START_PATIENCE;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                let reason =
                    format!("ended at once ({status}): {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "));
                return Err(LabError::Program { program: self.binary.clone(), reason });
            }
            match Target::connect_to(&self.uri, Some(self.child.id()), 1).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Stops it in order and gives callgrind's file, when it ran under it.
    pub(crate) fn stop(mut self) -> Result<Option<PathBuf>, LabError> {
        self.end();
        Ok(self.callgrind.clone())
    }

    fn end(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + STOP_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for LaunchedServer {
    fn drop(&mut self) {
        self.end();
        // Data of a measurement that is over; what cannot be removed is in the result directory for all to see.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// An empty Plimsoll whose data is in memory; it is gone when this is.
pub struct EphemeralServer(LaunchedServer);

impl EphemeralServer {
    /// Starts the one beside this program.
    ///
    /// # Errors
    /// There is none, or it does not start.
    pub async fn start() -> Result<Self, LabError> {
        let scratch = std::env::temp_dir().join(format!("plimsoll-ephemeral-{}", std::process::id()));
        LaunchedServer::start(&own_server()?, EPHEMERAL_COMMAND, &scratch, false).await.map(Self)
    }

    /// Its connection string.
    pub fn uri(&self) -> &str {
        &self.0.uri
    }
}

impl Drop for EphemeralServer {
    fn drop(&mut self) {
        if let Some(scratch) = self.0.data.parent() {
            // It has nothing in it but the log.
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

/// Starts the program; its lines are added to the log.
fn spawn(words: &[String], log: &Path, name: &str) -> Result<Child, LabError> {
    let failed = |reason: String| LabError::Program { program: name.to_owned(), reason };
    let Some((program, arguments)) = words.split_first() else { return Err(failed("an empty command".to_owned())) };
    let output = File::options().create(true).append(true).open(log).map_err(LabError::output(log))?;
    let errors = output.try_clone().map_err(LabError::output(log))?;
    let mut server = Command::new(program);
    server.args(arguments).stdin(Stdio::null()).stdout(output).stderr(errors);
    server.spawn().map_err(|error| failed(format!("cannot be run: {error}")))
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
