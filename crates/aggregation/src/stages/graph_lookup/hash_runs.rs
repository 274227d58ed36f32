//! Sets of hashes on temporary storage: sorted runs, of which memory has the first hash of each block.
//!
//! A look reads one block of each run. When there are `RUNS_MAX` of them they become one. Used by `seen_values`.

use document::work;

use super::STAGE;
use crate::context::RunContext;
use crate::error::Result;
use crate::host::SpillReader;
use crate::spill::{self, damaged};

const HASH_BYTES: usize = size_of::<u128>();
/// Hashes of a block, which is a record of a run.
const BLOCK: usize = 256;
const RUNS_MAX: usize = 8;

/// See the module's head.
#[derive(Default)]
pub(super) struct HashRuns(Vec<HashRun>);

struct HashRun {
    reader: Box<dyn SpillReader>,
    /// The first hash of each block.
    firsts: Vec<u128>,
    /// The block that was read last.
    block: Vec<u8>,
    block_number: Option<usize>,
}

impl HashRuns {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&mut self, hash: u128) -> Result<bool> {
        work::done(BLOCK.ilog2() as usize * self.0.len())?;
        for run in &mut self.0 {
            if run.contains(hash)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a run of these, which are sorted.
    pub(super) fn add(&mut self, hashes: &[u128], run: &RunContext) -> Result<()> {
        let mut writing = Writing::begin(run)?;
        hashes.iter().try_for_each(|hash| writing.put(*hash))?;
        self.0.push(writing.finish()?);
        if self.0.len() >= RUNS_MAX {
            let merged = merge(&mut self.0, run)?;
            self.0 = vec![merged];
        }
        Ok(())
    }
}

/// All hashes of some runs as one. No hash is in two of them.
fn merge(runs: &mut [HashRun], run: &RunContext) -> Result<HashRun> {
    let mut writing = Writing::begin(run)?;
    let mut sources = Vec::with_capacity(runs.len());
    for run in runs {
        run.reader.restart();
        let mut source = Source { run, at: 0, next: None };
        source.advance()?;
        sources.push(source);
    }
    loop {
        let first = sources.iter_mut().filter(|source| source.next.is_some()).min_by_key(|source| source.next);
        let Some((source, hash)) = first.and_then(|source| source.next.map(|hash| (source, hash))) else {
            return writing.finish();
        };
        work::step()?;
        writing.put(hash)?;
        source.advance()?;
    }
}

/// A run that is read from its beginning.
struct Source<'r> {
    run: &'r mut HashRun,
    /// In the block.
    at: usize,
    next: Option<u128>,
}

impl Source<'_> {
    fn advance(&mut self) -> Result<()> {
        let is_first = self.next.is_none();
        if is_first || self.at >= self.run.block.len() {
            self.at = 0;
            if !self.run.reader.next(&mut self.run.block)? {
                self.next = None;
                return Ok(());
            }
        }
        self.next = hash_at(&self.run.block, self.at / HASH_BYTES);
        self.at += HASH_BYTES;
        Ok(())
    }
}

impl HashRun {
    fn contains(&mut self, hash: u128) -> Result<bool> {
        let Some(number) = self.firsts.partition_point(|first| *first <= hash).checked_sub(1) else {
            return Ok(false);
        };
        if self.block_number != Some(number) {
            self.block_number = None;
            // All blocks before it are full.
            self.reader.seek(number as u64 * spill::record_bytes(BLOCK * HASH_BYTES))?;
            if !self.reader.next(&mut self.block)? {
                return Err(damaged());
            }
            self.block_number = Some(number);
        }
        let (mut low, mut high) = (0, self.block.len() / HASH_BYTES);
        while low < high {
            let middle = low.midpoint(high);
            match hash_at(&self.block, middle).ok_or_else(damaged)? {
                found if found == hash => return Ok(true),
                found if found < hash => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(false)
    }
}

fn hash_at(block: &[u8], position: usize) -> Option<u128> {
    let bytes = block.get(position * HASH_BYTES..)?.first_chunk::<HASH_BYTES>()?;
    Some(u128::from_le_bytes(*bytes))
}

/// A run that is being written.
struct Writing {
    writer: Box<dyn crate::host::SpillWriter>,
    firsts: Vec<u128>,
    block: Vec<u8>,
}

impl Writing {
    fn begin(run: &RunContext) -> Result<Writing> {
        let writer = spill::begin_run(run, STAGE)?;
        Ok(Writing { writer, firsts: Vec::new(), block: Vec::with_capacity(BLOCK * HASH_BYTES) })
    }

    fn put(&mut self, hash: u128) -> Result<()> {
        if self.block.is_empty() {
            self.firsts.push(hash);
        }
        self.block.extend_from_slice(&hash.to_le_bytes());
        if self.block.len() == BLOCK * HASH_BYTES {
            self.writer.append(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<HashRun> {
        if !self.block.is_empty() {
            self.writer.append(&self.block)?;
        }
        let reader = self.writer.finish()?;
        Ok(HashRun { reader, firsts: self.firsts, block: Vec::new(), block_number: None })
    }
}
