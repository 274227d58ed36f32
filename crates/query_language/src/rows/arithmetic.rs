//! Arithmetic and comparisons of numbers in columns, without a value for each step.
//!
//! It says what the operators of the same names say where all operands are numbers of at most eight bytes; for a row in which one is not
//! it says nothing, and the operators are asked.

use std::cmp::Ordering;

use bson::spec::ElementType;
use document::Number;

use super::batch::{RowBatch, RowNames, Slot};
use crate::expression::summation::Summation;
use crate::expression::{Node, Value};

/// Integers up to this have a double each.
const EXACT_MAX: i64 = 1 << 53;

/// A number that is computed of a row.
#[derive(Debug)]
pub(super) enum Numeric {
    Constant(Number),
    Column(usize),
    Sum(Vec<Numeric>),
    Product(Vec<Numeric>),
    Difference(Box<[Numeric; 2]>),
    Quotient(Box<[Numeric; 2]>),
}

/// A truth that is computed of a row.
#[derive(Debug)]
pub(super) struct Comparing {
    operands: [Numeric; 2],
    accepts: fn(Ordering) -> bool,
}

impl Numeric {
    /// The arithmetic that an expression is; `None` where it is none.
    pub(super) fn compile(node: &Node, names: &RowNames) -> Option<Numeric> {
        match node {
            Node::Positional { operator, arguments } => {
                let operands = arguments.iter().map(|argument| Numeric::operand(argument, names));
                let operands: Vec<Numeric> = operands.collect::<Option<_>>()?;
                match operator.name {
                    "$add" => Some(Numeric::Sum(operands)),
                    "$multiply" => Some(Numeric::Product(operands)),
                    "$subtract" => Some(Numeric::Difference(pair(operands)?)),
                    "$divide" => Some(Numeric::Quotient(pair(operands)?)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn operand(node: &Node, names: &RowNames) -> Option<Numeric> {
        match node {
            Node::Constant(value) => Number::from_bson(value.or_null()).map(Numeric::Constant),
            node => match node.column(names) {
                Some(column) => Some(Numeric::Column(column)),
                None => Numeric::compile(node, names),
            },
        }
    }

    /// Units of work that a row is.
    pub(super) fn units(&self) -> usize {
        match self {
            Numeric::Constant(_) | Numeric::Column(_) => 1,
            Numeric::Sum(operands) | Numeric::Product(operands) => {
                operands.iter().map(Numeric::units).sum::<usize>() + 1
            }
            Numeric::Difference(operands) | Numeric::Quotient(operands) => {
                operands.iter().map(Numeric::units).sum::<usize>() + 1
            }
        }
    }

    /// The number of a row; `None`: the expression is to be asked.
    #[inline]
    pub(super) fn of_row(&self, batch: &RowBatch, row: usize) -> Option<Number> {
        match self {
            Numeric::Column(column) => batch.slot(*column, row).number(),
            Numeric::Constant(number) => Some(*number),
            Numeric::Sum(operands) => match operands.as_slice() {
                [left, right] => {
                    let (left, right) = (left.of_row(batch, row)?, right.of_row(batch, row)?);
                    Some(sum_of_two(left, right).unwrap_or_else(|| sum([left, right])))
                }
                operands => {
                    let mut total = Summation::new();
                    for operand in operands {
                        total.add(operand.of_row(batch, row)?);
                    }
                    Some(total.total())
                }
            },
            Numeric::Product(operands) => {
                let mut product = Number::Int32(1);
                for operand in operands {
                    product = product.multiply(operand.of_row(batch, row)?);
                }
                Some(product)
            }
            Numeric::Difference(operands) => {
                Some(operands[0].of_row(batch, row)?.subtract(operands[1].of_row(batch, row)?))
            }
            // A zero divisor is the operator's to refuse.
            Numeric::Quotient(operands) => operands[0].of_row(batch, row)?.divide(operands[1].of_row(batch, row)?),
        }
    }
}

fn pair(operands: Vec<Numeric>) -> Option<Box<[Numeric; 2]>> {
    <[Numeric; 2]>::try_from(operands).ok().map(Box::new)
}

fn sum(numbers: [Number; 2]) -> Number {
    let mut total = Summation::new();
    numbers.into_iter().for_each(|number| total.add(number));
    total.total()
}

/// The sum of two where one addition gives what a compensated sum of them gives.
#[inline]
fn sum_of_two(left: Number, right: Number) -> Option<Number> {
    Some(match (left, right) {
        (Number::Int32(left), Number::Int32(right)) => Number::from_i64_narrowed(i64::from(left) + i64::from(right)),
        (Number::Double(left), Number::Double(right)) => Number::Double(0.0 + left + right),
        (Number::Double(double), integer) | (integer, Number::Double(double)) => {
            let integer = integer.integer().filter(|integer| (-EXACT_MAX..=EXACT_MAX).contains(integer))?;
            Number::Double(0.0 + double + integer as f64)
        }
        _ => Number::Int64(left.integer()?.checked_add(right.integer()?)?),
    })
}

impl Comparing {
    /// The comparison that an expression is; `None` where it is none.
    pub(super) fn compile(node: &Node, names: &RowNames) -> Option<Comparing> {
        let Node::Positional { operator, arguments } = node else { return None };
        let accepts: fn(Ordering) -> bool = match operator.name {
            "$eq" => Ordering::is_eq,
            "$ne" => Ordering::is_ne,
            "$gt" => Ordering::is_gt,
            "$gte" => Ordering::is_ge,
            "$lt" => Ordering::is_lt,
            "$lte" => Ordering::is_le,
            _ => return None,
        };
        let [left, right] = arguments.as_slice() else { return None };
        Some(Comparing { operands: [Numeric::operand(left, names)?, Numeric::operand(right, names)?], accepts })
    }

    pub(super) fn units(&self) -> usize {
        self.operands.iter().map(Numeric::units).sum()
    }

    /// The truth of a row; `None`: the expression is to be asked.
    #[inline]
    pub(super) fn of_row(&self, batch: &RowBatch, row: usize) -> Option<Slot> {
        let (left, right) = (self.operands[0].of_row(batch, row)?, self.operands[1].of_row(batch, row)?);
        Some(Slot::of_boolean((self.accepts)(left.compare(right))))
    }
}

/// The slot of a constant, if it fits into one.
pub(super) fn constant_slot(value: &Value<'_>) -> Option<Slot> {
    let Some(value) = value.get() else { return Some(Slot::MISSING) };
    match value.element_type() {
        ElementType::Null => Some(Slot::NULL),
        ElementType::Boolean => value.as_bool().map(Slot::of_boolean),
        _ => Number::from_bson(value).and_then(Slot::of_number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = Number> {
        let doubles = prop_oneof![
            any::<f64>(),
            proptest::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1, 1e300, -1e300]),
            (-1000i32..1000).prop_map(|quarters| f64::from(quarters) / 4.0),
        ];
        prop_oneof![
            any::<i32>().prop_map(Number::Int32),
            any::<i64>().prop_map(Number::Int64),
            (-5i64..5).prop_map(Number::Int64),
            doubles.prop_map(Number::Double),
        ]
    }

    fn bits(number: Number) -> (u8, u64) {
        match number {
            Number::Int32(value) => (0, value as u64),
            Number::Int64(value) => (1, value as u64),
            Number::Double(value) if value.is_nan() => (2, 0),
            Number::Double(value) => (3, value.to_bits()),
            Number::Decimal128(_) => (4, 0),
        }
    }

    proptest! {
        #[test]
        fn a_sum_of_two_is_that_of_the_operator(left in numbers(), right in numbers()) {
            if let Some(found) = sum_of_two(left, right) {
                prop_assert_eq!(bits(found), bits(sum([left, right])), "{:?} + {:?}", left, right);
            }
        }
    }
}
