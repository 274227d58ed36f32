//! A filter tree back to a document, for explain's `parsedQuery`.

use bson::raw::{CStr, RawBson};
use bson::{RawArrayBuf, RawDocumentBuf};

use super::in_filter::InFilter;
use super::{BitsFilter, ExprFilter, FilterNode, TypeFilter};

/// The node as a filter document.
pub(crate) fn to_document(node: &FilterNode) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    match node {
        FilterNode::AlwaysFalse => append(&mut document, "$alwaysFalse", RawBson::Int32(1)),
        FilterNode::And(children) if children.is_empty() => {}
        FilterNode::And(children) => append(&mut document, "$and", list(children)),
        FilterNode::Or(_)
        | FilterNode::Nor(_)
        | FilterNode::SampleRate(_)
        | FilterNode::Expr(_)
        | FilterNode::JsonSchema(_)
        | FilterNode::Where(_)
        | FilterNode::Text(_) => append_operators(&mut document, node),
        FilterNode::Not(child) => match child.path() {
            Some(path) => {
                let mut negation = RawDocumentBuf::new();
                append(&mut negation, "$not", RawBson::Document(operators(child)));
                append(&mut document, path.as_str(), RawBson::Document(negation));
            }
            None => append(&mut document, "$nor", list(std::slice::from_ref(child))),
        },
        leaf => {
            let path = leaf.path().map_or("", |path| path.as_str());
            append(&mut document, path, RawBson::Document(operators(leaf)));
        }
    }
    document
}

fn list(children: &[FilterNode]) -> RawBson {
    let mut array = RawArrayBuf::new();
    for child in children {
        array.push(to_document(child));
    }
    RawBson::Array(array)
}

/// What stands after the path: `{$gt: 5}`. Conjunctions of operators, as under a value `$elemMatch`, are joined.
fn operators(node: &FilterNode) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    append_operators(&mut document, node);
    document
}

/// The operators of a node, which for one without a path stand by themselves.
fn append_operators(document: &mut RawDocumentBuf, node: &FilterNode) {
    match node {
        FilterNode::And(children) => children.iter().for_each(|child| append_operators(document, child)),
        FilterNode::Not(child) => append(document, "$not", RawBson::Document(operators(child))),
        FilterNode::Comparison(leaf) => append(document, leaf.operator.name(), leaf.value().value().into()),
        FilterNode::In(leaf) => append(document, "$in", in_list(leaf)),
        FilterNode::Exists(_) => append(document, "$exists", RawBson::Boolean(true)),
        FilterNode::Type(leaf) => append(document, "$type", types(leaf)),
        FilterNode::Size(leaf) => append(document, "$size", integer(i64::try_from(leaf.size).unwrap_or(i64::MAX))),
        FilterNode::Mod(leaf) => {
            let mut array = RawArrayBuf::new();
            array.push(integer(leaf.divisor));
            array.push(integer(leaf.remainder));
            append(document, "$mod", RawBson::Array(array));
        }
        FilterNode::Bits(leaf) => append(document, leaf.test.name(), positions(leaf)),
        FilterNode::Regex(leaf) => {
            append(document, "$regex", RawBson::String(leaf.pattern().to_owned()));
            if !leaf.options().is_empty() {
                append(document, "$options", RawBson::String(leaf.options().to_owned()));
            }
        }
        FilterNode::ElemMatchObject(leaf) => {
            append(document, "$elemMatch", RawBson::Document(to_document(&leaf.filter)));
        }
        FilterNode::ElemMatchValue(leaf) => {
            append(document, "$elemMatch", RawBson::Document(operators(&leaf.predicate)));
        }
        FilterNode::Geo(leaf) => append(document, leaf.relation.name(), leaf.operand()),
        FilterNode::Near(leaf) => {
            for element in document::elements(leaf.operators()) {
                append(document, element.name(), element.value().into());
            }
        }
        // Always false of a value: equal to one of none.
        FilterNode::AlwaysFalse => append(document, "$in", RawBson::Array(RawArrayBuf::new())),
        FilterNode::Or(children) => append(document, "$or", list(children)),
        FilterNode::Nor(children) => append(document, "$nor", list(children)),
        FilterNode::Expr(leaf) => append(document, "$expr", expression(leaf)),
        FilterNode::JsonSchema(leaf) => append(document, "$jsonSchema", leaf.source().to_owned().into()),
        FilterNode::Where(leaf) => append(document, "$where", leaf.code()),
        FilterNode::Text(leaf) => append(document, "$text", leaf.operand().into()),
        FilterNode::SampleRate(leaf) => append(document, "$sampleRate", RawBson::Double(leaf.rate)),
    }
}

fn in_list(leaf: &InFilter) -> RawBson {
    let mut array = RawArrayBuf::new();
    for value in leaf.values() {
        array.push(value.value());
    }
    for regex in leaf.regexes() {
        if let (Ok(pattern), Ok(options)) = (<&CStr>::try_from(regex.pattern()), <&CStr>::try_from(regex.options())) {
            let value = bson::Regex { pattern: pattern.into(), options: options.into() };
            array.push(RawBson::RegularExpression(value));
        }
    }
    RawBson::Array(array)
}

fn types(leaf: &TypeFilter) -> RawBson {
    let (numbers, codes) = leaf.describe();
    let mut array = RawArrayBuf::new();
    if numbers {
        array.push("number");
    }
    for code in codes {
        array.push(code);
    }
    RawBson::Array(array)
}

fn positions(leaf: &BitsFilter) -> RawBson {
    let mut array = RawArrayBuf::new();
    for position in &leaf.positions {
        array.push(integer(i64::from(*position)));
    }
    RawBson::Array(array)
}

fn expression(leaf: &ExprFilter) -> RawBson {
    leaf.expression().to_bson().unwrap_or(RawBson::Null)
}

fn integer(number: i64) -> RawBson {
    i32::try_from(number).map_or(RawBson::Int64(number), RawBson::Int32)
}

/// Names come from BSON documents, so they hold no zero byte.
fn append(document: &mut RawDocumentBuf, name: &str, value: RawBson) {
    if let Ok(name) = <&CStr>::try_from(name) {
        document.append(name, value);
    }
}
