//! An expression over the columns of a batch.
//!
//! A field is its column; arithmetic and comparisons of numbers go through columns; any other expression whose values are no
//! larger than what it reads is evaluated row by row. One whose values may be larger has no form for rows: a batch would hold a
//! thousand of them.

use super::arithmetic::{Comparing, Numeric, constant_slot};
use super::batch::{Column, Row, RowBatch, RowNames, Slot, slot_of};
use crate::error::Result;
use crate::expression::{EvaluationContext, Expression, Node, Variables};
use document::work;

/// How an expression is evaluated over a batch. What it was made of is shown to it again then.
#[derive(Debug)]
pub struct RowExpression(Form);

#[derive(Debug)]
enum Form {
    Column(usize),
    /// A field that no column has, or a constant.
    Constant(Slot),
    Numeric(Numeric),
    Comparing(Comparing),
    RowByRow,
}

/// What an expression has given for the rows of a batch; kept for the next, for its space.
#[derive(Debug, Default)]
pub struct RowValues {
    pub(super) slots: Column,
    pub(super) bytes: Vec<u8>,
}

impl RowExpression {
    /// The form of an expression over columns of these names; `None`: it has none.
    pub fn compile(expression: &Expression, names: &RowNames) -> Option<Self> {
        let node = expression.node();
        if let Some(path) = expression.as_field_path().filter(|path| path.as_path().len() == 1) {
            let column = names.iter().position(|name| **name == *path.as_str());
            return Some(Self(column.map_or(Form::Constant(Slot::MISSING), Form::Column)));
        }
        if let Some(slot) = node.as_constant().and_then(constant_slot) {
            return Some(Self(Form::Constant(slot)));
        }
        if let Some(numeric) = Numeric::compile(node, names) {
            return Some(Self(Form::Numeric(numeric)));
        }
        if let Some(comparing) = Comparing::compile(node, names) {
            return Some(Self(Form::Comparing(comparing)));
        }
        node.parts().is_some_and(|parts| parts <= PARTS_MAX).then_some(Self(Form::RowByRow))
    }

    /// The column that has the values, if they need not be computed.
    pub fn column(&self) -> Option<usize> {
        match self.0 {
            Form::Column(column) => Some(column),
            _ => None,
        }
    }

    /// Whether it may fail.
    pub fn may_fail(&self) -> bool {
        !matches!(self.0, Form::Column(_) | Form::Constant(_))
    }

    /// The slot that all rows have, if they have the same.
    pub fn constant(&self) -> Option<Slot> {
        match self.0 {
            Form::Constant(slot) => Some(slot),
            _ => None,
        }
    }

    /// Computes the values for all rows. There is nothing to do for a column.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn evaluate(
        &self,
        expression: &Expression,
        (batch, names): (&RowBatch, &RowNames),
        variables: &Variables,
        values: &mut RowValues,
    ) -> Result<()> {
        let RowValues { slots, bytes } = values;
        if let Form::Constant(slot) = self.0 {
            // They are the same as for the last batch.
            slots.resize(batch.rows(), slot);
            return Ok(());
        }
        slots.clear();
        bytes.clear();
        let ask = |row: usize, bytes: &mut Vec<u8>| {
            let context = EvaluationContext::of_row(Row::new(batch, names, row), variables);
            slot_of(&expression.evaluate(&context)?, bytes)
        };
        match &self.0 {
            Form::Column(_) | Form::Constant(_) => {}
            Form::Numeric(numeric) => {
                work::done(batch.rows() * numeric.units())?;
                for row in 0..batch.rows() {
                    let known = numeric.of_row(batch, row).and_then(Slot::of_number);
                    slots.push(match known {
                        Some(slot) => slot,
                        None => ask(row, bytes)?,
                    });
                }
            }
            Form::Comparing(comparing) => {
                work::done(batch.rows() * comparing.units())?;
                for row in 0..batch.rows() {
                    slots.push(match comparing.of_row(batch, row) {
                        Some(slot) => slot,
                        None => ask(row, bytes)?,
                    });
                }
            }
            Form::RowByRow => {
                for row in 0..batch.rows() {
                    work::step()?;
                    slots.push(ask(row, bytes)?);
                }
            }
        }
        Ok(())
    }

    /// Where the values are: in a column of the batch, or in what was computed.
    pub fn values<'v>(&self, batch: &'v RowBatch, computed: &'v RowValues) -> (&'v [Slot], &'v [u8]) {
        match self.0 {
            Form::Column(column) => (batch.column(column), batch.bytes()),
            _ => (&computed.slots, &computed.bytes),
        }
    }
}

/// Values of fields that a value may be made of.
const PARTS_MAX: usize = 16;

/// Operators whose values are no larger than their arguments, or are of a fixed size whatever their arguments are.
const SCALAR: &[&str] = &[
    "$abs",
    "$add",
    "$and",
    "$ceil",
    "$cmp",
    "$divide",
    "$eq",
    "$exp",
    "$floor",
    "$gt",
    "$gte",
    "$in",
    "$isArray",
    "$isNumber",
    "$ln",
    "$log",
    "$log10",
    "$lt",
    "$lte",
    "$mod",
    "$multiply",
    "$ne",
    "$not",
    "$or",
    "$pow",
    "$round",
    "$size",
    "$sqrt",
    "$strLenBytes",
    "$strLenCP",
    "$subtract",
    "$toBool",
    "$toDate",
    "$toDouble",
    "$toInt",
    "$toLong",
    "$trunc",
    "$type",
];

/// Operators whose values are those of some argument, or all of them one behind the other.
const AS_ARGUMENTS: &[&str] =
    &["$concat", "$cond", "$ifNull", "$substr", "$substrBytes", "$substrCP", "$toLower", "$toUpper"];

/// Parts of dates, by name.
const DATE_PARTS: &[&str] = &[
    "$dayOfMonth",
    "$dayOfWeek",
    "$dayOfYear",
    "$hour",
    "$isoDayOfWeek",
    "$isoWeek",
    "$isoWeekYear",
    "$millisecond",
    "$minute",
    "$month",
    "$second",
    "$week",
    "$year",
    "$dateTrunc",
    "$dateDiff",
];

impl Node {
    /// The column of a field.
    pub(super) fn column(&self, names: &RowNames) -> Option<usize> {
        let path = self.as_field_path().filter(|path| path.as_path().len() == 1)?;
        names.iter().position(|name| **name == *path.as_str())
    }

    /// Of how many fields' values its own may be made at most, if it is made of nothing larger.
    fn parts(&self) -> Option<usize> {
        let all = |nodes: &mut dyn Iterator<Item = &Node>| nodes.map(Node::parts).sum::<Option<usize>>();
        match self {
            Node::Constant(value) => (crate::growth::value_bytes(value.or_null()) <= 64).then_some(1),
            Node::Path { .. } => self.as_field_path().map(|_| 1),
            Node::Object(fields) => all(&mut fields.iter().map(|(_, node)| node)),
            Node::Array(items) => all(&mut items.iter()),
            Node::Positional { operator, .. } if SCALAR.contains(&operator.name) => Some(1),
            Node::Positional { operator, arguments } if AS_ARGUMENTS.contains(&operator.name) => {
                all(&mut arguments.iter())
            }
            Node::Named { operator, .. } if DATE_PARTS.contains(&operator.name) => Some(1),
            Node::Positional { .. } | Node::Named { .. } | Node::Special(_) => None,
        }
    }
}
