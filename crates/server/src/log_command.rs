//! `plimsoll log`: what an operator does with the shared log of a replica set. Members may run meanwhile, but for `restore` and `rotate-key`.
//!
//! Called by `main`. What is done is `server::log_care`'s; here are the words.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use backup::{RestoreOptions, Target};
use clap::{Args, Subcommand};
use server::configuration::KeySource;
use server::data_disk::KeyArguments;
use server::log_care::{self, COPIES_KEPT, Checked, LogCare};

use crate::backup_command::problems_of;
use crate::log_create_command::{self, LogCreateArguments};
use crate::log_restore_command::{self, LogRestoreArguments};

const SECONDS_PER_HOUR: u64 = 3600;

/// What is to be done.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make it: in Kafka two topics, with the settings that a log needs
    Create(LogCreateArguments),
    /// Make it again after it was lost, from the data directory of one of its members. All members are stopped before
    Restore(LogRestoreArguments),
    /// Read the whole log, and say what is damaged or missing. Ends with 2 when something is wrong
    Check {
        /// The log, as --log is told
        url: String,
        #[command(flatten)]
        key: KeyArguments,
    },
    /// Change the key of an encrypted log. No record is written. Its members are stopped before, and their directories get the same key
    RotateKey {
        /// The log, as --log is told
        url: String,
        #[command(flatten)]
        key: KeyArguments,
        /// File with the key from now on
        #[arg(long, value_name = "FILE")]
        new_encryption_key_file: PathBuf,
    },
    /// Have a member copy its data beside the log, for new members and for trimming
    Copy {
        /// The log, as --log is told
        url: String,
        /// How long to wait for it, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        patience: u64,
        #[command(flatten)]
        key: KeyArguments,
    },
    /// Remove what no member needs any more, and old copies. The newest copy is verified first, if it was not
    Trim {
        /// The log, as --log is told
        url: String,
        /// Keep what was logged in the last so many hours
        #[arg(long, value_name = "HOURS")]
        keep: u64,
        /// Keep so many of the newest copies that were verified
        #[arg(long, value_name = "NUMBER", default_value_t = COPIES_KEPT, value_parser = clap::value_parser!(u32).range(1..))]
        keep_copies: u32,
        /// A directory for the temporary one in which a copy is verified, with room for the data [default: the system's]
        #[arg(long, value_name = "DIR")]
        within: Option<PathBuf>,
        #[command(flatten)]
        key: KeyArguments,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &LogArguments) -> Result<ExitCode, String> {
    match &arguments.what {
        What::Create(arguments) => log_create_command::run(arguments).map(|()| ExitCode::SUCCESS),
        What::Restore(arguments) => log_restore_command::run(arguments).map(|()| ExitCode::SUCCESS),
        What::Check { url, key } => Ok(show(&LogCare::of_url(url, key.source()?)?.check()?)),
        What::RotateKey { url, key, new_encryption_key_file } => {
            let from =
                key.source()?.ok_or("the present key is needed: --encryption-key-file, or another of its ways")?;
            log_care::rotate_key(url, &from, &KeySource::File(new_encryption_key_file.clone()))?;
            println!("the log opens with the new key, and with the old one no longer");
            Ok(ExitCode::SUCCESS)
        }
        What::Copy { url, patience, key } => {
            let id = LogCare::of_url(url, key.source()?)?.have_copied(Duration::from_secs(*patience))?;
            println!("copied: {id}");
            Ok(ExitCode::SUCCESS)
        }
        What::Trim { url, keep, keep_copies, within, key } => {
            let care = LogCare::of_url(url, key.source()?)?;
            verify_newest(&care, within.clone(), key)?;
            let target = care.trim_target(Duration::from_secs(keep.saturating_mul(SECONDS_PER_HOUR)))?;
            println!("the log begins with record {}", care.trim(target)?);
            match care.prune_copies(*keep_copies as usize) {
                Ok(pruned) => pruned.backups.iter().for_each(|id| println!("removed the copy {id}")),
                // The log is trimmed all the same.
                Err(error) => eprintln!("plimsoll: copies were not removed: {error}"),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(checked: &Checked) -> ExitCode {
    let Checked { settings, records, examined, members, copies } = checked;
    settings.iter().for_each(|line| println!("{line}"));
    println!("records        {} to {}, {} bytes", records.start, records.end, examined.bytes);
    println!("newest term    {}", examined.term);
    match examined.judged_from {
        Some(from) => println!(
            "judged         from record {from} on: {} bytes count; {} records do not, {} are of others",
            examined.accepted, examined.ignored, examined.foreign
        ),
        None => println!("judged         nothing: there is no copy from which it could be"),
    }
    members.iter().for_each(|line| println!("member         {line}"));
    for (id, next, is_verified) in copies {
        let verified = if *is_verified { "verified" } else { "not verified" };
        println!("copy           {id}, goes on with record {next}, {verified}");
    }
    examined.problems.iter().for_each(|problem| println!("problem        {problem}"));
    if examined.more_problems > 0 {
        println!("problem        and {} more", examined.more_problems);
    }
    if examined.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// Verifies the newest copy, if that was not done.
fn verify_newest(care: &LogCare, within: Option<PathBuf>, key: &KeyArguments) -> Result<(), String> {
    let Some((id, false)) = care.newest_copy()? else { return Ok(()) };
    let outer_key = key.source()?.map(|source| source.read()).transpose()?;
    let options = RestoreOptions {
        backup: Some(id.clone()),
        target: Target::Newest,
        key: outer_key,
        from: care.copies_url()?,
        standing: None,
    };
    let problems = problems_of(&options, within, key)?;
    if let Some(problem) = problems.first() {
        return Err(format!("the copy {id} is not what it should be, and nothing is trimmed: {problem}"));
    }
    care.note_verified(&id)
}
