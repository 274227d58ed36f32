//! Where the key of encryption at rest comes from, settled, and read. Called by `configuration` and by the commands on a
//! data directory.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use platform::OuterKey;

use super::{ConfigurationError, Settings};

const KEY_BYTES: usize = 32;
/// Bytes of what is read as a key: more is none.
const TEXT_BYTES_MAX: u64 = 4 << 10;
const TOO_LONG: &str = "it is too long";

/// Where the key comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// A variable of the environment, by its name.
    Environment(String),
    /// What a command of the shell prints.
    Command(String),
}

/// A command may have secrets among its arguments.
impl fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.told())
    }
}

impl KeySource {
    /// The one of three ways that is given.
    ///
    /// # Errors
    /// When more than one is.
    pub fn of(
        file: Option<PathBuf>,
        variable: Option<String>,
        command: Option<String>,
    ) -> Result<Option<KeySource>, ConfigurationError> {
        let given = [file.map(KeySource::File), variable.map(KeySource::Environment), command.map(KeySource::Command)];
        let mut given = given.into_iter().flatten();
        let first = given.next();
        if given.next().is_some() {
            let reason = "give one of --encryption-key-file, --encryption-key-env and --encryption-key-command";
            return Err(ConfigurationError::bad_value("encryption-key", reason));
        }
        Ok(first)
    }

    fn told(&self) -> String {
        match self {
            KeySource::File(path) => format!("the file {}", path.display()),
            KeySource::Environment(name) => format!("the environment variable {name}"),
            KeySource::Command(_) => "the command".to_owned(),
        }
    }

    /// Reads the key.
    ///
    /// # Errors
    /// When there is none to be had, or it is no key.
    pub fn read(&self) -> Result<OuterKey, String> {
        let text = match self {
            KeySource::File(path) => read_file(path),
            KeySource::Environment(name) => std::env::var(name).map_err(|error| error.to_string()),
            KeySource::Command(command) => run(command),
        };
        let text = text.map_err(|reason| format!("cannot get the encryption key from {}: {reason}", self.told()))?;
        parse(&text).ok_or_else(|| {
            let wanted = "32 bytes in base64 (as `openssl rand -base64 32` makes them) or in 64 hexadecimal digits";
            format!("what {} gives is no encryption key: that is {wanted}", self.told())
        })
    }
}

pub(super) fn key_source(settings: &Settings) -> Result<Option<KeySource>, ConfigurationError> {
    KeySource::of(
        settings.encryption_key_file.clone(),
        settings.encryption_key_env.clone(),
        settings.encryption_key_command.clone(),
    )
}

#[allow(clippy::disallowed_methods, reason = "read once, before there is a disk to go through")]
fn read_file(path: &Path) -> Result<String, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // A file that root gives to a group is what orchestrators make.
    let forbidden = if found.uid() == 0 { 0o027 } else { 0o077 };
    if found.mode() & forbidden != 0 {
        return Err(format!("others may read it (mode {:04o}): set it to 0600", found.mode() & 0o7777));
    }
    if found.len() > TEXT_BYTES_MAX {
        return Err(TOO_LONG.to_owned());
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn run(command: &str) -> Result<String, String> {
    let mut shell = Command::new("/bin/sh");
    let told = |error: std::io::Error| error.to_string();
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = shell.spawn().map_err(told)?;
    let mut printed = Vec::new();
    if let Some(output) = child.stdout.take() {
        // What prints more is told by its end that nobody reads on.
        output.take(TEXT_BYTES_MAX + 1).read_to_end(&mut printed).map_err(told)?;
    }
    let status = child.wait().map_err(told)?;
    if printed.len() as u64 > TEXT_BYTES_MAX {
        return Err(TOO_LONG.to_owned());
    }
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    String::from_utf8(printed).map_err(|_| "it printed something that is not text".to_owned())
}

fn parse(text: &str) -> Option<OuterKey> {
    let text = text.trim();
    let bytes = if text.len() == 2 * KEY_BYTES { hex::decode(text).ok()? } else { STANDARD.decode(text).ok()? };
    Some(OuterKey::new(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const HEXADECIMAL: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn keys_are_taken_in_both_spellings_and_nothing_else() {
        assert_eq!(hex::decode(HEXADECIMAL).unwrap(), STANDARD.decode(BASE64).unwrap());
        for text in [HEXADECIMAL, BASE64] {
            assert!(parse(&format!("{text}\n")).is_some());
        }
        for text in ["", "secret", &BASE64[4..], &HEXADECIMAL[2..], &"x".repeat(64), &"\u{e9}".repeat(32)] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn keys_come_from_files_of_ones_own_and_from_commands() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(BASE64.as_bytes()).unwrap();
        let source = KeySource::File(file.path().to_owned());
        source.read().unwrap();
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(source.read().unwrap_err().contains("0644"));
        KeySource::Command(format!("echo {BASE64}")).read().unwrap();
        let refused = KeySource::Command("echo token; exit 3".to_owned()).read().unwrap_err();
        assert!(refused.contains('3') && !refused.contains("token"), "{refused}");
        let absent = KeySource::Environment("PLIMSOLL_NO_SUCH_KEY".to_owned()).read().unwrap_err();
        assert!(absent.contains("PLIMSOLL_NO_SUCH_KEY"), "{absent}");
        assert!(KeySource::of(Some("/k".into()), Some("K".to_owned()), None).is_err());
    }

    #[test]
    fn what_is_too_long_is_no_key() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'a'; TEXT_BYTES_MAX as usize + 1]).unwrap();
        assert!(KeySource::File(file.path().to_owned()).read().unwrap_err().contains(TOO_LONG));
        assert!(KeySource::Command("yes".to_owned()).read().unwrap_err().contains(TOO_LONG));
    }
}
