//! `$setOnInsert`: like `$set` when an upsert inserts the document, otherwise nothing.

use super::super::UpdatePurpose;
use super::super::element::Element;
use super::super::limits::nesting_depth;
use super::super::operator::{FieldOperator, Scope, WhenBlocked};
use super::super::value::{Change, Operand};
use crate::error::Result;
use crate::filter::FilterOptions;

#[derive(Debug)]
struct SetOnInsert {
    value: Operand,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    Ok(Box::new(SetOnInsert { value: Operand::new(field) }))
}

impl FieldOperator for SetOnInsert {
    fn apply<'a>(&'a self, _: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        match scope.context.purpose {
            UpdatePurpose::Insert => Ok(Change::Write(self.value.element()?.into())),
            UpdatePurpose::Modify => Ok(Change::Keep),
        }
    }

    fn when_blocked(&self, scope: &Scope<'_>) -> WhenBlocked {
        match scope.context.purpose {
            UpdatePurpose::Insert => WhenBlocked::CannotCreate,
            UpdatePurpose::Modify => WhenBlocked::Ignore,
        }
    }

    fn written_depth(&self) -> usize {
        self.value.element().map_or(0, |value| nesting_depth(&value))
    }
}
