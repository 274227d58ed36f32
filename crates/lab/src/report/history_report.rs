//! The report of many results over time.

use super::page::{Page, Tone};
use crate::chart::{LineChart, Series, grouped};
use crate::history::{History, Line};

pub(crate) fn history(history: &History) -> String {
    let mut page = Page::new("History: when did figures change?");
    let worse = history.changes.iter().filter(|change| change.is_worse).count();
    match (worse, history.changes.len()) {
        (0, 0) => page.banner(Tone::Neutral, "No figure has changed for good."),
        (0, better) => page.banner(Tone::Good, &format!("Nothing became worse; {better} changes for the better.")),
        (worse, _) => page.banner(Tone::Bad, &format!("{worse} changes for the worse; the worst come first.")),
    }
    page.faint(&format!("{} results, {} figures; made {}", history.results, history.lines.len(), history.made_at));
    for unreadable in &history.unreadable {
        page.faint(&format!("Left out: {unreadable}"));
    }
    let rows: Vec<Vec<String>> = history
        .changes
        .iter()
        .map(|change| {
            let (class, sign) =
                if change.is_worse { ("!worse", "\u{25BC} worse") } else { ("!better", "\u{25B2} better") };
            vec![
                format!("{class} {sign} {:+.1} %", change.change * 100.0),
                format!("{} / {} / {}", change.scenario, change.phase, change.figure),
                grouped(change.before),
                grouped(change.after),
                change.unit.clone(),
                change.at.clone(),
                format!("{} \u{2192} {}", change.build_before, change.build),
            ]
        })
        .collect();
    page.table(&["change", "figure", "#before", "#after", "unit", "since", "builds"], &rows);
    let has_changed = |line: &&Line| {
        history.changes.iter().any(|change| {
            (&change.scenario, &change.phase, &change.figure) == (&line.scenario, &line.phase, &line.figure)
        })
    };
    page.heading("Figures that changed");
    history.lines.iter().filter(has_changed).for_each(|line| draw(&mut page, line, history));
    page.folded("All other figures", |page| {
        history.lines.iter().filter(|line| !has_changed(line)).for_each(|line| draw(page, line, history));
    });
    page.finish(history)
}

fn draw(page: &mut Page, line: &Line, history: &History) {
    if line.points.is_empty() {
        return;
    }
    let points = line.points.iter().enumerate().map(|(number, point)| (number as f64 + 1.0, point.value));
    let is_its = |change: &&crate::history::Change| {
        (&change.scenario, &change.phase, &change.figure) == (&line.scenario, &line.phase, &line.figure)
    };
    let place = |at: &str| line.points.iter().position(|point| point.at == at).map(|position| position as f64);
    let marks = history.changes.iter().filter(is_its).filter_map(|change| place(&change.at));
    let title = format!("{} / {} / {} ({})", line.scenario, line.phase, line.figure, line.parameters);
    let chart = LineChart {
        title: &title,
        unit: &line.unit,
        across: "runs, oldest first",
        series: vec![Series { name: &line.figure, points: points.collect() }],
        shaded: marks.map(|mark| (mark + 0.4, mark + 0.6)).collect(),
        shaded_meaning: "where it changed",
        logarithmic: false,
    };
    page.raw(&chart.html());
}
