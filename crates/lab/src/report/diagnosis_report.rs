//! The report of a server's recorded figures.

use flight_recorder::Recording;
use flight_recorder::patterns::{Finding, Severity};

use super::page::{Page, Tone};
use crate::chart::{LineChart, Series, grouped};
use crate::diagnose::{CHARTS, Chart, Diagnosis, Line, Shown};

const SECONDS: f64 = 1_000.0;
/// Up to so many of a unit the horizontal axis is in that unit.
const AXES: [(f64, f64, &str); 3] =
    [(600.0, SECONDS, "seconds"), (600.0, 60.0 * SECONDS, "minutes"), (480.0, 3_600.0 * SECONDS, "hours")];
const DAYS: (f64, &str) = (86_400.0 * SECONDS, "days");

pub(crate) fn diagnosis(diagnosis: &Diagnosis, recording: &Recording, findings: &[Finding]) -> String {
    let mut page = Page::new(&format!("What {} went through", diagnosis.host));
    let severe = findings.iter().filter(|finding| finding.severity == Severity::Severe).count();
    match (severe, findings.len() - severe) {
        (0, 0) => page.banner(Tone::Good, "Nothing wrong is seen."),
        (0, warnings) => page.banner(Tone::Neutral, &format!("{warnings} warnings; clients felt none of it.")),
        (severe, warnings) => {
            page.banner(Tone::Bad, &format!("{severe} times clients felt something; {warnings} warnings beside."))
        }
    }
    page.figures(&[
        (grouped(diagnosis.moments as f64), "seconds recorded".to_owned()),
        (diagnosis.starts.len().to_string(), "starts meanwhile".to_owned()),
        (severe.to_string(), "severe findings".to_owned()),
        ((findings.len() - severe).to_string(), "warnings".to_owned()),
    ]);
    page.faint(&format!("From {} to {}, in UTC; made {}", diagnosis.from, diagnosis.to, diagnosis.made_at));
    diagnosis.starts.iter().for_each(|start| page.faint(&format!("The server was started {start}.")));
    diagnosis.unreadable.iter().for_each(|reason| page.faint(&format!("Left out: {reason}")));
    if !findings.is_empty() {
        page.heading("What was seen, the worst first");
        page.table(&["how bad", "from", "to", "what", "what to do"], &rows(diagnosis));
    }
    held_back(&mut page, diagnosis, recording);
    page.heading("Figures");
    CHARTS.iter().for_each(|chart| draw(&mut page, chart, recording, findings));
    page.finish(diagnosis)
}

fn rows(diagnosis: &Diagnosis) -> Vec<Vec<String>> {
    let row = |found: &crate::diagnose::Found| {
        let sign = if found.is_severe { "!worse \u{25BC} severe" } else { "warning" };
        vec![sign.to_owned(), found.from.clone(), found.to.clone(), found.what.clone(), found.advice.to_owned()]
    };
    diagnosis.findings.iter().map(row).collect()
}

/// What held writes back, for how long and why.
fn held_back(page: &mut Page, diagnosis: &Diagnosis, recording: &Recording) {
    let causes: Vec<_> = diagnosis.held_back.iter().filter(|(_, (share, _))| *share > 0.0).collect();
    if causes.is_empty() {
        return;
    }
    page.heading("What held writes back");
    let row = |(cause, (share, most)): (&String, &(f64, f64))| {
        vec![cause.clone(), format!("{:.1}", share * 100.0), format!("{:.0}", most * 100.0)]
    };
    page.table(&["cause", "#% of the time", "#% at most"], &causes.into_iter().map(row).collect::<Vec<_>>());
    let mut said: Vec<&str> = Vec::new();
    for (_, text) in recording.texts("plimsoll.heldBack.explanations") {
        if !said.contains(&text.as_str()) {
            said.push(text);
        }
    }
    const SAID_MAX: usize = 20;
    said.iter().take(SAID_MAX).for_each(|text| page.faint(text));
}

fn draw(page: &mut Page, chart: &Chart, recording: &Recording, findings: &[Finding]) {
    let (Some(first), Some(last)) = (recording.times().first(), recording.times().last()) else { return };
    let length = (last - first) as f64;
    let axis = AXES.iter().find(|(most, unit, _)| length / unit <= *most);
    let (unit, name) = axis.map_or(DAYS, |(_, unit, name)| (*unit, *name));
    let across = |time: i64| (time - first) as f64 / unit;
    let series = chart.lines.iter().map(|line| {
        let points = points(line, recording).into_iter().map(|(time, value)| (across(time), value * line.unit));
        Series { name: line.name, points: points.collect() }
    });
    let severe = findings.iter().filter(|finding| finding.severity == Severity::Severe);
    let drawn = LineChart {
        title: chart.title,
        unit: chart.unit,
        across: &format!("{name} since the beginning"),
        series: series.filter(|series| !series.points.is_empty()).collect(),
        shaded: severe.map(|finding| (across(finding.from), across(finding.to))).collect(),
        shaded_meaning: "severe findings",
        logarithmic: false,
    };
    page.raw(&drawn.html());
}

fn points(line: &Line, recording: &Recording) -> Vec<(i64, f64)> {
    match line.shown {
        Shown::Value => recording.series(line.path).to_vec(),
        Shown::Rate => recording.rate(line.path),
        Shown::Per(path) => {
            let counts = recording.rate(path);
            let quotient =
                |((time, sum), (_, count)): ((i64, f64), (i64, f64))| (count > 0.0).then(|| (time, sum / count));
            recording.rate(line.path).into_iter().zip(counts).filter_map(quotient).collect()
        }
    }
}
