//! The error of a unique index that has the key already, as drivers and users know it.
//!
//! Called by `transaction` when a claimed key is found, and by index builds.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf, Uuid};

use crate::error::{CollectionError, DuplicateKey};
use crate::index::Index;
use crate::oplog_entry::append;

/// A key whose values take more bytes is not shown whole: there may be such an error for each document of a command.
const SHOWN_BYTES_MAX: usize = 4096;
/// So much is shown of a longer text.
const SHOWN_TEXT_BYTES_MAX: usize = 1024;

/// The DuplicateKey error for a stored key that `index` has already for another record; `value`: of its entry.
pub fn duplicate_key_error(namespace: &str, index: &Index, key: &[u8], value: &[u8]) -> CollectionError {
    let mut whole = Vec::new();
    match index_key::long_key::restore(key, value, &mut whole) {
        Ok(type_bits) => duplicate_whole_key_error(namespace, index, &whole, type_bits),
        Err(error) => error.into(),
    }
}

/// The same for a key as it was made.
pub fn duplicate_whole_key_error(namespace: &str, index: &Index, key: &[u8], type_bits: &[u8]) -> CollectionError {
    let specification = index.specification();
    let key_value = match index_key::decode_key(&specification.pattern, key, type_bits) {
        Ok(key_value) => shown(key_value),
        Err(error) => return error.into(),
    };
    let mut key_text = String::new();
    let collation = specification.pattern.collator().map(|collator| {
        let mut text = String::new();
        write_document(&mut text, collator.definition().as_bytes());
        text
    });
    write_document(&mut key_text, key_value.as_bytes());
    CollectionError::DuplicateKey(Box::new(DuplicateKey {
        namespace: namespace.to_owned(),
        index: specification.name.clone(),
        key_pattern: specification.key.clone(),
        key_value,
        key_text,
        collation,
    }))
}

/// Long texts are cut, and other long values left out: "..." stands where something was.
fn shown(key_value: RawDocumentBuf) -> RawDocumentBuf {
    if key_value.as_bytes().len() <= SHOWN_BYTES_MAX {
        return key_value;
    }
    let mut short = RawDocumentBuf::new();
    for element in document::elements(&key_value) {
        let room = SHOWN_BYTES_MAX.saturating_sub(short.as_bytes().len());
        match element.value() {
            value if element.value_bytes().len() <= room => append(&mut short, element.name(), value),
            RawBsonRef::String(text) => {
                append(&mut short, element.name(), RawBsonRef::String(&cut(text, room.min(SHOWN_TEXT_BYTES_MAX))));
            }
            _ => append(&mut short, element.name(), RawBsonRef::String("...")),
        }
    }
    short
}

fn cut(text: &str, bytes: usize) -> String {
    format!("{}...", text.get(..text.floor_char_boundary(bytes)).unwrap_or_default())
}

/// Text as the legacy shell prints documents: `{ a: 1, b: "x" }`.
fn write_document(text: &mut String, bytes: &[u8]) {
    write_elements(text, bytes, ["{ ", " }", "{}"], Names::Shown);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Shown,
    Hidden,
}

fn write_elements(text: &mut String, bytes: &[u8], [open, close, empty]: [&str; 3], names: Names) {
    let mut elements = document::elements_of_bytes(bytes).peekable();
    if elements.peek().is_none() {
        return text.push_str(empty);
    }
    text.push_str(open);
    while let Some(element) = elements.next() {
        if names == Names::Shown {
            text.push_str(element.name());
            text.push_str(": ");
        }
        match element.element_type {
            ElementType::EmbeddedDocument => write_document(text, element.value_bytes()),
            ElementType::Array => write_elements(text, element.value_bytes(), ["[ ", " ]", "[]"], Names::Hidden),
            _ => write_scalar(text, element.value()),
        }
        if elements.peek().is_some() {
            text.push_str(", ");
        }
    }
    text.push_str(close);
}

fn write_scalar(text: &mut String, value: RawBsonRef<'_>) {
    let printed = match value {
        RawBsonRef::String(value) => format!("\"{value}\""),
        RawBsonRef::Int32(value) => value.to_string(),
        RawBsonRef::Int64(value) => value.to_string(),
        RawBsonRef::Double(value) if value.is_nan() => "nan.0".to_owned(),
        RawBsonRef::Double(value) if value.is_infinite() => if value > 0.0 { "inf.0" } else { "-inf.0" }.to_owned(),
        RawBsonRef::Double(value) if value == value.trunc() && value.abs() < 1e15 => format!("{value:.1}"),
        RawBsonRef::Double(value) => value.to_string(),
        RawBsonRef::Decimal128(value) => value.to_string(),
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::Null => "null".to_owned(),
        RawBsonRef::Undefined => "undefined".to_owned(),
        RawBsonRef::ObjectId(value) => format!("ObjectId('{value}')"),
        RawBsonRef::DateTime(value) => format!("new Date({})", value.timestamp_millis()),
        RawBsonRef::Timestamp(value) => format!("Timestamp({}, {})", value.time, value.increment),
        RawBsonRef::RegularExpression(value) => format!("/{}/{}", value.pattern.as_str(), value.options.as_str()),
        RawBsonRef::Binary(value) if u8::from(value.subtype) == 4 && value.bytes.len() == 16 => {
            let uuid = value.bytes.try_into().map(Uuid::from_bytes);
            uuid.map(|uuid| format!("UUID(\"{uuid}\")")).unwrap_or_default()
        }
        RawBsonRef::Binary(value) => {
            let digits: String = value.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("BinData({}, {digits})", u8::from(value.subtype))
        }
        RawBsonRef::Symbol(value) => format!("\"{value}\""),
        RawBsonRef::MinKey => "MinKey".to_owned(),
        RawBsonRef::MaxKey => "MaxKey".to_owned(),
        other => query_language::expression::show_value(other),
    };
    text.push_str(&printed);
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use index_key::{Sparse, keys_for_document};
    use storage_engine::TreeId;

    use super::*;
    use crate::index::{IndexShape, IndexState};
    use crate::index_specification::IndexSpecification;

    fn text(key: RawDocumentBuf, document: RawDocumentBuf) -> String {
        let specification = IndexSpecification::parse(&rawdoc! { "key": key, "name": "i_1", "unique": true }).unwrap();
        let index = Index::of_shape(IndexShape::new(specification), TreeId(9), IndexState::Ready, &[], 0);
        let keys = keys_for_document(index.pattern(), Sparse::No, &document).unwrap();
        let entry = keys.iter().next().unwrap();
        duplicate_key_error("db.c", &index, entry.key, entry.value).to_string()
    }

    #[test]
    fn messages_are_as_drivers_expect_them() {
        assert_eq!(
            text(rawdoc! { "a": 1 }, rawdoc! { "_id": 1, "a": 1 }),
            "E11000 duplicate key error collection: db.c index: i_1 dup key: { a: 1 }"
        );
        let found = text(rawdoc! { "a": 1, "b.c": 1, "d": 1 }, rawdoc! { "a": "x", "b": { "c": 2.0 } });
        assert!(found.ends_with("dup key: { a: \"x\", b.c: 2.0, d: null }"), "{found}");
    }
}
