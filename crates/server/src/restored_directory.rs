//! What a data directory says of its restore: at a start one whose restore has not ended is refused, and one that was restored is told of.
//!
//! Called by `data_disk`. The notes are those that `backup::restore` leaves.

use std::path::Path;

use backup::{RESTORED_NOTE, UNFINISHED_NOTE};
use platform::{Disk, OpenMode, RealDisk};

/// At the start of a server: refuses a directory whose restore has not ended, and tells of one that was restored.
///
/// # Errors
/// Its restore has not ended, or it cannot be looked into.
pub fn tell(disk: &RealDisk, data: &Path) -> Result<(), String> {
    let has = |name: &str| {
        disk.exists(Path::new(name)).map_err(|error| format!("cannot look into {}: {error}", data.display()))
    };
    if has(UNFINISHED_NOTE)? {
        return Err(format!("a restore into {} has not ended: run `plimsoll restore` again", data.display()));
    }
    if has(RESTORED_NOTE)? {
        let note = read_note(disk).unwrap_or_else(|error| format!("its note {RESTORED_NOTE} cannot be read: {error}"));
        tracing::info!(target: "storage", note, "this data directory was restored from a backup");
    }
    Ok(())
}

fn read_note(disk: &RealDisk) -> std::io::Result<String> {
    let file = disk.open(Path::new(RESTORED_NOTE), OpenMode::Read)?;
    let mut bytes = vec![0; usize::try_from(file.length()?).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
