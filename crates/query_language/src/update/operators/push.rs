//! `$push`: appends to an array; with `$each`, `$position`, `$sort` and `$slice`, which apply in this order.

use bson::spec::ElementType;
use document::Number;

use super::super::display;
use super::super::element::{Element, collect};
use super::super::limits::nesting_depth;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::{Change, NewValue, Operand};
use super::super::writer::{appended, array_of};
use super::push_sort::PushSort;
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

#[derive(Debug)]
struct Push {
    /// The array given to `$each`, or the one value itself.
    operand: Operand,
    each: bool,
    /// Where to insert; negative positions count from the end.
    position: Option<i64>,
    sort: Option<PushSort>,
    /// How many items to keep: the first ones, or the last ones when negative.
    slice: Option<i64>,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    let plain = Push { operand: Operand::new(field), each: false, position: None, sort: None, slice: None };
    if field.element_type != ElementType::EmbeddedDocument {
        return Ok(Box::new(plain));
    }
    let clauses = collect(field.value_bytes())?;
    let Some(each) = clauses.iter().find(|clause| clause.name_bytes() == b"$each") else {
        return Ok(Box::new(plain));
    };
    if each.element_type != ElementType::Array {
        let kind = display::type_name(each.element_type);
        return Err(bad_value(format!("The argument to $each in $push must be an array but it was of type: {kind}")));
    }
    let mut push = Push { operand: Operand::new(each), each: true, ..plain };
    for clause in &clauses {
        match clause.name() {
            "$each" => {}
            "$position" => push.position = Some(parse_position(clause)?),
            "$sort" => push.sort = Some(PushSort::parse(clause)?),
            "$slice" => push.slice = Some(parse_slice(clause)?),
            other => return Err(bad_value(format!("Unrecognized clause in $push: {other}"))),
        }
    }
    Ok(Box::new(push))
}

fn parse_position(clause: &Element<'_>) -> Result<i64> {
    Number::from_view(clause.view()).and_then(Number::to_i64_exact).ok_or_else(|| {
        let kind = display::type_name(clause.element_type);
        bad_value(format!("The value for $position must be an integer value, not of type: {kind}"))
    })
}

fn parse_slice(clause: &Element<'_>) -> Result<i64> {
    Number::from_view(clause.view()).and_then(Number::to_i64_exact).ok_or_else(|| {
        let kind = display::type_name(clause.element_type);
        bad_value(format!("The value for $slice must be an integer value but was given type: {kind}"))
    })
}

impl Push {
    /// Without modifiers the array stays as it is in front of the new items.
    fn only_appends(&self) -> bool {
        self.position.is_none() && self.sort.is_none() && self.slice.is_none()
    }

    fn values(&self) -> Result<Vec<Element<'_>>> {
        let operand = self.operand.element()?;
        if self.each { collect(operand.value_bytes()) } else { Ok(vec![operand]) }
    }

    fn insert<'a>(&self, items: &mut Vec<Element<'a>>, values: Vec<Element<'a>>) {
        let length = items.len();
        let place = match self.position {
            None => length,
            Some(position) if position >= 0 => usize::try_from(position).unwrap_or(usize::MAX).min(length),
            Some(position) => length.saturating_sub(usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        items.splice(place..place, values);
    }

    fn cut(&self, items: &mut Vec<Element<'_>>) {
        let Some(slice) = self.slice else { return };
        let kept = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
        match slice < 0 {
            true => drop(items.drain(..items.len().saturating_sub(kept))),
            false => items.truncate(kept),
        }
    }
}

impl FieldOperator for Push {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        let array = match existing {
            None => None,
            Some(array) if array.element_type == ElementType::Array => Some(array.value_bytes()),
            Some(other) => return Err(not_an_array(&other, scope)),
        };
        let values = self.values()?;
        if let Some(array) = array.filter(|_| self.only_appends()) {
            return Ok(Change::Write(NewValue::array(appended(array, &values)?)));
        }
        let mut items = array.map_or(Ok(Vec::new()), collect)?;
        self.insert(&mut items, values);
        if let Some(sort) = &self.sort {
            sort.sort(&mut items)?;
        }
        self.cut(&mut items);
        Ok(Change::Write(NewValue::array(array_of(&items))))
    }

    fn written_depth(&self) -> usize {
        self.operand.element().map_or(0, |value| nesting_depth(&value)) + 1
    }
}

fn not_an_array(value: &Element<'_>, scope: &Scope<'_>) -> QueryError {
    bad_value(format!(
        "The field '{}' must be an array but is of type {} in document {}",
        scope.leaf.path.text,
        display::type_name(value.element_type),
        scope.identity()
    ))
}

fn bad_value(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::BadValue, message)
}
