//! The front of a pipeline that a query plan can answer.

use bson::raw::RawDocumentBuf;
use query_language::expression::sort_pattern::SortPattern;

use crate::error::Result;
use crate::pipeline::Pipeline;
use crate::stage::{OneOfEach, Stage, chain_dependencies};

/// What was taken off the front of a pipeline: apply it in this order, then run the rest.
#[derive(Debug)]
pub struct Pushdown {
    /// The filter, in the language of `find`.
    pub filter: Option<RawDocumentBuf>,
    /// The order.
    pub sort: Option<SortPattern>,
    /// Documents to leave out after sorting.
    pub skip: u64,
    /// Documents to give after those left out; `Some(0)` is none at all.
    pub limit: Option<u64>,
    /// The paths of the documents that `rest` reads; `None` for whole documents. More may be given. An array on the way of
    /// a path is given whole: a filter asks for its places, and a sort for elements that lack the field.
    pub needed_paths: Option<Vec<String>>,
    /// Fewer documents that are enough for `rest`.
    pub one_of_each: Option<OneOfEach>,
    /// What remains to run.
    pub rest: Pipeline,
}

/// Takes leading `$match`, then `$sort`, then `$skip` and `$limit` off a pipeline.
pub(crate) fn split(pipeline: Pipeline) -> Result<Pushdown> {
    let Pipeline { stages, context } = pipeline;
    let mut rest = stages.into_iter().peekable();
    let mut filter = None;
    if let Some(Stage::Match(leading)) = rest.peek() {
        filter = Some(leading.source().to_owned());
        rest.next();
    }
    let mut sort = None;
    if let Some(Stage::Sort(leading)) = rest.peek() {
        sort = Some(leading.pattern().clone());
        rest.next();
    }
    let (mut skip, mut limit) = (0_u64, None::<u64>);
    loop {
        match rest.peek() {
            Some(Stage::Skip(stage)) => {
                skip = skip.saturating_add(stage.0);
                limit = limit.map(|limit| limit.saturating_sub(stage.0));
            }
            Some(Stage::Limit(stage)) => limit = Some(limit.map_or(stage.0, |limit| limit.min(stage.0))),
            _ => break,
        }
        rest.next();
    }
    let stages: Vec<Stage> = rest.collect();
    let needed = chain_dependencies(&stages);
    let needed_paths = needed.needed_paths().map(|paths| paths.into_iter().map(str::to_owned).collect());
    let one_of_each = stages.first().and_then(|stage| stage.definition().one_of_each());
    Ok(Pushdown { filter, sort, skip, limit, needed_paths, one_of_each, rest: Pipeline { stages, context } })
}
