//! A plan: a tree of nodes, each of which the executor makes a stage of.

use std::sync::Arc;

use collection::Index;
use query_language::expression::sort_pattern::SortPattern;
use query_language::filter::{FilterNode, Literal};

use crate::hint::ScanDirection;
use crate::interval::IntervalList;
use crate::key_ranges::KeyRanges;

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

/// How an index is scanned.
#[derive(Debug)]
pub struct IndexScanPlan {
    /// The index.
    pub index: Arc<Index>,
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
    /// Whether a document may have several entries.
    pub fn is_multikey(&self) -> bool {
        self.multikey_paths.iter().any(|components| *components != 0)
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
            PlanNode::Or { inputs } => inputs,
            PlanNode::Fetch { input, .. }
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
            PlanNode::IdLookup { .. } => "IDHACK",
            PlanNode::CollectionScan { .. } => "COLLSCAN",
            PlanNode::IndexScan(_) => "IXSCAN",
            PlanNode::Fetch { .. } => "FETCH",
            PlanNode::Or { .. } => "OR",
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

    /// Whether all input is read before anything is yielded.
    pub fn is_blocking(&self) -> bool {
        matches!(self, PlanNode::Sort { .. }) || self.inputs().iter().any(PlanNode::is_blocking)
    }

    /// What tells the plan from others for the same query shape and indexes: stages and index names.
    pub fn signature(&self) -> String {
        match self {
            PlanNode::IndexScan(scan) => format!("{}:{}", scan.index.name(), scan.direction.name()),
            other => {
                let inputs: Vec<String> = other.inputs().iter().map(PlanNode::signature).collect();
                format!("{}({})", other.stage_name(), inputs.join(","))
            }
        }
    }
}
