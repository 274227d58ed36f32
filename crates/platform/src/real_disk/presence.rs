//! Whether the files that are open for writing are still where they were opened.
//!
//! Called by `RealDisk`, with every sync and whenever somebody asks. A process can go on writing into files that have lost their names, or whose
//! directory has: everything succeeds, and nothing of it is found again. So each file that is open for writing is known by its identity (device and
//! number), and its name must lead to that. What we remove ourselves has no name to look for.

#![allow(clippy::disallowed_methods, reason = "beneath the Disk trait")]

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// What a file stays, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(super) fn of(metadata: &std::fs::Metadata) -> Identity {
        Identity { device: metadata.dev(), number: metadata.ino() }
    }
}

/// The directory, and the files in it that are open for writing.
pub(super) struct Root {
    path: PathBuf,
    identity: Identity,
    open: Mutex<HashMap<Identity, Name>>,
}

/// Where an open file is.
struct Name {
    /// `None`: we have removed it.
    path: Option<PathBuf>,
    handles: usize,
}

impl Root {
    /// The directory as it is now.
    pub(super) fn new(path: PathBuf) -> io::Result<Root> {
        // Whatever becomes of the process's working directory.
        let path = path.canonicalize()?;
        let identity = Identity::of(&path.metadata()?);
        Ok(Root { path, identity, open: Mutex::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file was opened for writing.
    pub(super) fn opened(&self, file: &std::fs::File, path: PathBuf) -> io::Result<Identity> {
        let identity = Identity::of(&file.metadata()?);
        let mut open = self.open.lock();
        let name = open.entry(identity).or_insert(Name { path: None, handles: 0 });
        name.path = Some(path);
        name.handles += 1;
        Ok(identity)
    }

    pub(super) fn closed(&self, identity: Identity) {
        let mut open = self.open.lock();
        if let Some(name) = open.get_mut(&identity) {
            name.handles -= 1;
            if name.handles == 0 {
                open.remove(&identity);
            }
        }
    }

    /// Removes a file with its name.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut open = self.open.lock();
        let identity = Identity::of(&path.symlink_metadata()?);
        std::fs::remove_file(path)?;
        forget(&mut open, identity);
        Ok(())
    }

    /// Renames a file; what was called `to` has no name afterwards.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut open = self.open.lock();
        let renamed = Identity::of(&from.symlink_metadata()?);
        let replaced = to.symlink_metadata().ok().map(|metadata| Identity::of(&metadata));
        std::fs::rename(from, to)?;
        if let Some(replaced) = replaced.filter(|replaced| *replaced != renamed) {
            forget(&mut open, replaced);
        }
        if let Some(name) = open.get_mut(&renamed) {
            name.path = Some(to.to_owned());
        }
        Ok(())
    }

    /// Renames a file unless there is something called `to`.
    pub(super) fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut open = self.open.lock();
        let renamed = Identity::of(&from.symlink_metadata()?);
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // File systems of networks mostly cannot, but a second name is exclusive everywhere.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_by_link(from, to)?,
            result => result?,
        }
        if let Some(name) = open.get_mut(&renamed) {
            name.path = Some(to.to_owned());
        }
        Ok(())
    }

    /// Whether the directory and all files are there.
    pub(super) fn check_all(&self) -> io::Result<()> {
        self.check_at(&self.path, self.identity)?;
        let open = self.open.lock();
        open.iter().try_for_each(|(identity, name)| self.check_name(name, *identity))
    }

    /// Whether the directory and one file are there.
    pub(super) fn check(&self, identity: Identity) -> io::Result<()> {
        let open = self.open.lock();
        open.get(&identity).map_or(Ok(()), |name| self.check_name(name, identity))
    }

    fn check_name(&self, name: &Name, identity: Identity) -> io::Result<()> {
        // The way to the file leads through the directory.
        name.path.as_deref().map_or(Ok(()), |path| self.check_at(path, identity))
    }

    fn check_at(&self, path: &Path, identity: Identity) -> io::Result<()> {
        match path.metadata() {
            Ok(metadata) if Identity::of(&metadata) == identity => Ok(()),
            // Taken away from us is the right to look, which says nothing.
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            _ => Err(io::Error::other(format!(
                "{} is not there any more: it was removed, renamed or replaced, or its file system was taken away, and what is written now would not be \
                 found again",
                path.display()
            ))),
        }
    }
}

fn rename_by_link(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    // It has its new name; that it keeps the old one as well harms nobody.
    let _ = std::fs::remove_file(from);
    Ok(())
}

fn forget(open: &mut HashMap<Identity, Name>, identity: Identity) {
    if let Some(name) = open.get_mut(&identity) {
        name.path = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_takes_the_place_of_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::write(&from, b"one").unwrap();
        rename_by_link(&from, &to).unwrap();
        assert!(!from.exists());
        std::fs::write(&from, b"another").unwrap();
        assert_eq!(rename_by_link(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            (std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap()),
            (b"another".to_vec(), b"one".to_vec())
        );
    }
}
