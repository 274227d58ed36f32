//! The report of a comparison.

use std::fmt::Write as _;

use super::page::{Page, Tone, escape};
use crate::chart::grouped;
use crate::compare::Comparison;
use crate::compare::verdict::{Judged, Verdict};

const ROW_HEIGHT: f64 = 30.0;
const WIDTH: f64 = 640.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 20.0;

/// `difference` is the differential flame graph, where profiles were taken.
pub(crate) fn comparison(comparison: &Comparison, difference: Option<&str>) -> String {
    let mut page = Page::new("Comparison: is B better or worse than A?");
    let tone = match comparison.verdict {
        Verdict::Worse => Tone::Bad,
        Verdict::Better => Tone::Good,
        Verdict::Noise => Tone::Neutral,
    };
    page.banner(tone, &comparison.sentence);
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        page.text(&format!("{name}: {}, {}, scenario {}, {} runs", side.named, side.server, side.scenario, side.runs));
    }
    for remark in &comparison.remarks {
        page.faint(&format!("Note: {remark}."));
    }
    page.heading("Figures");
    page.raw(&intervals(&comparison.figures));
    page.faint("Change from A to B with its 95 % interval; the sign of the verdict: \u{25BC} worse, \u{25B2} better, \u{25CF} noise.");
    page.table(&["phase", "figure", "verdict", "#change", "#95 % interval", "#A", "#B"], &rows(&comparison.figures));
    if !comparison.functions.is_empty() {
        page.heading("Functions by change");
        let rows: Vec<Vec<String>> = comparison
            .functions
            .iter()
            .map(|function| {
                let change = function.b - function.a;
                vec![
                    function.name.clone(),
                    format!("{:.2}", function.a),
                    format!("{:.2}", function.b),
                    format!("{change:+.2}"),
                    format!("{:.0} %", function.share * 100.0),
                ]
            })
            .collect();
        page.faint(&format!(
            "The function itself, in {}; the share is of all that grew, or shrank.",
            comparison.cost_unit
        ));
        page.table(&["function", "#A", "#B", "#change", "#share"], &rows);
    }
    if let Some(svg) = difference {
        page.flame_graph("Differential flame graph: red grew, blue shrank; vanished and new paths are both drawn", svg);
    }
    if !comparison.counters.is_empty() {
        page.heading("Counters by change");
        let rows: Vec<Vec<String>> = comparison
            .counters
            .iter()
            .map(|counter| {
                vec![
                    counter.path.clone(),
                    counter.phase.clone(),
                    format!("{:.4}", counter.a),
                    format!("{:.4}", counter.b),
                ]
            })
            .collect();
        page.faint("For each unit of work (document or operation).");
        page.table(&["number of serverStatus", "phase", "#A", "#B"], &rows);
    }
    page.faint(&comparison.made_at);
    page.finish(comparison)
}

fn rows(figures: &[Judged]) -> Vec<Vec<String>> {
    let row = |figure: &Judged| {
        let verdict = match figure.verdict {
            Verdict::Worse => "!worse \u{25BC} worse".to_owned(),
            Verdict::Better => "!better \u{25B2} better".to_owned(),
            Verdict::Noise => "\u{25CF} noise".to_owned(),
        };
        vec![
            figure.phase.clone(),
            format!("{} ({})", figure.figure, figure.unit),
            verdict,
            format!("{:+.1} %", figure.change * 100.0),
            figure.interval_in_words(),
            grouped(figure.a),
            grouped(figure.b),
        ]
    };
    figures.iter().map(row).collect()
}

/// A row for each figure: a line from the low to the high end of the interval, a sign at the change, zero in the middle.
fn intervals(figures: &[Judged]) -> String {
    let widest = figures.iter().map(|figure| figure.change.abs() * 100.0).fold(10.0, f64::max);
    let extent = (widest * 1.5).min(400.0);
    let height = ROW_HEIGHT * figures.len() as f64 + 34.0;
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let x = |change: f64| middle + (change * 100.0 / extent).clamp(-1.0, 1.0) * (WIDTH - RIGHT - LEFT) / 2.0;
    let mut svg = format!(
        "<figure><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"changes with their intervals\">\
         <line class=\"axis\" x1=\"{middle}\" x2=\"{middle}\" y1=\"4\" y2=\"{}\"/>",
        height - 24.0
    );
    for (place, part) in [(LEFT, -1.0), (middle, 0.0), (WIDTH - RIGHT, 1.0)] {
        let anchor = if part > 0.0 { "end" } else { "middle" };
        let _ = write!(
            svg,
            "<text class=\"faint\" x=\"{place}\" y=\"{}\" text-anchor=\"{anchor}\">{:+.0} %</text>",
            height - 6.0,
            part * extent
        );
    }
    for (position, figure) in figures.iter().enumerate() {
        let y = ROW_HEIGHT * (position as f64 + 0.5) + 4.0;
        let sign = match figure.verdict {
            Verdict::Worse => "\u{25BC}",
            Verdict::Better => "\u{25B2}",
            Verdict::Noise => "\u{25CF}",
        };
        let _ = write!(
            svg,
            "<text x=\"4\" y=\"{:.1}\">{}</text><line class=\"interval\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{sign}</text>",
            y + 5.0,
            escape(&short_name(figure)),
            x(figure.low),
            x(figure.high),
            x(figure.change),
            y + 5.5
        );
    }
    svg + "</svg></figure>\n"
}

fn short_name(figure: &Judged) -> String {
    let name = format!("{}: {}", figure.phase, figure.figure);
    if name.chars().count() <= 30 { name } else { name.chars().take(29).chain(['\u{2026}']).collect() }
}
