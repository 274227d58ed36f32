//! The drawing is well-formed, stands alone, and its ticks are round numbers that cover the data.

use super::*;

fn chart(points: Vec<(f64, f64)>) -> String {
    let chart = LineChart {
        title: "from <counters> & commands",
        unit: "documents updated / s",
        across: "time (seconds)",
        series: vec![Series { name: "updates", points }],
        shaded: vec![(1.0, 3.0)],
        shaded_meaning: "longest gap 2 s",
        logarithmic: false,
    };
    standalone("SERVER-44991 \"workload\"", "a < b", &[chart])
}

#[test]
fn ticks_are_round_and_cover_the_highest_value() {
    assert_eq!(ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(ticks(23_000.0, 5), [0.0, 5_000.0, 10_000.0, 15_000.0, 20_000.0, 25_000.0]);
    assert_eq!(ticks(0.0, 5), [0.0, 1.0]);
    assert_eq!(ticks(f64::NAN, 5), [0.0, 1.0]);
    for highest in [0.003, 0.9, 1.0, 7.7, 99.0, 100.0, 101.0, 1e6] {
        let ticks = ticks(highest, 5);
        assert!(
            *ticks.last().unwrap() >= highest * 0.999_999 && (3..=7).contains(&ticks.len()),
            "{highest}: {ticks:?}"
        );
    }
}

#[test]
fn numbers_are_grouped() {
    assert_eq!(grouped(1_234_567.4), "1,234,567");
    assert_eq!(grouped(999.6), "1,000");
    assert_eq!(grouped(12.0), "12");
    assert_eq!(grouped(0.5), "0.5");
    assert_eq!(grouped(0.0), "0");
}

#[test]
fn the_document_is_well_formed_and_stands_alone() {
    let svg = chart(vec![(0.5, 10_000.0), (1.5, 20_000.0), (2.5, 0.0), (3.5, 15_000.0)]);
    assert_balanced(&svg);
    assert!(svg.contains("prefers-color-scheme: dark"));
    assert!(svg.contains("time (seconds)") && svg.contains("documents updated / s"));
    assert!(svg.contains("a &lt; b") && svg.contains("&lt;counters&gt; &amp; commands"));
    assert!(!svg.contains("href") && !svg.contains("url(") && !svg.contains("<script"));
    assert_eq!(svg.matches("http").count(), 1, "only the name space");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn empty_and_single_series_draw() {
    for points in [vec![], vec![(0.1, 5.0)], vec![(0.0, 0.0), (1.0, 0.0)]] {
        let svg = chart(points);
        assert_balanced(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

/// Every element that opens closes, in order: enough of XML for what the writer emits.
fn assert_balanced(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') || open.last() == Some(&"style"), "stray bracket in {text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
