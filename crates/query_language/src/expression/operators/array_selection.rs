//! The arguments that `$firstN`, `$lastN`, `$maxN` and `$minN` share: `n` and `input`.

use super::prelude::*;

/// The registry's field list.
pub(super) const FIELDS: &[NamedField] = &[
    NamedField::required("n", ErrorKind::Location(5787906)),
    NamedField::required("input", ErrorKind::Location(5787907)),
];

/// The registry's refusals.
pub(super) const REFUSALS: NamedRefusals = NamedRefusals::only_supports(5787900, 5787901);

/// The count, positive, and the input, an array.
pub(super) fn count_and_elements<'a>(
    arguments: &NamedArguments<'a>,
    context: &EvaluationContext<'a>,
) -> Result<(usize, Value<'a>)> {
    let count = arguments.value(0, context)?;
    let count = crate::expression::number::positive_count(count.or_null())?;
    let input = arguments.value(1, context)?;
    if input.as_array().is_none() {
        return Err(numbered(5788200, "Input must be an array"));
    }
    Ok((count, input))
}
