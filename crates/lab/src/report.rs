//! Reports as one HTML file each: readable offline, in light and dark, on a phone, and without colour; the raw data inside.
//!
//! `page` is the frame that all share, `chart` the line charts; each kind of report is a file of its own that turns one
//! result into sections.

mod bench_report;
mod certify_report;
mod compare_report;
mod diagnosis_report;
mod history_report;
mod page;
mod profile_report;

pub(crate) use bench_report::bench;
pub(crate) use certify_report::certificate;
pub(crate) use compare_report::comparison;
pub(crate) use diagnosis_report::diagnosis;
pub(crate) use history_report::history;
pub(crate) use profile_report::profile;

#[cfg(test)]
mod tests;
