//! Running other programs, visibly.
//!
//! Called by the tasks. Every program that is run is printed first, so that a person can repeat it by hand.

use std::process::{Command, Stdio};

use crate::Outcome;

/// The `cargo` that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a program to its end, its output where ours goes.
///
/// # Errors
/// It cannot be started, or ends with a failure.
pub fn run(command: &mut Command) -> Outcome {
    announce(command);
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", show(command))) }
}

/// Whether a program can be started and answers `--version`.
pub fn is_installed(program: &str, version_argument: &[&str]) -> bool {
    Command::new(program)
        .args(version_argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The platform that is compiled for. A build that names it keeps its flags from build scripts.
///
/// # Errors
/// The compiler cannot be started, or does not say it.
pub(crate) fn host() -> Result<String, String> {
    let about = ask_compiler(&["-vV"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

/// What `rustc` answers.
///
/// # Errors
/// It cannot be started.
pub(crate) fn ask_compiler(arguments: &[&str]) -> Result<String, String> {
    let mut compiler = Command::new("rustc");
    let output = compiler.args(arguments).output().map_err(|error| cannot_start(&compiler, &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Prints a program that is about to be run.
pub(crate) fn announce(command: &Command) {
    eprintln!("> {}", show(command));
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", show(command))
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_says_what_it_builds_for_and_where_it_is() {
        let (host, sysroot) = (host().unwrap(), ask_compiler(&["--print", "sysroot"]).unwrap());
        assert!(host.contains('-') && std::path::Path::new(sysroot.trim()).is_dir(), "{host}");
    }
}
