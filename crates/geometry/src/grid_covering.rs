//! Cells of a grid that have all of something in the plane: few, and as small as few can be.

use document::{Interruption, work};

use crate::grid::{Grid, GridCell};
use crate::plane::{Circle, FlatPoint, FlatPolygon, Rectangle};

/// What is to be covered.
#[derive(Debug, Clone, Copy)]
pub enum PlaneTarget<'t> {
    /// Any of several rectangles.
    Rectangles(&'t [Rectangle]),
    /// A polygon.
    Polygon(&'t FlatPolygon),
    /// What is in a circle and not nearer to its midst than this.
    Ring(Circle, f64),
}

struct Candidate {
    cell: GridCell,
    is_full: bool,
    /// Of a polygon, those that meet the cell.
    edges: Vec<(FlatPoint, FlatPoint)>,
}

/// Cells that have all of `target` that is in the grid: about `cells_max` at most.
///
/// # Errors
/// The command is to stop.
pub fn grid_covering(grid: &Grid, target: PlaneTarget<'_>, cells_max: usize) -> Result<Vec<GridCell>, Interruption> {
    let edges: Vec<_> = match target {
        PlaneTarget::Polygon(polygon) => polygon.edges().collect(),
        _ => Vec::new(),
    };
    let mut waiting: Vec<Candidate> = looked_at(grid, target, GridCell::WHOLE, &edges)?.into_iter().collect();
    let mut done = Vec::new();
    while let Some(coarsest) = position_of_coarsest(&waiting) {
        let candidate = waiting.swap_remove(coarsest);
        if candidate.is_full || candidate.cell.level() >= grid.bits {
            done.push(candidate.cell);
            continue;
        }
        let mut children = Vec::new();
        for cell in candidate.cell.children() {
            children.extend(looked_at(grid, target, cell, &candidate.edges)?);
        }
        if children.len() <= 1 || done.len() + waiting.len() + children.len() <= cells_max {
            waiting.extend(children);
        } else {
            done.push(candidate.cell);
        }
    }
    Ok(done)
}

fn position_of_coarsest(waiting: &[Candidate]) -> Option<usize> {
    let levels = waiting.iter().map(|candidate| candidate.cell.level()).enumerate();
    levels.min_by_key(|(_, level)| *level).map(|(position, _)| position)
}

/// A cell, if it has something of the target.
fn looked_at(
    grid: &Grid,
    target: PlaneTarget<'_>,
    cell: GridCell,
    edges: &[(FlatPoint, FlatPoint)],
) -> Result<Option<Candidate>, Interruption> {
    let slack = grid.slack();
    let exact = grid.rectangle(cell);
    let rectangle = exact.grown(slack);
    let found = |is_full, edges| Some(Candidate { cell, is_full, edges });
    Ok(match target {
        PlaneTarget::Rectangles(rectangles) => {
            work::done(rectangles.len())?;
            let meets = rectangles.iter().any(|wanted| wanted.meets(&rectangle));
            let is_full = rectangles.iter().any(|wanted| wanted.contains(&rectangle));
            if meets { found(is_full, Vec::new()) } else { None }
        }
        PlaneTarget::Ring(circle, inner) => {
            let slack = slack + circle.radius.abs() * 1e-12;
            let (nearest, farthest) = (exact.distance(circle.center), exact.distance_to_farthest(circle.center));
            let meets = nearest <= circle.radius + slack && farthest >= inner - slack;
            let is_full = nearest >= inner + slack && farthest <= circle.radius - slack;
            if meets { found(is_full, Vec::new()) } else { None }
        }
        PlaneTarget::Polygon(polygon) => {
            work::done(edges.len() + 1)?;
            let met: Vec<_> = edges.iter().copied().filter(|(a, b)| rectangle.is_met_by(*a, *b)).collect();
            match met.is_empty() {
                false => found(false, met),
                // No edge is in the cell, so all of it is where its midst is.
                true if polygon.has(exact.center()) => found(true, met),
                true => None,
            }
        }
    })
}
