//! `$getField`: a field by its name, which may hold dots or begin with `$`.

use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;
use crate::expression::value::type_name;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$getField", "A field of a document by name, whatever its name.", parse)];

const FIELDS: &[NamedField] = &[
    NamedField::required("field", ErrorKind::Location(3041702)),
    NamedField::required("input", ErrorKind::Location(3041703)),
];

/// `$getField: {field, input}`; the short form takes `input` from `$$CURRENT`.
static NAMED: Operator = Operator::named("$getField", "", FIELDS, NamedRefusals::requires(3041700, 3041701), evaluate);

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let long_form = match argument {
        RawBsonRef::Document(document) => {
            !document.iter().next().transpose()?.is_some_and(|(name, _)| name.as_str().starts_with('$'))
        }
        _ => false,
    };
    let (field, input) = if long_form {
        let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::requires(3041700, 3041701))?;
        let [Some(field), Some(input)] = fields.as_slice() else { return Err(operator.misplaced()) };
        (parse_node(*field, context)?, parse_node(*input, context)?)
    } else {
        (parse_node(argument, context)?, parse_node(RawBsonRef::String("$$CURRENT"), context)?)
    };
    if let Some(constant) = field.as_constant()
        && constant.as_str().is_none()
    {
        let found = constant.type_name();
        let message = format!("$getField requires 'field' to evaluate to type String, but got {found}");
        return Err(numbered(5654602, message));
    }
    crate::expression::parse::fold(Node::Named { operator: &NAMED, arguments: vec![Some(field), Some(input)] }, context)
}

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let field = arguments.value(0, context)?;
    let Some(name) = field.as_str() else {
        let found = field.get().map_or("missing", |value| type_name(value.element_type()));
        let message = format!("$getField requires 'field' to evaluate to type String, but got {found}");
        return Err(numbered(3041704, message));
    };
    let input = arguments.value(1, context)?;
    if input.is_nullish() {
        return Ok(if input.is_missing() { Value::Missing } else { Value::NULL });
    }
    Ok(input.extract(|value| value.as_document()?.get(name).ok()?))
}
