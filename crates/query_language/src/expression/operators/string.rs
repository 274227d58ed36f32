//! String expressions, one file each.

mod concat;
mod index_of;
mod length;
mod letter_case;
mod regex;
mod replace;
mod split;
mod substring;
mod trim;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] = &[
    concat::OPERATORS,
    index_of::OPERATORS,
    length::OPERATORS,
    letter_case::OPERATORS,
    regex::OPERATORS,
    replace::OPERATORS,
    split::OPERATORS,
    substring::OPERATORS,
    trim::OPERATORS,
];
