//! Values as MongoDB writes them in error messages: `$size: { a: 1 }`, `0: "x"`, `2.1`, `inf.0`.

use std::fmt::Write as _;

use bson::{RawBsonRef, RawDocument};

/// A named element, `name: value`.
pub(crate) fn element(name: &str, value: RawBsonRef<'_>) -> String {
    let mut out = format!("{name}: ");
    write_value(&mut out, value);
    out
}

/// A value alone.
pub(crate) fn value(value: RawBsonRef<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// A document alone.
pub(crate) fn document(document: &RawDocument) -> String {
    let mut out = String::new();
    write_document(&mut out, document);
    out
}

fn write_value(out: &mut String, value: RawBsonRef<'_>) {
    // Writing to a String cannot fail.
    let _ = match value {
        RawBsonRef::Double(number) => return write_double(out, number),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => write!(out, "\"{text}\""),
        RawBsonRef::Document(document) => return write_document(out, document),
        RawBsonRef::Array(array) => return write_array(out, array),
        RawBsonRef::Boolean(truth) => write!(out, "{truth}"),
        RawBsonRef::Null => write!(out, "null"),
        RawBsonRef::Undefined => write!(out, "undefined"),
        RawBsonRef::MinKey => write!(out, "MinKey"),
        RawBsonRef::MaxKey => write!(out, "MaxKey"),
        RawBsonRef::Int32(number) => write!(out, "{number}"),
        RawBsonRef::Int64(number) => write!(out, "{number}"),
        RawBsonRef::Decimal128(number) => write!(out, "{number}"),
        RawBsonRef::ObjectId(id) => write!(out, "ObjectId('{id}')"),
        RawBsonRef::DateTime(date) => write!(out, "new Date({})", date.timestamp_millis()),
        RawBsonRef::Timestamp(stamp) => write!(out, "Timestamp({}, {})", stamp.time, stamp.increment),
        RawBsonRef::RegularExpression(regex) => {
            write!(out, "/{}/{}", regex.pattern.as_str(), regex.options.as_str())
        }
        RawBsonRef::Binary(binary) => {
            let _ = write!(out, "BinData({}, ", u8::from(binary.subtype));
            for byte in binary.bytes {
                let _ = write!(out, "{byte:02X}");
            }
            write!(out, ")")
        }
        RawBsonRef::JavaScriptCode(code) => write!(out, "{code}"),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let _ = write!(out, "CodeWScope( {}, ", code.code);
            write_document(out, code.scope);
            write!(out, ")")
        }
        RawBsonRef::DbPointer(_) => write!(out, "DBRef"),
    };
}

fn write_double(out: &mut String, number: f64) {
    let _ = match number {
        _ if number.is_nan() => write!(out, "nan.0"),
        _ if number.is_infinite() => write!(out, "{}inf.0", if number < 0.0 { "-" } else { "" }),
        _ => write!(out, "{number:?}"),
    };
}

fn write_document(out: &mut String, document: &RawDocument) {
    if document.is_empty() {
        return out.push_str("{}");
    }
    let mut separator = "{ ";
    for (name, value) in document.iter().flatten() {
        let _ = write!(out, "{separator}{}: ", name.as_str());
        write_value(out, value);
        separator = ", ";
    }
    out.push_str(" }");
}

fn write_array(out: &mut String, array: &bson::RawArray) {
    if array.is_empty() {
        return out.push_str("[]");
    }
    let mut separator = "[ ";
    for value in array.into_iter().flatten() {
        out.push_str(separator);
        write_value(out, value);
        separator = ", ";
    }
    out.push_str(" ]");
}
