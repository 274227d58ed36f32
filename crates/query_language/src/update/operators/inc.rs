//! `$inc`: adds a number to a field; a missing field becomes the number itself.

use super::super::element::Element;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::Change;
use super::arithmetic::{Arithmetic, Calculation};
use crate::error::Result;
use crate::filter::FilterOptions;

#[derive(Debug)]
struct Inc(Arithmetic);

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    Ok(Box::new(Inc(Arithmetic::parse(Calculation::Add, field)?)))
}

impl FieldOperator for Inc {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        self.0.apply(existing, scope)
    }
}
