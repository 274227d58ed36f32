//! Cells that have all of something on the sphere: few, and as small as few can be.
//!
//! The largest cells are parted first. A quarter that has nothing of what is to be covered is left out, one that is
//! full of it is not parted any more. Each cell knows the edges that meet it, so that the next level looks at those
//! alone.

use document::{Interruption, work};

use crate::cap::Annulus;
use crate::cell::{Cell, LEVEL_MAX};
use crate::polygon::Polygon;
use crate::shape::{Part, Shape};
use crate::vector::Vector;

/// Which cells there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellLevels {
    /// Of the largest.
    pub coarsest: u8,
    /// Of the smallest.
    pub finest: u8,
}

/// What is to be covered.
#[derive(Debug, Clone, Copy)]
pub enum Target<'t> {
    /// A shape.
    Shape(&'t Shape),
    /// What is between two circles; a cap is one from nothing on.
    Annulus(Annulus),
}

struct Edge {
    a: Vector,
    b: Vector,
    /// The area that it is an edge of.
    area: Option<usize>,
}

/// A shape taken apart.
#[derive(Default)]
struct Elements<'s> {
    points: Vec<Vector>,
    edges: Vec<Edge>,
    areas: Vec<&'s Polygon>,
}

/// A cell, and by their positions what may be in it.
struct Candidate {
    cell: Cell,
    points: Vec<usize>,
    edges: Vec<usize>,
    areas: Vec<usize>,
    is_full: bool,
}

/// Cells beyond which none is parted any more, even if it is larger than it may be.
pub const CELLS_MAX: usize = 10_000;

/// Cells that have all of `target`: about `cells_max` at most, unless even the coarsest that there may be are more.
///
/// # Errors
/// The command is to stop.
pub fn covering(target: Target<'_>, levels: CellLevels, cells_max: usize) -> Result<Vec<Cell>, Interruption> {
    let mut elements = Elements::default();
    if let Target::Shape(shape) = target {
        elements.add(shape)?;
    }
    let coverer = Coverer { target, elements };
    let whole = coverer.whole();
    let mut waiting = coverer.among(Cell::faces().into_iter(), &whole)?;
    let mut done: Vec<Cell> = Vec::new();
    while let Some(candidate) = take_coarsest(&mut waiting) {
        let level = candidate.cell.level();
        let must_part = level < levels.coarsest;
        if !must_part && (candidate.is_full || level >= levels.finest.min(LEVEL_MAX)) {
            done.push(candidate.cell);
            continue;
        }
        let children = coverer.among(candidate.cell.children(), &candidate)?;
        if must_part || children.len() <= 1 || done.len() + waiting.len() + children.len() <= cells_max {
            waiting.extend(children);
        } else {
            done.push(candidate.cell);
        }
        if done.len() + waiting.len() > CELLS_MAX {
            break;
        }
    }
    done.extend(waiting.into_iter().map(|candidate| candidate.cell));
    Ok(done)
}

fn take_coarsest(waiting: &mut Vec<Candidate>) -> Option<Candidate> {
    let coarsest = waiting.iter().enumerate().min_by_key(|(_, candidate)| candidate.cell.level())?.0;
    Some(waiting.swap_remove(coarsest))
}

impl<'s> Elements<'s> {
    fn add(&mut self, shape: &'s Shape) -> Result<(), Interruption> {
        for part in shape.parts() {
            let area = match part {
                Part::Point(point) => {
                    self.points.push(*point);
                    continue;
                }
                Part::Line(_) => None,
                Part::Polygon(polygon) => {
                    self.areas.push(polygon);
                    Some(self.areas.len() - 1)
                }
            };
            let before = self.edges.len();
            self.edges.extend(part.arcs().map(|(a, b)| Edge { a, b, area }));
            work::done(self.edges.len() - before)?;
        }
        Ok(())
    }
}

struct Coverer<'s> {
    target: Target<'s>,
    elements: Elements<'s>,
}

impl Coverer<'_> {
    /// All there is, for the faces.
    fn whole(&self) -> Candidate {
        let all = |count: usize| (0..count).collect();
        let Elements { points, edges, areas } = &self.elements;
        let [cell, ..] = Cell::faces();
        Candidate { cell, points: all(points.len()), edges: all(edges.len()), areas: all(areas.len()), is_full: false }
    }

    /// Those of some cells that have something of what is in `outer`.
    fn among(&self, cells: impl Iterator<Item = Cell>, outer: &Candidate) -> Result<Vec<Candidate>, Interruption> {
        let mut found = Vec::new();
        for cell in cells {
            found.extend(match &self.target {
                // All of a full one is full.
                _ if outer.is_full => Some(full(cell)),
                Target::Shape(_) => self.with_elements(cell, outer)?,
                Target::Annulus(annulus) => in_annulus(cell, annulus),
            });
        }
        Ok(found)
    }

    fn with_elements(&self, cell: Cell, outer: &Candidate) -> Result<Option<Candidate>, Interruption> {
        work::done(outer.points.len() + outer.edges.len() + outer.areas.len())?;
        let has = |position: &usize| self.elements.points.get(*position).is_some_and(|point| cell.has(*point));
        let points: Vec<usize> = outer.points.iter().copied().filter(has).collect();
        let meets =
            |position: &usize| self.elements.edges.get(*position).is_some_and(|edge| cell.is_met_by(edge.a, edge.b));
        let edges: Vec<usize> = outer.edges.iter().copied().filter(meets).collect();
        let mut is_cut = vec![false; self.elements.areas.len()];
        let cut = edges.iter().filter_map(|position| self.elements.edges.get(*position)?.area);
        for area in cut {
            if let Some(is_cut) = is_cut.get_mut(area) {
                *is_cut = true;
            }
        }
        let mut areas = Vec::new();
        for position in &outer.areas {
            work::step()?;
            if is_cut.get(*position) == Some(&true) {
                areas.push(*position);
            } else if self.elements.areas.get(*position).is_some_and(|area| area.contains(cell.center())) {
                // No edge is in the cell, so all of it is where its midst is.
                return Ok(Some(full(cell)));
            }
        }
        let is_empty = points.is_empty() && edges.is_empty() && areas.is_empty();
        Ok((!is_empty).then_some(Candidate { cell, points, edges, areas, is_full: false }))
    }
}

fn full(cell: Cell) -> Candidate {
    Candidate { cell, points: Vec::new(), edges: Vec::new(), areas: Vec::new(), is_full: true }
}

/// Distances are rounded.
const SLACK: f64 = 1e-13;

fn in_annulus(cell: Cell, annulus: &Annulus) -> Option<Candidate> {
    let (nearest, farthest) = (cell.distance(annulus.center), cell.distance_to_farthest(annulus.center));
    if nearest > annulus.outer + SLACK || farthest < annulus.inner - SLACK {
        return None;
    }
    let is_full = nearest >= annulus.inner + SLACK && farthest <= annulus.outer - SLACK;
    Some(Candidate { is_full, ..full(cell) })
}
