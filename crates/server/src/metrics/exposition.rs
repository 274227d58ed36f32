//! The text that Prometheus reads, made of the figures of `serverStatus`.
//!
//! Called by `metrics`. The format: <https://prometheus.io/docs/instrumenting/exposition_formats/>. A figure that the server does not have is
//! left out, and so is a family without figures: a zero would be read as a fact.

use std::fmt::{self, Display, Write};

use bson::{RawBsonRef, RawDocument};
use flight_recorder::{figure, figure_at, value_at};

use super::families::{FAMILIES, Family, Samples};

/// The ranges of the histograms: powers of two of microseconds, from 16 us to a minute.
const BUCKET_POWERS: std::ops::RangeInclusive<u32> = 4..=26;
const MICRO: f64 = 1e-6;

/// All families, as far as `status` has their figures.
pub(super) fn text(status: &RawDocument) -> String {
    let mut out = String::new();
    for family in FAMILIES {
        let before = out.len();
        let kind = family.kind.name();
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP {} {}\n# TYPE {} {kind}", family.name, family.help, family.name);
        let begin = out.len();
        family.samples.iter().for_each(|samples| write_samples(&mut out, family, samples, status));
        if out.len() == begin {
            out.truncate(before);
        }
    }
    out
}

fn write_samples(out: &mut String, family: &Family, samples: &Samples, status: &RawDocument) {
    match *samples {
        Samples::Number { labels, path, unit } => {
            if let Some(value) = number_at(status, path) {
                sample(out, family.name, labels, &[], value * unit);
            }
        }
        Samples::Facts(facts) => {
            let labels: Vec<_> =
                facts.iter().filter_map(|(label, path)| Some((*label, value_at(status, path)?.as_str()?))).collect();
            sample(out, family.name, "", &labels, 1.0);
        }
        Samples::Each { label, path, inner, unit } => {
            let Some(RawBsonRef::Document(fields)) = value_at(status, path) else { return };
            for (name, value) in fields.into_iter().flatten() {
                let found = match inner {
                    "" => figure(value),
                    inner => value.as_document().and_then(|field| figure_at(field, inner)),
                };
                if let Some(value) = found.and_then(|figure| figure.number()) {
                    sample(out, family.name, "", &[(label, name.as_str())], value * unit);
                }
            }
        }
        Samples::Latencies { label, path } => {
            let Some(RawBsonRef::Document(kinds)) = value_at(status, path) else { return };
            for (name, value) in kinds.into_iter().flatten() {
                if let RawBsonRef::Document(latency) = value {
                    write_histogram(out, family.name, (label, name.as_str()), latency);
                }
            }
        }
    }
}

/// Cumulative counts: a range whose lower bound is a power of two ends where the next begins.
fn write_histogram(out: &mut String, family: &str, label: (&str, &str), latency: &RawDocument) {
    let (Some(micros), Some(operations)) = (number_at(latency, "latency"), number_at(latency, "ops")) else { return };
    let list = latency.get_array("histogram").ok().into_iter().flatten().flatten();
    let range =
        |range: RawBsonRef<'_>| number_at(range.as_document()?, "micros").zip(number_at(range.as_document()?, "count"));
    let ranges: Vec<(f64, f64)> = list.filter_map(range).collect();
    let name = format!("{family}_bucket");
    for power in BUCKET_POWERS {
        let end = f64::from(1_u32 << power);
        let count: f64 = ranges.iter().filter(|(from, _)| *from < end).map(|(_, count)| count).sum();
        sample(out, &name, "", &[label, ("le", &(end * MICRO).to_string())], count);
    }
    sample(out, &name, "", &[label, ("le", "+Inf")], operations);
    sample(out, &format!("{family}_sum"), "", &[label], micros * MICRO);
    sample(out, &format!("{family}_count"), "", &[label], operations);
}

fn sample(out: &mut String, name: &str, fixed: &str, labels: &[(&str, &str)], value: f64) {
    let _ = write!(out, "{name}");
    if !fixed.is_empty() || !labels.is_empty() {
        let written = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", Escaped(value)));
        let all: Vec<String> = (!fixed.is_empty()).then(|| fixed.to_owned()).into_iter().chain(written).collect();
        let _ = write!(out, "{{{}}}", all.join(","));
    }
    let _ = writeln!(out, " {value}");
}

/// A label's value as it stands between quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => formatter.write_str("\\\\"),
            '"' => formatter.write_str("\\\""),
            '\n' => formatter.write_str("\\n"),
            other => formatter.write_char(other),
        })
    }
}

fn number_at(document: &RawDocument, path: &str) -> Option<f64> {
    figure_at(document, path)?.number()
}

#[cfg(test)]
mod tests;
