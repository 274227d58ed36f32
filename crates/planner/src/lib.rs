//! From a query to plans: canonical query, index bounds, candidate plans, their ranking, and the cache of decisions.
//!
//! Called by `executor`, which turns a plan into stages and runs trials, and by `commands`, which builds the
//! [`CanonicalQuery`]. Relies on `query_language` (filter trees), `index_key` (bounds as bytes), `collection` (indexes).
//! Must not know: cursors over trees, stages, commands, the wire.
//!
//! ```text
//! filter → predicates (by path) → per index: bounds, key filter, residual filter → candidates → ranking, cache → plan
//! ```
//!
//! Read `canonical_query`, `predicate_bounds`, `index_assignment`, `candidates`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bracket;
mod candidates;
mod canonical_query;
mod collation_agreement;
mod covered;
mod distinct_plan;
mod error;
mod exploded_sort;
mod geo_near;
mod hint;
mod index_assignment;
mod index_filters;
mod interval;
mod key_ranges;
mod min_max;
mod or_plan;
mod partial_index;
mod place_bounds;
mod plan;
mod plan_cache;
mod predicate_bounds;
mod predicates;
mod ranking;
mod sort_order;
mod text_plan;
mod wildcard;

pub use candidates::{Purpose, Target, candidates};
pub use canonical_query::{
    CanonicalQuery, DiskUse, DistinctField, Missing, ProjectionUse, WhichDocument, needed_projection,
};
pub use error::{PlanError, Result};
pub use geo_near::GeoNearPlan;
pub use hint::{Hint, ScanDirection};
pub use index_filters::{AllowedIndex, IndexFilter, IndexFilters};
pub use interval::{Bound, Interval, IntervalList};
pub use key_ranges::{FieldCheck, KeyRange, KeyRanges};
pub use plan::{IndexScanPlan, Nulls, Plan, PlanNode, ScanKind};
pub use plan_cache::{CachedPlan, DecisionOrigin, PlanCache, decision_shape, plan_cache_key, query_hash, query_shape};
pub use ranking::heuristic_rank;
pub use text_plan::TextPlan;
