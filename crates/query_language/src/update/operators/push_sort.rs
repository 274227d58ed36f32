//! The `$sort` clause of `$push`: by the whole item (`1`, `-1`) or by fields of items that are documents.

use std::cmp::Ordering;

use bson::spec::ElementType;
use document::{Number, ValueView, work};

use super::super::element::{Element, collect, elements_of_bytes};
use crate::error::{ErrorKind, QueryError, Result};

#[derive(Debug)]
pub(super) enum PushSort {
    Whole(Direction),
    Fields(Vec<(Vec<String>, Direction)>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    fn parse(clause: &Element<'_>) -> Option<Self> {
        match Number::from_view(clause.view()).and_then(Number::to_i64_exact) {
            Some(1) => Some(Direction::Ascending),
            Some(-1) => Some(Direction::Descending),
            _ => None,
        }
    }

    fn order(self, left: ValueView<'_>, right: ValueView<'_>) -> Ordering {
        match self {
            Direction::Ascending => document::compare_views(left, right),
            Direction::Descending => document::compare_views(right, left),
        }
    }
}

impl PushSort {
    pub(super) fn parse(clause: &Element<'_>) -> Result<Self> {
        if clause.element_type == ElementType::EmbeddedDocument {
            return parse_fields(clause.value_bytes()).map(PushSort::Fields);
        }
        match Direction::parse(clause) {
            Some(direction) => Ok(PushSort::Whole(direction)),
            None if is_number(clause) => Err(bad_value("The $sort element value must be either 1 or -1")),
            None => Err(bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
            )),
        }
    }

    /// Sorts stably; a missing field sorts as null.
    ///
    /// # Errors
    /// The command is to stop.
    pub(super) fn sort(&self, items: &mut Vec<Element<'_>>) -> Result<()> {
        match self {
            PushSort::Whole(direction) => {
                work::sort_by(items, |left, right| direction.order(left.view(), right.view()))?;
            }
            PushSort::Fields(fields) => work::try_sort_by(items, |left, right| {
                for (path, direction) in fields {
                    let order = direction.order(follow(left, path), follow(right, path));
                    work::step()?;
                    if order.is_ne() {
                        return Ok(order);
                    }
                }
                Ok(Ordering::Equal)
            })?,
        }
        Ok(())
    }
}

fn parse_fields(bytes: &[u8]) -> Result<Vec<(Vec<String>, Direction)>> {
    let mut fields = Vec::new();
    for field in collect(bytes)? {
        let direction =
            Direction::parse(&field).ok_or_else(|| bad_value("The $sort element value must be either 1 or -1"))?;
        if field.name().is_empty() {
            return Err(bad_value("The $sort field cannot be empty"));
        }
        let path: Vec<String> = field.name().split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            let message = format!("The $sort field is a dotted field but has an empty part: {}", field.name());
            return Err(bad_value(message));
        }
        fields.push((path, direction));
    }
    match fields.is_empty() {
        true => Err(bad_value("The $sort pattern is empty when it should be a set of fields.")),
        false => Ok(fields),
    }
}

/// The value of a field of an item, null when there is none.
fn follow<'a>(item: &Element<'a>, path: &[String]) -> ValueView<'a> {
    let mut found = *item;
    for name in path {
        let member = match found.element_type {
            ElementType::EmbeddedDocument | ElementType::Array => {
                work::note_search(found.value_bytes());
                elements_of_bytes(found.value_bytes()).find_named(name.as_bytes())
            }
            _ => None,
        };
        match member {
            Some(member) => found = member,
            None => return ValueView::Null,
        }
    }
    found.view()
}

fn is_number(value: &Element<'_>) -> bool {
    use ElementType as Kind;
    matches!(value.element_type, Kind::Int32 | Kind::Int64 | Kind::Double | Kind::Decimal128)
}

fn bad_value(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::BadValue, message)
}
