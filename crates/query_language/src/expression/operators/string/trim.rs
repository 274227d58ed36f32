//! `$trim`, `$ltrim`, `$rtrim`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$ltrim", "A string without leading white space or given characters.", FIELDS, REFUSALS, left),
    Operator::named("$rtrim", "A string without trailing white space or given characters.", FIELDS, REFUSALS, right),
    Operator::named("$trim", "A string without white space or given characters at its ends.", FIELDS, REFUSALS, both),
];

const FIELDS: &[NamedField] =
    &[NamedField::required("input", ErrorKind::Location(50695)), NamedField::optional("chars")];
const REFUSALS: NamedRefusals = NamedRefusals::requires(50696, 50694);

/// What counts as white space, by the manual.
const WHITE_SPACE: &[char] = &[
    '\0', ' ', '\t', '\n', '\u{0B}', '\u{0C}', '\r', '\u{A0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200A}',
];

fn left<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    trim(arguments, context, |text, set| text.trim_start_matches(set))
}

fn right<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    trim(arguments, context, |text, set| text.trim_end_matches(set))
}

fn both<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    trim(arguments, context, |text, set| text.trim_matches(set))
}

fn trim<'a>(
    arguments: &NamedArguments<'a>,
    context: &EvaluationContext<'a>,
    cut: for<'t> fn(&'t str, &[char]) -> &'t str,
) -> Result<Value<'a>> {
    let input = arguments.value(0, context)?;
    let set = arguments.get(1, context)?;
    if input.is_nullish() || set.as_ref().is_some_and(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let not_a_string = |kind, what: &str, value: &Value<'_>| {
        let (shown, found) = (show(value.or_null()), value.type_name());
        let text = format!("requires {what} to be a string, got {shown} (of type {found}) instead.");
        arguments.operator.error(ErrorKind::Location(kind), text)
    };
    if input.as_str().is_none() {
        return Err(not_a_string(50699, "its input", &input));
    }
    let set: Option<Vec<char>> = match &set {
        None => None,
        Some(set) => match set.as_str() {
            Some(text) => Some(text.chars().collect()),
            None => return Err(not_a_string(50700, "'chars'", set)),
        },
    };
    let set = set.as_deref().unwrap_or(WHITE_SPACE);
    Ok(input.extract(|value| value.as_str().map(|text| RawBsonRef::String(cut(text, set)))))
}
