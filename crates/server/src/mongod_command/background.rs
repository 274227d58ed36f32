//! The process as service managers and scripts handle it: in the background, with its number in a file, stopped by the data directory.

use std::ffi::OsString;
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use platform::{Clock, DirectoryLock, SystemClock};
use rustix::process::{Pid, Signal, kill_process, setsid, test_kill_process};

use super::PORT;
use super::options::Options;

/// How often something is looked at that is waited for.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Starts the same command line as a process of its own, and waits until that accepts connections.
#[allow(clippy::disallowed_methods, reason = "starts a process, of which the simulator knows nothing")]
pub(super) fn fork(arguments: &[OsString], options: &Options) -> Result<(), String> {
    if options.logpath.is_none() {
        return Err("--fork needs --logpath, as there is no standard output in the background".to_owned());
    }
    let program = std::env::current_exe().map_err(|error| format!("cannot find the program itself: {error}"))?;
    println!("about to fork child process, waiting until server is ready for connections.");
    let mut child = Command::new(program)
        .arg("mongod")
        .args(arguments)
        .arg("--forked")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start a process in the background: {error}"))?;
    println!("forked process: {}", child.id());
    wait_until_ready(&mut child, options)?;
    println!("child process started successfully, parent exiting");
    Ok(())
}

fn wait_until_ready(child: &mut Child, options: &Options) -> Result<(), String> {
    let clock = SystemClock::new();
    let address = options.addresses(PORT).into_iter().next().unwrap_or_default().replace("0.0.0.0", "127.0.0.1");
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the process in the background ended with {status}: its log tells why"));
        }
        let addresses = address.to_socket_addrs().into_iter().flatten();
        if addresses.into_iter().any(|address| TcpStream::connect(address).is_ok()) {
            return Ok(());
        }
        clock.sleep(LOOK_AGAIN_AFTER);
    }
}

/// In the process that was started: away from the terminal and its signals.
pub(super) fn detach() -> Result<(), String> {
    setsid().map(drop).map_err(|error| format!("cannot leave the terminal: {error}"))
}

/// Asks the server that uses a data directory to stop, and waits until it has.
pub(super) fn shut_down(data: &Path) -> Result<(), String> {
    let nobody = || format!("no server is using the data directory {}", data.display());
    let process = DirectoryLock::holder(data).ok_or_else(nobody)?;
    let pid = Pid::from_raw(process).ok_or_else(nobody)?;
    kill_process(pid, Signal::TERM).map_err(|error| format!("cannot stop process {process}: {error}"))?;
    println!("killing process with pid: {process}");
    let clock = SystemClock::new();
    while test_kill_process(pid).is_ok() && DirectoryLock::holder(data).is_some() {
        clock.sleep(LOOK_AGAIN_AFTER);
    }
    Ok(())
}

/// A file with the process's number, removed when dropped.
pub(super) struct PidFile(PathBuf);

impl PidFile {
    #[allow(clippy::disallowed_methods, reason = "for service managers; no part of the data")]
    pub(super) fn write(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot write the file {}: {error}", path.display());
        let mut file = std::fs::File::create(path).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    #[allow(clippy::disallowed_methods, reason = "for service managers; no part of the data")]
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}
