//! The data of a member that was away while the shared log was trimmed: it cannot go on, and gets another member's data in the place of its own.
//!
//! Called by `fetching` before the data directory is used. Its own data is kept in a folder of the directory until the other is whole: nobody knows whether anybody else
//! has any. The oplog's folder is moved first, and what is there says how far an interrupted start has come:
//!
//! | `aside/` | `oplog/` | note of an unfinished restore | what is done |
//! |---|---|---|---|
//! | no | yes | no | looks whether the log has what is needed; if not, sets aside |
//! | yes | no | no | goes on setting aside |
//! | yes | either | yes | goes on restoring |
//! | yes | yes | no | restored, or nothing was moved: removes the folder |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backup::{NOT_IN_THE_WAY, SET_ASIDE};
use platform::{Disk, RealDisk};
use replication::StandingFile;
use shared_log::{Offset, SharedLog};

use crate::configuration::KeySource;
use crate::data_disk::{self, Unencrypted};

/// What is first moved.
pub(super) const OPLOG: &str = "oplog";

/// What a member needs of a log that has it no longer.
pub(super) struct Gone {
    /// From which record on it would have to read.
    pub(super) needs: Offset,
    /// Where the log begins.
    pub(super) first: Offset,
}

/// Whether the log has lost what the member in this directory would have to read. What cannot be read says nothing here: who opens the directory tells.
pub(super) fn is_gone(log: &dyn SharedLog, (data, key): (&Path, Option<&KeySource>)) -> Result<Option<Gone>, String> {
    let real = RealDisk::new(data).map_err(|error| error.to_string())?;
    let Ok(disk) = data_disk::open(real, data, key, Unencrypted::Refuse) else { return Ok(None) };
    let Ok(standing) = StandingFile::open(disk) else { return Ok(None) };
    let (identity, bounds) =
        log.identity().and_then(|identity| Ok((identity, log.bounds()?))).map_err(|error| error.to_string())?;
    let stored = standing.stored().filter(|stored| stored.log == identity && stored.next < bounds.first);
    Ok(stored.map(|stored| Gone { needs: stored.next, first: bounds.first }))
}

/// Moves everything of a directory aside, but for what belongs to it as a directory. Goes on where it was interrupted.
pub(super) fn set_aside(notes: &RealDisk) -> std::io::Result<()> {
    let (folder, root) = (Path::new(SET_ASIDE), Path::new(""));
    notes.create_directory(folder)?;
    let move_one = |name: &str| notes.rename(Path::new(name), &folder.join(name));
    if notes.exists(Path::new(OPLOG))? {
        move_one(OPLOG)?;
    }
    let sync = || notes.sync_directory(folder).and_then(|()| notes.sync_directory(root));
    sync()?;
    for name in notes.list(root)? {
        if !NOT_IN_THE_WAY.contains(&&*name) {
            move_one(&name)?;
        }
    }
    sync()
}

/// The other member's data is whole: what of the former is no data comes back, and the rest is removed.
pub(super) fn remove(notes: &Arc<RealDisk>, data: &Path) -> std::io::Result<()> {
    let folder = Path::new(SET_ASIDE);
    for name in notes.list(folder)? {
        let path = PathBuf::from(&name);
        if data_disk::is_no_data(&name) && !notes.exists(&path)? {
            notes.rename(&folder.join(&name), &path)?;
        }
    }
    #[allow(clippy::disallowed_methods, reason = "a folder of our own, with folders in it")]
    std::fs::remove_dir_all(data.join(folder))
}

#[cfg(test)]
mod tests {
    use platform::OpenMode;

    use super::*;

    fn names(disk: &RealDisk, directory: &str) -> Vec<String> {
        disk.list(Path::new(directory)).unwrap()
    }

    fn directory() -> (tempfile::TempDir, Arc<RealDisk>) {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(directory.path()).unwrap();
        for folder in [OPLOG, "rings", flight_recorder::file_names::DIRECTORY] {
            disk.create_directory(Path::new(folder)).unwrap();
        }
        for file in ["oplog/0", "pages.plimsoll", "plimsoll.lock", "encryption.keys"] {
            disk.open(Path::new(file), OpenMode::Create).unwrap();
        }
        (directory, Arc::new(disk))
    }

    #[test]
    fn data_goes_aside_and_figures_come_back() {
        let (directory, disk) = directory();
        set_aside(&disk).unwrap();
        assert_eq!(names(&disk, ""), [SET_ASIDE, "encryption.keys", "plimsoll.lock"]);
        assert_eq!(names(&disk, "aside/oplog"), ["0"]);
        disk.create_directory(Path::new(OPLOG)).unwrap();
        remove(&disk, directory.path()).unwrap();
        assert_eq!(
            names(&disk, ""),
            ["encryption.keys", flight_recorder::file_names::DIRECTORY, OPLOG, "plimsoll.lock"]
        );
    }

    #[test]
    fn setting_aside_goes_on_where_it_ended() {
        let (_directory, disk) = directory();
        disk.create_directory(Path::new(SET_ASIDE)).unwrap();
        disk.rename(Path::new(OPLOG), Path::new("aside/oplog")).unwrap();
        set_aside(&disk).unwrap();
        assert_eq!(names(&disk, "aside"), [flight_recorder::file_names::DIRECTORY, OPLOG, "pages.plimsoll", "rings"]);
    }
}
