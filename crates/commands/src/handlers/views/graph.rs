//! Which views stand on which: none on itself, and not too many on one another.

use std::collections::HashMap;

use super::{DEPTH_MAX, Definition, names_in, too_deep};
use crate::request::error::{CommandError, Result};

/// Checks a database's views with a new one, or with a new version of one.
///
/// # Errors
/// GraphContainsCycle (5); ViewDepthLimitExceeded (165).
pub(super) fn check(others: &[Definition], new: &Definition) -> Result<()> {
    let others = others.iter().filter(|other| other.name() != new.name());
    let mut graph: HashMap<&str, Vec<&str>> = others.map(|other| (other.name(), references(other))).collect();
    graph.insert(new.name(), references(new));
    let mut heights = HashMap::new();
    // A cycle that the change makes goes through the new one.
    height(new.name(), &graph, &mut Vec::new(), &mut heights)?;
    for name in graph.keys() {
        height(name, &graph, &mut Vec::new(), &mut heights)?;
    }
    Ok(())
}

fn references(definition: &Definition) -> Vec<&str> {
    let mut names = vec![definition.on()];
    names_in(definition.stages(), &mut names);
    names
}

/// How many views stand on one another below a name, itself included. The path that led there bounds the recursion.
fn height<'g>(
    name: &'g str,
    graph: &HashMap<&'g str, Vec<&'g str>>,
    path: &mut Vec<&'g str>,
    heights: &mut HashMap<&'g str, usize>,
) -> Result<usize> {
    let Some(below) = graph.get(name) else { return Ok(0) };
    if let Some(known) = heights.get(name) {
        return Ok(*known);
    }
    if let Some(start) = path.iter().position(|before| *before == name) {
        let mut cycle: Vec<&str> = path.iter().skip(start).copied().collect();
        cycle.push(name);
        let message = format!("View cycle detected: {}", cycle.join(" => "));
        return Err(CommandError::named("GraphContainsCycle", message));
    }
    if path.len() >= DEPTH_MAX {
        return Err(too_deep());
    }
    path.push(name);
    let mut deepest = 0;
    for next in below {
        deepest = deepest.max(height(next, graph, path, heights)?);
    }
    path.pop();
    if deepest + 1 > DEPTH_MAX {
        return Err(too_deep());
    }
    heights.insert(name, deepest + 1);
    Ok(deepest + 1)
}
