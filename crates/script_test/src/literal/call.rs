//! Constants and calls of the shell: `null`, `NaN`, `NumberLong(5)`, `ObjectId("...")`, ...

use super::{Problem, Reader};
use crate::print::subtype;
use bson::oid::ObjectId;
use bson::{Binary, DateTime, Decimal128, RawBson, RawDocumentBuf, RawJavaScriptCodeWithScope, Timestamp};

/// The value of the constant or call named `word`, whose arguments (if any) are read from `reader`.
pub(super) fn read(reader: &mut Reader<'_>, word: &str) -> Result<RawBson, Problem> {
    if word == "new" {
        let word = reader.word();
        return read(reader, &word);
    }
    let arguments = if reader.open() { reader.arguments()? } else { Vec::new() };
    match (word, arguments.as_slice()) {
        ("true", []) => Ok(RawBson::Boolean(true)),
        ("false", []) => Ok(RawBson::Boolean(false)),
        ("null", []) => Ok(RawBson::Null),
        ("undefined", []) => Ok(RawBson::Undefined),
        ("NaN", []) => Ok(RawBson::Double(f64::NAN)),
        ("Infinity", []) => Ok(RawBson::Double(f64::INFINITY)),
        ("MinKey", []) => Ok(RawBson::MinKey),
        ("MaxKey", []) => Ok(RawBson::MaxKey),
        ("NumberInt" | "Int32", [value]) => parsed(value).map(RawBson::Int32),
        ("NumberLong" | "Long", [value]) => parsed(value).map(RawBson::Int64),
        ("NumberDouble" | "Double", [value]) => parsed(value).map(RawBson::Double),
        ("NumberDecimal" | "Decimal128", [value]) => parsed::<Decimal128>(value).map(RawBson::Decimal128),
        ("ObjectId", [value]) => object_id(value),
        ("ISODate", [RawBson::String(text)]) => date(text),
        ("Date", [value]) => Ok(RawBson::DateTime(DateTime::from_millis(parsed(value)?))),
        ("Timestamp", [time, increment]) => timestamp(time, increment),
        ("BinData", [kind, RawBson::String(text)]) => base64(kind, text),
        ("HexData", [kind, RawBson::String(text)]) => binary(parsed(kind)?, text),
        ("UUID", [RawBson::String(text)]) => binary(4, &text.replace('-', "")),
        ("Symbol", [RawBson::String(text)]) => Ok(RawBson::Symbol(text.clone())),
        ("Code", [RawBson::String(code)]) => Ok(RawBson::JavaScriptCode(code.clone())),
        ("Code", [RawBson::String(code), RawBson::Document(scope)]) => Ok(code_with_scope(code, scope)),
        _ => Err(format!("unknown constant or call: {word} of {} arguments", arguments.len())),
    }
}

/// A number given as a number or as a string.
pub(super) fn parsed<T: std::str::FromStr>(value: &RawBson) -> Result<T, Problem> {
    let text = match value {
        RawBson::String(text) => text.clone(),
        RawBson::Int32(number) => number.to_string(),
        RawBson::Int64(number) => number.to_string(),
        RawBson::Double(number) => number.to_string(),
        other => return Err(format!("not a number: {other:?}")),
    };
    text.parse().map_err(|_| format!("not a number: {text}"))
}

pub(super) fn object_id(value: &RawBson) -> Result<RawBson, Problem> {
    let RawBson::String(text) = value else { return Err("ObjectId wants a string".to_owned()) };
    ObjectId::parse_str(text).map(RawBson::ObjectId).map_err(|error| error.to_string())
}

pub(super) fn date(text: &str) -> Result<RawBson, Problem> {
    let full = if text.len() == "2000-01-01".len() { format!("{text}T00:00:00Z") } else { text.to_owned() };
    DateTime::parse_rfc3339_str(full).map(RawBson::DateTime).map_err(|error| error.to_string())
}

pub(super) fn timestamp(time: &RawBson, increment: &RawBson) -> Result<RawBson, Problem> {
    Ok(RawBson::Timestamp(Timestamp { time: parsed(time)?, increment: parsed(increment)? }))
}

fn base64(kind: &RawBson, text: &str) -> Result<RawBson, Problem> {
    let kind = subtype(parsed(kind)?);
    Binary::from_base64(text, kind).map(RawBson::Binary).map_err(|error| error.to_string())
}

pub(super) fn binary(kind: u8, hex: &str) -> Result<RawBson, Problem> {
    let byte = |at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    let bytes = bytes.ok_or_else(|| format!("not hexadecimal: {hex}"))?;
    Ok(RawBson::Binary(Binary { subtype: subtype(kind), bytes }))
}

pub(super) fn code_with_scope(code: &str, scope: &RawDocumentBuf) -> RawBson {
    RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope { code: code.to_owned(), scope: scope.clone() })
}
