//! `$pullAll`: removes every array item equal to one of the listed values.

use bson::spec::ElementType;

use super::super::display;
use super::super::element::{Element, collect};
use super::super::operator::{FieldOperator, Scope, WhenBlocked};
use super::super::value::{Change, Operand};
use super::pull::keep_items;
use super::value_set::ValueSet;
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

#[derive(Debug)]
struct PullAll {
    values: Operand,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    if field.element_type != ElementType::Array {
        let kind = display::type_name(field.element_type);
        let message = format!("$pullAll requires an array argument but was given a {kind}");
        return Err(QueryError::new(ErrorKind::BadValue, message));
    }
    Ok(Box::new(PullAll { values: Operand::new(field) }))
}

impl FieldOperator for PullAll {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, _: &Scope<'a>) -> Result<Change<'a>> {
        let values = ValueSet::of(collect(self.values.element()?.value_bytes())?)?;
        keep_items(existing, |item| Ok(!values.contains(item)))
    }

    fn when_blocked(&self, _: &Scope<'_>) -> WhenBlocked {
        WhenBlocked::Ignore
    }
}
