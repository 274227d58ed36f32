//! `$unset`: removes a field; an array item becomes null so that the others keep their positions.

use super::super::element::Element;
use super::super::operator::{FieldOperator, Scope, WhenBlocked};
use super::super::value::Change;
use crate::error::Result;
use crate::filter::FilterOptions;

#[derive(Debug)]
struct Unset;

/// The operand means nothing; any value is accepted.
pub(super) fn parse(_: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    Ok(Box::new(Unset))
}

impl FieldOperator for Unset {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, _: &Scope<'a>) -> Result<Change<'a>> {
        Ok(existing.map_or(Change::Keep, |_| Change::Remove))
    }

    fn when_blocked(&self, _: &Scope<'_>) -> WhenBlocked {
        WhenBlocked::Ignore
    }
}
