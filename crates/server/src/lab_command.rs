//! The subcommands that the lab carries out: `bench`, `profile`, `compare`, `history`, `layout`, `certify`.
//!
//! Called by `main`. The lab is a program of its own, `plimsoll-lab`, found beside this one: its driver and its reports would
//! triple what has to be built for a server. It takes over the process, so its exit code and signals are its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

const PROGRAM: &str = "plimsoll-lab";

/// Words that the lab reads, `--help` among them.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArguments {
    /// See `--help` of the command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl LabArguments {
    /// The first word.
    pub(crate) fn first(&self) -> Option<&str> {
        self.words.first().and_then(|word| word.to_str())
    }

    /// Whether an option is among them.
    pub(crate) fn has(&self, option: &str) -> bool {
        let mut words = self.words.iter().filter_map(|word| word.to_str());
        words.any(|word| word.split('=').next() == Some(option))
    }

    pub(crate) fn into_words(self) -> Vec<OsString> {
        self.words
    }
}

/// Where the lab is.
#[allow(clippy::disallowed_methods, reason = "a program, of which the simulator knows nothing")]
pub(crate) fn program(command: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe()
        .map_err(|error| format!("cannot find the program itself, beside which {PROGRAM} lies: {error}"))?;
    let program = own.with_file_name(PROGRAM);
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "`{command}` is done by the program {PROGRAM}, which is not beside this one, in {}. \
             From the source, `cargo build --release -p lab` builds it",
            own.parent().unwrap_or(&own).display()
        )),
    }
}

/// Becomes the lab. Returns only when there is none.
#[allow(clippy::disallowed_methods, reason = "starts a program, of which the simulator knows nothing")]
pub(crate) fn become_lab(command: &str, arguments: LabArguments) -> String {
    let program = match program(command) {
        Ok(program) => program,
        Err(missing) => return missing,
    };
    let error = Command::new(&program).arg(command).args(arguments.words).exec();
    format!("cannot run {}: {error}", program.display())
}
