//! Where a URL points: a directory, or a part of an object store. Opening it gives an `ObjectStore`.
//!
//! Called by `commands` and `server` with what people have written. A place has a mark: what has none and is not empty is somebody
//! else's, and nothing is written there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, RealDisk};

use crate::cloud_place::{CloudPlace, SCHEMES};
use crate::cloud_store::CloudStore;
use crate::directory_store::{DirectoryStore, NEW};
use crate::error::{BackupError, Result};
use crate::object_store::ObjectStore;

/// Where a URL points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `file:///path`: a directory of the machine that reads or writes it.
    Directory(PathBuf),
    /// `s3://bucket/prefix` and its like: a part of an object store.
    Cloud(CloudPlace),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(path) => write!(formatter, "file://{}", path.display()),
            Place::Cloud(place) => place.fmt(formatter),
        }
    }
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
            scheme if SCHEMES.contains(&scheme) => match CloudPlace::parse(scheme, rest) {
                Ok(place) => Ok(Place::Cloud(place)),
                Err(reason) => refused(&reason),
            },
            _ => refused("it must begin with file://, s3://, gs:// or az://"),
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
    /// `Place`: it is somebody else's, or is not to be reached; `Io`.
    pub fn open(&self, apart_from: Option<&Path>) -> Result<Arc<dyn ObjectStore>> {
        match self {
            Place::Directory(path) => open_directory(path, apart_from),
            Place::Cloud(place) => open_cloud(place, Missing::Make),
        }
    }

    /// The place for reading: it must be there.
    ///
    /// # Errors
    /// `Place`.
    pub fn open_existing(&self) -> Result<Arc<dyn ObjectStore>> {
        let path = match self {
            Place::Directory(path) => path,
            Place::Cloud(place) => return open_cloud(place, Missing::Refuse),
        };
        #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would make the directory")]
        let is_ours = path.join(MARK).is_file();
        match is_ours {
            true => self.open(None),
            false => Err(nothing_in(&path.display())),
        }
    }
}

fn nothing_in(place: &dyn fmt::Display) -> BackupError {
    BackupError::Place(format!("there are no backups in {place}"))
}

fn open_directory(path: &Path, apart_from: Option<&Path>) -> Result<Arc<dyn ObjectStore>> {
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

/// What is done where there are no backups yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

fn open_cloud(place: &CloudPlace, missing: Missing) -> Result<Arc<dyn ObjectStore>> {
    let refused = |reason: &dyn fmt::Display| BackupError::Place(format!("{place}: {reason}"));
    let objects = CloudStore::open(place).map_err(|error| refused(&error))?;
    // Asked first, and with little patience: whether there is such a place, and we may use it.
    let is_marked = objects.has_soon(MARK).map_err(|error| refused(&error))?;
    if !is_marked {
        if missing == Missing::Refuse {
            return Err(nothing_in(place));
        }
        let is_marked_since = || objects.has_soon(MARK);
        if !may_begin(objects.is_anything_there(), is_marked_since).map_err(|error| refused(&error))? {
            return Err(refused(&"there is something, and it is no backup"));
        }
        // Several may do so at once: they write the same.
        objects.put(MARK, MARK_TEXT).map_err(|error| refused(&error))?;
    }
    Ok(Arc::new(objects))
}

/// Whether backups may be begun in a place that had no mark: nothing is there, or somebody has begun meanwhile, who puts his mark before anything else.
fn may_begin(
    is_anything_there: io::Result<bool>,
    is_marked_since: impl FnOnce() -> io::Result<bool>,
) -> io::Result<bool> {
    Ok(!is_anything_there? || is_marked_since()?)
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
    fn a_place_is_ours_whose_mark_came_while_it_was_looked_at() {
        assert!(may_begin(Ok(false), || panic!("nobody is there")).unwrap());
        assert!(may_begin(Ok(true), || Ok(true)).unwrap());
        assert!(!may_begin(Ok(true), || Ok(false)).unwrap());
        assert!(may_begin(Ok(true), || Err(io::ErrorKind::TimedOut.into())).is_err());
    }

    #[test]
    fn absolute_file_urls_are_places_and_others_are_refused_by_what_is_wrong() {
        assert_eq!(Place::of_url("file:///a/b c").unwrap(), Place::Directory("/a/b c".into()));
        for (url, reason) in [
            ("/a", "must be a URL"),
            ("file://a", "absolute"),
            ("ftp://host/a", "must begin with file://, s3://"),
            ("s3:///a", "bucket"),
            ("gs://bucket/a//b", "empty"),
            ("az://bucket/a?b", "question marks"),
            ("file:///a%20b", "percent"),
        ] {
            assert!(Place::of_url(url).unwrap_err().to_string().contains(reason), "{url}");
        }
        for url in ["s3://bucket/a/b", "gs://bucket", "az://container/a", "file:///a/b"] {
            assert_eq!(Place::of_url(url).unwrap().to_string(), url);
        }
        assert_eq!(Place::of_url("s3://bucket/a/").unwrap().to_string(), "s3://bucket/a");
    }
}
