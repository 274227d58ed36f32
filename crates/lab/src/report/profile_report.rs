//! The report of a profile.

use serde::Serialize;

use super::page::Page;
use crate::profile::table::FrameShare;

/// Its raw data.
#[derive(Debug, Serialize)]
struct Data<'d> {
    title: &'d str,
    by_self: &'d [FrameShare],
    by_frame: &'d [FrameShare],
    folded: &'d str,
}

/// `by_self` and `by_frame` are the tables, `svg` the flame graph.
pub(crate) fn profile(title: &str, by_self: &[FrameShare], by_frame: &[FrameShare], folded: &str, svg: &str) -> String {
    let mut page = Page::new(&format!("Profile: {title}"));
    page.flame_graph("Flame graph: the width of a frame is its share of the samples", svg);
    for (heading, rows) in [
        ("The first functions by themselves", by_self),
        ("The first functions in the one place of the flame graph where they are largest", by_frame),
    ] {
        page.heading(heading);
        let percent = |value: f64| format!("{value:.2} %");
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.name.clone(),
                    percent(row.own_percent),
                    percent(row.total_percent),
                    percent(row.largest_percent),
                ]
            })
            .collect();
        page.table(&["function", "#self", "#total", "#frame"], &rows);
    }
    page.finish(&Data { title, by_self, by_frame, folded })
}
