//! `explain`: plans and what running them took, in MongoDB's shape.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use collection::Index;
use planner::{Bound, IndexScanPlan, IntervalList, PlanNode, ScanDirection, query_shape};

use crate::distinct::DistinctScan;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::query_executor::QueryExecutor;
use crate::stage::{PlanStage, Step, total};

/// How much is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// The plans.
    QueryPlanner,
    /// And what running the winner takes.
    ExecutionStats,
    /// And what the trials took.
    AllPlansExecution,
}

impl Verbosity {
    /// By MongoDB's name.
    pub fn parse(name: &str) -> Option<Verbosity> {
        Some(match name {
            "queryPlanner" => Verbosity::QueryPlanner,
            "executionStats" => Verbosity::ExecutionStats,
            "allPlansExecution" => Verbosity::AllPlansExecution,
            _ => return None,
        })
    }
}

impl QueryExecutor {
    /// Explains the query, running it to its end when asked for more than plans.
    ///
    /// # Errors
    /// As `next`.
    pub fn explain(&mut self, verbosity: Verbosity, interrupt: &dyn Interrupt) -> Result<Document> {
        self.explain_below(None, verbosity, interrupt)
    }

    /// The same with a stage of the command's above the plan.
    pub(crate) fn explain_as(
        &mut self,
        stage: &str,
        verbosity: Verbosity,
        interrupt: &dyn Interrupt,
    ) -> Result<Document> {
        self.explain_below(Some(stage), verbosity, interrupt)
    }

    fn explain_below(
        &mut self,
        above: Option<&str>,
        verbosity: Verbosity,
        interrupt: &dyn Interrupt,
    ) -> Result<Document> {
        let mut explained = doc! { "explainVersion": "1", "queryPlanner": self.planner_section(above)? };
        if verbosity == Verbosity::QueryPlanner {
            return Ok(explained);
        }
        self.has_counted_uses = true;
        let clock = self.services.store.clock().clone();
        let begun = clock.monotonic();
        let mut returned = 0u64;
        while self.advance(interrupt)? == Step::Advanced {
            returned += 1;
        }
        let millis = u64::try_from(clock.monotonic().saturating_sub(begun).as_millis()).unwrap_or(u64::MAX);
        let totals = self.statistics();
        let mut stages = match &self.root {
            Some(root) => executed(&self.plan.root, &**root),
            None => doc! { "stage": "EOF", "nReturned": 0, "works": 1, "isEOF": 1 },
        };
        if let Some(stage) = above {
            stages = doc! { "stage": stage, "nReturned": 0, "nCounted": number(returned), "inputStage": stages };
        }
        let mut section = doc! {
            "executionSuccess": true,
            "nReturned": number(if above.is_some() { 0 } else { returned }),
            "executionTimeMillis": number(millis),
            "totalKeysExamined": number(totals.keys_examined),
            "totalDocsExamined": number(totals.docs_examined),
            "executionStages": stages,
        };
        if verbosity == Verbosity::AllPlansExecution {
            section.insert("allPlansExecution", Vec::<Document>::new());
        }
        explained.insert("executionStats", section);
        Ok(explained)
    }

    /// A DISTINCT_SCAN in place of the plan that the same query has for documents.
    pub(crate) fn explain_distinct_scan(&self, index: &Arc<Index>, scanned: Option<&DistinctScan>) -> Result<Document> {
        let bounds = vec![IntervalList::full(); index.pattern().fields().len()];
        let mut scan = doc! { "stage": "DISTINCT_SCAN" };
        describe_scan(&mut scan, index, &bounds, &index.multikey_paths(), ScanDirection::Forward);
        let mut section = self.planner_section(None)?;
        section.insert("winningPlan", doc! { "stage": "PROJECTION_COVERED", "inputStage": scan.clone() });
        let mut explained = doc! { "explainVersion": "1", "queryPlanner": section };
        if let Some(scanned) = scanned {
            let returned = number(scanned.values.len() as u64);
            scan.insert("nReturned", returned.clone());
            scan.insert("keysExamined", number(scanned.keys_examined));
            let section = doc! {
                "executionSuccess": true,
                "nReturned": returned,
                "executionTimeMillis": 0,
                "totalKeysExamined": number(scanned.keys_examined),
                "totalDocsExamined": number(scanned.docs_examined),
                "executionStages": scan,
            };
            explained.insert("executionStats", section);
        }
        Ok(explained)
    }

    fn planner_section(&self, above: Option<&str>) -> Result<Document> {
        let mut winning = planned(&self.plan.root);
        if let Some(stage) = above {
            winning = doc! { "stage": stage, "inputStage": winning };
        }
        let rejected: Vec<Bson> = self.rejected.iter().map(|plan| Bson::Document(planned(&plan.root))).collect();
        Ok(doc! {
            "namespace": self.target.namespace.as_str(),
            "parsedQuery": Document::try_from(&*self.query.filter.to_document())?,
            "indexFilterSet": self.has_index_filter,
            "planCacheShapeHash": format!("{:08X}", hash(&query_shape(&self.query))),
            "optimizedPipeline": false,
            "maxIndexedOrSolutionsReached": false,
            "maxIndexedAndSolutionsReached": false,
            "maxScansToExplodeReached": false,
            "winningPlan": winning,
            "rejectedPlans": rejected,
        })
    }
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn number(count: u64) -> Bson {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    i32::try_from(count).map_or(Bson::Int64(count), Bson::Int32)
}

/// What a node is, with all below.
fn planned(node: &PlanNode) -> Document {
    let mut explained = described(node);
    match node.inputs() {
        [] => {}
        [input] if !matches!(node, PlanNode::Or { .. }) => {
            explained.insert("inputStage", planned(input));
        }
        inputs => {
            let inputs: Vec<Bson> = inputs.iter().map(|input| Bson::Document(planned(input))).collect();
            explained.insert("inputStages", inputs);
        }
    }
    explained
}

/// What a node is and what its stage has done, with all below.
fn executed(node: &PlanNode, stage: &dyn PlanStage) -> Document {
    let own = stage.statistics();
    let described = described(node);
    let mut explained = doc! { "stage": node.stage_name() };
    if let Some(filter) = described.get("filter") {
        explained.insert("filter", filter.clone());
    }
    explained.insert("nReturned", number(own.advanced));
    explained.insert("executionTimeMillisEstimate", 0);
    explained.insert("works", number(own.works));
    explained.insert("advanced", number(own.advanced));
    explained.insert("needTime", number(own.works.saturating_sub(own.advanced + u64::from(own.is_at_end))));
    explained.insert("needYield", 0);
    explained.insert("isEOF", i32::from(own.is_at_end));
    for (name, value) in described {
        if !explained.contains_key(&name) {
            explained.insert(name, value);
        }
    }
    append_counts(&mut explained, node, stage);
    let mut inputs: Vec<Document> =
        node.inputs().iter().zip(stage.inputs()).map(|(node, stage)| executed(node, stage)).collect();
    match (node, inputs.len()) {
        (PlanNode::Or { .. }, _) => {
            explained.insert("inputStages", inputs);
        }
        (_, 1) => {
            explained.insert("inputStage", inputs.pop().unwrap_or_default());
        }
        _ => {}
    }
    explained
}

fn append_counts(explained: &mut Document, node: &PlanNode, stage: &dyn PlanStage) {
    let own = stage.statistics();
    match node {
        PlanNode::IndexScan(_) => {
            explained.insert("keysExamined", number(own.keys_examined));
            explained.insert("seeks", number(own.seeks));
            explained.insert("dupsDropped", number(own.duplicates_dropped));
        }
        PlanNode::IdLookup { .. } => {
            explained.insert("keysExamined", number(own.keys_examined));
            explained.insert("docsExamined", number(own.docs_examined));
        }
        PlanNode::CollectionScan { .. } | PlanNode::Fetch { .. } => {
            explained.insert("docsExamined", number(own.docs_examined));
        }
        PlanNode::Or { .. } => {
            explained.insert("dupsDropped", number(own.duplicates_dropped));
        }
        PlanNode::Sort { .. } => {
            explained.insert("totalDataSizeSorted", number(own.sorted_bytes));
            explained.insert("usedDisk", own.spills > 0);
            explained.insert("spills", number(own.spills));
            explained.insert("spilledDataStorageSize", number(own.spilled_bytes));
        }
        PlanNode::CoveredProjection { .. } => {
            explained.insert("totalDocsExamined", number(total(stage).docs_examined));
        }
        _ => {}
    }
}

/// What a node is, without what is below.
fn described(node: &PlanNode) -> Document {
    let mut explained = doc! { "stage": node.stage_name() };
    match node {
        PlanNode::CollectionScan { direction, filter } => {
            insert_filter(&mut explained, filter.as_ref());
            explained.insert("direction", direction.name());
        }
        PlanNode::Fetch { filter, .. } => insert_filter(&mut explained, filter.as_ref()),
        PlanNode::IndexScan(scan) => {
            insert_filter(&mut explained, scan.key_filter.as_ref());
            let IndexScanPlan { index, bounds, multikey_paths, direction, .. } = &**scan;
            describe_scan(&mut explained, index, bounds, multikey_paths, *direction);
        }
        PlanNode::IdLookup { index, .. } => {
            explained.insert("keyPattern", key_pattern(index));
            explained.insert("indexName", index.name());
        }
        PlanNode::Sort { pattern, limit, .. } => {
            let pattern = pattern.to_document().ok().and_then(|pattern| Document::try_from(&*pattern).ok());
            explained.insert("sortPattern", pattern.unwrap_or_default());
            explained.insert("memLimit", 100i32 << 20);
            if let Some(limit) = limit {
                explained.insert("limitAmount", number(*limit));
            }
            explained.insert("type", "simple");
        }
        PlanNode::Skip { count, .. } => {
            explained.insert("skipAmount", number(*count));
        }
        PlanNode::Limit { count, .. } => {
            explained.insert("limitAmount", number(*count));
        }
        _ => {}
    }
    explained
}

fn insert_filter(explained: &mut Document, filter: Option<&query_language::filter::FilterNode>) {
    if let Some(filter) = filter.and_then(|filter| Document::try_from(&*filter.to_document()).ok()) {
        explained.insert("filter", filter);
    }
}

fn key_pattern(index: &Index) -> Document {
    Document::try_from(index.pattern().document()).unwrap_or_default()
}

fn describe_scan(
    explained: &mut Document,
    index: &Index,
    bounds: &[IntervalList],
    multikey_paths: &[u64],
    direction: ScanDirection,
) {
    let specification = index.specification();
    explained.insert("keyPattern", key_pattern(index));
    explained.insert("indexName", index.name());
    explained.insert("isMultiKey", multikey_paths.iter().any(|components| *components != 0));
    let mut paths = Document::new();
    for (field, components) in index.pattern().fields().iter().zip(multikey_paths) {
        let prefixes = (0..field.path.len()).filter(|component| components & (1 << component) != 0);
        let prefixes: Vec<Bson> = prefixes.map(|component| Bson::from(field.path.prefix(component + 1))).collect();
        paths.insert(field.path.as_str(), prefixes);
    }
    explained.insert("multiKeyPaths", paths);
    explained.insert("isUnique", specification.unique || specification.is_id_index());
    explained.insert("isSparse", specification.sparse);
    explained.insert("isPartial", specification.partial_filter.is_some());
    explained.insert("indexVersion", 2);
    explained.insert("direction", direction.name());
    let mut index_bounds = Document::new();
    for (field, list) in index.pattern().fields().iter().zip(bounds) {
        let ascends = (field.direction == index_key::Direction::Ascending) == (direction == ScanDirection::Forward);
        index_bounds.insert(field.path.as_str(), bounds_text(list, ascends));
    }
    explained.insert("indexBounds", index_bounds);
}

/// Intervals in the order in which the scan meets them.
fn bounds_text(list: &IntervalList, ascends: bool) -> Vec<Bson> {
    let value = |bound: &Bound| query_language::expression::show_value(bound.value.value());
    let texts = list.intervals().iter().map(|interval| {
        let (first, last) = if ascends { (&interval.start, &interval.end) } else { (&interval.end, &interval.start) };
        let (open, close) = (if first.inclusive { '[' } else { '(' }, if last.inclusive { ']' } else { ')' });
        Bson::String(format!("{open}{}, {}{close}", value(first), value(last)))
    });
    let mut texts: Vec<Bson> = texts.collect();
    if !ascends {
        texts.reverse();
    }
    texts
}
