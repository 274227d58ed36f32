//! Where backups are kept: names and bytes, written whole or not at all.
//!
//! Implemented by `directory_store`. A name is a path with slashes; what is under a name is written once, and may be replaced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, RealDisk};

use crate::directory_store::{DirectoryStore, NEW};
use crate::error::{BackupError, Result};

/// A store of objects. All methods may be called from several threads at once.
pub trait ObjectStore: Send + Sync {
    /// Stores an object durably, whole or not at all.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Bytes of an object.
    ///
    /// # Errors
    /// `NotFound`; what the store says.
    fn size(&self, name: &str) -> io::Result<u64>;

    /// All of an object.
    ///
    /// # Errors
    /// `NotFound`; what the store says.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;

    /// The last parts of the names that begin with `folder` and a slash, sorted: those of objects and of folders. None if there is no
    /// such folder.
    ///
    /// # Errors
    /// What the store says.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Removes an object; fine if it is not there.
    ///
    /// # Errors
    /// What the store says.
    fn delete(&self, name: &str) -> io::Result<()>;
}

/// Where a URL points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `file:///path`: a directory of the machine that reads or writes it.
    Directory(PathBuf),
}

impl Place {
    /// Reads a URL.
    ///
    /// # Errors
    /// `Place`: it is none, or of a kind that is not served.
    pub fn of_url(url: &str) -> Result<Place> {
        let refused = |reason: &str| Err(BackupError::Place(format!("{url} is no place for backups: {reason}")));
        let Some((scheme, rest)) = url.split_once("://") else {
            return refused("it must be a URL, as file:///var/backups/plimsoll");
        };
        match scheme {
            "file" if rest.starts_with('/') && rest.contains(['%', '?', '#']) => {
                refused("percent signs, question marks and number signs are not taken in a path")
            }
            "file" if rest.starts_with('/') => Ok(Place::Directory(PathBuf::from(rest))),
            "file" => refused("its path must be absolute, as file:///var/backups/plimsoll"),
            _ => refused("only file:// is served"),
        }
    }
}

/// Marks a directory as ours.
const MARK: &str = "plimsoll-backups";
const MARK_TEXT: &[u8] = b"Backups of Plimsoll, version 1. What is here is written and removed by it.\n";

impl Place {
    /// The place for writing: made if it is missing. `apart_from` is a directory that it must not be in, nor around.
    ///
    /// # Errors
    /// `Place`: it is a directory of something else; `Io`.
    pub fn open(&self, apart_from: Option<&Path>) -> Result<Arc<dyn ObjectStore>> {
        let Place::Directory(path) = self;
        let refused = |reason: String| BackupError::Place(format!("{}: {reason}", path.display()));
        // Before anything is made there.
        if apart_from.is_some_and(|other| is_within(path, other) || is_within(other, path)) {
            return Err(refused("backups must be apart from the server's data directory".to_owned()));
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(path).map_err(|error| refused(error.to_string()))?);
        let names = disk.list(Path::new("")).map_err(|error| refused(error.to_string()))?;
        let objects = DirectoryStore::new(Arc::clone(&disk));
        // Somebody else may begin here at the same time, or have been killed while he did.
        let is_marked = || disk.exists(Path::new(MARK)).unwrap_or(false);
        if !is_marked() {
            if !names.iter().all(|name| name.strip_prefix(MARK).is_some_and(|rest| rest.is_empty() || rest == NEW)) {
                return Err(refused("the directory is not empty, and has no backups".to_owned()));
            }
            match objects.put(MARK, MARK_TEXT) {
                Err(error) if !is_marked() => return Err(BackupError::io(MARK, "written")(error)),
                _ => {}
            }
        }
        Ok(Arc::new(objects))
    }

    /// The place for reading: it must be there.
    ///
    /// # Errors
    /// `Place`.
    pub fn open_existing(&self) -> Result<Arc<dyn ObjectStore>> {
        let Place::Directory(path) = self;
        #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would make the directory")]
        let is_ours = path.join(MARK).is_file();
        match is_ours {
            true => self.open(None),
            false => Err(BackupError::Place(format!("there are no backups in {}", path.display()))),
        }
    }
}

/// Whether a directory is another one or in it, whatever the names by which both are called.
fn is_within(inner: &Path, outer: &Path) -> bool {
    match (settled(inner), settled(outer)) {
        (Some(inner), Some(outer)) => inner.starts_with(outer),
        _ => false,
    }
}

/// Without links, as far as it is there.
#[allow(clippy::disallowed_methods, reason = "asked of a directory's name, before there is a disk to go through")]
fn settled(path: &Path) -> Option<PathBuf> {
    let found = path.ancestors().find_map(|there| Some((there.canonicalize().ok()?, there)));
    let (settled, there) = found?;
    Some(settled.join(path.strip_prefix(there).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "what others have left is made by other means")]
    fn many_may_begin_at_once_and_after_one_that_was_killed() {
        let root = std::env::temp_dir().join(format!("backup-places-{}", std::process::id()));
        for round in 0..20 {
            let place = Place::Directory(root.join(round.to_string()));
            if round % 2 == 0 {
                std::fs::create_dir_all(root.join(round.to_string())).unwrap();
                std::fs::write(root.join(format!("{round}/{MARK}{NEW}")), "Back").unwrap();
            }
            std::thread::scope(|scope| {
                for number in 0..4 {
                    let place = &place;
                    scope.spawn(move || place.open(None).unwrap().put(&format!("folder/{number}"), b"1").unwrap());
                }
            });
            assert!(place.open_existing().is_ok());
        }
        let strange = root.join("strange");
        std::fs::create_dir_all(strange.join("photos")).unwrap();
        assert!(Place::Directory(strange).open(None).is_err());
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn absolute_file_urls_are_places_and_others_are_refused_by_what_is_wrong() {
        assert_eq!(Place::of_url("file:///a/b c").unwrap(), Place::Directory("/a/b c".into()));
        for (url, reason) in [
            ("/a", "must be a URL"),
            ("file://a", "absolute"),
            ("s3://bucket/a", "only file://"),
            ("file:///a%20b", "percent"),
        ] {
            assert!(Place::of_url(url).unwrap_err().to_string().contains(reason), "{url}");
        }
    }
}
