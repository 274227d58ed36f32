//! Whether rings make a polygon: no vertex twice, no edges that cross, holes inside of the first ring.
//!
//! Called by `parse`. Edges are compared only with those that reach as far north and south, in the order of their
//! southern ends.

use document::work;

use crate::error::{Result, invalid};
use crate::polygon::Polygon;
use crate::ring::{Place, Ring};
use crate::vector::{Vector, arcs_cross};

/// An edge with its ring, its place there, and how far south and north it reaches.
struct Edge {
    ring: usize,
    number: usize,
    a: Vector,
    b: Vector,
    south: f64,
    north: f64,
}

/// Refuses rings that are none, and those that are no polygon together.
pub(crate) fn check_polygon(polygon: &Polygon) -> Result<()> {
    for ring in polygon.rings() {
        check_vertices(ring)?;
    }
    check_edges(polygon)?;
    let Some((outer, holes)) = polygon.rings().split_first() else { return invalid("Polygon has no loops.") };
    for (number, hole) in holes.iter().enumerate() {
        for vertex in hole.vertices() {
            work::step()?;
            if outer.place(*vertex) == Place::Outside {
                return invalid(format!(
                    "Secondary loops not contained by first exterior loop - secondary loops must be holes: loop {}",
                    number + 1
                ));
            }
        }
    }
    Ok(())
}

fn check_vertices(ring: &Ring) -> Result<()> {
    let mut order: Vec<usize> = (0..ring.vertices().len()).collect();
    let key = |position: &usize| {
        let vertex = ring.vertices().get(*position);
        vertex.map(|vertex| [vertex.x, vertex.y, vertex.z].map(|number| (number + 0.0).to_bits()))
    };
    work::sort_by(&mut order, |left, right| key(left).cmp(&key(right)))?;
    match order.windows(2).find(|pair| matches!(pair, [left, right] if key(left) == key(right))) {
        Some([left, right]) => invalid(format!("Duplicate vertices: {} and {}", left.min(right), left.max(right))),
        _ => Ok(()),
    }
}

fn check_edges(polygon: &Polygon) -> Result<()> {
    let mut edges = Vec::new();
    for (ring, each) in polygon.rings().iter().enumerate() {
        for (number, (a, b)) in each.arcs().enumerate() {
            work::step()?;
            if a.plus(b).length() < 1e-14 {
                return invalid(format!("Vertices {number} and {} are antipodal", number + 1));
            }
            // An arc rises above its chord by less than the square of that.
            let rise = a.minus(b).length().powi(2).min(2.0);
            edges.push(Edge { ring, number, a, b, south: a.z.min(b.z) - rise, north: a.z.max(b.z) + rise });
        }
    }
    work::sort_by(&mut edges, |left, right| left.south.total_cmp(&right.south))?;
    let mut reached: Vec<usize> = Vec::new();
    for (position, edge) in edges.iter().enumerate() {
        reached.retain(|earlier| edges.get(*earlier).is_some_and(|earlier| earlier.north >= edge.south));
        work::done(reached.len() + 1)?;
        for earlier in reached.iter().filter_map(|earlier| edges.get(*earlier)) {
            if arcs_cross(edge.a, edge.b, earlier.a, earlier.b) {
                return invalid(crossing(earlier, edge));
            }
        }
        reached.push(position);
    }
    Ok(())
}

fn crossing(left: &Edge, right: &Edge) -> String {
    let (left, right) =
        if (left.ring, left.number) <= (right.ring, right.number) { (left, right) } else { (right, left) };
    let shown = |edge: &Edge| {
        let ((longitude, latitude), (to_longitude, to_latitude)) = (edge.a.to_degrees(), edge.b.to_degrees());
        format!("[{latitude:.7}, {longitude:.7}]-[{to_latitude:.7}, {to_longitude:.7}]")
    };
    let places = format!("{} and {}", shown(left), shown(right));
    if left.ring == right.ring {
        return format!("Edges {} and {} cross. Edge locations in degrees: {places}", left.number, right.number);
    }
    format!(
        "Loop {} edge {} crosses loop {} edge {}. Edge locations in degrees: {places}",
        left.ring, left.number, right.ring, right.number
    )
}
