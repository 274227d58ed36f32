//! Conditional expressions, one file each.

mod cond;
mod if_null;
mod switch;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] = &[cond::OPERATORS, if_null::OPERATORS, switch::OPERATORS];
