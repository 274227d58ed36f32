//! Values as MongoDB's error messages show them: `{a: [ 1, { b: "x" } ]}`.
//!
//! Used by every message of `update` that quotes a document; drivers and users match on these texts.

use bson::raw::RawDocument;
use bson::spec::ElementType;

use super::element::Element;
use crate::filter::value_text;

/// `name: value`.
pub(super) fn field(element: &Element<'_>) -> String {
    value_text::element(element.name(), element.value())
}

/// `name: value` under another name.
pub(super) fn named(name: &str, element: &Element<'_>) -> String {
    value_text::element(name, element.value())
}

/// The value alone.
pub(super) fn value(element: &Element<'_>) -> String {
    value_text::value(element.value())
}

/// A whole document: `{ a: 1 }`.
pub(super) fn document(document: &RawDocument) -> String {
    value_text::document(document)
}

/// A number with its type, as overflow messages show it: `(NumberLong)5`.
pub(super) fn typed_number(element: &Element<'_>) -> String {
    let kind = match element.element_type {
        ElementType::Int32 => "NumberInt",
        ElementType::Int64 => "NumberLong",
        ElementType::Double => "NumberDouble",
        _ => "NumberDecimal",
    };
    format!("({kind}){}", value(element))
}

/// The alias of a BSON type (`int`, `object`, ...), as `$type` knows it.
pub(super) fn type_name(kind: ElementType) -> &'static str {
    crate::expression::value::type_name(kind)
}
