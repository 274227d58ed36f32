//! `$cmp`, `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`: BSON comparison order, across types, with missing below null.

use std::cmp::Ordering;

use super::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$cmp", "-1, 0 or 1 as the first value is less, equal or greater.", Arity::Exactly(2), cmp),
    Operator::eager("$eq", "Whether two values are equal.", Arity::Exactly(2), eq),
    Operator::eager("$gt", "Whether the first value is greater.", Arity::Exactly(2), gt),
    Operator::eager("$gte", "Whether the first value is greater or equal.", Arity::Exactly(2), gte),
    Operator::eager("$lt", "Whether the first value is less.", Arity::Exactly(2), lt),
    Operator::eager("$lte", "Whether the first value is less or equal.", Arity::Exactly(2), lte),
    Operator::eager("$ne", "Whether two values differ.", Arity::Exactly(2), ne),
];

fn ordering(operator: &'static Operator, arguments: &[Value<'_>]) -> Result<Ordering> {
    let [left, right] = arguments else { return Err(operator.misplaced()) };
    Ok(compare(left.get(), right.get()))
}

fn cmp<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok((ordering(operator, arguments)? as i32).into())
}

fn eq<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(ordering(operator, arguments)?.is_eq().into())
}

fn gt<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(ordering(operator, arguments)?.is_gt().into())
}

fn gte<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(ordering(operator, arguments)?.is_ge().into())
}

fn lt<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(ordering(operator, arguments)?.is_lt().into())
}

fn lte<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(ordering(operator, arguments)?.is_le().into())
}

fn ne<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(ordering(operator, arguments)?.is_ne().into())
}
