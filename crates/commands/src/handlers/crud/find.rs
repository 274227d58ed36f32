//! `find`: the documents of a collection that match a filter.

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use collection::Namespace;
use document::{Number, elements};
use executor::QueryExecutor;
use planner::{CanonicalQuery, DiskUse, Hint, ScanDirection};
use query_language::expression::ParseContext;
use query_language::expression::sort_pattern::SortPattern;
use query_language::projection::{Projection, ProjectionKind};
use transaction::Store;

use super::query_arguments::{check_collation, hint, query, services, variables};
use super::query_memory::check_memory_for;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::handlers::read_source::{ReadSource, Stored};
use crate::handlers::tail::{Tail, Tailing};
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Class, Declaration, Needs, SessionUse, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::request::read_concern::Level;
use crate::state::client_cursors::{BatchLimit, ClientCursor, CursorSource, FIRST_BATCH_DOCUMENTS, write_first_batch};
use crate::state::context::{Context, count};
use crate::state::execution_notes::{Detail, Execution};
use crate::state::operations::Operation;

/// What MongoDB wants where it takes no null from `find`.
const OBJECT: &str = "type 'object'";

/// The fields of `find`.
#[derive(Default)]
pub(crate) struct FindArguments<'a> {
    pub(crate) filter: Option<&'a RawDocument>,
    pub(crate) projection: Option<&'a RawDocument>,
    pub(crate) sort: Option<&'a RawDocument>,
    pub(crate) declared: Option<&'a RawDocument>,
    pub(crate) hint: Option<Field<'a>>,
    pub(crate) min: Option<&'a RawDocument>,
    pub(crate) max: Option<&'a RawDocument>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
    pub(crate) batch_size: Option<u64>,
    pub(crate) is_single_batch: bool,
    pub(crate) return_key: bool,
    pub(crate) is_tailable: bool,
    pub(crate) awaits_data: bool,
    pub(crate) show_record_id: bool,
    pub(crate) has_no_timeout: bool,
    /// Allowed unless the client forbids it, as MongoDB's parameter `allowDiskUseByDefault` has it since 6.0.
    pub(crate) forbids_disk_use: bool,
}

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        counts_as_command: false,
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        read_concerns: Level::ALL,
        stable_api: StableApi::Version1,
        ..Declaration::new("find", "Finds documents.", Needs::Data, &[on_collection(Action::Find)])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = Namespace::new(context.request.database, arguments.collection_name()?)?;
    let parsed = parse(&mut arguments)?;
    // Whatever becomes of it: what came is counted.
    count(&context.server.counts.query, 1);
    let full_name = namespace.as_str().to_owned();
    let stored = match ReadSource::of(context, namespace)? {
        ReadSource::Oplog => return oplog_view::find(context, &parsed, &arguments, reply),
        ReadSource::Stored(stored) => stored,
    };
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let mut query = canonical_query(context, &parsed)?;
    if parsed.is_tailable {
        query.hint = Hint::Natural(ScanDirection::Forward);
    }
    let query = Arc::new(query);
    let server = context.server;
    let tail = if parsed.is_tailable { tail_of(context, &stored, &full_name, parsed.tailing())? } else { None };
    let view = context.read_view();
    let executor = QueryExecutor::new(&services(server), view, stored.target(), query, &context.operation)?;
    let left = Some(parsed.limit).filter(|limit| *limit > 0);
    let source = QuerySource { executor, view: CursorView::of(context), left, tail };
    let mut cursor = ClientCursor::new(full_name.clone(), Box::new(source))
        .with_session(arguments.generic.session)
        .with_transaction(context.session.txn_number())
        .without_timeout(parsed.has_no_timeout);
    cursor.max_time = arguments.generic.max_time;
    cursor.at_cluster_time = context.snapshot_time();
    let is_single = parsed.is_single_batch || parsed.limit == 1;
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(context, cursor, limit, is_single, reply)
}

/// What a tailable cursor waits for. As in MongoDB, one on nothing is closed at once: clients open another one after a
/// while.
fn tail_of(context: &Context<'_>, stored: &Stored, full_name: &str, tailing: Tailing) -> Result<Option<Tail>> {
    match stored {
        Stored::Ring(ring) if ring.counts().documents() > 0 => {
            Ok(Some(Tail::of_collection(&context.server.store, full_name, tailing)))
        }
        Stored::Ring(_) | Stored::Missing(_) => Ok(None),
        Stored::Collection(_) => {
            let message = "error processing query: tailable cursor requested on non capped collection";
            Err(CommandError::bad_value(message))
        }
    }
}

/// Reads the fields.
pub(crate) fn parse<'a>(arguments: &mut Arguments<'a>) -> Result<FindArguments<'a>> {
    let mut parsed = FindArguments::default();
    for field in arguments.fields() {
        match field.name() {
            "filter" => parsed.filter = field.given(OBJECT)?.document()?,
            "projection" => parsed.projection = field.document()?,
            "sort" => parsed.sort = field.document()?,
            "let" => parsed.declared = field.document()?,
            "hint" => parsed.hint = Some(field),
            "min" => parsed.min = field.given(OBJECT)?.document()?.filter(|bound| !bound.is_empty()),
            "max" => parsed.max = field.given(OBJECT)?.document()?.filter(|bound| !bound.is_empty()),
            "skip" => parsed.skip = field.unsigned()?.unwrap_or_default(),
            "limit" => parsed.limit = field.unsigned()?.unwrap_or_default(),
            "batchSize" => parsed.batch_size = field.unsigned()?,
            "singleBatch" => parsed.is_single_batch = field.boolean()?,
            "returnKey" => parsed.return_key = field.boolean()?,
            "showRecordId" => parsed.show_record_id = field.boolean()?,
            "noCursorTimeout" => parsed.has_no_timeout = field.boolean()?,
            "allowDiskUse" => parsed.forbids_disk_use = !field.boolean_or(true)?,
            // All data is on this server, and the oplog flag has had no effect since 4.4.
            "allowPartialResults" | "oplogReplay" => {
                field.boolean()?;
            }
            "collation" => check_collation(field)?,
            "tailable" => parsed.is_tailable = field.boolean()?,
            "awaitData" => parsed.awaits_data = field.boolean()?,
            "resumeAfter" | "requestResumeToken" | "startAt" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    parsed.check_tailing()?;
    Ok(parsed)
}

impl FindArguments<'_> {
    fn check_tailing(&self) -> Result<()> {
        if self.awaits_data && !self.is_tailable {
            return Err(CommandError::failed_to_parse("Cannot set 'awaitData' without also setting 'tailable'"));
        }
        if !self.is_tailable {
            return Ok(());
        }
        if self.is_single_batch {
            return Err(CommandError::failed_to_parse("Cannot set 'tailable' together with 'singleBatch'"));
        }
        let is_natural = |sort: &RawDocument| {
            let first = elements(sort).next();
            first.is_none_or(|first| {
                first.name() == "$natural" && Number::from_bson(first.value()).and_then(Number::to_i64_exact) == Some(1)
            })
        };
        if !self.sort.is_none_or(is_natural) {
            let message = "cannot use tailable option with a sort other than {$natural: 1}";
            return Err(CommandError::bad_value(message));
        }
        Ok(())
    }

    pub(crate) fn tailing(&self) -> Tailing {
        match (self.is_tailable, self.awaits_data) {
            (false, _) => Tailing::No,
            (true, false) => Tailing::AtEnd,
            (true, true) => Tailing::Awaiting,
        }
    }
}

/// The query that the fields describe.
pub(crate) fn canonical_query(context: &Context<'_>, parsed: &FindArguments<'_>) -> Result<CanonicalQuery> {
    let variables = variables(context, parsed.declared)?;
    let mut query = query(parsed.filter, &variables)?;
    if let Some(field) = parsed.hint {
        query.hint = hint(field)?;
    }
    if let Some(sort) = parsed.sort {
        apply_sort(&mut query, sort)?;
    }
    if let Some(projection) = parsed.projection.filter(|projection| !projection.is_empty()) {
        let context = ParseContext::for_variables(&variables);
        check_memory_for([projection].into_iter())?;
        query.projection = Some(Projection::parse(projection, ProjectionKind::Find, &context)?);
    }
    query.skip = parsed.skip;
    query.limit = Some(parsed.limit).filter(|limit| *limit > 0);
    query.min = parsed.min.map(ToOwned::to_owned);
    query.max = parsed.max.map(ToOwned::to_owned);
    query.return_key = parsed.return_key;
    query.show_record_id = parsed.show_record_id;
    query.disk_use = if parsed.forbids_disk_use { DiskUse::Forbidden } else { DiskUse::Allowed };
    Ok(query)
}

/// Sets a query's sort; `{$natural: ±1}` is a hint in disguise.
pub(crate) fn apply_sort(query: &mut CanonicalQuery, sort: &RawDocument) -> Result<()> {
    let Some(first) = elements(sort).next() else { return Ok(()) };
    if first.name() != "$natural" {
        query.sort = Some(SortPattern::parse(sort)?);
        return Ok(());
    }
    if elements(sort).count() > 1 {
        return Err(CommandError::bad_value("$natural sort cannot be set to a value other than -1 or 1."));
    }
    query.hint = Hint::Natural(match Number::from_bson(first.value()).and_then(Number::to_i64_exact) {
        Some(1) => ScanDirection::Forward,
        Some(-1) => ScanDirection::Backward,
        _ => return Err(CommandError::bad_value("$natural sort cannot be set to a value other than -1 or 1.")),
    });
    Ok(())
}

/// Where a cursor goes on after a pause.
pub(crate) enum CursorView {
    /// In what is visible then.
    Newest(Arc<Store>),
    /// Where it was: in its transaction, or in its snapshot.
    Fixed,
}

impl CursorView {
    pub(crate) fn of(context: &Context<'_>) -> CursorView {
        match context.fixed_view() {
            Some(_) => CursorView::Fixed,
            None => CursorView::Newest(context.server.store.clone()),
        }
    }
}

/// A query's results as a client cursor.
pub(crate) struct QuerySource {
    pub(crate) executor: QueryExecutor,
    pub(crate) view: CursorView,
    /// Documents until the query's limit, if it has one.
    pub(crate) left: Option<u64>,
    /// Of a tailable cursor.
    pub(crate) tail: Option<Tail>,
}

impl CursorSource for QuerySource {
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        Ok(self.executor.next(operation)?.map(|row| row.document))
    }

    fn is_exhausted(&self) -> bool {
        self.left == Some(0)
    }

    fn execution(&self, detail: Detail) -> Option<Execution> {
        Some(Execution::of(&self.executor, detail))
    }

    fn is_tailing(&self) -> bool {
        self.tail.is_some() && !self.is_exhausted()
    }

    fn awaits(&self) -> bool {
        self.tail.as_ref().is_some_and(Tail::awaits)
    }

    fn wait(&mut self, longest: Duration) {
        if let Some(tail) = &self.tail {
            tail.wait(longest);
        }
    }

    fn resume(&mut self) -> Result<()> {
        match &self.view {
            CursorView::Newest(store) => Ok(self.executor.reseat(store.read_view())?),
            CursorView::Fixed => Ok(()),
        }
    }
}
