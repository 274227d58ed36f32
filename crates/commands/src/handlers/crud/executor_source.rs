//! What a pipeline reads from the executor, and what is known of that behind the pipeline.
//!
//! Opened by `aggregate` for a command's own pipeline, and by `pipeline_host` for what a stage reads from elsewhere.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aggregation::{AggregationError, DocumentSource};
use bson::{RawDocument, RawDocumentBuf};
use executor::{ExecutionTotals, ExecutorError, QueryExecutor, Target};
use planner::CanonicalQuery;
use query_language::expression::Metadata;
use query_language::rows::RowReader;
use transaction::ReadView;

use super::query_arguments::OwnedInterrupt;
use crate::request::error::{CommandError, Result};
use crate::state::execution_notes::Execution;
use crate::state::operations::Operation;
use crate::state::reading::Reading;

/// What a pipeline's first source has done so far, for those who do not see it behind the pipeline.
pub(super) struct Examined {
    keys: AtomicU64,
    documents: AtomicU64,
    sorts: bool,
    scans_collection: bool,
    plan: String,
}

impl Examined {
    pub(super) fn of(executor: &QueryExecutor) -> Examined {
        Examined {
            keys: AtomicU64::new(0),
            documents: AtomicU64::new(0),
            sorts: executor.sorts_in_memory(),
            scans_collection: executor.scans_collection(),
            plan: executor.plan_summary(),
        }
    }

    fn update(&self, executor: &QueryExecutor) {
        let totals = executor.statistics();
        self.keys.store(totals.keys_examined, Ordering::Relaxed);
        self.documents.store(totals.docs_examined, Ordering::Relaxed);
    }

    pub(super) fn execution(&self) -> Execution {
        let totals = ExecutionTotals {
            keys_examined: self.keys.load(Ordering::Relaxed),
            docs_examined: self.documents.load(Ordering::Relaxed),
            ..ExecutionTotals::default()
        };
        Execution { totals, sorts: self.sorts, scans_collection: self.scans_collection, plan: self.plan.clone() }
    }
}

/// What a pipeline takes of a query's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Documents.
    Documents,
    /// Nothing of them: how many there are.
    TheirNumber,
}

impl Takes {
    /// An executor that gives it.
    pub(super) fn executor(
        self,
        (reading, operation): (Reading<'_>, &Operation<'_>),
        view: ReadView,
        target: Target,
        query: CanonicalQuery,
    ) -> Result<QueryExecutor> {
        let (services, query) = (reading.queries.services(), Arc::new(query));
        Ok(match self {
            Takes::Documents => QueryExecutor::new(&services, view, target, query, operation)?,
            Takes::TheirNumber => QueryExecutor::counting(&services, view, target, query, operation)?,
        })
    }
}

/// What a pipeline reads from the executor.
pub(super) struct ExecutorSource {
    pub(super) executor: QueryExecutor,
    pub(super) takes: Takes,
    pub(super) interrupt: OwnedInterrupt,
    pub(super) examined: Option<Arc<Examined>>,
    pub(super) metadata: Metadata,
}

impl DocumentSource for ExecutorSource {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        let next = match self.takes {
            Takes::Documents => self.executor.next(&self.interrupt).map(|row| {
                row.map(|row| {
                    self.metadata = row.metadata;
                    row.document.to_owned()
                })
            }),
            Takes::TheirNumber => self.executor.pass(&self.interrupt).map(|is_one| is_one.then(RawDocumentBuf::new)),
        };
        self.note(next)
    }

    fn lend(&mut self) -> aggregation::Result<Option<Cow<'_, RawDocument>>> {
        let passed = self.executor.pass(&self.interrupt);
        if !self.note(passed)? {
            return Ok(None);
        }
        self.metadata = self.executor.metadata();
        match self.takes {
            Takes::TheirNumber => Ok(Some(Cow::Owned(RawDocumentBuf::new()))),
            Takes::Documents => {
                let document = self.executor.document();
                document.map(|document| Some(Cow::Borrowed(document))).map_err(source_error)
            }
        }
    }

    fn fill(&mut self, rows: &mut RowReader) -> aggregation::Result<bool> {
        let filled = self.fill_unnoted(rows);
        if let Some(examined) = &self.examined {
            examined.update(&self.executor);
        }
        filled
    }

    fn count_rest(&mut self) -> aggregation::Result<Option<u64>> {
        if self.takes == Takes::Documents {
            return Ok(None);
        }
        let counted = self.executor.count_all(&self.interrupt);
        self.note(counted.map(Some))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }
}

impl ExecutorSource {
    fn fill_unnoted(&mut self, rows: &mut RowReader) -> aggregation::Result<bool> {
        if self.takes == Takes::Documents {
            return self.executor.fill(rows, &self.interrupt).map_err(source_error);
        }
        while !rows.is_full() {
            if !self.executor.pass(&self.interrupt).map_err(source_error)? {
                return Ok(false);
            }
            rows.take_unread()?;
        }
        Ok(true)
    }

    /// Notes what has been examined for a result.
    fn note<T>(&self, result: executor::Result<T>) -> aggregation::Result<T> {
        if let Some(examined) = &self.examined {
            examined.update(&self.executor);
        }
        result.map_err(source_error)
    }
}

fn source_error(error: ExecutorError) -> AggregationError {
    AggregationError::Host(Box::new(CommandError::from(error)))
}
