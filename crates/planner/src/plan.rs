//! A plan: a tree of nodes, each of which the executor makes a stage of.

use std::sync::Arc;

use collection::Index;
use index_key::{FieldKind, KeyPattern};
use query_language::expression::sort_pattern::SortPattern;
use query_language::filter::{FilterNode, Literal};

use crate::geo_near::GeoNearPlan;
use crate::hint::ScanDirection;
use crate::interval::IntervalList;
use crate::key_ranges::KeyRanges;
use crate::text_plan::TextPlan;

/// A way to answer a query.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Yields what is the answer.
    pub root: PlanNode,
}

/// One step of a plan.
#[derive(Debug, Clone)]
pub enum PlanNode {
    /// Nothing: there is no collection, or nothing can match.
    Eof,
    /// The document with this `_id`.
    IdLookup {
        /// The index on `_id`.
        index: Arc<Index>,
        /// The value.
        id: Literal,
    },
    /// Documents in natural order.
    CollectionScan {
        /// Which way.
        direction: ScanDirection,
        /// Which of them; `None`: all.
        filter: Option<FilterNode>,
    },
    /// Entries of an index.
    IndexScan(Arc<IndexScanPlan>),
    /// Documents in the order of their distance from a point.
    GeoNear(Arc<GeoNearPlan>),
    /// The documents of index entries.
    Fetch {
        /// Yields record ids.
        input: Box<PlanNode>,
        /// Which of the documents; `None`: all.
        filter: Option<FilterNode>,
    },
    /// What any of several plans yields, once.
    Or {
        /// The plans.
        inputs: Vec<PlanNode>,
    },
    /// The same of plans that each have the order, in that order.
    SortMerge {
        /// The plans.
        inputs: Vec<PlanNode>,
        /// The order.
        pattern: SortPattern,
    },
    /// The documents of several terms, with the sum of their scores.
    TextOr {
        /// Yield entries of a text index.
        inputs: Vec<PlanNode>,
        /// Which of the documents; `None`: all.
        filter: Option<FilterNode>,
    },
    /// What a `$text` query asks for beyond one of its terms.
    TextMatch {
        /// Yields documents with one of the terms.
        input: Box<PlanNode>,
        /// The search.
        text: Arc<TextPlan>,
    },
    /// Documents in another order.
    Sort {
        /// Yields documents.
        input: Box<PlanNode>,
        /// The order.
        pattern: SortPattern,
        /// How many of the first are needed; `None`: all.
        limit: Option<u64>,
    },
    /// All but the first few.
    Skip {
        /// Yields anything.
        input: Box<PlanNode>,
        /// How many are passed over.
        count: u64,
    },
    /// The first few.
    Limit {
        /// Yields anything.
        input: Box<PlanNode>,
        /// How many.
        count: u64,
    },
    /// The query's projection of documents.
    Projection {
        /// Yields documents.
        input: Box<PlanNode>,
    },
    /// The query's projection of what index keys hold.
    CoveredProjection {
        /// Yields index entries.
        input: Box<PlanNode>,
        /// Fields of the key pattern that the projection reads.
        needed: Vec<usize>,
    },
    /// Index keys instead of documents.
    ReturnKey {
        /// Yields index entries, or what is below a `Fetch` does.
        input: Box<PlanNode>,
    },
}

/// Which entries of an index are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanKind {
    /// Each within the bounds, but of a document only one.
    Entries,
    /// Only how many these are, which the bounds alone say.
    Count,
    /// One of those that have the same values.
    Distinct {
        /// In so many of the first fields.
        fields: usize,
        /// Which of those with null are enough.
        nulls: Nulls,
    },
}

/// How a scan for distinct values takes entries with null, which a key has for a missing field too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// One of all, and undefined is the same.
    One,
    /// Each: only documents tell whether null is a value of the field.
    Each,
}

/// How an index is scanned.
#[derive(Debug)]
pub struct IndexScanPlan {
    /// The index.
    pub index: Arc<Index>,
    /// Which entries are wanted.
    pub kind: ScanKind,
    /// What the keys are for this plan, where that is not what the index says: of a wildcard index, with one path.
    pub expanded: Option<Arc<KeyPattern>>,
    /// Whether a document may have several entries within the bounds although there are no arrays.
    pub has_several: bool,
    /// A list of intervals for each field, in ascending order of values.
    pub bounds: Vec<IntervalList>,
    /// The same as bytes.
    pub ranges: KeyRanges,
    /// Which way.
    pub direction: ScanDirection,
    /// What is checked on the key before anything is fetched.
    pub key_filter: Option<FilterNode>,
    /// Per field, the components of its path that led into arrays, when the plan was made. The bounds hold as long as no
    /// more do.
    pub multikey_paths: Vec<u64>,
}

impl IndexScanPlan {
    /// What the keys are.
    #[inline]
    pub fn pattern(&self) -> &KeyPattern {
        self.expanded.as_deref().unwrap_or_else(|| self.index.pattern())
    }

    /// The bounds by which plans are ranked: that there is a path before the values does not make them better.
    pub fn ranked_bounds(&self) -> impl Iterator<Item = &IntervalList> {
        let fields = self.pattern().fields().iter().zip(&self.bounds);
        fields.filter(|(field, _)| field.kind != FieldKind::Path).map(|(_, bounds)| bounds)
    }

    /// Whether a document may have several entries.
    pub fn is_multikey(&self) -> bool {
        self.has_several || self.multikey_paths.iter().any(|components| *components != 0)
    }

    /// Whether the index has met arrays on paths where the plan relies on there being none.
    pub fn is_outdated(&self) -> bool {
        self.index.is_replaced() || self.index.multikey_paths() != self.multikey_paths
    }
}

impl PlanNode {
    /// The nodes that this one reads from.
    pub fn inputs(&self) -> &[PlanNode] {
        match self {
            PlanNode::Eof | PlanNode::IdLookup { .. } | PlanNode::CollectionScan { .. } | PlanNode::IndexScan(_) => &[],
            PlanNode::GeoNear(_) => &[],
            PlanNode::Or { inputs } | PlanNode::SortMerge { inputs, .. } | PlanNode::TextOr { inputs, .. } => inputs,
            PlanNode::Fetch { input, .. }
            | PlanNode::TextMatch { input, .. }
            | PlanNode::Sort { input, .. }
            | PlanNode::Skip { input, .. }
            | PlanNode::Limit { input, .. }
            | PlanNode::Projection { input }
            | PlanNode::CoveredProjection { input, .. }
            | PlanNode::ReturnKey { input } => std::slice::from_ref(input),
        }
    }

    /// The name of the stage in explain.
    pub fn stage_name(&self) -> &'static str {
        match self {
            PlanNode::Eof => "EOF",
            PlanNode::IdLookup { index, .. } if index.specification().clustered => "CLUSTERED_IXSCAN",
            PlanNode::IdLookup { .. } => "IDHACK",
            PlanNode::CollectionScan { .. } => "COLLSCAN",
            PlanNode::IndexScan(scan) => match scan.kind {
                ScanKind::Entries => "IXSCAN",
                ScanKind::Count => "COUNT_SCAN",
                ScanKind::Distinct { .. } => "DISTINCT_SCAN",
            },
            PlanNode::GeoNear(plan) => plan.stage_name(),
            PlanNode::Fetch { .. } if self.clustered_scan().is_some() => "CLUSTERED_IXSCAN",
            PlanNode::Fetch { .. } => "FETCH",
            PlanNode::Or { .. } => "OR",
            PlanNode::SortMerge { .. } => "SORT_MERGE",
            PlanNode::TextOr { .. } => "TEXT_OR",
            PlanNode::TextMatch { .. } => "TEXT_MATCH",
            PlanNode::Sort { .. } => "SORT",
            PlanNode::Skip { .. } => "SKIP",
            PlanNode::Limit { .. } => "LIMIT",
            PlanNode::Projection { .. } => "PROJECTION_DEFAULT",
            PlanNode::CoveredProjection { .. } => "PROJECTION_COVERED",
            PlanNode::ReturnKey { .. } => "RETURN_KEY",
        }
    }

    /// The index scans below.
    pub fn index_scans(&self) -> Vec<&Arc<IndexScanPlan>> {
        match self {
            PlanNode::IndexScan(scan) => vec![scan],
            other => other.inputs().iter().flat_map(PlanNode::index_scans).collect(),
        }
    }

    /// The scan of a clustered index that this node fetches from, if it does: both are shown as one stage.
    pub fn clustered_scan(&self) -> Option<&Arc<IndexScanPlan>> {
        match self {
            PlanNode::Fetch { input, .. } => match &**input {
                PlanNode::IndexScan(scan) if scan.index.specification().clustered => Some(scan),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether all input is read before anything is yielded.
    pub fn is_blocking(&self) -> bool {
        matches!(self, PlanNode::Sort { .. }) || self.inputs().iter().any(PlanNode::is_blocking)
    }

    /// What tells the plan from others for the same query shape and indexes: stages and index names.
    pub fn signature(&self) -> String {
        match self {
            PlanNode::IndexScan(scan) => {
                let expanded = scan.index.pattern().wildcard_position().zip(scan.expanded.as_ref());
                let path = expanded.and_then(|(position, pattern)| pattern.fields().get(position));
                let path = path.map_or("", |field| field.path.as_str());
                format!("{}{path}:{}", scan.index.name(), scan.direction.name())
            }
            PlanNode::GeoNear(plan) => format!("{}:near", plan.index.name()),
            other => {
                let mut inputs: Vec<String> = other.inputs().iter().map(PlanNode::signature).collect();
                // There is one for each value of a list, of which another query of the shape has more or fewer.
                if matches!(other, PlanNode::SortMerge { .. }) {
                    inputs.dedup();
                }
                format!("{}({})", other.stage_name(), inputs.join(","))
            }
        }
    }
}
