//! The registry of expression operators, one file each; families of a few lines share one.
//!
//! `find` serves the parser; `all` the generated compatibility page.

use super::operator::Operator;

mod accumulators;
mod arithmetic;
mod array;
mod array_binding;
mod array_selection;
mod boolean;
mod comparison;
mod conditional;
mod convert;
mod date;
pub(crate) mod function;
mod hashed_index_key;
mod index_bounds;
mod let_variables;
mod literal;
pub(crate) mod meta;
mod object;
mod object_id;
mod percentile;
mod prelude;
mod refused;
mod set;
mod string;
mod type_of;

const SINGLES: &[&[Operator]] = &[
    accumulators::OPERATORS,
    percentile::OPERATORS,
    boolean::OPERATORS,
    comparison::OPERATORS,
    convert::OPERATORS,
    function::OPERATORS,
    hashed_index_key::OPERATORS,
    let_variables::OPERATORS,
    literal::OPERATORS,
    meta::OPERATORS,
    object_id::OPERATORS,
    refused::OPERATORS,
    type_of::OPERATORS,
];

const FAMILIES: &[&[&[Operator]]] = &[
    SINGLES,
    arithmetic::FAMILIES,
    array::FAMILIES,
    conditional::FAMILIES,
    date::FAMILIES,
    object::FAMILIES,
    set::FAMILIES,
    string::FAMILIES,
];

/// Every operator known, implemented or refused.
pub fn all() -> impl Iterator<Item = &'static Operator> {
    FAMILIES.iter().copied().flatten().copied().flatten()
}

/// The operator of a name with its `$`.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    all().find(|operator| operator.name == name)
}
