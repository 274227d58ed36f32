//! Operators that MongoDB knows and this server does not implement: refused by name.

use super::prelude::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::refused("$_internalFleBetween"),
    Operator::refused("$_internalFleEq"),
    Operator::refused("$encStrContains"),
    Operator::refused("$encStrEndsWith"),
    Operator::refused("$encStrNormalizedEq"),
    Operator::refused("$encStrStartsWith"),
];
