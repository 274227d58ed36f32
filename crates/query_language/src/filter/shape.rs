//! The shape of a filter: its operators and paths without its constants, which is what plans are cached by.
//!
//! Of a constant only what decides which indexes can serve is kept: that it is null (a sparse index cannot), an array or
//! document, or a boundary of all types. Lists of `$in` keep no length.

use std::fmt::Write as _;

use bson::spec::ElementType;

use geometry::Region;

use super::{FilterNode, Literal, NearCenter};

/// The shape as text.
pub(crate) fn of(node: &FilterNode) -> String {
    let mut out = String::new();
    write_node(&mut out, node);
    out
}

/// FNV-1a over the shape.
pub(crate) fn hash(node: &FilterNode) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    of(node).bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

fn write_node(out: &mut String, node: &FilterNode) {
    match node {
        FilterNode::AlwaysFalse => out.push_str("false"),
        FilterNode::And(children) => write_children(out, "and", children),
        FilterNode::Or(children) => write_children(out, "or", children),
        FilterNode::Nor(children) => write_children(out, "nor", children),
        FilterNode::Not(child) => write_children(out, "not", std::slice::from_ref(child)),
        FilterNode::Comparison(leaf) => {
            write_leaf(out, leaf.path.as_str(), leaf.operator.name());
            out.push_str(constant_class(leaf.value()));
        }
        FilterNode::In(leaf) => {
            write_leaf(out, leaf.path.as_str(), "$in");
            let mut classes: Vec<&str> = leaf.values().iter().map(constant_class).collect();
            classes.sort_unstable();
            classes.dedup();
            out.extend(classes);
            if !leaf.regexes().is_empty() {
                out.push('r');
            }
        }
        FilterNode::Exists(leaf) => write_leaf(out, leaf.path.as_str(), "$exists"),
        FilterNode::Type(leaf) => write_leaf(out, leaf.path.as_str(), "$type"),
        FilterNode::Size(leaf) => write_leaf(out, leaf.path.as_str(), "$size"),
        FilterNode::Mod(leaf) => write_leaf(out, leaf.path.as_str(), "$mod"),
        FilterNode::Bits(leaf) => write_leaf(out, leaf.path.as_str(), leaf.test.name()),
        FilterNode::Regex(leaf) => {
            write_leaf(out, leaf.path.as_str(), "$regex");
            out.push(if leaf.prefix().is_some() { 'p' } else { 's' });
        }
        FilterNode::ElemMatchObject(leaf) => {
            write_leaf(out, leaf.path.as_str(), "$elemMatch");
            write_children(out, "", std::slice::from_ref(&leaf.filter));
        }
        FilterNode::ElemMatchValue(leaf) => {
            write_leaf(out, leaf.path.as_str(), "$elemMatch");
            write_children(out, "", std::slice::from_ref(&leaf.predicate));
        }
        FilterNode::Geo(leaf) => {
            write_leaf(out, leaf.path.as_str(), leaf.relation.name());
            // By which indexes can serve.
            out.push_str(match leaf.region() {
                Region::Shape(_) => "g",
                Region::Cap(_) => "s",
                Region::Rectangle(_) | Region::Polygon(_) | Region::Circle(_) => "p",
            });
        }
        FilterNode::Near(leaf) => {
            write_leaf(out, leaf.path.as_str(), "$near");
            out.push_str(match leaf.near().center {
                NearCenter::Metres(_) => "g",
                NearCenter::Radians(..) => "s",
                NearCenter::Plane(_) => "p",
            });
        }
        FilterNode::Expr(_) => out.push_str("$expr"),
        FilterNode::JsonSchema(_) => out.push_str("$jsonSchema"),
        FilterNode::Where(_) => out.push_str("$where"),
        FilterNode::Text(_) => out.push_str("$text"),
        FilterNode::SampleRate(_) => out.push_str("$sampleRate"),
    }
}

fn write_children(out: &mut String, name: &str, children: &[FilterNode]) {
    out.push_str(name);
    out.push('(');
    for (ordinal, child) in children.iter().enumerate() {
        if ordinal > 0 {
            out.push(',');
        }
        write_node(out, child);
    }
    out.push(')');
}

fn write_leaf(out: &mut String, path: &str, operator: &str) {
    // Quoted, since a path may hold any character.
    let _ = write!(out, "{path:?}{operator}");
}

fn constant_class(literal: &Literal) -> &'static str {
    match literal.element_type() {
        ElementType::Null | ElementType::Undefined => "n",
        ElementType::Array => "a",
        ElementType::EmbeddedDocument => "o",
        ElementType::MinKey | ElementType::MaxKey => "k",
        _ => "v",
    }
}
