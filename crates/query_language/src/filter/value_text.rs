//! Values as MongoDB writes them in error messages: `$size: { a: 1 }`, `0: "x"`, `2.1`, `inf.0`.

use std::fmt::Write as _;

use bson::{RawBsonRef, RawDocument};

/// A text of more bytes ends in dots: it would be several times a large document, which is an error's to begin with.
const TEXT_BYTES_MAX: usize = 16 << 10;

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
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => write!(out, "\"{}\"", shortened(text)),
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
            for byte in binary.bytes.iter().take(TEXT_BYTES_MAX) {
                let _ = write!(out, "{byte:02X}");
            }
            write!(out, ")")
        }
        RawBsonRef::JavaScriptCode(code) => write!(out, "{}", shortened(code)),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let _ = write!(out, "CodeWScope( {}, ", shortened(code.code));
            write_document(out, code.scope);
            write!(out, ")")
        }
        RawBsonRef::DbPointer(_) => write!(out, "DBRef"),
    };
}

/// As much of a text as is shown.
fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    match text.get(..end) {
        Some(shown) if shown.len() < text.len() => format!("{shown}...").into(),
        _ => text.into(),
    }
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
        if out.len() > TEXT_BYTES_MAX {
            return out.push_str(", ... }");
        }
        let _ = write!(out, "{separator}{}: ", shortened(name.as_str()));
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
        if out.len() > TEXT_BYTES_MAX {
            return out.push_str(", ... ]");
        }
        out.push_str(separator);
        write_value(out, value);
        separator = ", ";
    }
    out.push_str(" ]");
}
