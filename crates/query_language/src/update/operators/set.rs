//! `$set`: gives a field a value, creating it and the documents on its path.

use super::super::element::Element;
use super::super::limits::nesting_depth;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::{Change, Operand};
use crate::error::Result;
use crate::filter::FilterOptions;

#[derive(Debug)]
pub(super) struct Set {
    value: Operand,
}

impl Set {
    pub(super) fn new(field: &Element<'_>) -> Self {
        Self { value: Operand::new(field) }
    }
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    Ok(Box::new(Set::new(field)))
}

impl FieldOperator for Set {
    fn apply<'a>(&'a self, _: Option<Element<'a>>, _: &Scope<'a>) -> Result<Change<'a>> {
        Ok(Change::Write(self.value.element()?.into()))
    }

    fn written_depth(&self) -> usize {
        self.value.element().map_or(0, |value| nesting_depth(&value))
    }
}
