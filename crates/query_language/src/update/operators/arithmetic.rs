//! What `$inc` and `$mul` share: a number applied to a field, with MongoDB's result types and refusals.

use document::Number;

use super::super::display;
use super::super::element::Element;
use super::super::operator::Scope;
use super::super::value::{Change, NewValue};
use crate::error::{ErrorKind, QueryError, Result};

/// One of the two calculations.
#[derive(Debug, Clone, Copy)]
pub(super) enum Calculation {
    Add,
    Multiply,
}

/// A calculation and its operand.
#[derive(Debug)]
pub(super) struct Arithmetic {
    calculation: Calculation,
    operand: Number,
}

impl Arithmetic {
    pub(super) fn parse(calculation: Calculation, field: &Element<'_>) -> Result<Self> {
        let Some(operand) = Number::from_view(field.view()) else {
            let verb = match calculation {
                Calculation::Add => "increment",
                Calculation::Multiply => "multiply",
            };
            let message = format!("Cannot {verb} with non-numeric argument: {{{}}}", display::field(field));
            return Err(QueryError::new(ErrorKind::TypeMismatch, message));
        };
        Ok(Self { calculation, operand })
    }

    pub(super) fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        let Some(field) = existing else {
            return Ok(Change::Write(encode(self.value_when_missing())));
        };
        let number = Number::from_view(field.view()).ok_or_else(|| self.not_a_number(&field, scope))?;
        let result = match self.calculation {
            Calculation::Add => number.checked_add(self.operand),
            Calculation::Multiply => number.checked_multiply(self.operand),
        };
        result.map(|number| Change::Write(encode(number))).ok_or_else(|| self.overflow(&field, scope))
    }

    /// The operand, or zero of its type: as if the field had been 0.
    fn value_when_missing(&self) -> Number {
        match (self.calculation, self.operand) {
            (Calculation::Add, operand) => operand,
            (Calculation::Multiply, Number::Int32(_)) => Number::Int32(0),
            (Calculation::Multiply, Number::Int64(_)) => Number::Int64(0),
            (Calculation::Multiply, operand) => Number::Int32(0).multiply(operand),
        }
    }

    fn name(&self) -> &'static str {
        match self.calculation {
            Calculation::Add => "$inc",
            Calculation::Multiply => "$mul",
        }
    }

    #[cold]
    fn not_a_number(&self, field: &Element<'_>, scope: &Scope<'_>) -> QueryError {
        let message = format!(
            "Cannot apply {} to a value of non-numeric type. {} has the field '{}' of non-numeric type {}",
            self.name(),
            scope.identity(),
            scope.field_name(),
            display::type_name(field.element_type)
        );
        QueryError::new(ErrorKind::TypeMismatch, message)
    }

    #[cold]
    fn overflow(&self, field: &Element<'_>, scope: &Scope<'_>) -> QueryError {
        let message = format!(
            "Failed to apply {} operations to current value ({}) for document {}",
            self.name(),
            display::typed_number(field),
            scope.identity()
        );
        QueryError::new(ErrorKind::BadValue, message)
    }
}

fn encode(number: Number) -> NewValue<'static> {
    match number {
        Number::Int32(value) => NewValue::int32(value),
        Number::Int64(value) => NewValue::int64(value),
        Number::Double(value) => NewValue::double(value),
        Number::Decimal128(value) => NewValue::decimal(value),
    }
}
