//! `$bit`: `and`, `or`, `xor` of an integer field with integers; a missing field counts as 0.

use bson::raw::RawBsonRef;
use bson::spec::ElementType;

use super::super::display;
use super::super::element::{Element, collect};
use super::super::operator::{FieldOperator, Scope};
use super::super::value::{Change, NewValue};
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

/// The operations in the order they are written.
#[derive(Debug)]
struct Bit {
    operations: Vec<(Operation, Integer)>,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    And,
    Or,
    Xor,
}

/// An integer of either width; results are as wide as the wider operand.
#[derive(Debug, Clone, Copy)]
enum Integer {
    Narrow(i32),
    Wide(i64),
}

impl Integer {
    fn of(value: RawBsonRef<'_>) -> Option<Self> {
        match value {
            RawBsonRef::Int32(value) => Some(Integer::Narrow(value)),
            RawBsonRef::Int64(value) => Some(Integer::Wide(value)),
            _ => None,
        }
    }

    fn widen(self) -> i64 {
        match self {
            Integer::Narrow(value) => i64::from(value),
            Integer::Wide(value) => value,
        }
    }
}

impl Operation {
    fn of(name: &str) -> Option<Self> {
        match name {
            "and" => Some(Operation::And),
            "or" => Some(Operation::Or),
            "xor" => Some(Operation::Xor),
            _ => None,
        }
    }

    fn calculate(self, left: Integer, right: Integer) -> Integer {
        use Integer::{Narrow, Wide};
        match (self, left, right) {
            (Operation::And, Narrow(left), Narrow(right)) => Narrow(left & right),
            (Operation::Or, Narrow(left), Narrow(right)) => Narrow(left | right),
            (Operation::Xor, Narrow(left), Narrow(right)) => Narrow(left ^ right),
            (Operation::And, left, right) => Wide(left.widen() & right.widen()),
            (Operation::Or, left, right) => Wide(left.widen() | right.widen()),
            (Operation::Xor, left, right) => Wide(left.widen() ^ right.widen()),
        }
    }
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    const FORMAT: &str = "{$bit: {field: {and/or/xor: #}}";
    if field.element_type != ElementType::EmbeddedDocument {
        let kind = display::type_name(field.element_type);
        return Err(bad_value(format!(
            "The $bit modifier is not compatible with a {kind}. You must pass in an embedded document: {FORMAT}"
        )));
    }
    let mut operations = Vec::new();
    for clause in collect(field.value_bytes())? {
        let Some(operation) = Operation::of(clause.name()) else {
            return Err(bad_value(format!(
                "The $bit modifier only supports 'and', 'or', and 'xor', not '{}' which is an unknown operator: {{{}}}",
                clause.name(),
                display::field(&clause)
            )));
        };
        let Some(operand) = Integer::of(clause.value()) else {
            return Err(bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}}}",
                display::type_name(clause.element_type),
                display::field(&clause)
            )));
        };
        operations.push((operation, operand));
    }
    if operations.is_empty() {
        let message = format!("You must pass in at least one bitwise operation. The format is: {FORMAT}");
        return Err(bad_value(message));
    }
    Ok(Box::new(Bit { operations }))
}

impl FieldOperator for Bit {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        let start = match existing {
            None => Integer::Narrow(0),
            Some(value) => Integer::of(value.value()).ok_or_else(|| {
                bad_value(format!(
                    "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
                    scope.identity(),
                    scope.field_name(),
                    display::type_name(value.element_type)
                ))
            })?,
        };
        let fold = |value, (operation, operand): &(Operation, Integer)| operation.calculate(value, *operand);
        Ok(Change::Write(match self.operations.iter().fold(start, fold) {
            Integer::Narrow(value) => NewValue::int32(value),
            Integer::Wide(value) => NewValue::int64(value),
        }))
    }
}

fn bad_value(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::BadValue, message)
}
