//! Notices of members as files beside the records. Nothing is synced: after a power loss each member puts up another one.

use std::io;
use std::path::{Path, PathBuf};

use platform::{Disk, OpenMode};

/// Where they are.
const MEMBERS: &str = "members";
/// The ending of one that is being written.
const NEW_SUFFIX: &str = ".new";
/// More than any notice has.
const BYTES_MAX: u64 = 64 << 10;

fn path(node: u64) -> PathBuf {
    Path::new(MEMBERS).join(format!("{node:016x}"))
}

/// Puts up a member's notice. `number` tells two processes of one member apart.
pub(super) fn post(disk: &dyn Disk, node: u64, number: u64, notice: &[u8]) -> io::Result<()> {
    if !disk.exists(Path::new(MEMBERS))? {
        disk.create_directory(Path::new(MEMBERS))?;
    }
    let new = Path::new(MEMBERS).join(format!("{node:016x}-{number:016x}{NEW_SUFFIX}"));
    let written = disk.open(&new, OpenMode::Create).and_then(|file| file.write_all_at(notice, 0));
    written.and_then(|()| disk.rename(&new, &path(node))).inspect_err(|_| {
        // It lies there, and is nobody's notice.
        let _ = disk.remove(&new);
    })
}

/// All of them.
pub(super) fn notices(disk: &dyn Disk) -> io::Result<Vec<Vec<u8>>> {
    if !disk.exists(Path::new(MEMBERS))? {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for name in disk.list(Path::new(MEMBERS))?.iter().filter(|name| !name.ends_with(NEW_SUFFIX)) {
        let file = match disk.open(&Path::new(MEMBERS).join(name), OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let mut bytes = vec![0; file.length()?.min(BYTES_MAX) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        found.push(bytes);
    }
    Ok(found)
}

/// Takes one down.
pub(super) fn withdraw(disk: &dyn Disk, node: u64) -> io::Result<()> {
    match disk.remove(&path(node)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
