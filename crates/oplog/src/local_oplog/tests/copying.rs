//! Pieces of the log make the same log again, up to any entry.

use std::path::Path;

use platform::SimulatedDisk;

use super::*;
use crate::{OplogPiece, RestoredOplog, check_piece};

fn pieces(oplog: &LocalOplog, bytes_max: usize) -> Vec<OplogPiece> {
    let mut position = oplog.segment_of(oplog.first_position()).unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = oplog.copy_durable(position, bytes_max).unwrap() {
        position = piece.end();
        pieces.push(piece);
    }
    assert_eq!(position, oplog.durable_position());
    pieces
}

#[test]
fn a_log_is_put_together_again_up_to_any_entry() {
    let machine = Machine::new(1, 2000);
    let oplog = machine.open();
    for number in 0..40 {
        append_durable(&oplog, &payload(number, 50 + number * 7)).unwrap();
    }
    append(&oplog, b"not durable").unwrap();
    let written = read_all(&oplog).unwrap();
    for bytes_max in [1, 300, usize::MAX] {
        let pieces = pieces(&oplog, bytes_max);
        assert!(pieces.windows(2).any(|pair| pair[0].segment != pair[1].segment));
        for ends in [1, 7, 39, 40] {
            let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(2));
            let restored = RestoredOplog::begin(disk.clone(), Path::new("oplog")).unwrap();
            let mut left = ends;
            for piece in &pieces {
                let is_wanted = left > 1;
                let mut visit = |_: &crate::OplogEntry<'_>| {
                    left = usize::saturating_sub(left, 1);
                    left > 0
                };
                let wanted = check_piece(&piece.bytes, piece.start, &mut visit).unwrap();
                if is_wanted {
                    restored.write(piece.segment, piece.start, &piece.bytes[..wanted]).unwrap();
                }
            }
            restored.finish().unwrap();
            let other = Machine { disk: SimulatedDisk::new(9), ..Machine::new(1, 2000) };
            let opened = LocalOplog::open(disk, other.clock.clone(), other.options.clone()).unwrap();
            assert_eq!(read_all(&opened).unwrap(), written[..ends - 1]);
            append_durable(&opened, b"it goes on").unwrap();
        }
    }
}

#[test]
fn a_damaged_entry_is_found_where_it_is() {
    let machine = Machine::new(1, 4000);
    let oplog = machine.open();
    let ends: Vec<_> = (0..5).map(|number| append_durable(&oplog, &payload(number, 100)).unwrap().end).collect();
    let mut piece = pieces(&oplog, usize::MAX).remove(0);
    piece.bytes[ends[1].0 as usize + 50] ^= 1;
    assert_eq!(check_piece(&piece.bytes, piece.start, &mut |_| true), Err(ends[1]));
    machine.disk.flip_bit(&machine.segment_path(0), 4096 + ends[2].0 + 40, 3).unwrap();
    let found = oplog.copy_durable(OplogPosition(0), usize::MAX);
    assert!(matches!(found, Err(crate::OplogError::Corrupt { position, .. }) if position == ends[2]), "{found:?}");
}
