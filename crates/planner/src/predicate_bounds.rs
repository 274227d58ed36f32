//! The intervals of one index field in which the keys of all matching documents have a value.
//!
//! Bounds may be too wide, never too narrow (see `interval` for a command that is to stop). How much is still to be checked is the [`Tightness`]. A document has one
//! key for every element of an array on the field's path, so bounds that depend on there being one value only are made
//! for [`Field::Plain`] alone: paths that no document has an array on, and without numbers (which may be positions).
//!
//! Where keys and matching differ: an empty array has the key undefined and matches neither null nor undefined; a
//! missing field has the key null; an array as a whole is no key, but offered to comparisons with arrays, MinKey and MaxKey.

use bson::RawBsonRef;
use bson::spec::ElementType;
use document::{CanonicalType, Number, canonical_type_of, elements_of_bytes, index_hash, work};
use index_key::FieldKind;
use query_language::filter::{
    BitsFilter, Comparison, ComparisonOperator, FilterNode, InFilter, Literal, RegexFilter, TypeFilter,
};

use crate::bracket;
use crate::interval::{Bound, Interval, IntervalList};

/// What the bounds leave to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tightness {
    /// Documents with a key inside may fail to match.
    Inexact,
    /// A document matches exactly when one of its keys is inside.
    Exact,
}

/// What is known about an index field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// Each document has one value, which is what the filter's path leads to.
    Plain,
    /// Arrays are on the path, or may be meant by numbers in it.
    Multikey,
    /// Each document has one value, of which the key has the hash.
    Hashed,
    /// Keys have the cells of places (`place_bounds`).
    Place(FieldKind),
}

pub(crate) struct PredicateBounds {
    pub(crate) list: IntervalList,
    pub(crate) tightness: Tightness,
}

impl PredicateBounds {
    fn exact(list: IntervalList) -> PredicateBounds {
        PredicateBounds { list, tightness: Tightness::Exact }
    }

    pub(crate) fn inexact(list: IntervalList) -> PredicateBounds {
        PredicateBounds { list, tightness: Tightness::Inexact }
    }

    fn unbounded() -> PredicateBounds {
        PredicateBounds::inexact(IntervalList::full())
    }
}

/// The bounds of a predicate whose leaves all have the path of the field.
pub(crate) fn bounds(node: &FilterNode, field: Field) -> PredicateBounds {
    if work::step().is_err() {
        return PredicateBounds::unbounded();
    }
    if matches!(field, Field::Place(_)) {
        return PredicateBounds::unbounded();
    }
    if field == Field::Hashed {
        return hashed(bounds(node, Field::Plain));
    }
    match node {
        FilterNode::AlwaysFalse => PredicateBounds::exact(IntervalList::empty()),
        FilterNode::And(children) => conjunction(children, field),
        FilterNode::Or(children) => disjunction(children, field),
        FilterNode::Nor(children) => negation(disjunction(children, field), field),
        FilterNode::Not(child) => match &**child {
            FilterNode::Exists(_) => PredicateBounds::inexact(IntervalList::one(Interval::point(RawBsonRef::Null))),
            child => negation(bounds(child, field), field),
        },
        FilterNode::Comparison(leaf) => comparison(leaf, field),
        FilterNode::In(leaf) => in_list(leaf, field),
        FilterNode::Type(leaf) => types(leaf),
        FilterNode::Mod(_) => PredicateBounds::inexact(IntervalList::one(bracket::interval(CanonicalType::Number))),
        FilterNode::Bits(leaf) => bits(leaf),
        FilterNode::Regex(leaf) => regex(leaf),
        FilterNode::ElemMatchValue(leaf) => {
            // The predicate is about one element, which has one key.
            let inner = element_bounds(&leaf.predicate);
            PredicateBounds::inexact(inner.list)
        }
        FilterNode::Exists(_)
        | FilterNode::Size(_)
        | FilterNode::ElemMatchObject(_)
        | FilterNode::Geo(_)
        | FilterNode::Near(_)
        | FilterNode::Expr(_)
        | FilterNode::JsonSchema(_)
        | FilterNode::SampleRate(_)
        | FilterNode::Where(_)
        | FilterNode::Text(_) => PredicateBounds::unbounded(),
    }
}

/// Single values become their hashes, which others may share; hashes have no order that says anything.
fn hashed(plain: PredicateBounds) -> PredicateBounds {
    if plain.list.is_empty() {
        return plain;
    }
    if !plain.list.is_points() {
        return PredicateBounds::unbounded();
    }
    let mut points = Vec::with_capacity(plain.list.intervals().len());
    for interval in plain.list.intervals() {
        // Bounds that were left off because the command is to stop are not used.
        let Ok(hash) = index_hash(interval.start.value.value()) else { return PredicateBounds::unbounded() };
        points.push(Interval::point(RawBsonRef::Int64(hash)));
    }
    PredicateBounds::inexact(IntervalList::new(points))
}

/// The bounds of what one array element must satisfy.
fn element_bounds(node: &FilterNode) -> PredicateBounds {
    match node {
        FilterNode::And(children) => {
            let lists = children.iter().map(|child| element_bounds(child).list);
            PredicateBounds::inexact(IntervalList::intersection_of(lists))
        }
        FilterNode::Or(children) => {
            let lists = children.iter().map(|child| element_bounds(child).list);
            PredicateBounds::inexact(IntervalList::union_of(lists))
        }
        FilterNode::ElemMatchValue(_) => PredicateBounds::unbounded(),
        leaf => bounds(leaf, Field::Multikey),
    }
}

fn conjunction(children: &[FilterNode], field: Field) -> PredicateBounds {
    let mut all = children.iter().map(|child| bounds(child, field));
    match field {
        Field::Plain | Field::Hashed => together(all, IntervalList::intersection_of),
        // Different elements may satisfy different children: only one of them can be searched by.
        Field::Multikey | Field::Place(_) => {
            let Some(first) = all.next() else { return PredicateBounds::exact(IntervalList::full()) };
            let best = all.fold(first, |best, other| if rank(&other.list) > rank(&best.list) { other } else { best });
            PredicateBounds::inexact(best.list)
        }
    }
}

fn disjunction(children: &[FilterNode], field: Field) -> PredicateBounds {
    together(children.iter().map(|child| bounds(child, field)), IntervalList::union_of)
}

/// Several bounds as one, exact if all are.
fn together(
    all: impl Iterator<Item = PredicateBounds>,
    combined: fn(Vec<IntervalList>) -> IntervalList,
) -> PredicateBounds {
    let mut tightness = Tightness::Exact;
    let lists = all.map(|bounds| {
        tightness = tightness.min(bounds.tightness);
        bounds.list
    });
    let list = combined(lists.collect());
    PredicateBounds { list, tightness }
}

/// All keys of a document that does not match lie outside of exact bounds.
fn negation(positive: PredicateBounds, field: Field) -> PredicateBounds {
    match (positive.tightness, field) {
        (Tightness::Inexact, _) | (_, Field::Hashed | Field::Place(_)) => PredicateBounds::unbounded(),
        (Tightness::Exact, Field::Plain) => PredicateBounds::exact(positive.list.complement()),
        (Tightness::Exact, Field::Multikey) => PredicateBounds::inexact(positive.list.complement()),
    }
}

/// How good bounds are to search by: single values, values, closed, half open, everything.
pub(crate) fn rank(list: &IntervalList) -> u8 {
    let open_end = |interval: &Interval| {
        matches!(interval.start.value.element_type(), ElementType::MinKey)
            || matches!(interval.end.value.element_type(), ElementType::MaxKey)
    };
    match list {
        _ if list.is_empty() || list.is_single_point() => 5,
        _ if list.is_points() => 4,
        _ if list.is_full() => 0,
        _ if list.intervals().iter().any(open_end) => 1,
        _ if list.intervals().iter().any(is_bracket_end) => 2,
        _ => 3,
    }
}

fn is_bracket_end(interval: &Interval) -> bool {
    let infinite = |value: RawBsonRef<'_>| matches!(value, RawBsonRef::Double(number) if !number.is_finite());
    let empty = |value: RawBsonRef<'_>| match value {
        RawBsonRef::String(text) => text.is_empty(),
        RawBsonRef::Document(document) => document.is_empty(),
        _ => false,
    };
    let (start, end) = (interval.start.value.value(), interval.end.value.value());
    infinite(start) || infinite(end) || empty(start) || empty(end)
}

fn comparison(leaf: &Comparison, field: Field) -> PredicateBounds {
    let value = leaf.value().value();
    if leaf.operator == ComparisonOperator::Eq {
        return equality(leaf.value(), field);
    }
    match value {
        RawBsonRef::Null => match leaf.operator {
            ComparisonOperator::Lte | ComparisonOperator::Gte => equality(leaf.value(), field),
            _ => PredicateBounds::exact(IntervalList::empty()),
        },
        RawBsonRef::Array(_) | RawBsonRef::MinKey | RawBsonRef::MaxKey => PredicateBounds::unbounded(),
        _ if Number::from_bson(value).is_some_and(Number::is_nan) => match leaf.operator {
            ComparisonOperator::Lte | ComparisonOperator::Gte => equality(leaf.value(), field),
            _ => PredicateBounds::exact(IntervalList::empty()),
        },
        _ => range(leaf.operator, leaf.value()),
    }
}

/// The values of the constant's bracket on one side of it.
fn range(operator: ComparisonOperator, constant: &Literal) -> PredicateBounds {
    let bracket = canonical_type_of(constant.element_type());
    let mut whole = bracket::interval(bracket);
    if bracket == CanonicalType::Number {
        // NaN is neither less nor greater than anything.
        whole.start = Bound::inclusive(RawBsonRef::Double(f64::NEG_INFINITY));
    }
    let bound = |inclusive| Bound { value: constant.clone(), inclusive };
    let interval = match operator {
        ComparisonOperator::Lt => Interval::new(whole.start, bound(false)),
        ComparisonOperator::Lte => Interval::new(whole.start, bound(true)),
        ComparisonOperator::Gt => Interval::new(bound(false), whole.end),
        ComparisonOperator::Gte => Interval::new(bound(true), whole.end),
        ComparisonOperator::Eq => Interval::new(bound(true), bound(true)),
    };
    let list = IntervalList::one(interval);
    if bracket::is_exact(bracket) { PredicateBounds::exact(list) } else { PredicateBounds::inexact(list) }
}

fn equality(constant: &Literal, field: Field) -> PredicateBounds {
    let value = constant.value();
    let point = Interval::point(value);
    match value {
        RawBsonRef::Null => {
            let list = IntervalList::one(point);
            match field {
                Field::Plain | Field::Hashed => PredicateBounds::exact(list),
                Field::Multikey | Field::Place(_) => PredicateBounds::inexact(list),
            }
        }
        RawBsonRef::Array(array) => {
            let first = elements_of_bytes(array.as_bytes()).next();
            let first = first.map_or(RawBsonRef::Undefined, |element| element.value());
            PredicateBounds::inexact(IntervalList::new(vec![point, Interval::point(first)]))
        }
        _ if field == Field::Multikey && matches!(value, RawBsonRef::MinKey | RawBsonRef::MaxKey) => {
            PredicateBounds::inexact(IntervalList::one(point))
        }
        _ => PredicateBounds::exact(IntervalList::one(point)),
    }
}

fn in_list(leaf: &InFilter, field: Field) -> PredicateBounds {
    let values = leaf.values().iter().map(|value| equality(value, field));
    let regexes = leaf.regexes().iter().map(regex);
    let mut intervals = Vec::with_capacity(leaf.values().len());
    let mut tightness = Tightness::Exact;
    for bounds in values.chain(regexes) {
        if work::step().is_err() {
            return PredicateBounds::unbounded();
        }
        tightness = tightness.min(bounds.tightness);
        intervals.extend(bounds.list.intervals().iter().cloned());
    }
    PredicateBounds { list: IntervalList::new(intervals), tightness }
}

fn types(leaf: &TypeFilter) -> PredicateBounds {
    let mut intervals = Vec::new();
    for element_type in leaf.types() {
        match canonical_type_of(element_type) {
            // Arrays as a whole are no keys.
            CanonicalType::Array => return PredicateBounds::unbounded(),
            bracket => intervals.push(bracket::interval(bracket)),
        }
    }
    PredicateBounds::inexact(IntervalList::new(intervals))
}

fn bits(_: &BitsFilter) -> PredicateBounds {
    let brackets = [CanonicalType::Number, CanonicalType::Binary];
    PredicateBounds::inexact(IntervalList::new(brackets.map(bracket::interval).into()))
}

fn regex(leaf: &RegexFilter) -> PredicateBounds {
    let Some(itself) = bracket::regex_point(leaf.pattern(), leaf.options()) else {
        return PredicateBounds::unbounded();
    };
    let Some((prefix, complete)) = leaf.prefix() else {
        return PredicateBounds::inexact(IntervalList::new(vec![bracket::interval(CanonicalType::String), itself]));
    };
    let mut strings = bracket::interval(CanonicalType::String);
    strings.start = Bound::inclusive(RawBsonRef::String(&prefix));
    if let Some(after) = after_prefix(&prefix) {
        strings.end = Bound::exclusive(RawBsonRef::String(&after));
    }
    let list = IntervalList::new(vec![strings, itself]);
    if complete { PredicateBounds::exact(list) } else { PredicateBounds::inexact(list) }
}

/// The least text above all that begin with `prefix`.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match u32::from(last) + 1 {
            // Surrogates are no characters.
            0xD800 => 0xE000,
            next => next,
        };
        if let Some(next) = char::from_u32(next) {
            text.push(next);
            return Some(text);
        }
    }
    None
}
