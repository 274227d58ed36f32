//! The table of pipeline stages, which drives parsing and the generated compatibility page.

use bson::raw::RawBsonRef;
use query_language::ErrorKind;

use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::Stage;
use crate::stages as s;

/// A stage known to MongoDB.
#[derive(Debug)]
pub struct StageOperator {
    /// The name with its `$`.
    pub name: &'static str,
    /// One line for the documentation.
    pub summary: &'static str,
    pub(crate) parse: Option<ParseStage>,
}

/// Parses a stage's argument; a stage that is sugar for others gives several.
pub(crate) type ParseStage = fn(RawBsonRef<'_>, &PipelineContext) -> Result<Vec<Stage>>;

impl StageOperator {
    const fn new(name: &'static str, summary: &'static str, parse: ParseStage) -> Self {
        Self { name, summary, parse: Some(parse) }
    }

    const fn refused(name: &'static str) -> Self {
        Self { name, summary: "not implemented", parse: None }
    }

    /// Whether the stage works here; the others are refused by name.
    pub fn is_implemented(&self) -> bool {
        self.parse.is_some()
    }
}

/// Every stage known, by name.
pub static STAGES: &[StageOperator] = &[
    StageOperator::new(
        "$_internalUnpackBucket",
        "The measurements in buckets of a time-series collection.",
        s::unpack_bucket::parse,
    ),
    StageOperator::new("$addFields", "Adds or replaces computed fields.", s::add_fields::parse_add_fields),
    StageOperator::new("$bucket", "Groups documents into ranges of a value.", s::bucket::parse),
    StageOperator::new("$bucketAuto", "Groups documents into buckets of about the same size.", s::bucket_auto::parse),
    StageOperator::new("$changeStream", "Events of what is changed; the first stage only.", misplaced_change_stream),
    StageOperator::new(
        "$changeStreamSplitLargeEvent",
        "Splits events above 16 MiB; the last stage of a change stream only.",
        misplaced_split,
    ),
    StageOperator::new("$collStats", "Statistics of the collection.", s::coll_stats::parse),
    StageOperator::new("$count", "The number of documents.", s::count::parse),
    StageOperator::new("$currentOp", "What the server is doing.", s::current_op::parse),
    StageOperator::new("$densify", "Makes documents in the gaps of a number or a date.", s::densify::parse),
    StageOperator::new("$documents", "Documents that an expression gives; the first stage only.", s::documents::parse),
    StageOperator::new("$facet", "Several pipelines over the same documents.", s::facet::parse),
    StageOperator::new("$fill", "Puts values in the place of those that are null or missing.", s::fill::parse),
    StageOperator::new(
        "$geoNear",
        "Documents in the order of their distance from a point; the first stage only.",
        s::geo_near::parse,
    ),
    StageOperator::new(
        "$graphLookup",
        "Documents of a collection that are reached one after the other.",
        s::graph_lookup::parse,
    ),
    StageOperator::new("$group", "Groups documents by a value and accumulates.", s::group::parse),
    StageOperator::new("$indexStats", "Statistics of the use of each index.", s::index_stats::parse),
    StageOperator::new("$limit", "The first documents.", s::limit::parse),
    StageOperator::new(
        "$listClusterCatalog",
        "The collections and views of the database, or of all.",
        s::list_cluster_catalog::parse,
    ),
    StageOperator::new("$listLocalSessions", "The sessions that there are.", s::list_sessions::parse_local),
    StageOperator::refused("$listSampledQueries"),
    StageOperator::refused("$listSearchIndexes"),
    StageOperator::new(
        "$listSessions",
        "The sessions that there are, on config.system.sessions.",
        s::list_sessions::parse_stored,
    ),
    StageOperator::new("$lookup", "Joins documents of another collection.", s::lookup::parse),
    StageOperator::new("$match", "The documents that match a filter.", s::match_stage::parse),
    StageOperator::new("$merge", "Writes the documents into a collection, beside those that it has.", s::merge::parse),
    StageOperator::new("$out", "Replaces a collection by the documents.", s::out::parse),
    StageOperator::new(
        "$planCacheStats",
        "The plans that are remembered for shapes of queries.",
        s::plan_cache_stats::parse,
    ),
    StageOperator::new("$project", "Includes, excludes and computes fields.", s::project::parse),
    StageOperator::new("$querySettings", "What has been said of shapes of queries.", s::query_settings::parse),
    StageOperator::new("$queryStats", "Statistics of queries by their shapes.", s::query_stats::parse),
    StageOperator::refused("$rankFusion"),
    StageOperator::new("$redact", "What an expression leaves of each document.", s::redact::parse),
    StageOperator::new("$replaceRoot", "Replaces each document by a value.", s::replace_root::parse_replace_root),
    StageOperator::new("$replaceWith", "Replaces each document by a value.", s::replace_root::parse_replace_with),
    StageOperator::new("$sample", "Documents drawn at random.", s::sample::parse),
    StageOperator::new("$score", "Computes a score for each document, which $meta reads.", s::score::parse),
    StageOperator::refused("$scoreFusion"),
    StageOperator::refused("$search"),
    StageOperator::refused("$searchMeta"),
    StageOperator::new("$set", "Adds or replaces computed fields.", s::add_fields::parse_set),
    StageOperator::new(
        "$setWindowFields",
        "Fields computed from the documents around each.",
        s::set_window_fields::parse,
    ),
    StageOperator::refused("$shardedDataDistribution"),
    StageOperator::new("$skip", "All but the first documents.", s::skip::parse),
    StageOperator::new("$sort", "The documents in an order.", s::sort::parse),
    StageOperator::new("$sortByCount", "Groups by a value, the largest groups first.", s::sort_by_count::parse),
    StageOperator::new("$unionWith", "The documents and those of another collection.", s::union_with::parse),
    StageOperator::new("$unset", "Leaves fields out.", s::unset::parse),
    StageOperator::new("$unwind", "A document for each element of an array.", s::unwind::parse),
    StageOperator::refused("$vectorSearch"),
];

/// The command takes the stages of a change stream out of the pipeline; one that is left stands in the wrong place.
fn misplaced_change_stream(_: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    Err(AggregationError::numbered(40602, "$changeStream is only valid as the first stage in a pipeline."))
}

fn misplaced_split(_: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let message =
        "$changeStreamSplitLargeEvent is only valid as the last stage of a pipeline that begins with $changeStream";
    Err(AggregationError::new(ErrorKind::InvalidPipelineOperator, message))
}

/// The stage of a name with its `$`.
pub fn find(name: &str) -> Option<&'static StageOperator> {
    STAGES.iter().find(|stage| stage.name == name)
}
