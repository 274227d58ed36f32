//! The update operators by name, one file each.
//!
//! `parse` looks an operator up here and hands it the path and the operand. `$rename` names two paths and is taken
//! apart by the parser itself; it is listed so that this table has every operator.

pub(super) mod add_to_set;
mod arithmetic;
mod bit;
mod current_date;
mod inc;
mod max;
mod min;
mod mul;
mod pop;
mod pull;
mod pull_all;
mod push;
mod push_sort;
pub(super) mod rename;
mod set;
mod set_on_insert;
mod unset;
mod value_set;

use super::element::Element;
use super::operator::FieldOperator;
use crate::error::Result;
use crate::filter::FilterOptions;

/// An operator of updates.
#[derive(Debug)]
pub struct UpdateOperator {
    /// The name with its `$`.
    pub name: &'static str,
    pub(super) form: Form,
}

/// How an operator reads its operand.
#[derive(Debug)]
pub(super) enum Form {
    /// The operand is about the path it is given for. Takes the field of the update document (name and operand).
    OnePath(fn(&Element<'_>, &FilterOptions) -> Result<Box<dyn FieldOperator>>),
    /// The operand is another path.
    Rename,
}

/// All update operators in alphabetical order.
pub static UPDATE_OPERATORS: &[UpdateOperator] = &[
    UpdateOperator { name: "$addToSet", form: Form::OnePath(add_to_set::parse) },
    UpdateOperator { name: "$bit", form: Form::OnePath(bit::parse) },
    UpdateOperator { name: "$currentDate", form: Form::OnePath(current_date::parse) },
    UpdateOperator { name: "$inc", form: Form::OnePath(inc::parse) },
    UpdateOperator { name: "$max", form: Form::OnePath(max::parse) },
    UpdateOperator { name: "$min", form: Form::OnePath(min::parse) },
    UpdateOperator { name: "$mul", form: Form::OnePath(mul::parse) },
    UpdateOperator { name: "$pop", form: Form::OnePath(pop::parse) },
    UpdateOperator { name: "$pull", form: Form::OnePath(pull::parse) },
    UpdateOperator { name: "$pullAll", form: Form::OnePath(pull_all::parse) },
    UpdateOperator { name: "$push", form: Form::OnePath(push::parse) },
    UpdateOperator { name: "$rename", form: Form::Rename },
    UpdateOperator { name: "$set", form: Form::OnePath(set::parse) },
    UpdateOperator { name: "$setOnInsert", form: Form::OnePath(set_on_insert::parse) },
    UpdateOperator { name: "$unset", form: Form::OnePath(unset::parse) },
];

/// The operator of this name.
pub(super) fn find(name: &str) -> Option<&'static UpdateOperator> {
    UPDATE_OPERATORS.iter().find(|operator| operator.name == name)
}

/// `$set` of a value, for the fields that an upsert takes from its query.
pub(super) fn set(field: &Element<'_>) -> Box<dyn FieldOperator> {
    Box::new(set::Set::new(field))
}
