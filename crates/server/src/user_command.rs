//! `plimsoll user add`: makes a user without a login, for who has lost the last password or has none yet.
//!
//! ```text
//! plimsoll user add ─ DATA/user-to-add (credentials, no password) ─▶ a server, at its start or within a second
//!                   ◀─ DATA/user-to-add.answer ──────────────────────┘
//! ```
//!
//! Called by `main`; the running server looks for the request now and then (`left_user` of the library).

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use platform::{Clock, DirectoryLock, SystemClock, SystemRandom};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use server::left_user::{ANSWER, REQUEST, TAKEN_IN};

/// How long a running server is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What is done about users.
#[derive(Debug, Args)]
pub(crate) struct UserArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a user, or give one who is there another password and one more role. Works while the server runs, and while it is stopped: then the user is
    /// there when it starts
    Add(AddArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// The user's name
    name: String,
    /// A role, as root or readWrite
    #[arg(long)]
    role: String,
    /// The database that the user logs in to (`authSource`), and whose role it is
    #[arg(long, default_value = "admin")]
    database: String,
    /// Directory that holds the data
    #[arg(long, env = "PLIMSOLL_DATA", value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Read the password from the first line of this file. Without it: from the environment, PLIMSOLL_USER_PASSWORD, or from the terminal
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &UserArguments) -> Result<(), String> {
    let Action::Add(arguments) = &arguments.action;
    let password = password(arguments)?;
    let AddArguments { name, role, database, data, .. } = arguments;
    let document = commands::user_document(name, database, &password, role, &SystemRandom)
        .map_err(|error| format!("cannot make the user: {}", error.message))?;
    leave_request(data, document.as_bytes())?;
    let clock = SystemClock::new();
    let started = clock.monotonic();
    while DirectoryLock::holder(data).is_some() {
        if let Some(answer) = take_answer(data) {
            return told(name, database, &answer);
        }
        if clock.monotonic().saturating_sub(started) > PATIENCE {
            return Err("the server does not answer; the user is there once it does".to_owned());
        }
        clock.sleep(LOOK_AGAIN_AFTER);
    }
    match take_answer(data) {
        Some(answer) => told(name, database, &answer),
        None => {
            println!("no server uses {}: the user {name} will be there when it starts", data.display());
            Ok(())
        }
    }
}

fn told(name: &str, database: &str, answer: &str) -> Result<(), String> {
    if answer == TAKEN_IN {
        println!("the user {name} of {database} can log in");
        return Ok(());
    }
    Err(format!("the server refuses the user: {answer}"))
}

#[allow(clippy::disallowed_methods, reason = "a request beside the data, which no simulation has")]
fn leave_request(data: &Path, document: &[u8]) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot leave the user in {}: {error}", data.display());
    let (request, partial) = (data.join(REQUEST), data.join(format!("{REQUEST}.partial")));
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&partial).map_err(failed)?;
    file.write_all(document).and_then(|()| file.sync_all()).map_err(failed)?;
    // An answer that nobody has fetched is of another request.
    let _ = std::fs::remove_file(data.join(ANSWER));
    std::fs::rename(&partial, &request).map_err(failed)
}

#[allow(clippy::disallowed_methods, reason = "an answer beside the data, which no simulation has")]
fn take_answer(data: &Path) -> Option<String> {
    let path = data.join(ANSWER);
    let answer = std::fs::read_to_string(&path).ok()?;
    let _ = std::fs::remove_file(path);
    Some(answer)
}

#[allow(clippy::disallowed_methods, reason = "read once, by a command of its own")]
fn password(arguments: &AddArguments) -> Result<String, String> {
    if let Some(path) = &arguments.password_file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the password file {}: {error}", path.display()))?;
        return Ok(text.lines().next().unwrap_or_default().to_owned());
    }
    if let Ok(password) = std::env::var("PLIMSOLL_USER_PASSWORD") {
        return Ok(password);
    }
    if !io::stdin().is_terminal() {
        return Err("no password: give --password-file, or PLIMSOLL_USER_PASSWORD in the environment".to_owned());
    }
    let password = ask("Password: ")?;
    if password != ask("Again: ")? {
        return Err("the two passwords are not the same".to_owned());
    }
    Ok(password)
}

/// Reads a line from the terminal without showing it.
fn ask(prompt: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read a password from the terminal: {error}");
    eprint!("{prompt}");
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).map_err(|error| failed(error.into()))?;
    let mut silent = before.clone();
    silent.local_modes -= LocalModes::ECHO;
    tcsetattr(&stdin, OptionalActions::Now, &silent).map_err(|error| failed(error.into()))?;
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Now, &before).map_err(|error| failed(error.into()))?;
    eprintln!();
    read.map_err(failed)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
