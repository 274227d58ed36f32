//! Who may read the data: the server's own user, and nobody else.
//!
//! Called by `RealDisk` for what it makes, and by the server at the start for what is there already.

#![allow(clippy::disallowed_methods, reason = "beneath the Disk trait")]

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Everything that is for others than the owner.
const OF_OTHERS: u32 = 0o077;
/// A directory in which everybody has files of their own, as `/tmp`.
const STICKY: u32 = 0o1000;

/// Makes a directory, and those above it that are missing, for the owner alone.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// A file that is made is for the owner alone.
pub(crate) fn restrict_new(options: &mut std::fs::OpenOptions) {
    options.mode(FILE_MODE);
}

/// Takes from everybody else what they may do with a directory and all that is in it; says for what that cannot be done.
pub(super) fn restrict(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    restrict_directory(root, &mut problems);
    problems
}

fn restrict_directory(path: &Path, problems: &mut Vec<String>) {
    let restricted = restrict_one(path, DIRECTORY_MODE).and_then(|()| std::fs::read_dir(path));
    let entries = match restricted {
        Ok(entries) => entries,
        Err(error) => return problems.push(format!("{}: {error}", path.display())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => restrict_directory(&path, problems),
            Ok(kind) if kind.is_file() => {
                if let Err(error) = restrict_one(&path, FILE_MODE) {
                    problems.push(format!("{}: {error}", path.display()));
                }
            }
            // A link leads elsewhere.
            _ => {}
        }
    }
}

fn restrict_one(path: &Path, wanted: u32) -> io::Result<()> {
    let mode = path.metadata()?.permissions().mode();
    if mode & OF_OTHERS == 0 {
        return Ok(());
    }
    if mode & STICKY != 0 || path.parent().is_none() {
        return Err(io::Error::other("it is a directory that others use, too: give the data one of its own"));
    }
    std::fs::set_permissions(path, Permissions::from_mode(wanted))
}
