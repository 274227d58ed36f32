//! Cutting what a member of a replica set has logged and the set has not.
//!
//! Called while nobody has the log open: by a member that is about to follow another one. What is cut was never confirmed, so no client was told of it, and no
//! checkpoint has it. A crash in the midst of it leaves a log that is longer than it is to be, and is cut again.

use std::path::PathBuf;
use std::sync::Arc;

use platform::{Clock, Disk, OpenMode};

use super::recovery::clear;
use super::segment::{file_offset, not_opened};
use super::segment_store::SegmentStore;
use crate::{OplogError, OplogPosition, Result};

/// Cuts everything from `position` on, where an entry begins.
///
/// # Errors
/// `PositionTruncated` when the log begins behind that; `Io`.
pub fn cut_from(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, directory: PathBuf, position: OplogPosition) -> Result<()> {
    let store = SegmentStore::new(disk, clock, directory);
    let starts = store.list().map_err(OplogError::io("list its directory"))?;
    let Some(&last) = starts.iter().rfind(|start| **start <= position.0) else {
        let first = OplogPosition(starts.first().copied().unwrap_or_default());
        return Err(OplogError::PositionTruncated { position, first });
    };
    // The newest first, so that a crash leaves no gap.
    for start in starts.iter().rev().filter(|start| **start > last) {
        store.remove(*start).map_err(OplogError::io("remove a segment"))?;
        store.sync_directory().map_err(OplogError::io("remove a segment"))?;
    }
    let file = store.open(last, OpenMode::ReadWrite).map_err(not_opened(last))?;
    let length = file.length().map_err(OplogError::io("read the length of a segment"))?;
    let from = file_offset(last, position.0);
    clear(&*file, from, length.max(from)).map_err(OplogError::io("cut a segment"))?;
    file.sync_data().map_err(OplogError::io("cut a segment"))
}

#[cfg(test)]
mod tests {
    use platform::{SimulatedClock, SimulatedDisk};

    use super::*;
    use crate::{LocalOplog, Oplog, OplogOptions};

    #[test]
    fn what_is_cut_is_gone_and_the_log_goes_on_there() {
        for kept in [0, 1, 7, 40, 99, 100] {
            let (disk, clock) = (Arc::new(SimulatedDisk::new(3)), Arc::new(SimulatedClock::new(1_000_000)));
            let options = OplogOptions { segment_bytes: 2_000, ..OplogOptions::default() };
            let open = || LocalOplog::open(disk.clone(), clock.clone(), options.clone()).unwrap();
            let append = |oplog: &LocalOplog, number: u8| {
                oplog.append(&mut |_, bytes| bytes.extend([number; 80]), &mut |_, _| {}).unwrap()
            };
            let oplog = open();
            let ends: Vec<_> = (0..100).map(|number| append(&oplog, number).end).collect();
            oplog.wait_durable(oplog.end_position()).unwrap();
            drop(oplog);
            let position = if kept == 0 { OplogPosition(0) } else { ends[kept - 1] };
            cut_from(disk.clone(), clock.clone(), options.directory.clone(), position).unwrap();
            let oplog = open();
            assert_eq!(oplog.end_position(), position, "{kept}");
            append(&oplog, 200);
            oplog.wait_durable(oplog.end_position()).unwrap();
            drop(oplog);
            let oplog = open();
            let mut reader = oplog.read_from(OplogPosition(0)).unwrap();
            let mut found = Vec::new();
            while let Some(entry) = reader.next_entry().unwrap() {
                found.push(entry.payload[0]);
            }
            assert_eq!(found, (0..kept as u8).chain([200]).collect::<Vec<_>>());
        }
    }
}
