//! `$percentile` and `$median` of the elements of an array, or of one number.

use super::prelude::*;
use crate::accumulator::Input;
use crate::accumulator::percentile::{Shares, make};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$median", "The number in the middle of numbers.", MEDIAN_FIELDS, REFUSALS, median),
    Operator::named("$percentile", "The numbers below which shares of numbers lie.", FIELDS, REFUSALS, percentile),
];

const MEDIAN_FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(40414)),
    NamedField::required("method", ErrorKind::Location(40414)),
];
const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(40414)),
    NamedField::required("method", ErrorKind::Location(40414)),
    NamedField::required("p", ErrorKind::Location(40414)),
];
const REFUSALS: NamedRefusals = NamedRefusals::requires(7436100, 40415);

fn median<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    evaluate(arguments, context, &Shares::median())
}

fn percentile<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let shares = Shares::parse(arguments.value(2, context)?.or_null())?;
    evaluate(arguments, context, &shares)
}

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>, shares: &Shares) -> Result<Value<'a>> {
    Shares::check_method(arguments.value(1, context)?.or_null())?;
    let input = arguments.value(0, context)?;
    let mut state = make(shares);
    match input.as_array() {
        Some(array) => {
            for element in array {
                work::step()?;
                state.accumulate(Input::Value(element?.into()))?;
            }
        }
        None => state.accumulate(Input::Value(input))?,
    }
    state.finish()
}
