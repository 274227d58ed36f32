//! Object expressions, one file each.

mod bson_size;
mod get_field;
mod merge_objects;
mod set_field;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] =
    &[bson_size::OPERATORS, get_field::OPERATORS, merge_objects::OPERATORS, set_field::OPERATORS];
