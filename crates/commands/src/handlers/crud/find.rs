//! `find`: the documents of a collection that match a filter.

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use collection::Namespace;
use executor::QueryExecutor;
use planner::{Hint, ScanDirection};
use transaction::Store;

use super::command_collation;
use super::find_arguments::{FindArguments, canonical_query, parse};
use super::opened_pipeline;
use super::pipeline_host::PipelineOpening;
use super::query_settings;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::handlers::read_source::{ReadSource, Stored};
use crate::handlers::tail::{Tail, Tailing};
use crate::handlers::views::View;
use crate::handlers::views::read::ViewQuery;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Class, Declaration, Needs, SessionUse, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::request::read_concern::Level;
use crate::state::client_cursors::{
    BatchLimit, ClientCursor, CursorSource, CursorWork, FIRST_BATCH_DOCUMENTS, write_first_batch,
};
use crate::state::execution_notes::{Detail, Execution};
use crate::state::operation_counts::{OperationCounts, count};
use crate::state::operations::Operation;
use crate::state::query_settings::StoredSettings;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let (opening, cursors) = (PipelineOpening::of(context), context.cursor_work());
        run(opening, &cursors, &context.server.counts, arguments, reply)
    },
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
    opening: PipelineOpening<'_>,
    cursors: &CursorWork<'_>,
    counts: &OperationCounts,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let PipelineOpening { reading, operation, .. } = opening;
    let namespace = Namespace::new(reading.database, arguments.collection_name()?)?;
    let parsed = parse(&mut arguments)?;
    // Whatever becomes of it: what came is counted.
    count(&counts.query, 1);
    let full_name = namespace.as_str().to_owned();
    let _collation = command_collation::enter_of_command(reading, &arguments, &namespace)?;
    let settings = query_settings::of_command(reading, arguments.body)?;
    settings.as_deref().map_or(Ok(()), StoredSettings::check)?;
    let stored = match ReadSource::of(reading, namespace)? {
        ReadSource::Oplog => return oplog_view::find(opening, cursors, &parsed, &arguments, reply),
        ReadSource::View(view) => {
            return find_in_view((opening, cursors), &view, (&parsed, settings), &arguments, reply);
        }
        ReadSource::Stored(stored) => stored,
    };
    operation.set_time_limit(arguments.generic.max_time)?;
    let mut query = canonical_query(reading, &parsed)?;
    if parsed.is_tailable {
        query.hint = Hint::Natural(ScanDirection::Forward);
    }
    if let Some(settings) = &settings {
        settings.restrict(&full_name, &mut query);
    }
    let query = Arc::new(query);
    let tail =
        if parsed.is_tailable { tail_of(reading.queries.store, &stored, &full_name, parsed.tailing())? } else { None };
    let view = reading.view();
    let executor = QueryExecutor::new(&reading.queries.services(), view, stored.target(), query, operation)?;
    let left = Some(parsed.limit).filter(|limit| *limit > 0);
    let source = QuerySource { executor, view: CursorView::of(reading), left, tail };
    reply_with((reading, cursors), (full_name, Box::new(source)), &parsed, &arguments, reply)
}

/// The same on a view.
fn find_in_view(
    (opening, cursors): (PipelineOpening<'_>, &CursorWork<'_>),
    view: &View,
    (parsed, settings): (&FindArguments<'_>, Option<Arc<StoredSettings>>),
    arguments: &Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    opening.operation.set_time_limit(arguments.generic.max_time)?;
    let query = ViewQuery::of_find(parsed)?;
    let opened = opened_pipeline::open(opening, &query.over(view).with_settings(settings))?;
    reply_with(
        (opening.reading, cursors),
        (view.namespace.as_str().to_owned(), Box::new(opened.results)),
        parsed,
        arguments,
        reply,
    )
}

/// Replies with the first batch of a source, as the fields say.
fn reply_with(
    (reading, cursors): (Reading<'_>, &CursorWork<'_>),
    (full_name, source): (String, Box<dyn CursorSource>),
    parsed: &FindArguments<'_>,
    arguments: &Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut cursor = ClientCursor::new(full_name, source)
        .with_session(arguments.generic.session)
        .with_transaction(cursors.txn_number)
        .without_timeout(parsed.has_no_timeout);
    cursor.max_time = arguments.generic.max_time;
    cursor.at_cluster_time = reading.snapshot_time();
    let is_single = parsed.is_single_batch || parsed.limit == 1;
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(cursors, cursor, limit, is_single, reply)
}

/// What a tailable cursor waits for. As in MongoDB, one on nothing is closed at once: clients open another one after a
/// while.
fn tail_of(store: &Arc<Store>, stored: &Stored, full_name: &str, tailing: Tailing) -> Result<Option<Tail>> {
    match stored {
        Stored::Ring(ring) if ring.counts().documents() > 0 => Ok(Some(Tail::of_collection(store, full_name, tailing))),
        Stored::Ring(_) | Stored::Missing(_) => Ok(None),
        Stored::Collection(_) => {
            let message = "error processing query: tailable cursor requested on non capped collection";
            Err(CommandError::bad_value(message))
        }
    }
}

/// Where a cursor goes on after a pause.
pub(crate) enum CursorView {
    /// In what is visible then.
    Newest(Arc<Store>),
    /// Where it was: in its transaction, or in its snapshot.
    Fixed,
}

impl CursorView {
    pub(crate) fn of(reading: Reading<'_>) -> CursorView {
        match reading.fixed_view() {
            Some(_) => CursorView::Fixed,
            None => CursorView::Newest(reading.queries.store.clone()),
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
