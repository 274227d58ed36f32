//! Reading what is left of a ring in a damaged directory.
//!
//! Called by `transaction`'s repair, for a ring that no engine has open; nothing is written. What is damaged is passed over, and told: places that a later lap had
//! overwritten before the crash look the same, and are forgiven by the caller if the oplog overtakes them.

use std::sync::Arc;

use platform::Disk;

use super::file::RingFile;
use super::layout::{ALIGNMENT, RingState};
use super::reading::{AHEAD, Fetched, Window};
use super::registry::RingRegistry;
use super::{Ring, number_at};
use crate::TreeId;
use crate::error::EngineError;

/// What a walk over a damaged ring found beside documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SalvagedRing {
    /// The number below which everything was overtaken when the state was stored.
    pub head: i64,
    /// Places that could not be read: the first number, and the one behind.
    pub unreadable: Vec<(i64, i64)>,
}

/// Whether a value is the state of a ring.
pub fn is_ring_state(value: &[u8]) -> bool {
    RingState::decode(value).is_ok()
}

/// Calls `visit` with the number and bytes of each slot that can be read, oldest first. `state` is the entry of the ring in its tree.
///
/// # Errors
/// Those of `visit`; `RingFile` when the disk fails; `Setup` when the state is none.
pub fn salvage_ring<E: From<EngineError>>(
    disk: &Arc<dyn Disk>,
    number: u64,
    state: &[u8],
    mut visit: impl FnMut(i64, &[u8]) -> Result<(), E>,
) -> Result<SalvagedRing, E> {
    let state = RingState::decode(state)?;
    let file = RingFile::for_salvage(disk.clone(), number);
    // It belongs to no tree of an engine.
    let ring = Ring::new(number, TreeId(u64::MAX), file, RingRegistry::new(disk.clone(), 1), state);
    let mut salvaged = SalvagedRing { head: number_at(state.head), unreadable: Vec::new() };
    let (mut window, mut position) = (Window::default(), state.head);
    while position < state.tail {
        match ring.fetch(&mut window, position, AHEAD)? {
            Fetched::Slot(slot) => {
                visit(number_at(position), window.document(position))?;
                position += slot.bytes;
            }
            Fetched::Skip(to) => position = to,
            Fetched::End | Fetched::Overtaken => break,
            Fetched::Damaged => {
                let start = position;
                position = find_next(&ring, &mut window, position, state.tail)?;
                salvaged.unreadable.push((number_at(start), number_at(position)));
            }
        }
    }
    Ok(salvaged)
}

/// The next place behind a damaged one that can be read.
fn find_next(ring: &Ring, window: &mut Window, mut position: u64, tail: u64) -> Result<u64, EngineError> {
    loop {
        position = window.next_candidate(position + ALIGNMENT);
        if position >= tail || !matches!(ring.fetch(window, position, AHEAD)?, Fetched::Damaged) {
            return Ok(position.min(tail));
        }
    }
}
