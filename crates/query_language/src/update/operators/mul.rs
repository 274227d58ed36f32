//! `$mul`: multiplies a field by a number; a missing field becomes zero of the number's type.

use super::super::element::Element;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::Change;
use super::arithmetic::{Arithmetic, Calculation};
use crate::error::Result;
use crate::filter::FilterOptions;

#[derive(Debug)]
struct Mul(Arithmetic);

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    Ok(Box::new(Mul(Arithmetic::parse(Calculation::Multiply, field)?)))
}

impl FieldOperator for Mul {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        self.0.apply(existing, scope)
    }
}
