//! A pipeline that runs: opened over what it reads, before anybody has asked for its documents.
//!
//! Used by `aggregate`, `mapReduce`, and whoever reads a view.

use std::sync::Arc;

use aggregation::PipelineCursor;

use super::aggregate::{AggregateArguments, Front, PipelineResults, open_source, parse_pipeline, source_of, split};
use super::pipeline_host::{CommandHost, PipelineOpening};
use super::query_arguments::variables;
use crate::request::error::Result;

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
pub(crate) fn open(opening: PipelineOpening<'_>, parsed: &AggregateArguments<'_>) -> Result<Opened> {
    let PipelineOpening { reading, operation, .. } = opening;
    let variables = variables(reading, parsed.declared)?;
    let pipeline = parse_pipeline(parsed, &variables)?;
    let writes = pipeline.writes();
    if writes {
        operation.goes_on_without_client();
    }
    let read = source_of(reading, parsed, &pipeline)?;
    let Front { query, takes, rest } = split(pipeline, parsed, read.as_ref(), &variables)?;
    let (source, examined) = open_source(opening, parsed, read, query, takes)?;
    let host = CommandHost::new(opening, parsed.namespace.database(), parsed.disk_use());
    let host = Arc::new(host.with_validation(parsed.validation).with_settings(parsed.settings.clone()));
    Ok(Opened { results: PipelineResults::new(rest.run(source, host)?, examined), writes })
}
