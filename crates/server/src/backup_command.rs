//! `plimsoll backup`: making one is asked of the server by the lab, which has a driver. Done here is what needs no server:
//! `backup list`, `verify` and `prune`, and a backup of a stopped server's directory (`--data`).
//!
//! Called by `main`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use backup::{
    BackupOptions, Extent, KeepRules, Manifest, ObjectStore, Packing, Place, RestoreOptions, Target, time_of,
};
use clap::{Args, Parser, Subcommand};
use platform::{Clock, DirectoryLock, OuterKey, RealDisk, SystemClock, SystemRandom};
use server::configuration::KeySource;
use transaction::{Store, StoreOptions};

use crate::lab_command::{LabArguments, become_lab};
use crate::restore_command;
use server::data_disk::{self, KeyArguments, Unencrypted};
use server::progress_lines::with_progress_lines;
use server::restored_directory;

const MIB: f64 = 1_048_576.0;

/// Where backups are, and how they are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArguments {
    /// Where the backups are, as file:///var/backups/plimsoll or s3://bucket/prefix
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// File with the key that they are encrypted with [default: that of --encryption-key-file and its like]
    #[arg(long, env = "PLIMSOLL_BACKUP_KEY_FILE", value_name = "FILE")]
    backup_key_file: Option<PathBuf>,
}

impl PlaceArguments {
    fn open(&self) -> Result<Arc<dyn ObjectStore>, String> {
        Place::of_url(&self.from).and_then(|place| place.open_existing()).map_err(|error| error.to_string())
    }

    /// The key; of directories, if backups have none of their own.
    pub(crate) fn key(&self, of_directories: Option<&KeySource>) -> Result<Option<OuterKey>, String> {
        let own = self.backup_key_file.clone().map(KeySource::File);
        own.as_ref().or(of_directories).map(KeySource::read).transpose()
    }
}

#[derive(Parser)]
#[command(name = "plimsoll backup", bin_name = "plimsoll backup")]
struct AboutBackups {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show the backups, oldest first
    List {
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// Restore a backup into a temporary directory and validate every collection. Ends with 2 when something is wrong
    Verify {
        #[command(flatten)]
        place: PlaceArguments,
        /// Which backup [default: the newest]
        #[arg(long, value_name = "ID")]
        backup: Option<String>,
        /// A directory for the temporary one, with room for the data [default: the system's]
        #[arg(long, value_name = "DIR")]
        within: Option<PathBuf>,
        #[command(flatten)]
        key: KeyArguments,
    },
    /// Remove backups that no rule keeps, what only they need, and the archive from before the oldest that stays
    Prune {
        #[command(flatten)]
        place: PlaceArguments,
        /// Keep so many of the newest
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
        /// Keep also those that are not older than so many days
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u32>,
    },
}

/// A backup of the directory of a stopped server.
#[derive(Parser)]
#[command(name = "plimsoll backup", bin_name = "plimsoll backup")]
struct OfStopped {
    /// The data directory. It is opened as a server opens it: what the last run left is recovered
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where to, as file:///var/backups/plimsoll or s3://bucket/prefix
    #[arg(long, value_name = "URL")]
    to: String,
    /// Store everything anew [default: what earlier backups there do not have]
    #[arg(long)]
    full: bool,
    /// Compress pages once more: smaller, and slower
    #[arg(long)]
    compress: bool,
    /// Read at most so many megabytes a second
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// File with the key that the backup is encrypted with [default: that of the directory, if it is encrypted]
    #[arg(long, env = "PLIMSOLL_BACKUP_KEY_FILE", value_name = "FILE")]
    backup_key_file: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArguments,
}

fn of_stopped(wanted: &OfStopped) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let data = &wanted.data;
    #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would create the directory")]
    let is_there = data.is_dir();
    if !is_there {
        return Err(format!("there is no data directory {}", data.display()));
    }
    let _lock = DirectoryLock::acquire(data).map_err(|error| told(&error))?;
    let (directory_key, own) = (wanted.key.source()?, wanted.backup_key_file.clone().map(KeySource::File));
    let disk = RealDisk::new(data).map_err(|error| told(&error))?;
    restored_directory::tell(&disk, data)?;
    let disk = data_disk::open(disk, data, directory_key.as_ref(), Unencrypted::Refuse)?;
    let key = own.as_ref().or(directory_key.as_ref()).map(KeySource::read).transpose()?;
    let objects = Place::of_url(&wanted.to).and_then(|place| place.open(Some(data))).map_err(|error| told(&error))?;
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let store = Store::open(disk, clock, random, StoreOptions::default()).map_err(|error| told(&error))?;
    let options = BackupOptions {
        name: None,
        packing: Packing { compresses_pages: wanted.compress, key },
        bytes_per_second: wanted.rate.map(|rate| u64::from(rate) * 1_000_000),
        extent: if wanted.full { Extent::Full } else { Extent::Changed },
        server: env!("CARGO_PKG_VERSION"),
    };
    let made = with_progress_lines("backup", |progress| {
        backup::make(&store, &objects, &SystemRandom, &options, progress, &|| false)
    });
    store.shutdown().map_err(|error| told(&error))?;
    println!("backup {}", made.map_err(|error| told(&error))?.id);
    Ok(())
}

/// Runs the command.
pub(crate) fn run(arguments: LabArguments) -> Result<ExitCode, String> {
    let is_here = |word: &str| ["list", "verify", "prune"].contains(&word);
    let (is_of_stopped, is_here) = (arguments.has("--data"), arguments.first().is_some_and(is_here));
    if !is_here && !is_of_stopped {
        return Err(become_lab("backup", arguments));
    }
    let words = std::iter::once("plimsoll backup".into()).chain(arguments.into_words());
    if !is_here {
        return of_stopped(&OfStopped::parse_from(words)).map(|()| ExitCode::SUCCESS);
    }
    match AboutBackups::parse_from(words).what {
        What::List { place } => list(&*place.open()?).map(|()| ExitCode::SUCCESS),
        What::Prune { place, keep, keep_days } => {
            let rules = KeepRules { newest: keep as usize, days: keep_days };
            prune(&*place.open()?, rules).map(|()| ExitCode::SUCCESS)
        }
        What::Verify { place, backup, within, key } => verify(&place, backup, within, &key),
    }
}

fn list(objects: &dyn ObjectStore) -> Result<(), String> {
    let (whole, others) = backup::list(objects).map_err(|error| error.to_string())?;
    println!("{:<26} {:<22} {:<22} {:>10} {:>10}  encrypted", "backup", "begun", "until", "MiB", "stored");
    for manifest in &whole {
        println!("{}", row(manifest));
    }
    others.iter().for_each(|(id, reason)| println!("{id:<26} {reason}"));
    Ok(())
}

fn row(manifest: &Manifest) -> String {
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / MIB);
    let until = time_of(manifest.last_timestamp().seconds_millis());
    format!(
        "{:<26} {:<22} {:<22} {:>10} {:>10}  {}",
        manifest.id,
        time_of(manifest.began_millis),
        until,
        mib(manifest.page_bytes),
        mib(manifest.stored_bytes),
        if manifest.is_encrypted { "yes" } else { "no" }
    )
}

fn prune(objects: &dyn ObjectStore, rules: KeepRules) -> Result<(), String> {
    let now = SystemClock::new().wall_millis();
    let pruned = backup::prune(objects, rules, now).map_err(|error| error.to_string())?;
    pruned.backups.iter().for_each(|id| println!("removed {id}"));
    println!("{} files removed", pruned.objects);
    Ok(())
}

fn verify(
    place: &PlaceArguments,
    backup: Option<String>,
    within: Option<PathBuf>,
    key: &KeyArguments,
) -> Result<ExitCode, String> {
    let options = RestoreOptions {
        backup,
        target: Target::Newest,
        key: place.key(key.source()?.as_ref())?,
        from: place.from.clone(),
        standing: None,
    };
    let problems = problems_of(&options, within, key)?;
    problems.iter().for_each(|problem| println!("{problem}"));
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Restores a backup into a temporary directory, and validates every collection.
pub(crate) fn problems_of(
    options: &RestoreOptions,
    within: Option<PathBuf>,
    key: &KeyArguments,
) -> Result<Vec<String>, String> {
    let within = within.unwrap_or_else(std::env::temp_dir);
    let directory = within.join(format!("plimsoll-verify-{}", std::process::id()));
    let verified = restore_command::into(&directory, key, options).and_then(|restored| {
        print!("{}", restore_command::described(&restored, &directory));
        validate(&directory, key)
    });
    #[allow(clippy::disallowed_methods, reason = "a temporary directory of our own")]
    let removed = std::fs::remove_dir_all(&directory);
    if let Err(error) = removed {
        eprintln!("plimsoll: cannot remove {}: {error}", directory.display());
    }
    verified
}

/// Opens a directory and validates its collections; what is wrong.
fn validate(directory: &Path, key: &KeyArguments) -> Result<Vec<String>, String> {
    let disk = RealDisk::new(directory).map_err(|error| error.to_string())?;
    let disk = data_disk::open(disk, directory, key.source()?.as_ref(), Unencrypted::Refuse)?;
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let validated = backup::validate(disk, clock, random).map_err(|error| error.to_string())?;
    println!("{} collections with {} documents were validated", validated.collections, validated.documents);
    Ok(validated.problems)
}
