//! The disk of a data directory: encrypted if the directory is, and refused if that and the key do not fit.
//!
//! | directory | with a key | without |
//! |---|---|---|
//! | encrypted | opened, if it is the right key | refused |
//! | empty | becomes encrypted | plain |
//! | plain | refused, so that nothing is half of each | plain |
//!
//! The disk of an ephemeral server is in memory.
//!
//! Called by `database`, and by the binary's `inspect`, `repair` and `rotate-key`, once the directory is locked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::STARTUP_WARNINGS;
use crate::configuration::{Configuration, KeySource, Settings};
use clap::Args;
use platform::{DirectoryLock, Disk, EncryptedDisk, EncryptionError, KEYS_FILE, MemoryDisk, RealDisk, SystemRandom};

use crate::database::{OpenError, TEMPORARY_DIRECTORY};
use crate::decoy_secret::{DECOY_SECRET_FILE, NEW_DECOY_SECRET_FILE};
use crate::restored_directory;

/// Files that others may read, told one by one.
const ACCESS_PROBLEMS_TOLD: usize = 10;

/// What is there beside data, or is made anew.
const NO_DATA: &[&str] = &[
    "plimsoll.lock",
    flight_recorder::file_names::DIRECTORY,
    TEMPORARY_DIRECTORY,
    "user-to-add",
    "user-to-add.partial",
    "user-to-add.answer",
    "user-to-add.answer.partial",
    "encryption.keys.new",
    DECOY_SECRET_FILE,
    NEW_DECOY_SECRET_FILE,
    backup::RESTORED_NOTE,
    backup::UNFINISHED_NOTE,
    backup::SET_ASIDE,
];

/// Whether a file or folder of a data directory is no data.
pub(crate) fn is_no_data(name: &str) -> bool {
    NO_DATA.contains(&name)
}

/// The key, for the commands on a directory.
#[derive(Debug, Clone, Args)]
pub struct KeyArguments {
    /// Of an encrypted directory: file with the key, 32 bytes in base64 or hexadecimal
    #[arg(long, env = "PLIMSOLL_ENCRYPTION_KEY_FILE", value_name = "FILE", global = true)]
    encryption_key_file: Option<PathBuf>,
    /// Or the name of the environment variable that holds it
    #[arg(long, env = "PLIMSOLL_ENCRYPTION_KEY_ENV", value_name = "NAME", global = true)]
    encryption_key_env: Option<String>,
    /// Or a command of the shell that prints it
    #[arg(
        long,
        env = "PLIMSOLL_ENCRYPTION_KEY_COMMAND",
        hide_env_values = true,
        value_name = "COMMAND",
        global = true
    )]
    encryption_key_command: Option<String>,
}

impl KeyArguments {
    /// Where the key comes from; `None`: there is none.
    ///
    /// # Errors
    /// More than one place is named.
    pub fn source(&self) -> Result<Option<KeySource>, String> {
        let KeyArguments { encryption_key_file, encryption_key_env, encryption_key_command } = self.clone();
        KeySource::of(encryption_key_file, encryption_key_env, encryption_key_command)
            .map_err(|error| error.to_string())
    }

    /// The same for a server.
    pub fn give_to(&self, settings: &mut Settings) {
        settings.encryption_key_file.clone_from(&self.encryption_key_file);
        settings.encryption_key_env.clone_from(&self.encryption_key_env);
        settings.encryption_key_command.clone_from(&self.encryption_key_command);
    }
}

/// What a directory that is not encrypted is, when there is a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unencrypted {
    /// It becomes encrypted, unless it has data.
    Encrypt,
    /// It is read as it is: the key is for another one.
    Read,
    /// A mistake.
    Refuse,
}

/// Asked before the lock and the disk, which would make a directory that is missing.
///
/// # Errors
/// There is none.
#[allow(clippy::disallowed_methods, reason = "asked before there is a disk to go through")]
pub fn check_is_there(data: &Path) -> Result<(), String> {
    if data.is_dir() { Ok(()) } else { Err(format!("there is no data directory {}", data.display())) }
}

/// Where a server's data is, locked for as long as this lives.
pub(crate) struct DataDisk {
    pub(crate) disk: Arc<dyn Disk>,
    /// The same, when it is in memory.
    pub(crate) memory: Option<Arc<MemoryDisk>>,
    /// Keeps other servers out of the directory. Of a disk in memory nobody else knows.
    pub(crate) lock: Option<DirectoryLock>,
}

/// The disk of a server: in memory if it is ephemeral.
///
/// # Errors
/// `InUse`: another server has the directory. `Refused`: it does not fit its key, or its restore has not ended.
pub(crate) fn open_for_server(configuration: &Configuration) -> Result<DataDisk, OpenError> {
    if let Some(bytes) = configuration.ephemeral_bytes {
        let memory = Arc::new(MemoryDisk::new(bytes));
        return Ok(DataDisk { disk: memory.clone(), memory: Some(memory), lock: None });
    }
    let data = &configuration.data;
    let disk =
        RealDisk::new(data).map_err(|error| format!("cannot use the data directory {}: {error}", data.display()))?;
    let lock = DirectoryLock::acquire(data)?;
    restored_directory::tell(&disk, data)?;
    for problem in disk.restrict_access().iter().take(ACCESS_PROBLEMS_TOLD) {
        tracing::warn!(target: STARTUP_WARNINGS, problem, "others than the server's user may read the data, and that could not be changed");
    }
    let key = configuration.encryption_key.as_ref();
    let disk = open(disk, data, key, Unencrypted::Encrypt)?;
    if key.is_some() {
        tracing::info!(target: "storage", "the data directory is encrypted");
    }
    Ok(DataDisk { disk, memory: None, lock: Some(lock) })
}

/// The disk to go through.
///
/// # Errors
/// Directory and key do not fit, as the module's head says, or the disk fails.
pub fn open(
    real: RealDisk,
    data: &Path,
    key: Option<&KeySource>,
    unencrypted: Unencrypted,
) -> Result<Arc<dyn Disk>, String> {
    let real: Arc<dyn Disk> = Arc::new(real);
    let told = data.display();
    let failed = |error: EncryptionError| format!("cannot use the data directory {told}: {error}");
    let is_encrypted = platform::is_encrypted(&*real).map_err(|error| failed(error.into()))?;
    let names = data_names(&*real).map_err(|error| failed(error.into()))?;
    if !is_encrypted && names.iter().any(|name| platform::looks_encrypted(&*real, Path::new(name)).unwrap_or(false)) {
        return Err(format!("the files in {told} are encrypted, but {KEYS_FILE} is missing: put a copy of it back"));
    }
    let random = Arc::new(SystemRandom);
    match key {
        None if is_encrypted => Err(format!(
            "the data directory {told} is encrypted: give its key with --encryption-key-file, --encryption-key-env or --encryption-key-command"
        )),
        None => Ok(real),
        Some(key) if is_encrypted => Ok(Arc::new(EncryptedDisk::open(real, &key.read()?, random).map_err(failed)?)),
        Some(_) if unencrypted == Unencrypted::Read => Ok(real),
        Some(key) if unencrypted == Unencrypted::Encrypt && names.is_empty() => {
            Ok(Arc::new(EncryptedDisk::create(real, &key.read()?, random).map_err(failed)?))
        }
        Some(_) => Err(format!(
            "the data directory {told} is not encrypted, but a key is given. `plimsoll repair --data {told} --into NEWDIR` with that key makes an encrypted copy"
        )),
    }
}

fn data_names(disk: &dyn Disk) -> std::io::Result<Vec<String>> {
    let mut names = disk.list(Path::new(""))?;
    names.retain(|name| !NO_DATA.contains(&name.as_str()) && name != KEYS_FILE);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use platform::OpenMode;

    use super::*;

    #[allow(clippy::disallowed_methods, reason = "the hand of an operator")]
    fn key(directory: &Path, name: &str, digit: &str) -> KeySource {
        let path = directory.join(name);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        std::io::Write::write_all(&mut file, digit.repeat(64).as_bytes()).unwrap();
        KeySource::File(path)
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the hand of an operator")]
    fn directory_and_key_must_fit() {
        let directory = tempfile::tempdir().unwrap();
        let (right, wrong) = (key(directory.path(), "right", "a"), key(directory.path(), "wrong", "b"));
        let data = directory.path().join("data");
        let opened = |key: Option<&KeySource>, unencrypted| {
            open(RealDisk::new(&data).unwrap(), &data, key, unencrypted).map(|_| ())
        };
        assert!(opened(Some(&right), Unencrypted::Refuse).unwrap_err().contains("is not encrypted"));
        let disk = open(RealDisk::new(&data).unwrap(), &data, Some(&right), Unencrypted::Encrypt).unwrap();
        disk.open(Path::new("pages"), OpenMode::Create).unwrap().write_all_at(b"secret", 0).unwrap();
        drop(disk);
        opened(Some(&right), Unencrypted::Encrypt).unwrap();
        assert!(opened(None, Unencrypted::Encrypt).unwrap_err().contains("give its key"));
        assert!(opened(Some(&wrong), Unencrypted::Encrypt).unwrap_err().contains("not the one"));
        let bytes = std::fs::read(data.join("pages")).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
        std::fs::remove_file(data.join(KEYS_FILE)).unwrap();
        for key in [None, Some(&right)] {
            assert!(opened(key, Unencrypted::Encrypt).unwrap_err().contains("is missing"));
        }
        std::fs::write(data.join("pages"), b"plain").unwrap();
        opened(None, Unencrypted::Encrypt).unwrap();
        opened(Some(&right), Unencrypted::Read).unwrap();
        assert!(opened(Some(&right), Unencrypted::Encrypt).unwrap_err().contains("is not encrypted"));
    }
}
