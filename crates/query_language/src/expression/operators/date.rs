//! Date expressions, one file each; families share one.

mod date_add;
mod date_diff;
mod date_from_parts;
mod date_from_string;
mod date_part;
mod date_to_parts;
mod date_to_string;
mod date_trunc;
mod timestamp_part;
mod unit_argument;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] = &[
    date_add::OPERATORS,
    date_diff::OPERATORS,
    date_from_parts::OPERATORS,
    date_from_string::OPERATORS,
    date_part::OPERATORS,
    date_to_parts::OPERATORS,
    date_to_string::OPERATORS,
    date_trunc::OPERATORS,
    timestamp_part::OPERATORS,
];
