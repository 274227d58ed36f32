//! Plans for `$near`: rings around its point, each from an index of places, so that documents come in the order of
//! their distance.
//!
//! Called by `candidates` for a filter with `$near`, which no other plan can answer. The executor makes the rings
//! (`GeoNearPlan::scan`), as many as documents are wanted.

use std::sync::Arc;

use collection::Index;
use document::{Interruption, work};
use geometry::{Annulus, Cap, Circle, FlatPoint, PlaneTarget, Target, covering, grid_covering};
use index_key::{FieldKind, PlaceCells};
use query_language::filter::{FilterNode, Near, NearCenter, NearFilter};

use crate::error::Result;
use crate::hint::ScanDirection;
use crate::index_assignment::{Assignment, joined};
use crate::interval::IntervalList;
use crate::key_ranges::KeyRanges;
use crate::place_bounds::{grid_intervals, sphere_intervals};
use crate::plan::{IndexScanPlan, PlanNode, ScanKind};

/// Cells that a ring is covered by: more than of other areas, since what is read beside the ring is read again for the
/// next one.
const CELLS_MAX: usize = 60;

/// How the neighbours of a point are found.
#[derive(Debug)]
pub struct GeoNearPlan {
    /// Of places.
    pub index: Arc<Index>,
    /// Which field of it has them.
    position: usize,
    near: NearFilter,
    /// Of all fields, of which those of the places are still to be bound.
    bounds: Vec<IntervalList>,
    key_filter: Option<FilterNode>,
    /// What of the filter is checked on documents beside the distance.
    pub residual: Option<FilterNode>,
    multikey_paths: Vec<u64>,
}

/// The plans for the `$near` of a filter.
///
/// # Errors
/// The command is to stop.
pub(crate) fn plans(indexes: &[Arc<Index>], root: &FilterNode, near: &NearFilter) -> Result<Vec<PlanNode>> {
    let mut found = Vec::new();
    for index in indexes {
        work::check()?;
        let fields = index.pattern().fields();
        let serves = |kind| match near.near().center {
            NearCenter::Metres(_) => kind == FieldKind::Sphere,
            NearCenter::Radians(..) => kind == FieldKind::Sphere || kind == FieldKind::Plane,
            NearCenter::Plane(_) => kind == FieldKind::Plane,
        };
        let Some(position) = fields.iter().position(|field| field.path == near.path && serves(field.kind)) else {
            continue;
        };
        let assignment = Assignment::new(index, root)?;
        let is_led_to = position == 0 || assignment.bounds.first().is_some_and(|list| !list.is_full());
        if !is_led_to || !assignment.holds_all_matches(root) {
            continue;
        }
        if assignment.is_empty() {
            return Ok(vec![PlanNode::Eof]);
        }
        let others: Vec<FilterNode> =
            assignment.residual.iter().filter(|node| !matches!(node, FilterNode::Near(_))).cloned().collect();
        found.push(PlanNode::GeoNear(Arc::new(GeoNearPlan {
            index: index.clone(),
            position,
            near: near.clone(),
            key_filter: joined(&assignment.key_filter),
            residual: joined(&others),
            multikey_paths: assignment.multikey_paths,
            bounds: assignment.bounds,
        })));
    }
    Ok(found)
}

impl GeoNearPlan {
    /// What is asked for.
    pub fn near(&self) -> &NearFilter {
        &self.near
    }

    /// The kind of index that serves.
    pub fn stage_name(&self) -> &'static str {
        if self.is_on_sphere() { "GEO_NEAR_2DSPHERE" } else { "GEO_NEAR_2D" }
    }

    fn is_on_sphere(&self) -> bool {
        self.index.pattern().has_kind(FieldKind::Sphere)
    }

    fn cells(&self) -> PlaceCells {
        self.index.pattern().places().copied().unwrap_or_default()
    }

    /// Whether what is nearer than a ring is read for it, too.
    pub fn reads_discs(&self) -> bool {
        !self.is_on_sphere() && matches!(self.near.near().center, NearCenter::Radians(..))
    }

    /// How far the farthest place is that there could be.
    pub fn farthest(&self) -> f64 {
        let Near { center, max_distance, .. } = *self.near.near();
        let reach = match center {
            NearCenter::Metres(_) | NearCenter::Radians(..) => std::f64::consts::PI,
            NearCenter::Plane(center) => self.cells().grid.bounds().distance_to_farthest(center),
        };
        reach.min(max_distance)
    }

    /// How wide the first ring is tried.
    pub fn first_width(&self) -> f64 {
        // Fifty metres, or about as much as a town is of the earth.
        const RADIANS: f64 = 50.0 / geometry::EARTH_RADIUS_METRES;
        match self.near.near().center {
            NearCenter::Metres(_) | NearCenter::Radians(..) => RADIANS,
            NearCenter::Plane(_) => (self.cells().grid.max - self.cells().grid.min) / f64::from(1 << 15),
        }
    }

    /// The least width that a ring may have: some millimetres.
    pub fn least_width(&self) -> f64 {
        self.first_width() / 1e4
    }

    /// The index scan that finds all documents with a place in a ring, and others beside it.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn scan(&self, inner: f64, outer: f64) -> std::result::Result<Arc<IndexScanPlan>, Interruption> {
        let cells = self.cells();
        let list = match self.near.near().center {
            NearCenter::Metres(center) | NearCenter::Radians(center, _) if self.is_on_sphere() => {
                let ring = Target::Annulus(Annulus { center, inner, outer });
                sphere_intervals(&covering(ring, cells.levels_of_queries(), CELLS_MAX)?, cells.levels)
            }
            NearCenter::Metres(center) | NearCenter::Radians(center, _) => {
                let rectangles = Cap { center, radius: outer }.rectangles();
                grid_intervals(&grid_covering(&cells.grid, PlaneTarget::Rectangles(&rectangles), CELLS_MAX)?)
            }
            NearCenter::Plane(FlatPoint { x, y }) => {
                let circle = Circle { center: FlatPoint { x, y }, radius: outer };
                grid_intervals(&grid_covering(&cells.grid, PlaneTarget::Ring(circle, inner), CELLS_MAX)?)
            }
        };
        let mut bounds = self.bounds.clone();
        if let Some(bound) = bounds.get_mut(self.position) {
            // Beside it there may be an area that was asked for as well, of which another place may be.
            *bound = list;
        }
        Ok(Arc::new(IndexScanPlan {
            index: self.index.clone(),
            kind: ScanKind::Entries,
            expanded: None,
            has_several: true,
            ranges: KeyRanges::new(self.index.pattern(), &bounds),
            bounds,
            direction: ScanDirection::Forward,
            key_filter: self.key_filter.clone(),
            multikey_paths: self.multikey_paths.clone(),
        }))
    }

    /// Whether the index has met arrays on paths where the plan relies on there being none.
    pub fn is_outdated(&self) -> bool {
        self.index.is_replaced() || self.index.multikey_paths() != self.multikey_paths
    }
}
