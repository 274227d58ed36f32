//! A pipeline that runs: opened over what it reads, before anybody has asked for its documents.
//!
//! Used by `aggregate`, `mapReduce`, and whoever reads a view.

use std::sync::Arc;

use aggregation::PipelineCursor;

use super::aggregate::{AggregateArguments, Front, PipelineResults, open_source, parse_pipeline, source_of, split};
use super::pipeline_host::CommandHost;
use super::query_arguments::variables;
use crate::request::error::Result;
use crate::state::context::Context;

/// A pipeline whose documents nobody has asked for yet.
pub(crate) struct Opened {
    pub(crate) results: PipelineResults,
    pub(super) writes: bool,
}

impl Opened {
    /// Its documents, for who is no client.
    pub(crate) fn into_cursor(self) -> PipelineCursor {
        self.results.results
    }
}

/// Parses and opens the pipeline of a command.
pub(crate) fn open(context: &Context<'_>, parsed: &AggregateArguments<'_>) -> Result<Opened> {
    let variables = variables(context.reading(), parsed.declared)?;
    let pipeline = parse_pipeline(parsed, &variables)?;
    let writes = pipeline.writes();
    if writes {
        context.operation.goes_on_without_client();
    }
    let read = source_of(context.reading(), parsed, &pipeline)?;
    let Front { query, takes, rest } = split(pipeline, parsed, read.as_ref(), &variables)?;
    let (source, examined) = open_source(context, parsed, read, query, takes)?;
    let host = CommandHost::new(context, parsed.namespace.database(), parsed.disk_use());
    let host = Arc::new(host.with_validation(parsed.validation).with_settings(parsed.settings.clone()));
    Ok(Opened { results: PipelineResults::new(rest.run(source, host)?, examined), writes })
}
