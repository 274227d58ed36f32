//! Flame graphs as SVG, drawn by inferno.

use inferno::flamegraph::{self, Options};

use super::stacks::Profile;
use crate::error::LabError;

/// Draws a profile.
pub(crate) fn draw(profile: &Profile, title: &str, subtitle: &str) -> Result<String, LabError> {
    draw_lines(&profile.folded(), title, subtitle, &profile.unit)
}

/// Draws the difference of two profiles of the same length: width is the later one's, red grew, blue shrank.
pub(crate) fn draw_lines(folded: &str, title: &str, subtitle: &str, unit: &str) -> Result<String, LabError> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = unit.to_owned();
    options.deterministic = true;
    options.min_width = 0.05;
    let mut svg = Vec::new();
    let failed =
        |error: &dyn std::fmt::Display| LabError::Program { program: "inferno".to_owned(), reason: error.to_string() };
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg).map_err(|error| failed(&error))?;
    String::from_utf8(svg).map_err(|error| failed(&error))
}
