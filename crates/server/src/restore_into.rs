//! `plimsoll restore --from URL --into URI --namespaces ...`: databases and collections of a backup into a running server, beside what it has.
//!
//! Called by `restore_command`. The whole is restored into a temporary directory and served from there, on a socket that only this user
//! can open; `plimsoll copy` carries over what is wanted, with its options and indexes, and compares both sides at the end.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use backup::RestoreOptions;
use clap::Args;
use platform::{Clock, SystemClock};
use server::configuration::{Settings, Size};

use crate::Running;
use crate::lab_command;
use crate::restore_command;
use server::data_disk::KeyArguments;

/// Memory of the server that serves what was restored, beside the one that it goes into.
const MEMORY: Size = Size::Bytes(256 << 20);
const LOOK: Duration = Duration::from_millis(20);
/// Documents that have expired are restored as they were; plans are nobody's business here.
const PARAMETERS: &[(&str, &str)] = &[("ttlMonitorEnabled", "false")];

/// What goes into which server.
#[derive(Args)]
pub(crate) struct IntoRunning {
    /// Connection string of a running server that takes the --namespaces, in place of --to. It goes on serving
    #[arg(long, value_name = "URI", conflicts_with = "to", requires = "namespaces")]
    into: Option<String>,
    /// With --into: DATABASE, DATABASE.COLLECTION or DATABASE.PREFIX*; may be repeated, or be a list with commas
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', requires = "into")]
    namespaces: Vec<String>,
    /// With --into: another name for the one namespace, as shop.orders_yesterday beside shop.orders
    #[arg(long = "as", value_name = "NAME", requires = "into")]
    renamed: Option<String>,
    /// With --into: drop collections of the same names first. Without it, one that has documents ends the restore before it begins
    #[arg(long, requires = "into")]
    drop: bool,
    /// With --into: a directory for the temporary one, with room for all that the backup has [default: the system's]
    #[arg(long, value_name = "DIR", requires = "into")]
    within: Option<PathBuf>,
}

impl IntoRunning {
    /// Whether a running server is named.
    pub(crate) fn is_wanted(&self) -> bool {
        self.into.is_some()
    }

    /// What `plimsoll copy` is told.
    fn words(&self, socket: &Path, state: &Path) -> Vec<OsString> {
        let source = format!("mongodb://{}/?directConnection=true", percent_encoded(socket));
        let target = self.into.clone().unwrap_or_default();
        let mut words: Vec<OsString> =
            vec![source.into(), target.into(), "--verify".into(), "--state".into(), state.into()];
        words.extend(["--namespaces".into(), self.namespaces.join(",").into()]);
        if let Some(name) = &self.renamed {
            words.extend(["--as".into(), name.into()]);
        }
        words.extend(self.drop.then(|| "--drop".into()));
        words
    }
}

/// A path as a host of a connection string.
fn percent_encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encoded = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_encoded_bytes().iter().map(encoded).collect()
}

/// Restores and copies; ends as `plimsoll copy` does.
pub(crate) fn run(wanted: &IntoRunning, key: &KeyArguments, options: &RestoreOptions) -> Result<ExitCode, String> {
    let program = lab_command::program("restore --into")?;
    let own = TemporaryDirectory::make(wanted.within.clone().unwrap_or_else(std::env::temp_dir))?;
    let data = own.path.join("data");
    let restored = restore_command::into(&data, key, options)?;
    print!("{}", restore_command::described(&restored, &data));
    // The driver knows a socket by the end of its name.
    let socket = own.path.join("server.sock");
    let copy = || {
        let words = wanted.words(&socket, &own.path.join("copy.state"));
        run_copy(&program, &words)
    };
    served(settings(&data, &socket, key), &socket, copy)?
}

/// Of the server that serves what was restored. Nothing is taken from the environment: that is about another server.
fn settings(data: &Path, socket: &Path, key: &KeyArguments) -> Settings {
    let mut settings = Settings {
        data: Some(data.to_owned()),
        listen: Some(Vec::new()),
        unix_socket: Some(socket.to_owned()),
        memory: Some(MEMORY),
        no_flight_recorder: Some(true),
        log_level: Some("error".to_owned()),
        ..Settings::default()
    };
    key.give_to(&mut settings);
    settings
}

/// Does something while a server of this process serves.
fn served<T>(settings: Settings, socket: &Path, act: impl FnOnce() -> T) -> Result<T, String> {
    let (sender, handles) = channel();
    let parameters = PARAMETERS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let serving = platform::spawn_named("restored", move || {
        let running = Running { parameters, handle: Some(sender), ..Running::default() };
        crate::serve(settings, &running)
    });
    let serving = serving.map_err(|error| format!("cannot start a thread: {error}"))?;
    let ended = |serving: std::thread::JoinHandle<Result<(), String>>| {
        serving.join().unwrap_or_else(|_| Err("the server of what was restored has died".to_owned()))
    };
    let Ok(handle) = handles.recv() else {
        return ended(serving).and(Err("the server of what was restored has ended".to_owned()));
    };
    let clock = SystemClock::new();
    while UnixStream::connect(socket).is_err() {
        if serving.is_finished() {
            return ended(serving).and(Err("the server of what was restored has ended".to_owned()));
        }
        clock.sleep(LOOK);
    }
    let done = act();
    handle.request_stop();
    ended(serving).map(|()| done)
}

#[allow(clippy::disallowed_methods, reason = "starts a program, of which the simulator knows nothing")]
fn run_copy(program: &Path, words: &[OsString]) -> Result<ExitCode, String> {
    let copied = Command::new(program).arg("copy").args(words).stdin(Stdio::null()).status();
    let status = copied.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Removed at the end, whatever it is.
struct TemporaryDirectory {
    path: PathBuf,
}

impl TemporaryDirectory {
    fn make(within: PathBuf) -> Result<TemporaryDirectory, String> {
        let path = within.join(format!("plimsoll-restore-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error: io::Error| format!("cannot make {}: {error}", path.display()))?;
        Ok(TemporaryDirectory { path })
    }
}

impl Drop for TemporaryDirectory {
    #[allow(clippy::disallowed_methods, reason = "a temporary directory of our own")]
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("plimsoll: cannot remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_host() {
        assert_eq!(percent_encoded(Path::new("a b/x.sock")), "a%20b%2Fx.sock");
    }
}
