//! `plimsoll rotate-key`: wraps the data key of a stopped server's directory by another key. No data is written.
//!
//! Called by `main`.

use std::path::PathBuf;

use clap::Args;
use platform::{DirectoryLock, RealDisk, SystemRandom};
use server::configuration::KeySource;

use server::data_disk::{self, KeyArguments};

/// Which directory, from which key to which.
#[derive(Debug, Args)]
pub(crate) struct RotateKeyArguments {
    /// Directory that holds the data
    #[arg(long, env = "PLIMSOLL_DATA", value_name = "DIR", default_value = "data")]
    data: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    /// File with the key from now on
    #[arg(long, value_name = "FILE")]
    new_encryption_key_file: Option<PathBuf>,
    /// Or the name of the environment variable that holds it
    #[arg(long, value_name = "NAME")]
    new_encryption_key_env: Option<String>,
    /// Or a command of the shell that prints it
    #[arg(long, value_name = "COMMAND")]
    new_encryption_key_command: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &RotateKeyArguments) -> Result<(), String> {
    let data = &arguments.data;
    data_disk::check_is_there(data)?;
    let from =
        arguments.key.source()?.ok_or("the present key is needed: --encryption-key-file, or another of its ways")?;
    let to = KeySource::of(
        arguments.new_encryption_key_file.clone(),
        arguments.new_encryption_key_env.clone(),
        arguments.new_encryption_key_command.clone(),
    );
    let to = to
        .map_err(|error| error.to_string().replace("--encryption-key", "--new-encryption-key"))?
        .ok_or("the new key is needed: --new-encryption-key-file, or another of its ways")?;
    let _lock = DirectoryLock::acquire(data).map_err(|error| format!("{error}; stop it first"))?;
    let failed = |error: &dyn std::fmt::Display| format!("cannot change the key of {}: {error}", data.display());
    let disk = RealDisk::new(data).map_err(|error| failed(&error))?;
    if !platform::is_encrypted(&disk).map_err(|error| failed(&error))? {
        return Err(failed(&"the directory is not encrypted"));
    }
    platform::rotate_outer_key(&disk, &from.read()?, &to.read()?, &SystemRandom).map_err(|error| failed(&error))?;
    println!("{} opens with the new key, and with the old one no longer", data.display());
    Ok(())
}
