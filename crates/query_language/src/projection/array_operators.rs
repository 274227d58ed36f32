//! The operators of find's projections that keep part of an array: `$slice`, `$elemMatch`, `.$`.

use bson::RawBsonRef;
use document::{Element, Number, ValueView, elements_of_bytes};

use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::Filter;

/// Which elements of an array `$slice` keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The first element; counted from the end when negative.
    skip: i64,
    /// How many; not negative.
    limit: i64,
}

/// Whether an argument of `$slice` is in find's form.
pub(crate) enum SliceSyntax {
    /// It is.
    Find(Slice),
    /// It is not, for this reason; it may be the expression's.
    Other(&'static str),
}

impl Slice {
    /// `limit` (from the end when negative), or `[skip, limit]`.
    pub(crate) fn parse(argument: RawBsonRef<'_>) -> Result<SliceSyntax> {
        if let Some(limit) = Number::from_bson(argument) {
            let limit = saturated(limit);
            let skip = limit.min(0);
            return Ok(SliceSyntax::Find(Slice { skip, limit: limit.saturating_abs() }));
        }
        let RawBsonRef::Array(pair) = argument else {
            return Ok(SliceSyntax::Other("Location31273: $slice only supports numbers and [skip, limit] arrays"));
        };
        let mut numbers = Vec::new();
        for (ordinal, value) in pair.into_iter().enumerate() {
            match Number::from_bson(value?) {
                Some(number) if ordinal < 2 => numbers.push(saturated(number)),
                _ => numbers.clear(),
            }
        }
        match numbers.as_slice() {
            [skip, limit] if *limit > 0 => Ok(SliceSyntax::Find(Slice { skip: *skip, limit: *limit })),
            [_, _] => Ok(SliceSyntax::Other("Location31257: $slice limit must be positive")),
            _ => Ok(SliceSyntax::Other("Location31272: $slice array argument should be of form [skip, limit]")),
        }
    }

    /// The elements kept.
    pub(crate) fn elements<'a>(&self, array: &'a [u8]) -> impl Iterator<Item = Element<'a>> {
        let skip = match usize::try_from(self.skip) {
            Ok(skip) => skip,
            Err(_) => {
                let from_end = usize::try_from(self.skip.unsigned_abs()).unwrap_or(usize::MAX);
                elements_of_bytes(array).count().saturating_sub(from_end)
            }
        };
        elements_of_bytes(array).skip(skip).take(usize::try_from(self.limit).unwrap_or(usize::MAX))
    }
}

/// A whole number, as near as can be to what is given.
fn saturated(number: Number) -> i64 {
    number.to_i64_truncated().unwrap_or(match number.sign() {
        1 => i64::MAX,
        -1 => -i64::MAX,
        _ => 0,
    })
}

/// The first element of `array` that satisfies an `$elemMatch`.
pub(crate) fn first_match<'a>(filter: &Filter, array: &'a [u8]) -> Result<Option<Element<'a>>> {
    let position = filter.matching_position(ValueView::Array(array))?;
    Ok(position.and_then(|position| elements_of_bytes(array).nth(position)))
}

/// The element at the position where the command's filter matched.
pub(crate) fn matched_element(position: Option<usize>, array: &[u8]) -> Result<Element<'_>> {
    let failed = |code, message| Err(QueryError::new(ErrorKind::Location(code), message));
    let Some(position) = position else {
        return failed(51246, "positional operator '.$' couldn't find a matching element in the array");
    };
    match elements_of_bytes(array).nth(position) {
        Some(element) => Ok(element),
        None => failed(51247, "positional operator '.$' element mismatch"),
    }
}
