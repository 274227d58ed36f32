//! The table of accumulators, which drives parsing and the generated compatibility page.

use super::{
    Accumulator, add_to_set, average, concat_arrays, count, extreme, extreme_n, first, first_n, merge_objects, push,
    standard_deviation, sum, top,
};
use crate::expression::sort_pattern::SortPattern;

/// One accumulator.
#[derive(Debug)]
pub struct AccumulatorOperator {
    /// The name with its `$`.
    pub name: &'static str,
    /// One line for the documentation.
    pub summary: &'static str,
    pub(super) form: Form,
}

/// The grammar of an accumulator's argument, and how a state is made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// One expression.
    Unary(fn() -> Box<dyn Accumulator>),
    /// `{}`.
    Nullary(fn() -> Box<dyn Accumulator>),
    /// `{n, input}`.
    Counted(fn(usize) -> Box<dyn Accumulator>),
    /// `{sortBy, output}`, with `n` when `counted`.
    Sorted { counted: bool, make: fn(usize, &SortPattern) -> Box<dyn Accumulator> },
    /// `{input, method}`, with `p` unless it is the median.
    Percentile { is_median: bool },
    /// `{init, accumulate, accumulateArgs, merge, finalize, lang}`.
    Script,
    /// `{eval, data: {k, v}}`.
    Reduce,
}

impl AccumulatorOperator {
    const fn new(name: &'static str, summary: &'static str, form: Form) -> Self {
        Self { name, summary, form }
    }
}

/// Every accumulator known, by name.
pub static ACCUMULATORS: &[AccumulatorOperator] = &[
    AccumulatorOperator::new(
        "$_internalJsReduce",
        "What a function in JavaScript makes of values, for mapReduce.",
        Form::Reduce,
    ),
    AccumulatorOperator::new("$accumulator", "What functions in JavaScript make of the documents.", Form::Script),
    AccumulatorOperator::new("$addToSet", "The distinct values.", Form::Unary(add_to_set::make)),
    AccumulatorOperator::new("$avg", "The mean of the numbers.", Form::Unary(average::make)),
    AccumulatorOperator::new(
        "$bottom",
        "The output of the last document in a sort order.",
        Form::Sorted { counted: false, make: top::make_bottom },
    ),
    AccumulatorOperator::new(
        "$bottomN",
        "The outputs of the last n documents in a sort order.",
        Form::Sorted { counted: true, make: top::make_bottom_n },
    ),
    AccumulatorOperator::new("$concatArrays", "The elements of all arrays.", Form::Unary(concat_arrays::make)),
    AccumulatorOperator::new("$count", "The number of documents.", Form::Nullary(count::make)),
    AccumulatorOperator::new("$first", "The value of the first document.", Form::Unary(first::make_first)),
    AccumulatorOperator::new("$firstN", "The values of the first n documents.", Form::Counted(first_n::make_first)),
    AccumulatorOperator::new("$last", "The value of the last document.", Form::Unary(first::make_last)),
    AccumulatorOperator::new("$lastN", "The values of the last n documents.", Form::Counted(first_n::make_last)),
    AccumulatorOperator::new("$max", "The greatest value.", Form::Unary(extreme::make_max)),
    AccumulatorOperator::new("$maxN", "The n greatest values.", Form::Counted(extreme_n::make_max)),
    AccumulatorOperator::new("$median", "The number in the middle.", Form::Percentile { is_median: true }),
    AccumulatorOperator::new("$mergeObjects", "The documents merged.", Form::Unary(merge_objects::make)),
    AccumulatorOperator::new("$min", "The least value.", Form::Unary(extreme::make_min)),
    AccumulatorOperator::new("$minN", "The n least values.", Form::Counted(extreme_n::make_min)),
    AccumulatorOperator::new(
        "$percentile",
        "The numbers below which shares of all lie.",
        Form::Percentile { is_median: false },
    ),
    AccumulatorOperator::new("$push", "The values as an array.", Form::Unary(push::make)),
    AccumulatorOperator::new("$setUnion", "The distinct elements of all arrays.", Form::Unary(add_to_set::make_union)),
    AccumulatorOperator::new(
        "$stdDevPop",
        "The standard deviation of the numbers as a whole population.",
        Form::Unary(standard_deviation::make_population),
    ),
    AccumulatorOperator::new(
        "$stdDevSamp",
        "The standard deviation of the numbers as a sample.",
        Form::Unary(standard_deviation::make_sample),
    ),
    AccumulatorOperator::new("$sum", "The sum of the numbers.", Form::Unary(sum::make)),
    AccumulatorOperator::new(
        "$top",
        "The output of the first document in a sort order.",
        Form::Sorted { counted: false, make: top::make_top },
    ),
    AccumulatorOperator::new(
        "$topN",
        "The outputs of the first n documents in a sort order.",
        Form::Sorted { counted: true, make: top::make_top_n },
    ),
];

/// The accumulator of a name with its `$`.
pub(super) fn find(name: &str) -> Option<&'static AccumulatorOperator> {
    ACCUMULATORS.iter().find(|operator| operator.name == name)
}

/// A new state of a unary accumulator, for the expression of the same name.
pub(crate) fn make_unary(name: &str) -> Option<Box<dyn Accumulator>> {
    match find(name)?.form {
        Form::Unary(make) => Some(make()),
        _ => None,
    }
}
