//! What a checkpoint says of itself, in the opaque bytes that the page store keeps with it.
//!
//! Made by `checkpoint` when one begins and is published; read when the engine is opened, and by `salvage` and backups. The format
//! is in `docs/file-format.md`.

use platform::Timestamp;

use crate::TreeId;
use crate::error::{EngineError, Result};
use crate::page_store::PageId;

/// Leftovers of each kind in a mark, whose size the page store bounds; the rest is saved beside the trees.
pub(crate) const LEFTOVERS_IN_MARK_MAX: usize = 4096;
/// Beside the number of chains: behind them is the first page of saved changes.
const HAS_SAVED_CHANGES: u64 = 1 << 63;

/// What a checkpoint says of the oplog: everything before the position is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointMark {
    /// Replay begins here.
    pub oplog_position: u64,
    /// Commits up to this timestamp are in the checkpoint in full; some later ones may be, too.
    pub timestamp: Timestamp,
    /// What is in the checkpoint was logged before here: an oplog that ends earlier has lost something. Not known before it is published.
    pub oplog_end: u64,
}

/// What a checkpoint keeps of what is still to be freed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeptLeftovers {
    /// Overflow chains that only the lost version history referred to.
    pub(crate) chains: Vec<PageId>,
    /// Trees that were dropped and not yet freed.
    pub(crate) dropped_trees: Vec<TreeId>,
}

impl KeptLeftovers {
    /// Leaves what a mark may hold; returns the rest.
    pub(crate) fn split_off(&mut self) -> KeptLeftovers {
        let chains = self.chains.split_off(self.chains.len().min(LEFTOVERS_IN_MARK_MAX));
        let dropped_trees = self.dropped_trees.split_off(self.dropped_trees.len().min(LEFTOVERS_IN_MARK_MAX));
        KeptLeftovers { chains, dropped_trees }
    }

    pub(crate) fn append(&mut self, mut others: KeptLeftovers) {
        self.chains.append(&mut others.chains);
        self.dropped_trees.append(&mut others.dropped_trees);
    }
}

/// The opaque bytes that the page store keeps with a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkContents {
    pub(crate) mark: CheckpointMark,
    /// As many of the leftovers as fit; more are with the saved changes.
    pub(crate) leftovers: KeptLeftovers,
    /// Where buffered changes were saved, if there were any.
    pub(crate) saved_changes: Option<PageId>,
}

impl MarkContents {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mark = self.mark;
        let flag = self.saved_changes.map_or(0, |_| HAS_SAVED_CHANGES);
        let KeptLeftovers { chains, dropped_trees } = &self.leftovers;
        let mut numbers = vec![mark.oplog_position, mark.timestamp.0, mark.oplog_end, chains.len() as u64 | flag];
        numbers.extend(chains.iter().chain(&self.saved_changes).map(|page| page.0));
        numbers.extend(dropped_trees.iter().map(|tree| tree.0));
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let numbers: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        let decoded = (|| {
            let ([oplog_position, timestamp, oplog_end, count], rest) = numbers.split_first_chunk::<4>()?;
            let (chains, rest) = rest.split_at_checked((count & !HAS_SAVED_CHANGES) as usize)?;
            let has_saved = count & HAS_SAVED_CHANGES != 0;
            let (saved_changes, dropped_trees) = rest.split_at_checked(usize::from(has_saved))?;
            Some(Self {
                mark: CheckpointMark {
                    oplog_position: *oplog_position,
                    timestamp: Timestamp(*timestamp),
                    oplog_end: *oplog_end,
                },
                leftovers: KeptLeftovers {
                    chains: chains.iter().map(|page| PageId(*page)).collect(),
                    dropped_trees: dropped_trees.iter().map(|tree| TreeId(*tree)).collect(),
                },
                saved_changes: saved_changes.first().map(|page| PageId(*page)),
            })
        })();
        decoded.ok_or_else(|| EngineError::Setup("the checkpoint's mark is damaged".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_their_encoding() {
        for saved_changes in [None, Some(PageId(0)), Some(PageId(4))] {
            let contents = MarkContents {
                mark: CheckpointMark { oplog_position: 77, timestamp: Timestamp(9), oplog_end: 80 },
                leftovers: KeptLeftovers { chains: vec![PageId(5), PageId(6)], dropped_trees: vec![TreeId(8)] },
                saved_changes,
            };
            assert_eq!(MarkContents::decode(&contents.encode()).unwrap(), contents);
            assert!(MarkContents::decode(&contents.encode()[..20]).is_err());
            assert!(MarkContents::decode(&contents.encode()[..40]).is_err());
        }
    }
}
