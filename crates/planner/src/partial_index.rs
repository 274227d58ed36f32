//! Whether a filter lets through only documents that are in a partial index: then the index can serve it.
//!
//! Decides conservatively: `false` means "cannot tell", which is also the answer when telling would take more than its steps.

use std::cell::OnceCell;

use bson::RawDocumentBuf;
use document::FieldPath;
use query_language::filter::FilterNode;

use crate::predicate_bounds::{Field, PredicateBounds, Tightness, bounds};
use crate::predicates::{conjuncts, predicates, size};

/// Steps that a decision may take, and beside them for each condition of both filters: each condition of one could be compared with each of the other,
/// again at each level of both.
const STEPS: usize = 1 << 14;
const STEPS_PER_CONDITION: usize = 64;

/// Whether every document that matches `filter` matches `condition`.
pub(crate) fn implies(filter: &FilterNode, condition: &FilterNode) -> bool {
    let conditions = size(filter).saturating_add(size(condition));
    Decision { steps_left: STEPS + STEPS_PER_CONDITION.saturating_mul(conditions) }.implies(filter, condition)
}

struct Decision {
    steps_left: usize,
}

impl Decision {
    /// Whether there are so many steps left.
    fn take(&mut self, steps: usize) -> bool {
        let is_enough = self.steps_left >= steps;
        self.steps_left = self.steps_left.saturating_sub(steps);
        is_enough
    }

    fn implies(&mut self, filter: &FilterNode, condition: &FilterNode) -> bool {
        match condition {
            _ if !self.take(1) => false,
            FilterNode::And(parts) => parts.iter().all(|part| self.implies(filter, part)),
            FilterNode::Or(parts) => {
                parts.iter().any(|part| self.implies(filter, part)) || self.any_conjunct_implies(filter, condition)
            }
            leaf => self.any_conjunct_implies(filter, leaf),
        }
    }

    fn any_conjunct_implies(&mut self, filter: &FilterNode, condition: &FilterNode) -> bool {
        let wanted = Wanted::new(condition);
        conjuncts(filter).iter().any(|conjunct| match conjunct {
            _ if !self.take(1) => false,
            FilterNode::Or(branches) => branches.iter().all(|branch| self.implies(branch, condition)),
            conjunct if conjunct.path() != condition.path() => false,
            conjunct if !self.take(size(conjunct) + size(condition)) => false,
            conjunct => wanted.is_implied_by(conjunct),
        })
    }
}

/// A condition that is compared with one conjunct after another, made ready for that when it is first needed.
struct Wanted<'c> {
    condition: &'c FilterNode,
    document: OnceCell<RawDocumentBuf>,
    bounds: OnceCell<PredicateBounds>,
}

impl<'c> Wanted<'c> {
    fn new(condition: &'c FilterNode) -> Self {
        Self { condition, document: OnceCell::new(), bounds: OnceCell::new() }
    }

    fn is_implied_by(&self, conjunct: &FilterNode) -> bool {
        let document = self.document.get_or_init(|| self.condition.to_document());
        conjunct.to_document() == *document || self.holds_values_of(conjunct)
    }

    /// One positive predicate implies another about the same path when the values it accepts are among the other's.
    fn holds_values_of(&self, conjunct: &FilterNode) -> bool {
        let (Some(path), Some(wanted)) = (positive_path(conjunct), positive_path(self.condition)) else { return false };
        if path != wanted {
            return false;
        }
        if let FilterNode::Exists(_) = self.condition {
            let found = predicates(std::slice::from_ref(conjunct)).unwrap_or_default();
            return found.iter().any(|predicate| predicate.rejects_missing());
        }
        // Any one value that the conjunct accepts is accepted by the condition.
        let outer = self.bounds.get_or_init(|| bounds(self.condition, Field::Multikey));
        let inner = bounds(conjunct, Field::Multikey);
        outer.tightness == Tightness::Exact && inner.tightness == Tightness::Exact && inner.list.is_within(&outer.list)
    }
}

fn positive_path(node: &FilterNode) -> Option<&FieldPath> {
    match node {
        FilterNode::ElemMatchObject(_) => None,
        leaf => leaf.path(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bson::raw::RawDocumentBuf;
    use bson::{Document, doc};
    use query_language::filter::{Filter, FilterOptions};

    use super::*;

    fn parsed(filter: &Document) -> Filter {
        Filter::parse(&RawDocumentBuf::try_from(filter).unwrap(), &FilterOptions::default()).unwrap()
    }

    fn is_implied(filter: &Document, condition: &Document) -> bool {
        implies(parsed(filter).root(), parsed(condition).root())
    }

    #[test]
    fn what_is_among_the_values_of_a_condition_is_told() {
        let some = |values: &[i32]| doc! { "a": { "$in": values.to_vec() } };
        for (filter, condition, expected) in [
            (some(&[1, 3]), some(&[1, 2, 3]), true),
            (some(&[1, 4]), some(&[1, 2, 3]), false),
            (some(&[0]), some(&[1, 2, 3]), false),
            (some(&[5, 6, 7]), doc! { "$or": [{ "a": { "$lt": 0 } }, { "a": { "$gt": 4 } }] }, true),
            (doc! { "a": { "$gte": 5 } }, doc! { "a": { "$gt": 4 } }, true),
            (doc! { "a": { "$gte": 4 } }, doc! { "a": { "$gt": 4 } }, false),
            (doc! { "a": 1, "b": 2 }, doc! { "b": { "$exists": true }, "a": { "$lte": 1 } }, true),
            (doc! { "$or": [{ "a": 1 }, { "a": 2, "b": 1 }] }, doc! { "a": { "$gt": 0 } }, true),
            (doc! { "$or": [{ "a": 1 }, { "b": 1 }] }, doc! { "a": { "$gt": 0 } }, false),
        ] {
            assert_eq!(is_implied(&filter, &condition), expected, "{filter} {condition}");
        }
    }

    #[test]
    fn very_many_values_are_told() {
        let (few, many): (Vec<i32>, Vec<i32>) = ((0..100_000).step_by(2).collect(), (0..100_000).collect());
        assert!(is_implied(&doc! { "a": { "$in": few.clone() } }, &doc! { "a": { "$in": many.clone() } }));
        assert!(!is_implied(&doc! { "a": { "$in": many } }, &doc! { "a": { "$in": few } }));
    }

    /// Each level of one could be compared with each of the other.
    #[test]
    fn deeply_nested_conditions_come_to_an_end() {
        let nested = |levels: i32| {
            (0..levels).fold(doc! { "a": 1 }, |inner, level| {
                let (x, y, z) = (format!("x{level}"), format!("y{level}"), format!("z{level}"));
                doc! { "$or": [{ "$and": [inner, { x: 1 }] }, { "$and": [{ y: 1 }, { z: 1 }] }] }
            })
        };
        assert!(!is_implied(&nested(40), &nested(39)));
        let same = doc! { "a": 1, "$or": [{ "b": 1 }, { "c": 1 }] };
        assert!(is_implied(&same, &same));
    }
}
