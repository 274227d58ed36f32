//! Line charts for reports: small enough for a phone, lines told apart by their dashes and by names at their ends' key.

use std::fmt::Write as _;

use super::page::escape;
use crate::chart::{grouped, ticks};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 58.0;
/// More points than the picture has room for are drawn as the highest of each group.
const POINTS_MAX: usize = 600;

/// A line.
pub(super) struct Series<'s> {
    pub(super) name: &'s str,
    /// In order of their place on the horizontal axis.
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of up to three lines.
pub(super) struct LineChart<'s> {
    pub(super) title: &'s str,
    pub(super) unit: &'s str,
    pub(super) across: &'s str,
    pub(super) series: Vec<Series<'s>>,
    /// Times to shade, and what they are.
    pub(super) shaded: Vec<(f64, f64)>,
    pub(super) shaded_meaning: &'s str,
    /// By powers of ten.
    pub(super) logarithmic: bool,
}

impl LineChart<'_> {
    /// Nothing when there is no point to draw.
    pub(super) fn html(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        if points().next().is_none() {
            return String::new();
        }
        let right = points().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
        let highest = points().map(|point| point.1).fold(0.0, f64::max);
        let lowest = points().map(|point| point.1).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let scale = Scale::new(self.logarithmic, lowest, highest, right);
        let mut svg = format!(
            "<figure><figcaption>{}</figcaption>{}<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(self.title),
            self.key(),
            escape(self.title)
        );
        self.draw_axes(&mut svg, &scale);
        for (from, to) in &self.shaded {
            let (left, right) = (scale.x(*from), scale.x(*to));
            let _ = write!(
                svg,
                "<rect class=\"shade\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>",
                (right - left).max(1.5),
                HEIGHT - TOP - BOTTOM
            );
        }
        for (number, series) in self.series.iter().enumerate() {
            draw_line(&mut svg, number, &thinned(&series.points), &scale);
        }
        svg + "</svg></figure>\n"
    }

    fn key(&self) -> String {
        let mut key = String::new();
        if self.series.len() > 1 {
            for (number, series) in self.series.iter().enumerate() {
                key += &format!(
                    "<span class=\"key\"><svg viewBox=\"0 0 38 10\"><line class=\"s{number}\" x1=\"0\" x2=\"38\" y1=\"5\" y2=\"5\" stroke-width=\"3\"/></svg> {}</span>",
                    escape(series.name)
                );
            }
        }
        if !self.shaded.is_empty() {
            key += &format!("<span class=\"key faint\">shaded: {}</span>", escape(self.shaded_meaning));
        }
        key
    }

    fn draw_axes(&self, svg: &mut String, scale: &Scale) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in &scale.ticks {
            let y = scale.y(*value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"faint\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 5.0,
                grouped(*value)
            );
        }
        for value in ticks(scale.right, 5).into_iter().filter(|value| *value <= scale.right * 1.0001) {
            let x = scale.x(value);
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/><text class=\"faint\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 23.0,
                grouped(value)
            );
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"faint\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text><text class=\"faint\" x=\"{LEFT}\" y=\"{}\">{}</text>",
            HEIGHT - 8.0,
            escape(self.across),
            HEIGHT - 8.0,
            escape(self.unit)
        );
    }
}

struct Scale {
    logarithmic: bool,
    bottom: f64,
    top: f64,
    right: f64,
    ticks: Vec<f64>,
}

impl Scale {
    fn new(logarithmic: bool, lowest: f64, highest: f64, right: f64) -> Self {
        if logarithmic && lowest.is_finite() && highest > 0.0 {
            let (first, last) = (lowest.log10().floor(), highest.log10().ceil().max(lowest.log10().floor() + 1.0));
            let ticks = (0..=(last - first) as i32).map(|power| 10_f64.powf(first + f64::from(power))).collect();
            return Self { logarithmic, bottom: first, top: last, right, ticks };
        }
        let ticks = ticks(highest, 4);
        let top = ticks.last().copied().unwrap_or(1.0);
        Self { logarithmic: false, bottom: 0.0, top, right, ticks }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (value / self.right).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-9).log10() } else { value };
        let part = ((value - self.bottom) / (self.top - self.bottom).max(1e-9)).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part
    }
}

fn draw_line(svg: &mut String, number: usize, points: &[(f64, f64)], scale: &Scale) {
    let mut path = String::new();
    for (across, value) in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", scale.x(*across), scale.y(*value));
    }
    let _ = write!(svg, "<path class=\"s{number}\" d=\"{path}\"/>");
    // Few points are marked, so that a single one is seen at all.
    if points.len() <= 40 {
        for (across, value) in points {
            let _ = write!(
                svg,
                "<circle class=\"m{number}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                scale.x(*across),
                scale.y(*value)
            );
        }
    }
}

/// The highest of each group of neighbours: a spike must not vanish.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    let highest = |points: &[(f64, f64)]| points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(group).filter_map(highest).collect()
}
