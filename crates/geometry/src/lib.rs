//! Shapes on the sphere and in the plane: what they contain, how far they are, and the cells that cover them.
//!
//! Shapes come from documents (`parse`): GeoJSON, and the pairs of numbers that were there before it. On the sphere
//! edges are arcs of great circles, in the plane they are straight. Which side of an edge a point is on is decided
//! exactly (`robust`). Called by `query_language` (filters), `index_key` (keys), `planner` (bounds) and `executor`
//! (rings around a point). It must not know of filters, indexes or storage.
//!
//! ```text
//! sphere   vector → ring → polygon → shape ─ relation      cell ─ covering
//! plane    plane                                           grid ─ grid_covering
//! ```
//!
//! [0021](../../../docs/decisions/0021-geometry.md) says why it is ours.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod cap;
mod cell;
mod check;
mod covering;
mod error;
mod grid;
mod grid_covering;
mod parse;
mod plane;
mod polygon;
mod region;
mod relation;
mod ring;
mod shape;
#[cfg(test)]
mod tests;
mod vector;

pub use cap::{Annulus, Cap};
pub use cell::{Cell, LEVEL_MAX};
pub use covering::{CELLS_MAX, CellLevels, Target, covering};
pub use error::{GeometryError, Result};
pub use grid::{Grid, GridCell};
pub use grid_covering::{PlaneTarget, grid_covering};
pub use parse::{Check, Location, is_geojson, parse_flat_point, parse_geojson, parse_location};
pub use plane::{Circle, FlatPoint, FlatPolygon, Rectangle};
pub use polygon::Polygon;
pub use region::Region;
pub use ring::{Place, Ring, Winding};
pub use shape::{Part, Shape, ShapeKind};
pub use vector::Vector;

/// Of the earth as a sphere, in metres: what turns metres into radians.
pub const EARTH_RADIUS_METRES: f64 = 6_378_100.0;
