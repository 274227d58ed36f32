//! Normalization: filters that mean the same come out the same, and cheap tests come first.
//!
//! Nested `$and` and `$or` are flattened, single children take their parent's place, equalities of one path under `$or`
//! become `$in`, an `$in` of one value an equality, constants are folded, and children are sorted: leaves before logical
//! nodes, by operator and path, otherwise as the client wrote them. Double negation stays: what is below a negation tells no
//! position for `$`.

use std::collections::HashMap;

use document::{FieldPath, work};

use super::comparison::{Comparison, ComparisonOperator};
use super::in_filter::InFilter;
use super::literal::Literal;
use super::regex::RegexFilter;
use super::{ElemMatchObject, ElemMatchValue, FilterNode};
use crate::error::Result;

/// The normal form of a tree.
///
/// # Errors
/// The command is to stop.
pub(crate) fn normalize(node: FilterNode) -> Result<FilterNode> {
    work::step()?;
    Ok(match node {
        FilterNode::And(children) => and(children)?,
        FilterNode::Or(children) => or(children)?,
        FilterNode::Nor(children) => nor(children)?,
        FilterNode::Not(child) => negated(normalize(*child)?)?,
        FilterNode::In(leaf) => single_value(leaf),
        FilterNode::ElemMatchObject(leaf) => {
            let filter = Box::new(normalize(*leaf.filter)?);
            FilterNode::ElemMatchObject(ElemMatchObject { filter, ..leaf })
        }
        FilterNode::ElemMatchValue(leaf) => {
            let predicate = Box::new(normalize(*leaf.predicate)?);
            FilterNode::ElemMatchValue(ElemMatchValue { predicate, ..leaf })
        }
        leaf => leaf,
    })
}

fn matches_all() -> FilterNode {
    FilterNode::And(Vec::new())
}

fn is_matches_all(node: &FilterNode) -> bool {
    matches!(node, FilterNode::And(children) if children.is_empty())
}

fn and(children: Vec<FilterNode>) -> Result<FilterNode> {
    let mut flat = Vec::with_capacity(children.len());
    for child in children {
        match normalize(child)? {
            FilterNode::AlwaysFalse => return Ok(FilterNode::AlwaysFalse),
            FilterNode::And(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    sorted_or_single(flat, FilterNode::And)
}

fn or(children: Vec<FilterNode>) -> Result<FilterNode> {
    let mut flat = Vec::with_capacity(children.len());
    for child in children {
        match normalize(child)? {
            FilterNode::AlwaysFalse => {}
            all if is_matches_all(&all) => return Ok(matches_all()),
            FilterNode::Or(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    let flat = equalities_to_in(flat)?;
    if flat.is_empty() { Ok(FilterNode::AlwaysFalse) } else { sorted_or_single(flat, FilterNode::Or) }
}

fn nor(children: Vec<FilterNode>) -> Result<FilterNode> {
    let mut kept = Vec::with_capacity(children.len());
    for child in children {
        match normalize(child)? {
            FilterNode::AlwaysFalse => {}
            all if is_matches_all(&all) => return Ok(FilterNode::AlwaysFalse),
            FilterNode::Or(inner) => kept.extend(inner),
            other => kept.push(other),
        }
    }
    match kept.len() {
        0 => Ok(matches_all()),
        1 => kept.pop().map_or_else(|| Ok(matches_all()), negated),
        _ => sorted_or_single(kept, FilterNode::Nor),
    }
}

fn negated(child: FilterNode) -> Result<FilterNode> {
    match child {
        FilterNode::AlwaysFalse => Ok(matches_all()),
        all if is_matches_all(&all) => Ok(FilterNode::AlwaysFalse),
        FilterNode::Or(children) => sorted_or_single(children, FilterNode::Nor),
        other => Ok(FilterNode::Not(Box::new(other))),
    }
}

fn sorted_or_single(mut children: Vec<FilterNode>, parent: fn(Vec<FilterNode>) -> FilterNode) -> Result<FilterNode> {
    if children.len() == 1
        && let Some(only) = children.pop()
    {
        return Ok(only);
    }
    work::sort_by(&mut children, |left, right| sort_key(left).cmp(&sort_key(right)))?;
    Ok(parent(children))
}

/// Leaves before logical nodes, cheap tests before dear ones, then by path.
fn sort_key(node: &FilterNode) -> (u8, &str, u8) {
    let (rank, minor) = match node {
        FilterNode::AlwaysFalse => (0, 0),
        FilterNode::Comparison(leaf) => (1, leaf.operator as u8),
        FilterNode::In(_) => (2, 0),
        FilterNode::Exists(_) => (3, 0),
        FilterNode::Type(_) => (4, 0),
        FilterNode::Size(_) => (5, 0),
        FilterNode::Mod(_) => (6, 0),
        FilterNode::Bits(leaf) => (7, leaf.test as u8),
        FilterNode::Regex(_) => (8, 0),
        FilterNode::Not(child) => {
            let (rank, path, _) = sort_key(child);
            return (9, path, rank);
        }
        FilterNode::ElemMatchValue(_) => (10, 0),
        FilterNode::ElemMatchObject(_) => (11, 0),
        FilterNode::Geo(_) => (11, 1),
        FilterNode::Near(_) => (11, 2),
        FilterNode::Or(_) => (12, 0),
        FilterNode::Nor(_) => (13, 0),
        FilterNode::And(_) => (14, 0),
        FilterNode::SampleRate(_) => (15, 0),
        FilterNode::Expr(_) => (16, 0),
        FilterNode::JsonSchema(_) => (17, 0),
        FilterNode::Where(_) => (18, 0),
        FilterNode::Text(_) => (19, 0),
    };
    (rank, node.path().map_or("", FieldPath::as_str), minor)
}

fn single_value(leaf: InFilter) -> FilterNode {
    match (leaf.values(), leaf.regexes()) {
        ([], []) => FilterNode::AlwaysFalse,
        ([only], []) => {
            let comparison = Comparison::new(leaf.path.clone(), ComparisonOperator::Eq, only.clone());
            FilterNode::Comparison(comparison)
        }
        ([], [only]) => FilterNode::Regex(only.clone()),
        _ => FilterNode::In(leaf),
    }
}

/// Joins the equalities and `$in`s of one path.
fn equalities_to_in(children: Vec<FilterNode>) -> Result<Vec<FilterNode>> {
    let mut groups: Vec<(FieldPath, Vec<Literal>, Vec<RegexFilter>)> = Vec::new();
    let mut positions: HashMap<FieldPath, usize> = HashMap::new();
    let mut others = Vec::new();
    for child in children {
        let (path, values, regexes) = match child {
            FilterNode::Comparison(leaf) if leaf.operator == ComparisonOperator::Eq => {
                (leaf.path.clone(), vec![leaf.value().clone()], Vec::new())
            }
            FilterNode::In(leaf) => leaf.into_parts(),
            other => {
                others.push(other);
                continue;
            }
        };
        match positions.get(&path).and_then(|position| groups.get_mut(*position)) {
            Some((_, known_values, known_regexes)) => {
                known_values.extend(values);
                known_regexes.extend(regexes);
            }
            None => {
                positions.insert(path.clone(), groups.len());
                groups.push((path, values, regexes));
            }
        }
    }
    let mut joined = Vec::with_capacity(groups.len() + others.len());
    for (path, values, regexes) in groups {
        joined.push(single_value(InFilter::new(path, values, regexes)?));
    }
    joined.extend(others);
    Ok(joined)
}
