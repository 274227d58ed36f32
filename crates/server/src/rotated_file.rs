//! A file of a log that is put aside: renamed, with the time behind its name, which no file has yet. Called by the diagnostics log and
//! by the audit log.

use std::io;
use std::path::{Path, PathBuf};

use platform::{Clock, SystemClock};

/// Renames a file. Gives its new name; `None`: there was no such file.
///
/// # Errors
/// Those of the file system.
#[allow(clippy::disallowed_methods, reason = "the operator's file, beside the data")]
pub(crate) fn put_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    let aside = free_name(path);
    match std::fs::rename(path, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives a file its name back.
///
/// # Errors
/// Those of the file system.
#[allow(clippy::disallowed_methods, reason = "the operator's file, beside the data")]
pub(crate) fn put_back(aside: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(aside, path)
}

/// A name with the time behind it; with a number, too, where several are put aside within a second.
#[allow(clippy::disallowed_methods, reason = "the operator's file, beside the data")]
fn free_name(path: &Path) -> PathBuf {
    let time = jiff::Timestamp::from_millisecond(SystemClock::new().wall_millis())
        .map_or_else(|_| "old".to_owned(), |time| time.strftime("%Y-%m-%dT%H-%M-%S").to_string());
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{time}{suffix}"));
        PathBuf::from(name)
    };
    let numbered = (1_u64..).map(|number| with(&format!(".{number}")));
    let is_free = |name: &PathBuf| std::fs::symlink_metadata(name).is_err();
    std::iter::once(with("")).chain(numbered).find(is_free).unwrap_or_else(|| with(""))
}
