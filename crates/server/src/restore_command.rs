//! `plimsoll restore --from URL --to DIR`: a new data directory from a backup and the archive. With `--into` in place of `--to` single
//! collections of it get into a running server (`restore_into`).
//!
//! Called by `main`. The work is `backup::restore`; here are the directory, its key, and what people are told.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use backup::{Place, Progress, RestoreOptions, Restored, Target, UNFINISHED_NOTE};
use clap::Args;
use platform::{DirectoryLock, Disk, RealDisk, SystemClock, SystemRandom};

use crate::backup_command::PlaceArguments;
use crate::restore_into::{self, IntoRunning};
use server::data_disk::{self, KeyArguments, Unencrypted};
use server::progress_lines::with_progress_lines;

/// What is restored, and where.
#[derive(Args)]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// The data directory to be made; it must be empty or missing
    #[arg(long, value_name = "DIR", required_unless_present = "into")]
    to: Option<PathBuf>,
    #[command(flatten)]
    running: IntoRunning,
    /// Begin with this backup [default: the newest that ends before the moment that is wanted]
    #[arg(long, value_name = "ID")]
    backup: Option<String>,
    #[command(flatten)]
    moment: Moment,
    /// The new directory is encrypted if a key is given
    #[command(flatten)]
    key: KeyArguments,
}

/// Up to when.
#[derive(Args)]
#[group(multiple = false)]
struct Moment {
    /// Up to the beginning of this second, as 2026-11-29T12:00:00Z [default: as far as backup and archive go]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Up to this timestamp of the oplog, it included, as 1764417600:1
    #[arg(long, value_name = "T:I")]
    timestamp: Option<String>,
    /// Up to the first operation behind the backup whose line has this text in it. A line is the timestamp, op, ns and the entry as
    /// extended JSON, as in: c shop.$cmd {"op":"c","ns":"shop.$cmd","o":{"drop":"orders"}
    #[arg(long, value_name = "TEXT")]
    before_operation: Option<String>,
}

impl Moment {
    fn target(&self) -> Result<Target, String> {
        let target = match (&self.at, &self.timestamp, &self.before_operation) {
            (Some(time), _, _) => Target::of_time(time),
            (_, Some(timestamp), _) => Target::of_timestamp(timestamp),
            (_, _, Some(text)) => Ok(Target::BeforeOperation(text.clone())),
            _ => Ok(Target::Newest),
        };
        target.map_err(|error| error.to_string())
    }
}

/// Restores.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<ExitCode, String> {
    let key = arguments.key.source()?;
    let options = RestoreOptions {
        backup: arguments.backup.clone(),
        target: arguments.moment.target()?,
        key: arguments.place.key(key.as_ref())?,
        from: arguments.place.from.clone(),
        standing: None,
    };
    if arguments.running.is_wanted() {
        return restore_into::run(&arguments.running, &arguments.key, &options);
    }
    let Some(to) = &arguments.to else { return Err("--to says which directory is made".to_owned()) };
    let restored = into(to, &arguments.key, &options)?;
    print!("{}", described(&restored, to));
    Ok(ExitCode::SUCCESS)
}

/// Restores into a directory.
pub(crate) fn into(to: &Path, key: &KeyArguments, options: &RestoreOptions) -> Result<Restored, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let objects = Place::of_url(&options.from).and_then(|place| place.open_existing()).map_err(|error| told(&error))?;
    let real = RealDisk::new(to).map_err(|error| format!("cannot make {}: {error}", to.display()))?;
    let notes = RealDisk::new(to).map_err(|error| format!("cannot make {}: {error}", to.display()))?;
    let _lock = DirectoryLock::acquire(to).map_err(|error| told(&error))?;
    let disk = open(real, to, key)?;
    with_progress_lines("restore", |progress: &Progress| {
        let (clock, random) = (SystemClock::new(), SystemRandom);
        backup::restore(&*objects, (&disk, &notes), (&clock, &random), options, progress).map_err(|error| told(&error))
    })
}

/// The directory, which may have what an unfinished restore has left.
fn open(real: RealDisk, to: &Path, key: &KeyArguments) -> Result<Arc<dyn Disk>, String> {
    let key = key.source()?;
    let is_again = real.exists(Path::new(UNFINISHED_NOTE)).map_err(|error| error.to_string())?;
    let is_encrypted = platform::is_encrypted(&real).map_err(|error| error.to_string())?;
    if is_again && is_encrypted == key.is_none() {
        return Err(format!(
            "a restore into {} was begun {} a key: remove it first",
            to.display(),
            match is_encrypted {
                true => "with",
                false => "without",
            }
        ));
    }
    match is_again && !is_encrypted {
        true => Ok(Arc::new(real)),
        false => data_disk::open(real, to, key.as_ref(), Unencrypted::Encrypt),
    }
}

/// What was restored, for people.
pub(crate) fn described(restored: &Restored, to: &Path) -> String {
    let mut text = format!(
        "restored {} into {}: everything up to {} ({})\n",
        restored.backup,
        to.display(),
        restored.until_timestamp,
        restored.until
    );
    if let Some(line) = &restored.left_out {
        let short: String = line.chars().take(200).collect();
        text += &format!("the first operation that is left out: {short}\n");
    }
    text
}
