//! `$replaceOne` and `$replaceAll`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$replaceAll", "A string with every occurrence of another replaced.", FIELDS, REFUSALS, all),
    Operator::named("$replaceOne", "A string with the first occurrence of another replaced.", FIELDS, REFUSALS, one),
];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(51749)),
    NamedField::required("find", ErrorKind::Location(51748)),
    NamedField::required("replacement", ErrorKind::Location(51747)),
];
const REFUSALS: NamedRefusals = NamedRefusals::requires(51751, 51750);

fn all<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    replace(arguments, context, |text, find, replacement| {
        let found = text.matches(find).count();
        let bytes = found.saturating_mul(replacement.len()).saturating_add(text.len());
        check_growth(bytes, bytes)?;
        Ok(text.replace(find, replacement))
    })
}

fn one<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    replace(arguments, context, |text, find, replacement| Ok(text.replacen(find, replacement, 1)))
}

fn replace<'a>(
    arguments: &NamedArguments<'a>,
    context: &EvaluationContext<'a>,
    replaced: fn(&str, &str, &str) -> Result<String>,
) -> Result<Value<'a>> {
    let values = [arguments.value(0, context)?, arguments.value(1, context)?, arguments.value(2, context)?];
    let kinds = [("input", 51746), ("find", 51745), ("replacement", 51744)];
    for (value, (field, kind)) in values.iter().zip(kinds) {
        if !value.is_nullish() && value.as_str().is_none() {
            let text = format!("requires that '{field}' be a string, found: {}", show(value.or_null()));
            return Err(arguments.operator.error(ErrorKind::Location(kind), text));
        }
    }
    match values.each_ref().map(Value::as_str) {
        [Some(text), Some(find), Some(replacement)] => Ok(replaced(text, find, replacement)?.into()),
        _ => Ok(Value::NULL),
    }
}
