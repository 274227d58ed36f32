//! Set expressions, one file each.

mod difference;
mod elements;
mod equals;
mod intersection;
mod subset;
mod truth;
mod union;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] = &[
    difference::OPERATORS,
    equals::OPERATORS,
    intersection::OPERATORS,
    subset::OPERATORS,
    truth::OPERATORS,
    union::OPERATORS,
];
