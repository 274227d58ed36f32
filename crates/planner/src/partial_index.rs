//! Whether a filter lets through only documents that are in a partial index: then the index can serve it.
//!
//! Decides conservatively: `false` means "cannot tell".

use document::FieldPath;
use query_language::filter::FilterNode;

use crate::predicate_bounds::{Field, Tightness, bounds};
use crate::predicates::{conjuncts, predicates};

/// Whether every document that matches `filter` matches `condition`.
pub(crate) fn implies(filter: &FilterNode, condition: &FilterNode) -> bool {
    match condition {
        FilterNode::And(parts) => parts.iter().all(|part| implies(filter, part)),
        FilterNode::Or(parts) => {
            parts.iter().any(|part| implies(filter, part)) || any_conjunct_implies(filter, condition)
        }
        leaf => any_conjunct_implies(filter, leaf),
    }
}

fn any_conjunct_implies(filter: &FilterNode, condition: &FilterNode) -> bool {
    let same = condition.to_document();
    conjuncts(filter).iter().any(|conjunct| match conjunct {
        FilterNode::Or(branches) => branches.iter().all(|branch| implies(branch, condition)),
        conjunct if conjunct.path() != condition.path() => false,
        conjunct => conjunct.to_document() == same || leaf_implies(conjunct, condition),
    })
}

/// One positive predicate implies another about the same path when the values it accepts are among the other's.
fn leaf_implies(conjunct: &FilterNode, condition: &FilterNode) -> bool {
    let (Some(path), Some(wanted)) = (positive_path(conjunct), positive_path(condition)) else { return false };
    if path != wanted {
        return false;
    }
    if let FilterNode::Exists(_) = condition {
        return predicates(std::slice::from_ref(conjunct)).iter().any(|predicate| predicate.rejects_missing());
    }
    // Any one value that the conjunct accepts is accepted by the condition.
    let (inner, outer) = (bounds(conjunct, Field::Multikey), bounds(condition, Field::Multikey));
    outer.tightness == Tightness::Exact && inner.tightness == Tightness::Exact && inner.list.is_within(&outer.list)
}

fn positive_path(node: &FilterNode) -> Option<&FieldPath> {
    match node {
        FilterNode::ElemMatchObject(_) => None,
        leaf => leaf.path(),
    }
}
