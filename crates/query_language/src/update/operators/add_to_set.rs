//! `$addToSet`: appends values that the array does not contain; `{$each: [...]}` for several.

use bson::spec::ElementType;
use document::work;

use super::super::display;
use super::super::element::{Element, collect};
use super::super::limits::nesting_depth;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::{Change, NewValue, Operand};
use super::super::writer::array_of;
use super::value_set::ValueSet;
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

#[derive(Debug)]
struct AddToSet {
    /// The array given to `$each`, or the one value itself.
    operand: Operand,
    each: bool,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    let each = match field.element_type {
        ElementType::EmbeddedDocument => parse_each(field)?,
        _ => None,
    };
    Ok(Box::new(match each {
        Some(values) => AddToSet { operand: Operand::new(&values), each: true },
        None => AddToSet { operand: Operand::new(field), each: false },
    }))
}

/// The array of `{$each: [...]}`, `None` when the operand is a plain document.
fn parse_each<'a>(field: &Element<'a>) -> Result<Option<Element<'a>>> {
    let clauses = collect(field.value_bytes())?;
    let Some((first, others)) = clauses.split_first().filter(|(first, _)| first.name_bytes() == b"$each") else {
        return Ok(None);
    };
    if first.element_type != ElementType::Array {
        let kind = display::type_name(first.element_type);
        let message = format!("The argument to $each in $addToSet must be an array but it was of type {kind}");
        return Err(QueryError::new(ErrorKind::TypeMismatch, message));
    }
    if !others.is_empty() {
        let shown = display::value(field);
        let message = format!("Found unexpected fields after $each in $addToSet: {shown}");
        return Err(QueryError::new(ErrorKind::BadValue, message));
    }
    Ok(Some(*first))
}

impl FieldOperator for AddToSet {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        let mut items = match existing {
            None => Vec::new(),
            Some(array) if array.element_type == ElementType::Array => collect(array.value_bytes())?,
            Some(other) => return Err(not_an_array(&other, scope)),
        };
        let before = items.len();
        let operand = self.operand.element()?;
        if self.each {
            let mut present = ValueSet::of(items.iter().copied())?;
            for value in collect(operand.value_bytes())? {
                work::step()?;
                items.extend(Some(value).filter(|value| present.insert(*value)));
            }
        } else if !items.iter().any(|item| document::compare_views(item.view(), operand.view()).is_eq()) {
            items.push(operand);
        }
        if existing.is_some() && items.len() == before {
            return Ok(Change::Keep);
        }
        Ok(Change::Write(NewValue::array(array_of(&items))))
    }

    fn written_depth(&self) -> usize {
        self.operand.element().map_or(0, |value| nesting_depth(&value)) + 1
    }
}

fn not_an_array(value: &Element<'_>, scope: &Scope<'_>) -> QueryError {
    let message = format!(
        "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
        scope.field_name(),
        display::type_name(value.element_type)
    );
    QueryError::new(ErrorKind::BadValue, message)
}
