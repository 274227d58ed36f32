//! `explain`: plans and what running them took, in MongoDB's shape.

use bson::{Bson, Document, RawBsonRef, doc};
use document::collation::Collator;
use index_key::{Direction, KeyPattern};
use planner::{
    Bound, IndexScanPlan, IntervalList, PlanNode, Purpose, ScanDirection, ScanKind, TextPlan, query_hash, query_shape,
};

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
        if self.purpose == Purpose::Count {
            returned = self.count_all(interrupt)?;
        } else {
            while self.advance(interrupt)? == Step::Advanced {
                returned += 1;
            }
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

    fn planner_section(&self, above: Option<&str>) -> Result<Document> {
        let mut winning = planned(&self.plan.root);
        if let Some(stage) = above {
            winning = doc! { "stage": stage, "inputStage": winning };
        }
        let mut section = doc! {
            "namespace": self.target.namespace.as_str(),
            "parsedQuery": Document::try_from(&*self.query.filter.to_document())?,
        };
        if let Some(collator) = &self.query.collator {
            section.insert("collation", Document::try_from(collator.definition())?);
        }
        let shape_hash = query_hash(&query_shape(&self.query));
        let plan_cache_key = match &self.target.collection {
            Some(collection) => planner::plan_cache_key(collection, &self.query),
            None => shape_hash.clone(),
        };
        let rejected: Vec<Bson> = self.rejected.iter().map(|plan| Bson::Document(planned(&plan.root))).collect();
        section.extend(doc! {
            "indexFilterSet": self.has_index_filter,
            // The same by its name before and since 8.0.
            "queryHash": shape_hash.clone(),
            "planCacheShapeHash": shape_hash,
            "planCacheKey": plan_cache_key,
            "optimizedPipeline": false,
            "maxIndexedOrSolutionsReached": false,
            "maxIndexedAndSolutionsReached": false,
            "maxScansToExplodeReached": false,
            "winningPlan": winning,
            "rejectedPlans": rejected,
        });
        Ok(section)
    }
}

fn number(count: u64) -> Bson {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    i32::try_from(count).map_or(Bson::Int64(count), Bson::Int32)
}

/// What a node is, with all below.
pub(crate) fn planned(node: &PlanNode) -> Document {
    let mut explained = described(node);
    match node.inputs() {
        _ if node.clustered_scan().is_some() => {}
        [] => {}
        [input] if !has_several_inputs(node) => {
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
    if node.clustered_scan().is_some() {
        return explained;
    }
    let mut inputs: Vec<Document> =
        node.inputs().iter().zip(stage.inputs()).map(|(node, stage)| executed(node, stage)).collect();
    match inputs.len() {
        _ if has_several_inputs(node) => {
            explained.insert("inputStages", inputs);
        }
        1 => {
            explained.insert("inputStage", inputs.pop().unwrap_or_default());
        }
        _ => {}
    }
    explained
}

/// Whether what is below is shown as a list.
fn has_several_inputs(node: &PlanNode) -> bool {
    matches!(node, PlanNode::Or { .. } | PlanNode::SortMerge { .. } | PlanNode::TextOr { .. })
}

fn append_counts(explained: &mut Document, node: &PlanNode, stage: &dyn PlanStage) {
    let own = stage.statistics();
    match node {
        PlanNode::IndexScan(_) => {
            explained.insert("keysExamined", number(own.keys_examined));
            explained.insert("seeks", number(own.seeks));
            explained.insert("dupsDropped", number(own.duplicates_dropped));
        }
        PlanNode::IdLookup { .. } | PlanNode::GeoNear(_) => {
            explained.insert("keysExamined", number(own.keys_examined));
            explained.insert("docsExamined", number(own.docs_examined));
        }
        PlanNode::CollectionScan { .. } | PlanNode::Fetch { .. } => {
            explained.insert("docsExamined", number(own.docs_examined));
            if own.docs_examined_ahead > 0 {
                explained.insert("docsExaminedBySecondThread", number(own.docs_examined_ahead));
            }
        }
        PlanNode::Or { .. } | PlanNode::SortMerge { .. } => {
            explained.insert("dupsDropped", number(own.duplicates_dropped));
        }
        PlanNode::TextOr { .. } => {
            explained.insert("docsExamined", number(own.docs_examined));
        }
        PlanNode::TextMatch { .. } => {
            explained.insert("docsRejected", number(own.docs_rejected));
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
        PlanNode::Fetch { filter, .. } | PlanNode::TextOr { filter, .. } => {
            insert_filter(&mut explained, filter.as_ref());
            if let Some(scan) = node.clustered_scan() {
                describe_clustered(&mut explained, scan);
            }
        }
        PlanNode::TextMatch { text, .. } => describe_search(&mut explained, text),
        PlanNode::IndexScan(scan) => {
            insert_filter(&mut explained, scan.key_filter.as_ref());
            describe_scan(&mut explained, scan);
        }
        PlanNode::IdLookup { index, .. } => {
            explained.insert("keyPattern", key_pattern(index.pattern()));
            explained.insert("indexName", index.name());
        }
        PlanNode::GeoNear(plan) => {
            insert_filter(&mut explained, plan.residual.as_ref());
            explained.insert("keyPattern", key_pattern(plan.index.pattern()));
            explained.insert("indexName", plan.index.name());
            explained.insert("indexVersion", 2);
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

fn describe_search(explained: &mut Document, text: &TextPlan) {
    let query = &text.bound.query;
    explained.insert("indexPrefix", Document::try_from(&*text.prefix).unwrap_or_default());
    explained.insert("indexName", text.index.name());
    let terms = |terms: &std::collections::BTreeSet<String>| terms.iter().cloned().collect::<Vec<String>>();
    explained.insert(
        "parsedTextQuery",
        doc! {
            "terms": terms(query.terms()),
            "negatedTerms": terms(query.negated_terms()),
            "phrases": query.phrases().to_vec(),
            "negatedPhrases": query.negated_phrases().to_vec(),
        },
    );
    explained.insert("textIndexVersion", text_search::VERSION);
}

fn key_pattern(pattern: &KeyPattern) -> Document {
    Document::try_from(pattern.document()).unwrap_or_default()
}

fn describe_scan(explained: &mut Document, scan: &IndexScanPlan) {
    let IndexScanPlan { index, bounds, multikey_paths, direction, .. } = scan;
    let (pattern, specification) = (scan.pattern(), index.specification());
    explained.insert("keyPattern", key_pattern(pattern));
    explained.insert("indexName", index.name());
    let collator = index.pattern().collator();
    if let Some(definition) = collator.and_then(|collator| Document::try_from(collator.definition()).ok()) {
        explained.insert("collation", definition);
    }
    // The terms of a text are as the elements of an array.
    let is_multikey = pattern.text().is_some() || multikey_paths.iter().any(|components| *components != 0);
    explained.insert("isMultiKey", is_multikey);
    let mut paths = Document::new();
    for (field, components) in pattern.fields().iter().zip(multikey_paths) {
        let prefixes = (0..field.path.len()).filter(|component| components & (1 << component) != 0);
        let prefixes: Vec<Bson> = prefixes.map(|component| Bson::from(field.path.prefix(component + 1))).collect();
        paths.insert(field.path.as_str(), prefixes);
    }
    explained.insert("multiKeyPaths", paths);
    explained.insert("isUnique", specification.unique || specification.is_id_index());
    explained.insert("isSparse", specification.sparse || index.pattern().wildcard().is_some());
    explained.insert("isPartial", specification.partial_filter.is_some());
    explained.insert("indexVersion", 2);
    if scan.kind == ScanKind::Count {
        explained.insert("indexBounds", counted_range(pattern, bounds));
        return;
    }
    explained.insert("direction", direction.name());
    let mut index_bounds = Document::new();
    for (field, list) in pattern.fields().iter().zip(bounds) {
        let ascends = (field.direction == Direction::Ascending) == (*direction == ScanDirection::Forward);
        index_bounds.insert(field.path.as_str(), bounds_text(list, ascends, collator));
    }
    explained.insert("indexBounds", index_bounds);
}

/// A scan of a clustered index: its direction, and the ends of what it reads.
fn describe_clustered(explained: &mut Document, scan: &IndexScanPlan) {
    explained.insert("direction", scan.direction.name());
    let intervals = scan.bounds.first().map(IntervalList::intervals).unwrap_or_default();
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { return };
    let mut ends = [&first.start, &first.end, &last.start, &last.end];
    // A scan backwards has its intervals so, too.
    ends.sort_by(|left, right| document::compare_values(left.value.value(), right.value.value()));
    for (name, end) in [("minRecord", ends[0]), ("maxRecord", ends[3])] {
        let value = end.value.value();
        if !matches!(value, RawBsonRef::MinKey | RawBsonRef::MaxKey) {
            explained.insert(name, Bson::try_from(value).unwrap_or(Bson::Null));
        }
    }
}

/// The one range of a scan that counts, by its ends.
fn counted_range(pattern: &KeyPattern, bounds: &[IntervalList]) -> Document {
    let (mut start, mut end) = (Document::new(), Document::new());
    let (mut includes_start, mut includes_end) = (true, true);
    for (field, interval) in pattern.fields().iter().zip(bounds.iter().filter_map(|list| list.intervals().first())) {
        let (first, last) = match field.direction {
            Direction::Ascending => (&interval.start, &interval.end),
            Direction::Descending => (&interval.end, &interval.start),
        };
        start.insert(field.path.as_str(), Bson::try_from(first.value.value()).unwrap_or(Bson::Null));
        end.insert(field.path.as_str(), Bson::try_from(last.value.value()).unwrap_or(Bson::Null));
        includes_start &= first.inclusive;
        includes_end &= last.inclusive;
    }
    doc! { "startKey": start, "startKeyInclusive": includes_start, "endKey": end, "endKeyInclusive": includes_end }
}

/// Intervals in the order in which the scan meets them.
fn bounds_text(list: &IntervalList, ascends: bool, collator: Option<&Collator>) -> Vec<Bson> {
    let value = |bound: &Bound| match (bound.value.value(), collator) {
        (RawBsonRef::String(text), Some(collator)) => {
            let mut key = Vec::new();
            collator.append_sort_key(text.as_bytes(), &mut key);
            index_key::show_sort_key(&key)
        }
        (value, _) => query_language::expression::show_value(value),
    };
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
