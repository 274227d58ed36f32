//! `$max`: gives a field a value when the value is greater than what is there, in the order of BSON values.

use std::cmp::Ordering;

use super::super::element::Element;
use super::super::limits::nesting_depth;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::{Change, Operand};
use crate::error::Result;
use crate::filter::FilterOptions;

#[derive(Debug)]
struct Max {
    bound: Operand,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    Ok(Box::new(Max { bound: Operand::new(field) }))
}

impl FieldOperator for Max {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, _: &Scope<'a>) -> Result<Change<'a>> {
        let bound = self.bound.element()?;
        match existing {
            Some(value) if document::compare_views(bound.view(), value.view()) != Ordering::Greater => Ok(Change::Keep),
            _ => Ok(Change::Write(bound.into())),
        }
    }

    fn written_depth(&self) -> usize {
        self.bound.element().map_or(0, |value| nesting_depth(&value))
    }
}
