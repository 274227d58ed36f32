//! Charts of lines: in the reports, and as a file of their own that needs nothing else.
//!
//! Small enough for a phone, lines told apart by their dashes and by names at their ends' key. Called with finished series by
//! `report` and `output`.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 58.0;
/// More points than the picture has room for are drawn as the highest of each group.
const POINTS_MAX: usize = 600;

/// A line.
pub(crate) struct Series<'s> {
    pub(crate) name: &'s str,
    /// In order of their place on the horizontal axis.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of up to three lines.
pub(crate) struct LineChart<'s> {
    pub(crate) title: &'s str,
    pub(crate) unit: &'s str,
    pub(crate) across: &'s str,
    pub(crate) series: Vec<Series<'s>>,
    /// Times to shade, and what they are.
    pub(crate) shaded: Vec<(f64, f64)>,
    pub(crate) shaded_meaning: &'s str,
    /// By powers of ten.
    pub(crate) logarithmic: bool,
}

impl LineChart<'_> {
    /// Nothing when there is no point to draw.
    pub(crate) fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        format!(
            "<figure><figcaption>{title}</figcaption>{}<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{title}\">{}</svg></figure>\n",
            self.key(),
            self.drawing(),
            title = escape(self.title)
        )
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// Axes, lines and shades, within `WIDTH` and `HEIGHT`.
    fn drawing(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let right = points().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
        let highest = points().map(|point| point.1).fold(0.0, f64::max);
        let lowest = points().map(|point| point.1).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let scale = Scale::new(self.logarithmic, lowest, highest, right);
        let mut svg = String::new();
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
        svg
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

/// Of a file of its own: plain classes and no CSS variables, which viewers other than browsers seldom know.
const STYLE: &str = "\
text { font-family: system-ui, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif; font-size: 13px; fill: #1c2430; }
.ground { fill: #ffffff; } .heading { font-size: 16px; font-weight: 600; } .caption { font-weight: 600; }
.faint { fill: #5c6776; font-size: 12px; } .grid { stroke: #e3e7ec; } .axis { stroke: #6b7686; }
path { fill: none; stroke-width: 1.75; stroke-linejoin: round; } .shade { fill: #d23b3b; fill-opacity: 0.18; }
.s0 { stroke: #0b62b8; } .s1 { stroke: #a34a05; stroke-dasharray: 6 4; } .s2 { stroke: #5f3dc4; stroke-dasharray: 2 3; }
.m0 { fill: #0b62b8; } .m1 { fill: #a34a05; } .m2 { fill: #5f3dc4; }
@media (prefers-color-scheme: dark) {
text { fill: #e8ecf1; } .ground { fill: #12161c; } .faint { fill: #97a2b1; } .grid { stroke: #2a323d; } .axis { stroke: #97a2b1; }
.s0 { stroke: #6cb4ff; } .s1 { stroke: #f0a35e; } .s2 { stroke: #b9a5ff; } .m0 { fill: #6cb4ff; } .m1 { fill: #f0a35e; } .m2 { fill: #b9a5ff; }
.shade { fill: #ff7b7b; }
}
";
const HEADING_HEIGHT: f64 = 56.0;
const CAPTION_HEIGHT: f64 = 44.0;

/// Charts one below the other, under a common heading, as an SVG file.
pub(crate) fn standalone(title: &str, subtitle: &str, charts: &[LineChart<'_>]) -> String {
    let each = CAPTION_HEIGHT + HEIGHT;
    let height = HEADING_HEIGHT + each * charts.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"heading\" x=\"12\" y=\"24\">{title}</text>\n<text class=\"faint\" x=\"12\" y=\"44\">{}</text>\n",
        escape(subtitle),
        title = escape(title),
    );
    for (number, chart) in charts.iter().enumerate() {
        let top = HEADING_HEIGHT + each * number as f64;
        let shaded = if chart.shaded.is_empty() { String::new() } else { format!("shaded: {}", chart.shaded_meaning) };
        let _ = writeln!(
            svg,
            "<text class=\"caption\" x=\"12\" y=\"{}\">{}</text><text class=\"faint\" x=\"12\" y=\"{}\">{}</text>\
             <g transform=\"translate(0 {})\">{}</g>",
            top + 16.0,
            escape(chart.title),
            top + 34.0,
            escape(&shaded),
            top + CAPTION_HEIGHT,
            chart.drawing()
        );
    }
    svg + "</svg>\n"
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

/// Round values from 0 to the first at or past `highest`, about `count` of them, in steps of 1, 2 or 5 times a power of ten.
pub(crate) fn ticks(highest: f64, count: u32) -> Vec<f64> {
    if !(highest.is_finite() && highest > 0.0) {
        return vec![0.0, 1.0];
    }
    let rough = highest / f64::from(count);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|&step| step >= rough * 0.999_999);
    let step = step.unwrap_or(power * 10.0);
    let steps = (highest / step - 1e-9).ceil() as u32;
    (0..=steps).map(|position| f64::from(position) * step).collect()
}

/// A rate with its thousands grouped; decimals only below 10.
pub(crate) fn grouped(value: f64) -> String {
    if value.abs() < 10.0 {
        return plain((value * 100.0).round() / 100.0);
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A text inside of HTML or SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
