//! Flame graphs as SVG files, made by FlameGraph's Perl script or by inferno, read back into stacks.
//!
//! Each frame is a rectangle whose title says the function and its weight. A frame's caller is the rectangle in the next row
//! towards the root under whose width it lies. What a frame weighs beyond its callees is its own.

use std::collections::BTreeMap;

use super::stacks::Profile;

/// A frame as drawn.
#[derive(Debug, Clone)]
struct Rectangle {
    name: String,
    weight: u64,
    left: f64,
    width: f64,
    row: i64,
}

pub(super) fn parse(text: &str) -> Result<Profile, String> {
    let rectangles = rectangles(text);
    if rectangles.is_empty() {
        return Err("there are no frames in it: not the SVG of a flame graph".to_owned());
    }
    let mut rows: BTreeMap<i64, Vec<Rectangle>> = BTreeMap::new();
    for rectangle in rectangles {
        rows.entry(rectangle.row).or_default().push(rectangle);
    }
    // The root is the only one of its row and as wide as the picture; it is at the bottom, or in an icicle graph at the top.
    let widest = |row: Option<(&i64, &Vec<Rectangle>)>| {
        row.map_or(0.0, |(_, row)| row.iter().map(|rectangle| rectangle.width).fold(0.0, f64::max))
    };
    let is_upwards = widest(rows.last_key_value()) >= widest(rows.first_key_value());
    let mut from_root: Vec<Vec<Rectangle>> = rows.into_values().collect();
    if is_upwards {
        from_root.reverse();
    }
    Ok(unfold(&from_root))
}

/// A placed frame: its stack, and what its callees leave of its weight.
struct Placed<'r> {
    rectangle: &'r Rectangle,
    stack: Vec<&'r str>,
    left_over: u64,
}

fn unfold(rows: &[Vec<Rectangle>]) -> Profile {
    let mut profile = Profile::new("samples");
    let mut callers: Vec<Placed<'_>> = Vec::new();
    for (depth, row) in rows.iter().enumerate() {
        let mut placed: Vec<Placed<'_>> = Vec::new();
        for rectangle in row {
            let mut stack = Vec::new();
            if depth > 0 {
                let Some(caller) = caller_of(rectangle, &mut callers) else { continue };
                caller.left_over = caller.left_over.saturating_sub(rectangle.weight);
                stack.clone_from(&caller.stack);
            }
            stack.push(rectangle.name.as_str());
            placed.push(Placed { rectangle, stack, left_over: rectangle.weight });
        }
        finish(&mut profile, &callers);
        callers = placed;
    }
    finish(&mut profile, &callers);
    profile
}

/// Adds what is left of each frame's weight as its own.
fn finish(profile: &mut Profile, placed: &[Placed<'_>]) {
    for frame in placed.iter().filter(|frame| frame.left_over > 0) {
        // The root, "all", is no function.
        let skip = usize::from(frame.stack.len() > 1 && frame.stack.first() == Some(&"all"));
        profile.add(frame.stack.iter().skip(skip).copied(), frame.left_over, None);
    }
}

/// The frame below: the one that the middle of the rectangle lies in. At edges, where numbers were rounded, the one that
/// has the weight left.
fn caller_of<'p, 'r>(rectangle: &Rectangle, callers: &'p mut [Placed<'r>]) -> Option<&'p mut Placed<'r>> {
    let middle = rectangle.left + rectangle.width / 2.0;
    let distance = |caller: &Placed<'_>| {
        let (left, right) = (caller.rectangle.left, caller.rectangle.left + caller.rectangle.width);
        (left - middle).max(middle - right).max(0.0)
    };
    let fits = |caller: &Placed<'_>| caller.left_over >= rectangle.weight;
    let best = callers.iter().enumerate().min_by(|(_, a), (_, b)| {
        (!fits(a), distance(a)).partial_cmp(&(!fits(b), distance(b))).unwrap_or(std::cmp::Ordering::Equal)
    });
    let position = best.map(|(position, _)| position)?;
    callers.get_mut(position)
}

/// All frames: each `<title>` with a weight, and the rectangle after it.
fn rectangles(text: &str) -> Vec<Rectangle> {
    let mut found = Vec::new();
    for part in text.split("<title>").skip(1) {
        let Some((title, rest)) = part.split_once("</title>") else { continue };
        let Some((name, weight)) = title_parts(&unescape(title)) else { continue };
        let Some(tag) = rest.split("<rect").nth(1).and_then(|tag| tag.split('>').next()) else { continue };
        let number = |name: &str| attribute(tag, name).and_then(|text| text.trim_end_matches('%').parse::<f64>().ok());
        // inferno writes exact positions beside those in percent.
        let (left, width) = match (number("fg:x"), number("fg:w")) {
            (Some(left), Some(width)) => (left, width),
            _ => match (number("x"), number("width")) {
                (Some(left), Some(width)) => (left, width),
                _ => continue,
            },
        };
        let Some(row) = number("y") else { continue };
        found.push(Rectangle { name, weight, left, width, row: (row * 10.0).round() as i64 });
    }
    found
}

/// `name (1,234 samples, 5.67%)`; a differential graph adds a change after another semicolon.
fn title_parts(title: &str) -> Option<(String, u64)> {
    let (name, rest) = title.rsplit_once(" (")?;
    let weight: String = rest.split(' ').next()?.chars().filter(|character| *character != ',').collect();
    let weight = weight.parse::<f64>().ok()?;
    Some((name.trim().replace(';', ":"), weight.round() as u64))
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag.get(start..)?.split('"').next()
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}
