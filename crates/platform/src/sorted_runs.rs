//! Sorted runs of records, and their merge: the external sort of whoever sorts more than fits into memory.
//!
//! Called by `executor` (SORT), `aggregation` (`$sort`, `$group`) and the index builds of `transaction`. What a record is, where a run is kept
//! and how records are ordered is the caller's (`RunFormat`). Runs are merged when there are many, so that few files are open and each
//! merge reads few streams; a run that was made by merging stands before later ones, as equal records keep the order in which they came.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem;

/// Runs of one level that are merged into one of the next.
const FAN_IN: usize = 16;

/// What stands in the runs of one sort. A clone is made for each run that is merged.
pub trait RunFormat: Clone {
    /// Reads a run from its beginning.
    type Run;
    /// A record taken apart.
    type Record: Default;
    /// Why a run cannot be read or written.
    type Error;

    /// Replaces `record` by the next one of `run`; `false` at its end. `buffer` is only reused space.
    ///
    /// # Errors
    /// Those of reading.
    fn read(&self, run: &mut Self::Run, buffer: &mut Vec<u8>, record: &mut Self::Record) -> Result<bool, Self::Error>;

    /// The order of two records.
    fn compare(&self, left: &Self::Record, right: &Self::Record) -> Ordering;
}

/// Runs in the order in which they were made.
pub struct SortedRuns<F: RunFormat> {
    format: F,
    /// With each, how many merges its records have been through.
    runs: Vec<(u32, F::Run)>,
    limit: usize,
}

impl<F: RunFormat> SortedRuns<F> {
    /// No runs. Of all records, `limit` are wanted at most.
    pub fn new(format: F, limit: usize) -> SortedRuns<F> {
        SortedRuns { format, runs: Vec::new(), limit }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a run. When there are enough of one level, `rewrite` makes one of them, by writing what their merge gives.
    ///
    /// # Errors
    /// Those of reading and of `rewrite`.
    pub fn push(
        &mut self,
        run: F::Run,
        mut rewrite: impl FnMut(&mut RunMerge<F>) -> Result<F::Run, F::Error>,
    ) -> Result<(), F::Error> {
        self.runs.push((0, run));
        while let Some((level, _)) = self.runs.last() {
            let level = *level;
            let same = self.runs.iter().rev().take_while(|(other, _)| *other == level).count();
            if same < FAN_IN {
                break;
            }
            let runs = self.runs.drain(self.runs.len() - same..).map(|(_, run)| run);
            let merged = rewrite(&mut merge(&self.format, runs, self.limit)?)?;
            self.runs.push((level + 1, merged));
        }
        Ok(())
    }

    /// All records in order.
    ///
    /// # Errors
    /// Those of reading.
    pub fn merge(self) -> Result<RunMerge<F>, F::Error> {
        merge(&self.format, self.runs.into_iter().map(|(_, run)| run), self.limit)
    }
}

fn merge<F: RunFormat>(format: &F, runs: impl Iterator<Item = F::Run>, limit: usize) -> Result<RunMerge<F>, F::Error> {
    let mut merge = RunMerge::new(limit);
    for run in runs {
        merge.add(format.clone(), run)?;
    }
    Ok(merge)
}

/// The records of several sorted runs in order; among equal ones those of earlier runs come first.
pub struct RunMerge<F: RunFormat> {
    /// The runs that are not at their end.
    heads: BinaryHeap<Head<F>>,
    ended: Vec<F::Run>,
    added: usize,
    buffer: Vec<u8>,
    left: usize,
}

/// A run and its next record.
struct Head<F: RunFormat> {
    format: F,
    record: F::Record,
    number: usize,
    run: F::Run,
}

impl<F: RunFormat> RunMerge<F> {
    /// Of no runs yet. No more than `limit` records are given out.
    pub fn new(limit: usize) -> RunMerge<F> {
        RunMerge { heads: BinaryHeap::new(), ended: Vec::new(), added: 0, buffer: Vec::new(), left: limit }
    }

    /// Adds a run behind the others.
    ///
    /// # Errors
    /// Those of reading.
    pub fn add(&mut self, format: F, mut run: F::Run) -> Result<(), F::Error> {
        let mut record = F::Record::default();
        if format.read(&mut run, &mut self.buffer, &mut record)? {
            self.heads.push(Head { format, record, number: self.added, run });
        } else {
            self.ended.push(run);
        }
        self.added += 1;
        Ok(())
    }

    /// Replaces `record` by the next one, and uses its space again; `false` at the end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn next(&mut self, record: &mut F::Record) -> Result<bool, F::Error> {
        if self.left == 0 {
            return Ok(false);
        }
        let Some(mut first) = self.heads.peek_mut() else { return Ok(false) };
        self.left -= 1;
        let head = &mut *first;
        mem::swap(&mut head.record, record);
        if !head.format.read(&mut head.run, &mut self.buffer, &mut head.record)? {
            self.ended.push(PeekMut::pop(first).run);
        }
        Ok(true)
    }

    /// The next record.
    pub fn peek(&self) -> Option<&F::Record> {
        self.heads.peek().filter(|_| self.left > 0).map(|head| &head.record)
    }

    /// Lets go of one run, and no record is given out any more; `false` when there is none. Whoever shares a disk rests between two,
    /// because the system frees at once what a file still has.
    pub fn close_one(&mut self) -> bool {
        self.left = 0;
        self.ended.extend(self.heads.drain().map(|head| head.run));
        self.ended.pop().is_some()
    }
}

// The smallest first, in a heap whose greatest comes first.
impl<F: RunFormat> Ord for Head<F> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.format.compare(&other.record, &self.record).then(other.number.cmp(&self.number))
    }
}

impl<F: RunFormat> PartialOrd for Head<F> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<F: RunFormat> PartialEq for Head<F> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<F: RunFormat> Eq for Head<F> {}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{Random, SeededRandom};

    /// Records are a key, by which they are ordered, and where they came.
    #[derive(Clone, Copy)]
    struct Numbers;

    type Run = std::vec::IntoIter<(u64, u64)>;

    impl RunFormat for Numbers {
        type Run = Run;
        type Record = (u64, u64);
        type Error = Infallible;

        fn read(&self, run: &mut Run, _: &mut Vec<u8>, record: &mut (u64, u64)) -> Result<bool, Infallible> {
            let next = run.next();
            *record = next.unwrap_or_default();
            Ok(next.is_some())
        }

        fn compare(&self, left: &(u64, u64), right: &(u64, u64)) -> Ordering {
            left.0.cmp(&right.0)
        }
    }

    fn all(merge: &mut RunMerge<Numbers>) -> Vec<(u64, u64)> {
        let (mut found, mut record) = (Vec::new(), (0, 0));
        loop {
            let peeked = merge.peek().copied();
            let Ok(is_found) = merge.next(&mut record);
            assert_eq!(peeked, is_found.then_some(record));
            if !is_found {
                return found;
            }
            found.push(record);
        }
    }

    #[test]
    fn a_merge_is_a_stable_sort() {
        let random = SeededRandom::new(5);
        for (runs, limit) in
            [(0, usize::MAX), (1, usize::MAX), (40, usize::MAX), (300, usize::MAX), (300, 100), (20, 0)]
        {
            let mut sorted = SortedRuns::new(Numbers, limit);
            let (mut expected, mut rewrites) = (Vec::new(), 0);
            for _ in 0..runs {
                let came = expected.len() as u64;
                let mut run: Vec<(u64, u64)> = (0..random.below(20)).map(|n| (random.below(30), came + n)).collect();
                expected.extend(run.iter().copied());
                run.sort_by_key(|record| record.0);
                let Ok(()) = sorted.push(run.into_iter(), |merge| {
                    rewrites += 1;
                    Ok(all(merge).into_iter())
                });
            }
            expected.sort_by_key(|record| record.0);
            expected.truncate(limit);
            let Ok(mut merge) = sorted.merge();
            assert_eq!(all(&mut merge), expected);
            assert_eq!(rewrites, runs / FAN_IN + runs / FAN_IN / FAN_IN);
        }
    }

    #[test]
    fn runs_are_closed_one_by_one() {
        let mut sorted = SortedRuns::new(Numbers, usize::MAX);
        for run in [vec![(1, 0), (4, 0)], vec![], vec![(2, 1), (3, 1)]] {
            let Ok(()) = sorted.push(run.into_iter(), |_| unreachable!());
        }
        let Ok(mut merge) = sorted.merge();
        let mut record = (0, 0);
        assert_eq!(merge.next(&mut record), Ok(true));
        assert!((0..3).all(|_| merge.close_one()) && !merge.close_one());
        assert_eq!(merge.next(&mut record), Ok(false));
    }
}
