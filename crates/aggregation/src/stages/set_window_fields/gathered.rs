//! Accumulators over windows.
//!
//! Where windows only grow, one state is fed on. Small windows are gathered one by one. Otherwise the states of stretches of documents are
//! put together as a tree, so that a window of any size is made of a few of them.

use std::ops::Range;

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Number, array_elements, work};
use query_language::accumulator::{Accumulator, AccumulatorExpression, Input, value_bytes};
use query_language::expression::{DependencySet, EvaluationContext, Expression, Value};

use super::Partition;
use super::results::Results;
use crate::error::Result;

/// Documents of the smallest stretches, and of the windows that are gathered one by one.
const STRETCH: usize = 16;

/// What is gathered.
#[derive(Debug)]
pub(super) enum Gathered {
    Accumulator(AccumulatorExpression),
    /// Of two expressions, which are an array.
    Covariance {
        pair: Expression,
        is_sample: bool,
    },
}

impl Gathered {
    pub(super) fn dependencies(&self, set: &mut DependencySet) {
        match self {
            Gathered::Accumulator(accumulator) => accumulator.dependencies(set),
            Gathered::Covariance { pair, .. } => pair.dependencies(set),
        }
    }

    fn new_state(&self, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        match self {
            Gathered::Accumulator(accumulator) => {
                let nothing = RawDocumentBuf::new();
                let first = partition.document(0)?;
                let first = first.as_deref().unwrap_or(&nothing);
                Ok(accumulator.new_state(&EvaluationContext::new(first, &partition.variables))?)
            }
            Gathered::Covariance { is_sample, .. } => {
                Ok(Box::new(Covariance { is_sample: *is_sample, ..Covariance::default() }))
            }
        }
    }

    fn feed(&self, state: &mut dyn Accumulator, document: &RawDocument, partition: &Partition) -> Result<()> {
        work::step()?;
        let context = EvaluationContext::new(document, &partition.variables);
        match self {
            Gathered::Accumulator(accumulator) => accumulator.accumulate(state, &context)?,
            Gathered::Covariance { pair, .. } => state.accumulate(Input::Value(pair.evaluate(&context)?))?,
        }
        Ok(())
    }

    /// The results for all documents.
    pub(super) fn over(&self, partition: &mut Partition, ranges: &[Range<usize>]) -> Result<Results> {
        let grows = ranges.windows(2).all(|pair| pair[0].start == pair[1].start && pair[0].end <= pair[1].end);
        if grows {
            return self.over_growing(partition, ranges);
        }
        if ranges.iter().all(|range| range.len() <= STRETCH) {
            return self.over_small(partition, ranges);
        }
        let tree = Tree::build(self, partition)?;
        let mut results = Results::new();
        for range in ranges {
            let mut state = self.new_state(partition)?;
            tree.gather(state.as_mut(), partition, tree.root(), range)?;
            results.push(partition, finish(state.as_ref())?)?;
        }
        Ok(results)
    }

    fn over_growing(&self, partition: &mut Partition, ranges: &[Range<usize>]) -> Result<Results> {
        let (mut results, mut last) = (Results::new(), None);
        let mut state = self.new_state(partition)?;
        let mut fed = ranges.first().map_or(0, |range| range.start);
        for (number, range) in ranges.iter().enumerate() {
            let is_same = number > 0 && fed == range.end;
            if fed < range.end {
                partition.each(fed..range.end, |document| self.feed(state.as_mut(), document, partition))?;
                fed = range.end;
            }
            if !is_same {
                last = finish(state.as_ref())?;
            }
            query_language::before_allocating_if_large(last.as_ref().map_or(0, value_bytes))?;
            results.push(partition, last.clone())?;
        }
        Ok(results)
    }

    fn over_small(&self, partition: &mut Partition, ranges: &[Range<usize>]) -> Result<Results> {
        let mut results = Results::new();
        for range in ranges {
            let mut state = self.new_state(partition)?;
            partition.each(range.clone(), |document| self.feed(state.as_mut(), document, partition))?;
            results.push(partition, finish(state.as_ref())?)?;
        }
        Ok(results)
    }
}

fn finish(state: &dyn Accumulator) -> Result<Option<RawBson>> {
    query_language::before_allocating_if_large(state.memory_bytes())?;
    Ok(state.finish()?.into_raw_bson())
}

/// States of stretches of documents; each level has stretches of twice the size.
struct Tree<'g> {
    gathered: &'g Gathered,
    levels: Vec<Vec<RawBson>>,
}

/// A stretch: its level, and its number there.
type Node = (usize, usize);

impl<'g> Tree<'g> {
    fn build(gathered: &'g Gathered, partition: &mut Partition) -> Result<Tree<'g>> {
        let mut lowest = Vec::new();
        for start in (0..partition.len()).step_by(STRETCH) {
            let mut state = gathered.new_state(partition)?;
            let stretch = start..(start + STRETCH).min(partition.len());
            partition.each(stretch, |document| gathered.feed(state.as_mut(), document, partition))?;
            lowest.push(state.to_partial()?);
        }
        let mut tree = Tree { gathered, levels: Vec::new() };
        tree.add(lowest, partition)?;
        while let Some(below) = tree.levels.last().filter(|level| level.len() > 1) {
            let mut level = Vec::with_capacity(below.len().div_ceil(2));
            for pair in below.chunks(2) {
                let mut state = gathered.new_state(partition)?;
                for partial in pair {
                    work::step()?;
                    state.merge(partial.as_raw_bson_ref())?;
                }
                level.push(state.to_partial()?);
            }
            tree.add(level, partition)?;
        }
        Ok(tree)
    }

    fn add(&mut self, level: Vec<RawBson>, partition: &mut Partition) -> Result<()> {
        partition.hold(level.iter().map(value_bytes).sum())?;
        self.levels.push(level);
        Ok(())
    }

    fn root(&self) -> Node {
        (self.levels.len().saturating_sub(1), 0)
    }

    /// Takes in, in their order, the documents of a stretch that lie in a range.
    fn gather(
        &self,
        state: &mut dyn Accumulator,
        partition: &Partition,
        (level, number): Node,
        range: &Range<usize>,
    ) -> Result<()> {
        work::step()?;
        let size = STRETCH << level;
        let (start, end) = (number * size, ((number + 1) * size).min(partition.len()));
        if start >= range.end || end <= range.start {
            return Ok(());
        }
        if range.start <= start && end <= range.end {
            if let Some(partial) = self.levels.get(level).and_then(|level| level.get(number)) {
                state.merge(partial.as_raw_bson_ref())?;
            }
            return Ok(());
        }
        if level > 0 {
            self.gather(state, partition, (level - 1, 2 * number), range)?;
            return self.gather(state, partition, (level - 1, 2 * number + 1), range);
        }
        let inside = start.max(range.start)..end.min(range.end);
        partition.each(inside, |document| self.gathered.feed(state, document, partition))
    }
}

/// The covariance of pairs of numbers, in doubles, by Welford's method; other pairs do not count.
#[derive(Debug, Default)]
struct Covariance {
    is_sample: bool,
    count: i64,
    means: (f64, f64),
    /// The sum of the products of the distances from the means.
    products: f64,
}

impl Accumulator for Covariance {
    fn accumulate(&mut self, input: Input<'_>) -> query_language::Result<()> {
        let value = input.into_value();
        let pair = value.get().and_then(RawBsonRef::as_array).map(array_elements);
        let mut numbers = pair.into_iter().flatten().map(|element| Number::from_bson(element.value()));
        if let (Some(Some(first)), Some(Some(second))) = (numbers.next(), numbers.next()) {
            let (first, second) = (first.to_f64(), second.to_f64());
            self.count += 1;
            let distance = first - self.means.0;
            self.means.0 += distance / self.count as f64;
            self.means.1 += (second - self.means.1) / self.count as f64;
            self.products += distance * (second - self.means.1);
        }
        Ok(())
    }

    fn finish(&self) -> query_language::Result<Value<'static>> {
        match self.count - i64::from(self.is_sample) {
            ..=0 => Ok(Value::NULL),
            divisor => Ok((self.products / divisor as f64).into()),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn to_partial(&self) -> query_language::Result<RawBson> {
        let numbers = [self.count as f64, self.means.0, self.means.1, self.products];
        Ok(RawBson::Array(numbers.into_iter().collect()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> query_language::Result<()> {
        let numbers = partial.as_array().map(array_elements).into_iter().flatten();
        let numbers: Vec<f64> = numbers.filter_map(|element| element.value().as_f64()).collect();
        let [count, first, second, products] = numbers.as_slice() else { return Ok(()) };
        if *count == 0.0 {
            return Ok(());
        }
        let (ours, all) = (self.count as f64, self.count as f64 + count);
        let distances = (first - self.means.0, second - self.means.1);
        self.products += products + distances.0 * distances.1 * ours * count / all;
        self.means.0 += distances.0 * count / all;
        self.means.1 += distances.1 * count / all;
        self.count += *count as i64;
        Ok(())
    }
}
