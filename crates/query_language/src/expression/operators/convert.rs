//! `$convert` and its short forms `$toBool`, `$toDate`, `$toDecimal`, `$toDouble`, `$toInt`, `$toLong`, `$toObjectId`,
//! `$toString`.

use bson::spec::ElementType;

use super::prelude::*;
use crate::expression::conversion::convert;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$convert", "A value converted to a type.", FIELDS, NamedRefusals::FAILED_TO_PARSE, evaluate),
    Operator::eager("$toBool", "A value converted to a boolean.", Arity::Single, to_bool),
    Operator::eager("$toDate", "A value converted to a date.", Arity::Single, to_date),
    Operator::eager("$toDecimal", "A value converted to a decimal.", Arity::Single, to_decimal),
    Operator::eager("$toDouble", "A value converted to a double.", Arity::Single, to_double),
    Operator::eager("$toInt", "A value converted to an int.", Arity::Single, to_int),
    Operator::eager("$toLong", "A value converted to a long.", Arity::Single, to_long),
    Operator::eager("$toObjectId", "A value converted to an ObjectId.", Arity::Single, to_object_id),
    Operator::eager("$toString", "A value converted to a string.", Arity::Single, to_string),
];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::FailedToParse),
    NamedField::required("to", ErrorKind::FailedToParse),
    NamedField::optional("onError"),
    NamedField::optional("onNull"),
];

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let input = arguments.value(0, context)?;
    let target = target_type(&arguments.value(1, context)?)?;
    if input.is_nullish() {
        return Ok(arguments.get(3, context)?.unwrap_or(Value::NULL));
    }
    let Some(target) = target else { return Ok(Value::NULL) };
    match converted(input, target) {
        Err(error) if is_failed_conversion(&error) && arguments.is_given(2) => arguments.value(2, context),
        outcome => outcome,
    }
}

/// What `onError` stands in for: everything that no conversion gives, a date whose year has no text among it.
fn is_failed_conversion(error: &QueryError) -> bool {
    matches!(error.kind, ErrorKind::ConversionFailure | ErrorKind::Location(18537))
}

/// The type that `to` names, by name or number; `None` when null.
fn target_type(to: &Value<'_>) -> Result<Option<ElementType>> {
    let unknown = |message: String| QueryError::new(ErrorKind::BadValue, message);
    match to.or_null() {
        _ if to.is_nullish() => Ok(None),
        RawBsonRef::String(name) => {
            named_type(name).map(Some).ok_or_else(|| unknown(format!("Unknown type name: {name}")))
        }
        value if number::is_number(value) => {
            let Some(code) = number::to_i32_exact(value) else {
                let message = "In $convert, numeric 'to' argument is not an integer";
                return Err(QueryError::new(ErrorKind::FailedToParse, message));
            };
            let known = ALL_TYPES.iter().find(|(_, known)| type_code(*known) == code);
            known.map(|(_, known)| Some(*known)).ok_or_else(|| {
                let message = format!("In $convert, numeric value for 'to' does not correspond to a BSON type: {code}");
                QueryError::new(ErrorKind::FailedToParse, message)
            })
        }
        _ => {
            let message = format!("$convert's 'to' argument must be a string or number, but is {}", to.type_name());
            Err(QueryError::new(ErrorKind::FailedToParse, message))
        }
    }
}

const ALL_TYPES: &[(&str, ElementType)] = &[
    ("double", ElementType::Double),
    ("string", ElementType::String),
    ("object", ElementType::EmbeddedDocument),
    ("array", ElementType::Array),
    ("binData", ElementType::Binary),
    ("undefined", ElementType::Undefined),
    ("objectId", ElementType::ObjectId),
    ("bool", ElementType::Boolean),
    ("date", ElementType::DateTime),
    ("null", ElementType::Null),
    ("regex", ElementType::RegularExpression),
    ("dbPointer", ElementType::DbPointer),
    ("javascript", ElementType::JavaScriptCode),
    ("symbol", ElementType::Symbol),
    ("javascriptWithScope", ElementType::JavaScriptCodeWithScope),
    ("int", ElementType::Int32),
    ("timestamp", ElementType::Timestamp),
    ("long", ElementType::Int64),
    ("decimal", ElementType::Decimal128),
    ("minKey", ElementType::MinKey),
    ("maxKey", ElementType::MaxKey),
];

fn named_type(name: &str) -> Option<ElementType> {
    ALL_TYPES.iter().find(|(known, _)| *known == name).map(|(_, element_type)| *element_type)
}

/// The number of a type, -1 for MinKey.
fn type_code(element_type: ElementType) -> i32 {
    match element_type {
        ElementType::MinKey => -1,
        other => other as i32,
    }
}

fn converted<'a>(value: Value<'a>, target: ElementType) -> Result<Value<'a>> {
    match &value {
        Value::Missing => Ok(Value::NULL),
        Value::Borrowed(inner) => convert(*inner, target),
        Value::Owned(inner) => Ok(convert(inner.as_raw_bson_ref(), target)?.into_owned()),
    }
}

fn short_form<'a>(operator: &Operator, arguments: &mut [Value<'a>], target: ElementType) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    match value.is_nullish() {
        true => Ok(Value::NULL),
        false => converted(std::mem::take(value), target),
    }
}

fn to_bool<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::Boolean)
}

fn to_date<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::DateTime)
}

fn to_decimal<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::Decimal128)
}

fn to_double<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::Double)
}

fn to_int<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::Int32)
}

fn to_long<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::Int64)
}

fn to_object_id<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::ObjectId)
}

fn to_string<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::String)
}
