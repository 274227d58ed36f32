//! `$setField` and `$unsetField`: a document with a field set or removed by name, which may hold dots.

use crate::expression::document_writer::DocumentWriter;
use crate::expression::operators::prelude::*;
use crate::expression::parse::{fold, parse_fields};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::special("$setField", "A document with one field set, whatever its name.", parse_set),
    Operator::special("$unsetField", "A document without one field, whatever its name.", parse_unset),
];

const SET_FIELDS: &[NamedField] = &[
    NamedField::required("field", ErrorKind::Location(4161102)),
    NamedField::required("input", ErrorKind::Location(4161109)),
    NamedField::required("value", ErrorKind::Location(4161103)),
];
const UNSET_FIELDS: &[NamedField] = SET_FIELDS.split_at(2).0;
const REFUSALS: NamedRefusals = NamedRefusals::requires(4161100, 4161101);

static SET: Operator = Operator::named("$setField", "", SET_FIELDS, REFUSALS, set);
static UNSET: Operator = Operator::named("$unsetField", "", UNSET_FIELDS, REFUSALS, unset);

fn parse_set(_: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    parse(&SET, argument, context)
}

fn parse_unset(_: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    parse(&UNSET, argument, context)
}

/// The field name must be known when the expression is parsed.
fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, operator.named_fields(), REFUSALS)?;
    let parse = |value: Option<RawBsonRef<'_>>| value.map(|value| parse_node(value, context)).transpose();
    let arguments = fields.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
    let name = operator.name;
    match arguments.first() {
        Some(Some(Node::Constant(field))) if field.as_str().is_some() => {}
        Some(Some(Node::Path { .. })) => {
            let message =
                format!("{name} requires 'field' to be a constant, but got a path; use $literal for a name with '$'");
            return Err(numbered(4161108, message));
        }
        Some(Some(Node::Constant(field))) => {
            let found = field.type_name();
            let message = format!("{name} requires 'field' to evaluate to a constant of type String, but got {found}");
            return Err(numbered(4161107, message));
        }
        _ => {
            let message = format!("{name} requires 'field' to evaluate to a constant, but got a non-constant argument");
            return Err(numbered(4161106, message));
        }
    }
    fold(Node::Named { operator, arguments }, context)
}

fn set<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let value = arguments.value(2, context)?;
    replace(arguments, context, value.get())
}

fn unset<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    replace(arguments, context, None)
}

fn replace<'a>(
    arguments: &NamedArguments<'a>,
    context: &EvaluationContext<'a>,
    value: Option<RawBsonRef<'_>>,
) -> Result<Value<'a>> {
    let field = arguments.value(0, context)?;
    let input = arguments.value(1, context)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let (Some(name), Some(document)) = (field.as_str(), input.as_document()) else {
        let (name, found) = (arguments.operator.name, input.type_name());
        let message = format!("{name} requires 'input' to evaluate to type Object, but got {found}");
        return Err(numbered(4161105, message));
    };
    let mut writer = DocumentWriter::new();
    writer.merge(document)?;
    match value {
        Some(value) => writer.set(name, value),
        None => writer.remove(name),
    }
    Ok(writer.finish()?.into())
}
