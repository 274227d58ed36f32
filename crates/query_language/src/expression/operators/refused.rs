//! Operators that MongoDB knows and this server does not implement: refused by name.

use super::prelude::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::refused("$_internalFleBetween"),
    Operator::refused("$_internalFleEq"),
    Operator::refused("$_internalJsEmit"),
    Operator::refused("$encStrContains"),
    Operator::refused("$encStrEndsWith"),
    Operator::refused("$encStrNormalizedEq"),
    Operator::refused("$encStrStartsWith"),
    Operator::refused("$function"),
    Operator::refused("$meta"),
    Operator::refused("$sigmoid"),
    Operator::refused("$toHashedIndexKey"),
    Operator::refused("$toUUID"),
];
