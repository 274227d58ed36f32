//! Extended JSON objects that stand for one value: `{"$oid": "..."}` and its kin, canonical and relaxed.

use super::call;
use super::{Problem, cstring};
use bson::{DateTime, Decimal128, RawBson, RawDocumentBuf, Regex};

/// The value a document stands for, or the document itself when it is no extended JSON.
pub(super) fn convert(document: RawDocumentBuf) -> Result<RawBson, Problem> {
    let mut fields: Vec<(String, RawBson)> = Vec::new();
    for element in document.iter().take(3) {
        let (key, value) = element.map_err(|error| error.to_string())?;
        fields.push((key.as_str().to_owned(), RawBson::from(value)));
    }
    let converted = match fields.as_slice() {
        [(name, value)] => single(name, value)?,
        [(name, RawBson::String(code)), (scope_name, RawBson::Document(scope))]
            if name == "$code" && scope_name == "$scope" =>
        {
            Some(call::code_with_scope(code, scope))
        }
        _ => None,
    };
    Ok(converted.unwrap_or(RawBson::Document(document)))
}

fn single(name: &str, value: &RawBson) -> Result<Option<RawBson>, Problem> {
    let converted = match (name, value) {
        ("$oid", value) => call::object_id(value)?,
        ("$numberInt", value) => RawBson::Int32(call::parsed(value)?),
        ("$numberLong", value) => RawBson::Int64(call::parsed(value)?),
        ("$numberDouble", RawBson::String(text)) => RawBson::Double(double(text)?),
        ("$numberDecimal", value) => RawBson::Decimal128(call::parsed::<Decimal128>(value)?),
        ("$date", RawBson::String(text)) => call::date(text)?,
        ("$date", RawBson::Int64(milliseconds)) => RawBson::DateTime(DateTime::from_millis(*milliseconds)),
        ("$date", RawBson::Int32(milliseconds)) => RawBson::DateTime(DateTime::from_millis(i64::from(*milliseconds))),
        ("$timestamp", RawBson::Document(parts)) => call::timestamp(&field(parts, "t")?, &field(parts, "i")?)?,
        ("$binary", RawBson::Document(parts)) => binary(parts)?,
        ("$uuid", RawBson::String(text)) => call::binary(4, &text.replace('-', ""))?,
        ("$regularExpression", RawBson::Document(parts)) => regex(parts)?,
        ("$symbol", RawBson::String(text)) => RawBson::Symbol(text.clone()),
        ("$code", RawBson::String(code)) => RawBson::JavaScriptCode(code.clone()),
        ("$undefined", _) => RawBson::Undefined,
        ("$minKey", _) => RawBson::MinKey,
        ("$maxKey", _) => RawBson::MaxKey,
        _ => return Ok(None),
    };
    Ok(Some(converted))
}

fn double(text: &str) -> Result<f64, Problem> {
    text.parse().map_err(|_| format!("not a double: {text}"))
}

fn field(document: &RawDocumentBuf, name: &str) -> Result<RawBson, Problem> {
    let value = document.get(name).map_err(|error| error.to_string())?;
    value.map(RawBson::from).ok_or_else(|| format!("no field {name}"))
}

fn text_field(document: &RawDocumentBuf, name: &str) -> Result<String, Problem> {
    match field(document, name)? {
        RawBson::String(text) => Ok(text),
        other => Err(format!("{name} is not a string: {other:?}")),
    }
}

fn binary(parts: &RawDocumentBuf) -> Result<RawBson, Problem> {
    let kind = u8::from_str_radix(&text_field(parts, "subType")?, 16).map_err(|error| error.to_string())?;
    let bytes = bson::Binary::from_base64(text_field(parts, "base64")?, crate::print::subtype(kind));
    bytes.map(RawBson::Binary).map_err(|error| error.to_string())
}

fn regex(parts: &RawDocumentBuf) -> Result<RawBson, Problem> {
    let (pattern, options) = (text_field(parts, "pattern")?, text_field(parts, "options")?);
    let (pattern, options) = (cstring(&pattern)?, cstring(&options)?);
    Ok(RawBson::RegularExpression(Regex { pattern: pattern.into(), options: options.into() }))
}
