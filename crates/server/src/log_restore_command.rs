//! `plimsoll log restore`: makes the shared log of a replica set again after it was lost, from the data directory of one of its members.
//!
//! Called by `log_command`. All members are stopped meanwhile. The work is `server::log_restoring`'s; here are the words.

use std::path::PathBuf;

use clap::Args;
use server::data_disk::KeyArguments;
use server::log_restoring::{self, MemberData};

/// Which log, and whose data.
#[derive(Debug, Args)]
pub(crate) struct LogRestoreArguments {
    /// The log that is to be, as --log is told: empty, or in a directory that is not there
    url: String,
    /// The data directory of the member that has most. What it holds is not changed
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Only say how far this member is, and make no log: to find the one that has most
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    key: KeyArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &LogRestoreArguments) -> Result<(), String> {
    let key = arguments.key.source()?;
    let member = MemberData::open(&arguments.data, key.as_ref())?;
    println!("member         term {}, oplog from {} to {}", member.term(), member.begins(), member.ends());
    if arguments.show {
        return Ok(());
    }
    let restored = log_restoring::restore(&arguments.url, &member, key.as_ref())?;
    println!("made the log   {}, which continues {}", restored.identity, restored.former);
    println!(
        "it has         the oplog from {} to {}, and begins with term {}",
        restored.begins, restored.ends, restored.term
    );
    Ok(())
}
