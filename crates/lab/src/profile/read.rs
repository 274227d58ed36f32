//! Reads profiles of any of the forms that people keep them in, telling them apart by their content.

use std::fs;
use std::path::Path;

use super::perf_script;
use super::stacks::Profile;
use super::svg;
use crate::error::LabError;

/// Deeper stacks are cut: no program's flame graph is so high, but a damaged file might be.
pub(super) const DEPTH_MAX: usize = 2000;

/// Reads a file: folded stacks (plain or timed), the output of `perf script`, or the SVG of a flame graph.
pub(crate) fn read(path: &Path) -> Result<Profile, LabError> {
    let cannot = |reason: String| LabError::Input { path: path.to_owned(), reason };
    let bytes = fs::read(path).map_err(|error| cannot(error.to_string()))?;
    if bytes.starts_with(b"PERFILE2") {
        return Err(cannot("this is the binary file of perf record; give the output of `perf script`".to_owned()));
    }
    parse(&String::from_utf8_lossy(&bytes)).map_err(cannot)
}

/// Reads a text.
pub(crate) fn parse(text: &str) -> Result<Profile, String> {
    let start = text.trim_start();
    let profile = if start.starts_with('<') {
        svg::parse(text)?
    } else if start.starts_with("# plimsoll timed stacks") {
        timed(text)?
    } else if perf_script::looks_like(text) {
        perf_script::parse(text)?
    } else {
        folded(text)?
    };
    if profile.total() == 0 {
        return Err("there are no samples in it".to_owned());
    }
    Ok(profile)
}

/// `a;b;c 12`, a stack a line.
fn folded(text: &str) -> Result<Profile, String> {
    let mut profile = Profile::new("samples");
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let (stack, weight) = line.trim_end().rsplit_once(' ').ok_or_else(|| not_folded(number, line))?;
        // Differential stacks have two weights; the later one is taken.
        let weight: f64 = weight.parse().map_err(|_| not_folded(number, line))?;
        let stack = match stack.rsplit_once(' ') {
            Some((rest, first)) if first.parse::<f64>().is_ok() && rest.contains(';') => rest,
            _ => stack,
        };
        profile.add(stack.split(';').take(DEPTH_MAX), weight.max(0.0).round() as u64, None);
    }
    Ok(profile)
}

fn not_folded(number: usize, line: &str) -> String {
    let shown: String = line.chars().take(60).collect();
    format!(
        "line {} is neither of folded stacks (`a;b;c 12`) nor of `perf script`, and it is no flame graph: {shown:?}",
        number + 1
    )
}

fn timed(text: &str) -> Result<Profile, String> {
    let unit = text.lines().next().and_then(|first| first.split("weight in ").nth(1)?.split(',').next());
    let mut profile = Profile::new(unit.unwrap_or("samples"));
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let mut fields = line.splitn(3, '\t');
        let parsed = (|| {
            let at: f64 = fields.next()?.parse().ok()?;
            let weight: u64 = fields.next()?.parse().ok()?;
            Some((at, weight, fields.next()?))
        })();
        let (at, weight, stack) = parsed.ok_or_else(|| format!("line {} is not of timed stacks", number + 1))?;
        profile.add(stack.split(';').take(DEPTH_MAX), weight, Some(at));
    }
    Ok(profile)
}
