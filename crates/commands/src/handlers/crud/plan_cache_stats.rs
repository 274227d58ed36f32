//! The documents of the `$planCacheStats` stage: what is remembered of the choice between plans, one shape of query each.
//!
//! A decision is of use from the moment it was made, so each is active. Those of an older list of indexes are not given.

use bson::{DateTime, RawDocumentBuf};
use collection::Collection;
use planner::{CachedPlan, PlanCache, query_hash};

use crate::handlers::diagnostics::host_and_port;
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::state::context::ServerFacts;

/// One document a decision.
pub(crate) fn decisions(
    facts: &ServerFacts,
    plan_cache: &PlanCache,
    collection: &Collection,
) -> Result<Vec<RawDocumentBuf>> {
    let host = host_and_port(facts);
    let describe = |(shape, plan): &(String, CachedPlan)| {
        let origin = &plan.origin;
        document_of(|document| {
            document.string("version", "1");
            // The same by its name before and since 8.0.
            let hash = query_hash(shape);
            document.string("queryHash", &hash);
            document.string("planCacheShapeHash", &hash);
            document.string("planCacheKey", &origin.key);
            document.document("createdFromQuery", |query| {
                if let Some(filter) = &origin.filter {
                    query.embed("query", filter);
                }
                query.embed("sort", &origin.sort);
                query.embed("projection", &origin.projection);
                if !origin.collation.is_empty() {
                    query.embed("collation", &origin.collation);
                }
            });
            document.boolean("isActive", true);
            document.size("works", plan.works);
            document.date("timeOfCreation", DateTime::from_millis(origin.millis));
            if let Some(shown) = &origin.plan {
                document.embed("cachedPlan", shown);
            }
            document.boolean("indexFilterSet", origin.has_index_filter);
            document.size("estimatedSizeBytes", (shape.len() + plan.bytes()) as u64);
            document.string("host", &host);
        })
    };
    plan_cache.entries(collection).iter().map(describe).collect()
}
