//! The intervals of a 2dsphere or 2d field in which documents that meet a condition on places have a key.
//!
//! The area that is asked for is covered by cells. A document in it has the number of a cell in one of these, or, on
//! the sphere, of a cell around one. Bounds never say all: the places themselves are compared once a document is
//! fetched.

use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, RawBsonRef};
use document::{Interruption, work};
use geometry::{Cell, CellLevels, GridCell};
use index_key::{FieldKind, PlaceCells};
use query_language::filter::FilterNode;

use crate::interval::{Bound, Interval, IntervalList};
use crate::predicate_bounds::rank;

/// Cells that an area is covered by.
const CELLS_MAX: usize = 24;

/// The bounds of a condition; `None` if it says nothing about cells of this kind.
///
/// # Errors
/// The command is to stop.
pub(crate) fn bounds(
    node: &FilterNode,
    kind: FieldKind,
    cells: &PlaceCells,
) -> Result<Option<IntervalList>, Interruption> {
    work::step()?;
    Ok(match node {
        FilterNode::Geo(leaf) if kind == FieldKind::Sphere => {
            let covering = leaf.region().cells(cells.levels_of_queries(), CELLS_MAX)?;
            covering.map(|covering| sphere_intervals(&covering, cells.levels))
        }
        FilterNode::Geo(leaf) => leaf.region().grid_cells(&cells.grid, CELLS_MAX)?.map(|found| grid_intervals(&found)),
        FilterNode::And(children) => {
            // Different elements of an array may meet different ones: only one of them can be searched by.
            let mut best: Option<IntervalList> = None;
            for child in children {
                let list = bounds(child, kind, cells)?;
                best = match (best, list) {
                    (Some(best), Some(list)) if rank(&list) <= rank(&best) => Some(best),
                    (best, list) => list.or(best),
                };
            }
            best
        }
        FilterNode::Or(children) => {
            let mut lists = Vec::with_capacity(children.len());
            for child in children {
                let Some(list) = bounds(child, kind, cells)? else { return Ok(None) };
                lists.push(list);
            }
            Some(IntervalList::union_of(lists))
        }
        _ => None,
    })
}

/// Whether what meets a condition has a place at its path.
pub(crate) fn asks_for_place(node: &FilterNode) -> bool {
    match node {
        FilterNode::Geo(_) | FilterNode::Near(_) => true,
        FilterNode::And(children) => children.iter().any(asks_for_place),
        FilterNode::Or(children) => children.iter().all(asks_for_place),
        _ => false,
    }
}

/// The numbers of the cells in each of some, and of those around them.
pub(crate) fn sphere_intervals(covering: &[Cell], levels: CellLevels) -> IntervalList {
    let mut intervals = Vec::with_capacity(2 * covering.len());
    for cell in covering {
        let (first, last) = cell.range();
        intervals
            .push(Interval::new(Bound::inclusive(RawBsonRef::Int64(first)), Bound::inclusive(RawBsonRef::Int64(last))));
        let around = levels.coarsest.min(cell.level())..cell.level();
        intervals.extend(around.map(|level| Interval::point(RawBsonRef::Int64(cell.parent(level).number()))));
    }
    IntervalList::new(intervals)
}

/// The keys of the points in each of some cells.
pub(crate) fn grid_intervals(covering: &[GridCell]) -> IntervalList {
    let bound = |key: u64| {
        let bytes = key.to_be_bytes();
        Bound::inclusive(RawBsonRef::Binary(RawBinaryRef { subtype: BinarySubtype::UserDefined(128), bytes: &bytes }))
    };
    let intervals = covering.iter().map(|cell| Interval::new(bound(cell.first_key()), bound(cell.last_key())));
    IntervalList::new(intervals.collect())
}
