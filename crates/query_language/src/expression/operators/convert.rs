//! `$convert` and its short forms `$toArray`, `$toBool`, `$toDate`, `$toDecimal`, `$toDouble`, `$toInt`, `$toLong`,
//! `$toObject`, `$toObjectId`, `$toString`, `$toUUID`.

use bson::spec::{BinarySubtype, ElementType};

use super::prelude::*;
use crate::expression::conversion::binary::{BinaryOptions, ByteOrder, Format};
use crate::expression::conversion::convert_with;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$convert", "A value converted to a type.", FIELDS, NamedRefusals::FAILED_TO_PARSE, evaluate),
    Operator::eager("$toArray", "A text or a vector converted to an array.", Arity::Single, to_array),
    Operator::eager("$toBool", "A value converted to a boolean.", Arity::Single, to_bool),
    Operator::eager("$toDate", "A value converted to a date.", Arity::Single, to_date),
    Operator::eager("$toDecimal", "A value converted to a decimal.", Arity::Single, to_decimal),
    Operator::eager("$toDouble", "A value converted to a double.", Arity::Single, to_double),
    Operator::eager("$toInt", "A value converted to an int.", Arity::Single, to_int),
    Operator::eager("$toLong", "A value converted to a long.", Arity::Single, to_long),
    Operator::eager("$toObject", "A text converted to a document.", Arity::Single, to_object),
    Operator::eager("$toObjectId", "A value converted to an ObjectId.", Arity::Single, to_object_id),
    Operator::eager("$toString", "A value converted to a string.", Arity::Single, to_string),
    Operator::eager("$toUUID", "A string converted to a UUID.", Arity::Single, to_uuid),
];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::FailedToParse),
    NamedField::required("to", ErrorKind::FailedToParse),
    NamedField::optional("onError"),
    NamedField::optional("onNull"),
    NamedField::optional("format"),
    NamedField::optional("byteOrder"),
];

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let input = arguments.value(0, context)?;
    let (target, subtype) = target_of(&arguments.value(1, context)?)?;
    let options = BinaryOptions { subtype, ..binary_options(arguments, context)? };
    if input.is_nullish() {
        return Ok(arguments.get(3, context)?.unwrap_or(Value::NULL));
    }
    let Some(target) = target else { return Ok(Value::NULL) };
    match converted(input, target, &options) {
        Err(error) if is_failed_conversion(&error) && arguments.is_given(2) => arguments.value(2, context),
        outcome => outcome,
    }
}

/// What `onError` stands in for: everything that no conversion gives, a date whose year has no text among it.
fn is_failed_conversion(error: &QueryError) -> bool {
    matches!(error.kind, ErrorKind::ConversionFailure | ErrorKind::Location(18537))
}

/// The type that `to` names, and of binary data the subtype.
fn target_of(to: &Value<'_>) -> Result<(Option<ElementType>, BinarySubtype)> {
    let failed = |message: String| Err(QueryError::new(ErrorKind::FailedToParse, message));
    let Some(RawBsonRef::Document(fields)) = to.get() else { return Ok((target_type(to)?, BinarySubtype::Generic)) };
    let (mut target, mut subtype) = (None, BinarySubtype::Generic);
    for field in document::elements(fields) {
        match field.name() {
            "type" => target = target_type(&Value::Borrowed(field.value()))?,
            "subtype" => {
                let code = number::to_i32_exact(field.value()).and_then(|code| u8::try_from(code).ok());
                let Some(code) = code.filter(|code| *code != 2) else {
                    return failed("In $convert, 'subtype' is not a valid binData subtype".to_owned());
                };
                subtype = BinarySubtype::from(code);
            }
            other => return failed(format!("$convert found an unknown argument: to.{other}")),
        }
    }
    if document::get_field(fields, "type").is_none() {
        return failed("Missing 'type' parameter to $convert's 'to'".to_owned());
    }
    Ok((target, subtype))
}

/// `format` and `byteOrder`.
fn binary_options<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<BinaryOptions> {
    let mut options = BinaryOptions::default();
    let text = |position: usize, name: &str| -> Result<Option<String>> {
        let value = arguments.value(position, context)?;
        match value.get() {
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Ok(None),
            Some(RawBsonRef::String(text)) => Ok(Some(text.to_owned())),
            Some(_) => {
                let message = format!("$convert requires that '{name}' be a string, found: {}", value.type_name());
                Err(QueryError::new(ErrorKind::Location(4341115), message))
            }
        }
    };
    if let Some(name) = text(4, "format")? {
        let unknown = || QueryError::new(ErrorKind::Location(4341125), format!("Invalid 'format' argument: {name}"));
        options.format = Some(Format::parse(&name).ok_or_else(unknown)?);
    }
    match text(5, "byteOrder")?.as_deref() {
        None | Some("little") => {}
        Some("big") => options.order = ByteOrder::Big,
        Some(other) => {
            let message = format!("Invalid 'byteOrder' argument: {other}");
            return Err(QueryError::new(ErrorKind::Location(9130001), message));
        }
    }
    Ok(options)
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

fn converted<'a>(value: Value<'a>, target: ElementType, options: &BinaryOptions) -> Result<Value<'a>> {
    match &value {
        Value::Missing => Ok(Value::NULL),
        Value::Borrowed(inner) => convert_with(*inner, target, options),
        Value::Owned(inner) => Ok(convert_with(inner.as_raw_bson_ref(), target, options)?.into_owned()),
    }
}

fn short_form<'a>(operator: &Operator, arguments: &mut [Value<'a>], target: ElementType) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    match value.is_nullish() {
        true => Ok(Value::NULL),
        false => converted(std::mem::take(value), target, &SHORT_FORM),
    }
}

/// Short forms say nothing of formats: whatever binary data is, it is shown.
const SHORT_FORM: BinaryOptions =
    BinaryOptions { subtype: BinarySubtype::Generic, format: Some(Format::Auto), order: ByteOrder::Little };

fn to_uuid<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    let options = BinaryOptions { subtype: BinarySubtype::Uuid, format: Some(Format::Uuid), order: ByteOrder::Little };
    match value.is_nullish() {
        true => Ok(Value::NULL),
        false => converted(std::mem::take(value), ElementType::Binary, &options),
    }
}

fn to_array<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::Array)
}

fn to_object<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    short_form(operator, arguments, ElementType::EmbeddedDocument)
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
