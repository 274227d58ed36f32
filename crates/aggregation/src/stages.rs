//! The pipeline stages, one file each.

pub(crate) mod add_fields;
pub(crate) mod bucket;
pub(crate) mod bucket_auto;
pub(crate) mod coll_stats;
pub(crate) mod count;
pub(crate) mod current_op;
pub(crate) mod densify;
pub(crate) mod documents;
pub(crate) mod facet;
pub(crate) mod fill;
pub(crate) mod geo_near;
pub(crate) mod graph_lookup;
pub(crate) mod group;
pub(crate) mod index_stats;
pub(crate) mod limit;
pub(crate) mod list_cluster_catalog;
pub(crate) mod list_sessions;
pub(crate) mod lookup;
pub(crate) mod match_stage;
pub(crate) mod measurements_by_time;
pub(crate) mod merge;
pub(crate) mod out;
pub(crate) mod plan_cache_stats;
mod position;
pub(crate) mod project;
pub(crate) mod query_settings;
pub(crate) mod query_stats;
pub(crate) mod redact;
pub(crate) mod replace_root;
pub(crate) mod sample;
pub(crate) mod score;
pub(crate) mod set_window_fields;
pub(crate) mod skip;
pub(crate) mod sort;
pub(crate) mod sort_by_count;
pub(crate) mod union_with;
pub(crate) mod unpack_bucket;
pub(crate) mod unset;
pub(crate) mod unwind;

use bson::raw::RawBsonRef;
use query_language::ErrorKind;
use query_language::expression::value::type_name;

use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};

/// The name of a value's type as error messages show it.
fn type_of(value: RawBsonRef<'_>) -> &'static str {
    type_name(value.element_type())
}

/// Refuses a stage that is about a database where it stands on a collection.
fn check_whole_database(name: &str, context: &PipelineContext) -> Result<()> {
    if context.namespace.is_whole_database() {
        return Ok(());
    }
    let message = format!("{name} must be run against the database with {{aggregate: 1}}, not a collection");
    Err(AggregationError::new(ErrorKind::InvalidNamespace, message))
}
