//! `$literal` (and `$const`, which explain output uses): a value that is not read as an expression.

use bson::raw::RawBsonRef;

use crate::error::Result;
use crate::expression::node::Node;
use crate::expression::operator::Operator;
use crate::expression::parse::constant;
use crate::expression::variables::ParseContext;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::special("$const", "The value as it stands; another name of $literal.", parse),
    Operator::special("$literal", "The value as it stands.", parse),
];

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, _: &ParseContext) -> Result<Node> {
    Ok(constant(argument))
}
