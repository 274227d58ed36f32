//! What an index can do for a query whose collation is another: keys order and tell text apart by the collation of the
//! index.
//!
//! Source: the manual's page on indexes, "Collation and Index Use". Called for each index that is considered, by
//! `index_assignment`, `candidates` and `min_max`.

use bson::spec::ElementType;
use collection::Index;
use document::{collation, work};
use query_language::filter::{FilterNode, Literal};

/// How the text in the keys of an index stands to the query that is being planned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreement {
    /// The keys order text as the query does.
    pub(crate) is_same: bool,
    /// The keys have text itself, not sort keys.
    pub(crate) has_text: bool,
}

impl Agreement {
    /// Of an index and the collation in force.
    pub(crate) fn of(index: &Index) -> Agreement {
        let collator = index.pattern().shared_collator();
        Agreement { is_same: collation::agrees(collator), has_text: collator.is_none() }
    }

    /// Whether keys inside of a predicate's bounds are those of the documents that it is about.
    pub(crate) fn can_bound(self, node: &FilterNode) -> bool {
        if self.is_same && self.has_text {
            return true;
        }
        work::count(1);
        match node {
            FilterNode::And(children) | FilterNode::Or(children) | FilterNode::Nor(children) => {
                children.iter().all(|child| self.can_bound(child))
            }
            FilterNode::Not(child) => self.can_bound(child),
            FilterNode::Comparison(leaf) => self.is_same || !may_hold_text(leaf.value()),
            FilterNode::In(leaf) => {
                work::count(leaf.values().len());
                (self.has_text || leaf.regexes().is_empty())
                    && (self.is_same || !leaf.values().iter().any(may_hold_text))
            }
            FilterNode::Regex(_) => self.has_text,
            FilterNode::ElemMatchValue(leaf) => self.can_bound(&leaf.predicate),
            _ => true,
        }
    }

    /// Whether a value is found by the key that it has in the index.
    pub(crate) fn can_find(self, value: ElementType) -> bool {
        self.is_same || !is_text_inside(value)
    }
}

fn may_hold_text(literal: &Literal) -> bool {
    is_text_inside(literal.element_type())
}

fn is_text_inside(kind: ElementType) -> bool {
    matches!(
        kind,
        ElementType::String
            | ElementType::Symbol
            | ElementType::EmbeddedDocument
            | ElementType::Array
            | ElementType::JavaScriptCodeWithScope
    )
}
