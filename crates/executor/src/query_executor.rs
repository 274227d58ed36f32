//! A query being run: chooses a plan, yields rows, moves to newer views between batches.

use std::sync::Arc;

use bson::RawDocument;
use bson::raw::cstr;
use collection::{Collection, Namespace, RecordId};
use planner::{CachedPlan, CanonicalQuery, DecisionOrigin, IndexFilters, Plan, PlanCache, PlanNode, Purpose};
use platform::WorkingMemory;
use query_language::expression::Metadata;
use query_language::filter::MatchDetails;
use query_language::rows::RowReader;
use transaction::{ReadView, Store};

use crate::build::build;
use crate::error::{ExecutorError, Result};
use crate::explain;
use crate::interrupt::Interrupt;
use crate::projection::metadata;
use crate::shared_scan::ScanSharing;
use crate::stage::{BoxedStage, Context, Step, total};
use crate::statistics::ExecutionTotals;
use crate::trial::{self, Memory};

/// What all queries of a server share.
#[derive(Clone)]
pub struct QueryServices {
    /// For the clock.
    pub store: Arc<Store>,
    /// What trials have decided.
    pub plan_cache: Arc<PlanCache>,
    /// What an administrator has said about indexes.
    pub index_filters: Arc<IndexFilters>,
    /// For what has to be gathered before it can be yielded.
    pub memory: WorkingMemory,
    /// Whether a query that reads a collection as a whole is refused, unless it is one of the server's own collections.
    pub forbids_collection_scans: bool,
    /// When a long scan gets a second thread.
    pub scan_sharing: ScanSharing,
}

impl QueryServices {
    pub(crate) fn context<'c>(
        &'c self,
        view: &'c ReadView,
        collection: &'c Arc<Collection>,
        query: &'c CanonicalQuery,
    ) -> Context<'c> {
        Context { view, collection, query, memory: &self.memory, store: &self.store, sharing: self.scan_sharing }
    }
}

/// What is queried.
#[derive(Clone)]
pub struct Target {
    /// Its name.
    pub namespace: Namespace,
    /// The collection, if there is one of that name.
    pub collection: Option<Arc<Collection>>,
}

impl Target {
    /// A collection.
    pub fn of(collection: &Arc<Collection>) -> Target {
        Target { namespace: collection.namespace(), collection: Some(collection.clone()) }
    }

    /// A name without a collection: nothing is found.
    pub fn missing(namespace: Namespace) -> Target {
        Target { namespace, collection: None }
    }
}

/// One result.
#[derive(Debug)]
pub struct Row<'r> {
    /// As the query wants it shown.
    pub document: &'r RawDocument,
    /// Where it came from.
    pub record_id: Option<RecordId>,
    /// What is known of it beside its fields, if that is asked for.
    pub metadata: Metadata,
}

/// See the module's head.
pub struct QueryExecutor {
    pub(crate) services: QueryServices,
    pub(crate) view: ReadView,
    pub(crate) target: Target,
    pub(crate) query: Arc<CanonicalQuery>,
    pub(crate) plan: Plan,
    pub(crate) rejected: Vec<Plan>,
    /// Whether an index filter had a say in the plan.
    pub(crate) has_index_filter: bool,
    /// `None` without a collection.
    pub(crate) root: Option<BoxedStage>,
    pub(crate) returned: u64,
    /// By shape, how much the plan had worked when it was chosen.
    decision: Option<(String, u64)>,
    pub(crate) purpose: Purpose,
    unread: Option<Unread>,
    /// The document with `$recordId`.
    shown: Vec<u8>,
    /// Whether the indexes' uses are counted already, or are not to be.
    pub(crate) has_counted_uses: bool,
}

/// A row that was given back.
struct Unread {
    document: Vec<u8>,
    record_id: Option<RecordId>,
    metadata: Metadata,
    is_next: bool,
}

/// Steps between questions to `Interrupt`.
const STEPS_PER_CHECK: u64 = 128;
/// How much more than expected a plan from the cache may work without a result.
const REPLAN_FACTOR: u64 = 10;
const REPLAN_WORKS_MIN: u64 = 1_000;

impl QueryExecutor {
    /// Plans a query, with a trial if several plans are worth it.
    ///
    /// # Errors
    /// `Plan` for bad hints and the like; those of `next` from a trial.
    pub fn new(
        services: &QueryServices,
        view: ReadView,
        target: Target,
        query: Arc<CanonicalQuery>,
        interrupt: &dyn Interrupt,
    ) -> Result<QueryExecutor> {
        QueryExecutor::for_purpose(services, view, target, query, Purpose::Documents, interrupt)
    }

    /// Plans a query of whose results nothing is wanted but that they are there: [`count_all`](Self::count_all) and
    /// [`pass`](Self::pass).
    ///
    /// # Errors
    /// As `new`.
    pub fn counting(
        services: &QueryServices,
        view: ReadView,
        target: Target,
        query: Arc<CanonicalQuery>,
        interrupt: &dyn Interrupt,
    ) -> Result<QueryExecutor> {
        QueryExecutor::for_purpose(services, view, target, query, Purpose::Count, interrupt)
    }

    pub(crate) fn for_purpose(
        services: &QueryServices,
        view: ReadView,
        target: Target,
        query: Arc<CanonicalQuery>,
        purpose: Purpose,
        interrupt: &dyn Interrupt,
    ) -> Result<QueryExecutor> {
        let mut executor = QueryExecutor {
            services: services.clone(),
            view,
            target,
            query,
            plan: Plan { root: PlanNode::Eof },
            rejected: Vec::new(),
            has_index_filter: false,
            root: None,
            returned: 0,
            decision: None,
            purpose,
            unread: None,
            shown: Vec::new(),
            has_counted_uses: false,
        };
        executor.choose_plan(Memory::Use, interrupt)?;
        Ok(executor)
    }

    fn choose_plan(&mut self, memory: Memory, interrupt: &dyn Interrupt) -> Result<()> {
        let Some(collection) = &self.target.collection else { return Ok(()) };
        let filter = self.services.index_filters.find(collection, &self.query);
        // Bounds of `min` and `max` are keys of the hinted index.
        let has_bounds = self.query.min.is_some() || self.query.max.is_some();
        let settings = self.query.settings.as_deref().filter(|_| !has_bounds);
        let target = planner::Target { collection, view: &self.view, filter: settings.or(filter.as_deref()) };
        let plans = planner::candidates(&target, &self.query, self.purpose)?;
        let context = self.services.context(&self.view, collection, &self.query);
        let choice = trial::choose(plans, &context, self.purpose, (&self.services.plan_cache, memory), interrupt)?;
        if self.services.forbids_collection_scans && scans_collection(&choice.plan.root) && is_users(collection) {
            let message = "No indexed plans available, and running with 'notablescan'".to_owned();
            return Err(ExecutorError::Plan(planner::PlanError::NoQueryExecutionPlans(message)));
        }
        self.root = Some(build(&choice.plan.root, &context)?);
        self.has_index_filter = filter.is_some() && settings.is_none() && !looks_up_id(&choice.plan.root);
        if let (true, Some((shape, works))) = (choice.is_new, &choice.decision) {
            let shown = || bson::RawDocumentBuf::try_from(&explain::planned(&choice.plan.root)).ok();
            let millis = self.services.store.clock().wall_millis();
            let origin = DecisionOrigin::of(collection, &self.query, shown, self.has_index_filter, millis);
            let (signature, origin) = (choice.plan.root.signature(), Arc::new(origin));
            let decision = CachedPlan { signature, works: *works, origin };
            self.services.plan_cache.remember(collection, shape.clone(), decision);
        }
        (self.plan, self.rejected, self.decision) = (choice.plan, choice.rejected, choice.decision);
        Ok(())
    }

    /// Runs a plan of the caller's choice.
    #[cfg(test)]
    pub(crate) fn with_plan(
        services: &QueryServices,
        view: ReadView,
        collection: &Arc<Collection>,
        query: Arc<CanonicalQuery>,
        plan: Plan,
    ) -> Result<QueryExecutor> {
        let context = services.context(&view, collection, &query);
        let root = Some(build(&plan.root, &context)?);
        Ok(QueryExecutor {
            services: services.clone(),
            view,
            target: Target::of(collection),
            query,
            plan,
            rejected: Vec::new(),
            has_index_filter: false,
            root,
            returned: 0,
            decision: None,
            purpose: Purpose::Documents,
            unread: None,
            shown: Vec::new(),
            has_counted_uses: false,
        })
    }

    /// The next result; `None` at the end.
    ///
    /// # Errors
    /// `Interrupted`; `Transaction`: a dropped collection or index, a snapshot too old; `Query` from filter and projection;
    /// `MemoryLimit` from sorting.
    pub fn next(&mut self, interrupt: &dyn Interrupt) -> Result<Option<Row<'_>>> {
        let shows_record_id = self.shows_record_id();
        if self.unread.as_ref().is_some_and(|unread| unread.is_next) {
            return self.next_unread();
        }
        self.unread = None;
        if self.advance(interrupt)? != Step::Advanced {
            return Ok(None);
        }
        self.returned += 1;
        if self.returned.is_multiple_of(STEPS_PER_CHECK) {
            interrupt.check().map_err(ExecutorError::Interrupted)?;
        }
        let Some(root) = &mut self.root else { return Ok(None) };
        let record_id = root.record_id();
        let metadata = metadata(&self.query, &**root);
        let document = root.document()?;
        if !shows_record_id {
            return Ok(Some(Row { document, record_id, metadata }));
        }
        query_language::before_allocating_if_large(2 * document.as_bytes().len())?;
        let mut shown = document.to_owned();
        shown.append(cstr!("$recordId"), record_id.map_or(0, |record_id| record_id.0));
        self.shown = shown.into_bytes();
        Ok(Some(Row { document: RawDocument::from_bytes(&self.shown)?, record_id, metadata }))
    }

    /// It is a field of documents, not of keys.
    fn shows_record_id(&self) -> bool {
        self.query.show_record_id && !self.query.return_key
    }

    fn note_use(&mut self) {
        if !self.has_counted_uses {
            self.has_counted_uses = true;
            count_uses(&self.plan.root);
        }
    }

    /// How many results are left; there are none afterwards.
    ///
    /// # Errors
    /// As `next`.
    pub fn count_all(&mut self, interrupt: &dyn Interrupt) -> Result<u64> {
        self.note_use();
        let mut found = 0;
        // As far as the plan can without yielding them.
        while let (Some(root), Some(collection)) = (&mut self.root, &self.target.collection) {
            let context = self.services.context(&self.view, collection, &self.query);
            let Some(counted) = root.count(&context)? else { break };
            found += counted.entries;
            if counted.is_end {
                return Ok(found);
            }
            interrupt.check().map_err(ExecutorError::Interrupted)?;
        }
        while self.advance(interrupt)? == Step::Advanced {
            found += 1;
            if found.is_multiple_of(STEPS_PER_CHECK) {
                interrupt.check().map_err(ExecutorError::Interrupted)?;
            }
        }
        Ok(found)
    }

    /// Moves on without looking at the result; `false` at the end.
    ///
    /// # Errors
    /// As `next`.
    pub fn pass(&mut self, interrupt: &dyn Interrupt) -> Result<bool> {
        if self.advance(interrupt)? != Step::Advanced {
            return Ok(false);
        }
        self.returned += 1;
        if self.returned.is_multiple_of(STEPS_PER_CHECK) {
            interrupt.check().map_err(ExecutorError::Interrupted)?;
        }
        Ok(true)
    }

    /// Adds a row for each result until the reader has enough; `false`: there are no more. For who takes all of them so.
    ///
    /// # Errors
    /// As `next`.
    pub fn fill(&mut self, rows: &mut RowReader, interrupt: &dyn Interrupt) -> Result<bool> {
        self.note_use();
        let before = rows.batch().rows();
        // A plan that may be changed while it runs is asked for one result after the other.
        while let (Some(root), Some(collection), None) = (&mut self.root, &self.target.collection, &self.decision) {
            let context = self.services.context(&self.view, collection, &self.query);
            let Some(step) = root.fill(&context, rows)? else { break };
            interrupt.check().map_err(ExecutorError::Interrupted)?;
            if step != Step::Working {
                self.returned += rows.batch().rows().saturating_sub(before) as u64;
                return Ok(step == Step::Advanced);
            }
        }
        loop {
            match self.fill_for_a_while(rows)? {
                Step::Advanced => return Ok(true),
                Step::End => return Ok(false),
                Step::Working => {
                    interrupt.check().map_err(ExecutorError::Interrupted)?;
                    self.replan_if_hopeless(interrupt)?;
                }
            }
        }
    }

    /// Adds rows of results that are yielded, until the reader has enough (`Advanced`) or it is time for a look around.
    fn fill_for_a_while(&mut self, rows: &mut RowReader) -> Result<Step> {
        let (Some(root), Some(collection)) = (&mut self.root, &self.target.collection) else { return Ok(Step::End) };
        let context = self.services.context(&self.view, collection, &self.query);
        for _ in 0..STEPS_PER_CHECK {
            if rows.is_full() {
                return Ok(Step::Advanced);
            }
            match root.next(&context)? {
                Step::Advanced => rows.take(root.document()?)?,
                step => return Ok(step),
            }
            self.returned += 1;
        }
        Ok(Step::Working)
    }

    /// The document of the result that [`pass`](Self::pass) has moved to, as the query wants it shown, but without `$recordId`.
    ///
    /// # Errors
    /// `Damaged`: there is none.
    pub fn document(&mut self) -> Result<&RawDocument> {
        match &mut self.root {
            Some(root) => root.document(),
            None => Err(ExecutorError::Damaged("a query without a collection was asked for a document".to_owned())),
        }
    }

    /// What is known of that result beside its fields, if it is asked for.
    pub fn metadata(&self) -> Metadata {
        self.root.as_ref().map_or_else(Metadata::default, |root| metadata(&self.query, &**root))
    }

    /// Moves to the next result without looking at it.
    pub(crate) fn advance(&mut self, interrupt: &dyn Interrupt) -> Result<Step> {
        self.note_use();
        loop {
            let (Some(root), Some(collection)) = (&mut self.root, &self.target.collection) else {
                return Ok(Step::End);
            };
            let context = self.services.context(&self.view, collection, &self.query);
            match root.next(&context)? {
                Step::Working => {
                    interrupt.check().map_err(ExecutorError::Interrupted)?;
                    self.replan_if_hopeless(interrupt)?;
                }
                step => return Ok(step),
            }
        }
    }

    /// A plan chosen for other constants may be a bad one for these: as long as nothing was yielded, another can be taken.
    fn replan_if_hopeless(&mut self, interrupt: &dyn Interrupt) -> Result<()> {
        let (Some((shape, works)), Some(root), Some(collection)) =
            (&self.decision, &self.root, &self.target.collection)
        else {
            return Ok(());
        };
        let total = total(&**root);
        let limit = works.saturating_mul(REPLAN_FACTOR).max(REPLAN_WORKS_MIN);
        let is_untouched = self.returned == 0 && !self.rejected.is_empty();
        if !is_untouched || root.statistics().advanced > 0 || total.keys_examined + total.docs_examined <= limit {
            return Ok(());
        }
        self.services.plan_cache.forget_shape(collection, shape);
        self.choose_plan(Memory::Ignore, interrupt)?;
        // One change of mind is enough.
        self.decision = None;
        Ok(())
    }

    /// Gives the last row back: `next` yields it again. For a row that does not fit into a batch.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn unread(&mut self) -> Result<()> {
        if let Some(unread) = &mut self.unread {
            unread.is_next = true;
            return Ok(());
        }
        let shows_record_id = self.shows_record_id();
        let Some(root) = &mut self.root else { return Ok(()) };
        let record_id = root.record_id();
        let metadata = metadata(&self.query, &**root);
        let document = match shows_record_id {
            true => RawDocument::from_bytes(&self.shown)?,
            false => root.document()?,
        };
        query_language::before_allocating_if_large(document.as_bytes().len())?;
        let document = document.as_bytes().to_vec();
        self.returned -= 1;
        self.unread = Some(Unread { document, record_id, metadata, is_next: true });
        Ok(())
    }

    fn next_unread(&mut self) -> Result<Option<Row<'_>>> {
        let Some(unread) = &mut self.unread else { return Ok(None) };
        unread.is_next = false;
        self.returned += 1;
        let Unread { document, record_id, metadata, .. } = unread;
        let document = RawDocument::from_bytes(document)?;
        Ok(Some(Row { document, record_id: *record_id, metadata: metadata.clone() }))
    }

    /// Where the filter matched in the last row's document, which must not have been projected: for positional updates.
    ///
    /// # Errors
    /// `Query` when the filter fails.
    pub fn match_details(&mut self) -> Result<MatchDetails> {
        let mut details = MatchDetails::new();
        if let Some(root) = &mut self.root {
            self.query.filter.matches_with(root.document()?, &mut details)?;
        }
        Ok(details)
    }

    /// Goes on in a newer view, opened by the caller just now. Stays in the old one where going on would be wrong, because an
    /// index has become multikey since the plan was made.
    ///
    /// # Errors
    /// `Transaction`.
    pub fn reseat(&mut self, view: ReadView) -> Result<()> {
        match &mut self.root {
            Some(root) if root.can_reseat() => {
                root.reseat(&view)?;
                self.view = view;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The view it reads.
    pub fn view(&self) -> &ReadView {
        &self.view
    }

    /// The query.
    pub fn query(&self) -> &Arc<CanonicalQuery> {
        &self.query
    }

    /// What it has done so far.
    pub fn statistics(&self) -> ExecutionTotals {
        let sum = self.root.as_ref().map(|root| total(&**root)).unwrap_or_default();
        ExecutionTotals {
            keys_examined: sum.keys_examined,
            docs_examined: sum.docs_examined,
            returned: self.returned,
            works: sum.works,
        }
    }

    /// Whether its plan sorts what no index gives in order.
    pub fn sorts_in_memory(&self) -> bool {
        self.plan.root.is_blocking()
    }

    /// Whether its plan reads all documents.
    pub fn scans_collection(&self) -> bool {
        scans_collection(&self.plan.root)
    }

    /// Whether its plan scans an index, in which a record whose keys change is met again.
    pub fn reads_indexes(&self) -> bool {
        reads_indexes(&self.plan.root)
    }

    /// The plan in a few words, as slow-query lines and `$currentOp` show it: `IXSCAN { a: 1 }`.
    pub fn plan_summary(&self) -> String {
        let mut parts = Vec::new();
        summarize(&self.plan.root, &mut parts);
        parts.join(", ")
    }
}

/// Counts a use of each index of a plan that is run for its results: not of one that is tried or explained.
fn count_uses(node: &PlanNode) {
    match node {
        PlanNode::IndexScan(scan) => scan.index.count_access(),
        PlanNode::IdLookup { index, .. } => index.count_access(),
        PlanNode::GeoNear(plan) => plan.index.count_access(),
        other => other.inputs().iter().for_each(count_uses),
    }
}

/// Whether a collection is none of the server's own.
fn is_users(collection: &Collection) -> bool {
    let namespace = collection.namespace();
    !matches!(namespace.database(), "admin" | "config" | "local") && !namespace.collection().starts_with("system.")
}

fn reads_indexes(node: &PlanNode) -> bool {
    matches!(node, PlanNode::IndexScan(_) | PlanNode::GeoNear(_)) || node.inputs().iter().any(reads_indexes)
}

/// A lookup by `_id` is one whatever filters say.
fn looks_up_id(node: &PlanNode) -> bool {
    matches!(node, PlanNode::IdLookup { .. }) || node.inputs().iter().any(looks_up_id)
}

fn scans_collection(node: &PlanNode) -> bool {
    matches!(node, PlanNode::CollectionScan { .. }) || node.inputs().iter().any(scans_collection)
}

fn summarize(node: &PlanNode, parts: &mut Vec<String>) {
    match node {
        PlanNode::Eof | PlanNode::IdLookup { .. } | PlanNode::CollectionScan { .. } => {
            parts.push(node.stage_name().to_owned());
        }
        PlanNode::GeoNear(plan) => {
            let pattern = bson::RawBsonRef::Document(plan.index.pattern().document());
            parts.push(format!("{} {}", node.stage_name(), query_language::expression::show_value(pattern)));
        }
        PlanNode::IndexScan(scan) => {
            let pattern = bson::RawBsonRef::Document(scan.pattern().document());
            let part = format!("{} {}", node.stage_name(), query_language::expression::show_value(pattern));
            // Thousands of branches of an `$or` may use one index, in turns with another.
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        other => other.inputs().iter().for_each(|input| summarize(input, parts)),
    }
}
