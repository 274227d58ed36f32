//! `$sigmoid`: 1 / (1 + e^-x), of a number, or of `input` with `onNull` in the place of null.

use document::Number;
use document::decimal::exponential;

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$sigmoid", "A number made to lie between 0 and 1.", parse)];

/// The behaviour of either form.
static LAZY: Operator = Operator::lazy("$sigmoid", "", Arity::Between(1, 2), evaluate);

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let named = match argument {
        RawBsonRef::Document(document) if document::get_field(document, "input").is_some() => Some(document),
        _ => None,
    };
    let mut arguments = Vec::new();
    match named {
        None => arguments.extend(crate::expression::parse::parse_arguments(argument, context)?),
        Some(fields) => {
            let mut on_null = None;
            for field in document::elements(fields) {
                match field.name() {
                    "input" => arguments.push(parse_node(field.value(), context)?),
                    "onNull" => on_null = Some(parse_node(field.value(), context)?),
                    other => {
                        let message = format!("BSON field '$sigmoid.{other}' is an unknown field.");
                        return Err(numbered(40415, message));
                    }
                }
            }
            arguments.extend(on_null);
        }
    }
    if named.is_none() && arguments.len() != 1 {
        let given = arguments.len();
        let message = format!("Expression $sigmoid takes exactly 1 arguments. {given} were passed in.");
        return Err(numbered(16020, message));
    }
    crate::expression::parse::fold(Node::Positional { operator: &LAZY, arguments }, context)
}

fn evaluate<'a>(arguments: &'a [Node], context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let (Some(input), on_null) = (arguments.first(), arguments.get(1)) else { return Err(LAZY.misplaced()) };
    let value = input.evaluate(context)?;
    if value.is_nullish() {
        return on_null.map_or(Ok(Value::NULL), |node| node.evaluate(context));
    }
    let Some(number) = value.get().and_then(Number::from_bson) else {
        let found = value.type_name();
        return Err(numbered(28765, format!("$sigmoid only supports numeric types, not {found}")));
    };
    let negated = Number::Int32(0).subtract(number);
    let power = match negated.is_decimal() {
        true => Number::Decimal128(exponential(negated.to_decimal()).to_bson()),
        false => Number::Double(negated.to_f64().exp()),
    };
    // Never zero: a power of e is not below zero.
    let one = Number::Int32(1);
    Ok(one.divide(one.add(power)).map_or(Value::NULL, Value::from))
}
