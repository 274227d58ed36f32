//! BSON values as text that `literal` reads back to the same value and type.

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument};
use std::fmt::Write as _;

/// A document as one line of shell syntax.
pub fn print_document(document: &RawDocument) -> String {
    print_value(RawBsonRef::Document(document))
}

/// A value as one line of shell syntax: `5` is an int32, `5.0` a double, `NumberLong(5)` an int64.
pub fn print_value(value: RawBsonRef<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

fn write_value(out: &mut String, value: RawBsonRef<'_>) {
    // Writing to a String cannot fail.
    let _ = match value {
        RawBsonRef::Document(document) => return write_document(out, document),
        RawBsonRef::Array(array) => return write_array(out, array),
        RawBsonRef::String(text) => return write_string(out, text),
        RawBsonRef::Double(number) if number.is_nan() => write!(out, "NaN"),
        RawBsonRef::Double(number) if number.is_infinite() => {
            write!(out, "{}Infinity", if number < 0.0 { "-" } else { "" })
        }
        RawBsonRef::Double(number) => write!(out, "{number:?}"),
        RawBsonRef::Boolean(truth) => write!(out, "{truth}"),
        RawBsonRef::Null => write!(out, "null"),
        RawBsonRef::Undefined => write!(out, "undefined"),
        RawBsonRef::MinKey => write!(out, "MinKey"),
        RawBsonRef::MaxKey => write!(out, "MaxKey"),
        RawBsonRef::Int32(number) => write!(out, "{number}"),
        RawBsonRef::Int64(number) => write!(out, "NumberLong({number})"),
        RawBsonRef::Decimal128(number) => write!(out, "NumberDecimal(\"{number}\")"),
        RawBsonRef::ObjectId(id) => write!(out, "ObjectId(\"{}\")", id.to_hex()),
        RawBsonRef::DateTime(date) => match date.try_to_rfc3339_string() {
            Ok(text) => write!(out, "ISODate(\"{text}\")"),
            Err(_) => write!(out, "Date({})", date.timestamp_millis()),
        },
        RawBsonRef::Timestamp(stamp) => write!(out, "Timestamp({}, {})", stamp.time, stamp.increment),
        RawBsonRef::RegularExpression(regex) => {
            write!(out, "/{}/{}", regex.pattern.as_str().replace('/', "\\/"), regex.options.as_str())
        }
        RawBsonRef::Binary(binary) => {
            let _ = write!(out, "HexData({}, \"", u8::from(binary.subtype));
            for byte in binary.bytes {
                let _ = write!(out, "{byte:02x}");
            }
            write!(out, "\")")
        }
        RawBsonRef::Symbol(text) => return write_call(out, "Symbol", text),
        RawBsonRef::JavaScriptCode(code) => return write_call(out, "Code", code),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let _ = write!(out, "Code(");
            write_string(out, code.code);
            let _ = write!(out, ", ");
            write_document(out, code.scope);
            write!(out, ")")
        }
        RawBsonRef::DbPointer(pointer) => write!(out, "{pointer:?}"),
    };
}

fn write_call(out: &mut String, name: &str, text: &str) {
    out.push_str(name);
    out.push('(');
    write_string(out, text);
    out.push(')');
}

fn write_document(out: &mut String, document: &RawDocument) {
    out.push('{');
    let mut separator = "";
    for element in document.iter() {
        out.push_str(separator);
        separator = ", ";
        match element {
            Ok((key, value)) => {
                write_key(out, key.as_str());
                out.push_str(": ");
                write_value(out, value);
            }
            Err(error) => {
                let _ = write!(out, "<broken: {error}>");
            }
        }
    }
    out.push('}');
}

fn write_array(out: &mut String, array: &bson::RawArray) {
    out.push('[');
    let mut separator = "";
    for value in array {
        out.push_str(separator);
        separator = ", ";
        match value {
            Ok(value) => write_value(out, value),
            Err(error) => {
                let _ = write!(out, "<broken: {error}>");
            }
        }
    }
    out.push(']');
}

fn write_key(out: &mut String, key: &str) {
    let starts_well = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '$');
    if starts_well && key.chars().all(|each| each.is_ascii_alphanumeric() || each == '_' || each == '$') {
        out.push_str(key);
    } else {
        write_string(out, key);
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for each in text.chars() {
        match each {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if (control as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Kept here so that printing and parsing agree on how a subtype is written.
pub(crate) fn subtype(number: u8) -> BinarySubtype {
    BinarySubtype::from(number)
}
