//! A small SVG writer: panels of a rate over time, one below the other.
//!
//! The file stands alone (no script, font or style from elsewhere) and follows the reader's light or dark scheme by a media
//! query. Called by the benchmarks with finished series.

use std::fmt::Write as _;

/// A drawing of panels with a common heading.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) panels: Vec<Panel>,
}

/// One pair of axes: seconds to the right, a rate upwards from 0.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) rate_label: String,
    /// Time in seconds and rate, in order of time.
    pub(crate) points: Vec<(f64, f64)>,
    /// Length of the time axis in seconds.
    pub(crate) duration: f64,
    /// Drawn as a dashed line.
    pub(crate) mean: f64,
    /// Start and length in seconds of a time to shade, and what it is.
    pub(crate) shaded: Option<(f64, f64, String)>,
    /// A line of small print below the axis.
    pub(crate) note: String,
}

const WIDTH: f64 = 960.0;
const HEADING_HEIGHT: f64 = 64.0;
const PANEL_HEIGHT: f64 = 320.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 72.0;

/// Plain classes and no CSS variables, which viewers other than browsers seldom know.
const STYLE: &str = "\
text { font-family: system-ui, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif; font-size: 13px; fill: #1c2430; }
.ground { fill: #ffffff; } .heading { font-size: 18px; font-weight: 600; } .panel { font-size: 14px; font-weight: 600; }
.faint { fill: #5c6776; font-size: 12px; } .grid { stroke: #e3e7ec; stroke-width: 1; } .axis { stroke: #6b7686; stroke-width: 1; }
.line { fill: none; stroke: #0b62b8; stroke-width: 1.75; stroke-linejoin: round; } .area { fill: #0b62b8; fill-opacity: 0.14; }
.dot { fill: #0b62b8; } .mean { stroke: #a34a05; stroke-width: 1.25; stroke-dasharray: 6 4; }
.mean-label { fill: #a34a05; font-size: 12px; } .shade { fill: #d23b3b; fill-opacity: 0.18; } .shade-label { fill: #c22f2f; font-size: 12px; }
@media (prefers-color-scheme: dark) {
text { fill: #e8ecf1; } .ground { fill: #12161c; } .faint { fill: #97a2b1; } .grid { stroke: #2a323d; } .axis { stroke: #97a2b1; }
.line { stroke: #6cb4ff; } .area, .dot { fill: #6cb4ff; } .mean { stroke: #f0a35e; } .mean-label { fill: #f0a35e; }
.shade { fill: #ff7b7b; } .shade-label { fill: #ff9a9a; }
}
";

impl Chart {
    /// The SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let height = HEADING_HEIGHT + PANEL_HEIGHT * self.panels.len() as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"heading\" x=\"24\" y=\"30\">{title}</text>\n<text class=\"faint\" x=\"24\" y=\"50\">{subtitle}</text>\n",
            title = escape(&self.title),
            subtitle = escape(&self.subtitle),
        );
        for (position, panel) in self.panels.iter().enumerate() {
            let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", HEADING_HEIGHT + PANEL_HEIGHT * position as f64);
            panel.draw(&mut svg);
            svg.push_str("</g>\n");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The mapping from seconds and rates to places in a panel.
struct Axes {
    duration: f64,
    rate_max: f64,
}

impl Axes {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.duration).clamp(0.0, 1.0)
    }

    fn y(&self, rate: f64) -> f64 {
        let bottom = PANEL_HEIGHT - BOTTOM;
        bottom - (bottom - TOP) * (rate / self.rate_max).clamp(0.0, 1.0)
    }
}

impl Panel {
    fn draw(&self, svg: &mut String) {
        let highest = self.points.iter().map(|&(_, rate)| rate).fold(self.mean, f64::max);
        let rate_ticks = ticks(highest, 5);
        let rate_max = rate_ticks.last().copied().unwrap_or(1.0);
        let axes = Axes { duration: self.duration.max(0.001), rate_max };
        let _ = writeln!(svg, "<text class=\"panel\" x=\"{LEFT}\" y=\"20\">{}</text>", escape(&self.title));
        self.draw_axes(svg, &axes, &rate_ticks);
        self.draw_shaded(svg, &axes);
        self.draw_rate(svg, &axes);
        let mean_y = axes.y(self.mean);
        let _ = writeln!(
            svg,
            "<line class=\"mean\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{mean_y:.1}\" y2=\"{mean_y:.1}\"/>\n\
             <text class=\"mean-label\" x=\"{right}\" y=\"20\" text-anchor=\"end\">mean {mean}/s</text>",
            right = WIDTH - RIGHT,
            mean = grouped(self.mean),
        );
        let _ = writeln!(
            svg,
            "<text class=\"faint\" x=\"{LEFT}\" y=\"{}\">{}</text>",
            PANEL_HEIGHT - 14.0,
            escape(&self.note)
        );
    }

    fn draw_axes(&self, svg: &mut String, axes: &Axes, rate_ticks: &[f64]) {
        let (right, bottom) = (WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
        for &rate in rate_ticks {
            let y = axes.y(rate);
            let class = if rate == 0.0 { "axis" } else { "grid" };
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"faint\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                grouped(rate)
            );
        }
        for seconds in ticks(self.duration, 8).into_iter().filter(|&seconds| seconds <= self.duration) {
            let x = axes.x(seconds);
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"faint\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 18.0,
                plain(seconds)
            );
        }
        let middle = (TOP + bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">time (seconds)</text>\
             <text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 38.0,
            escape(&self.rate_label)
        );
    }

    fn draw_rate(&self, svg: &mut String, axes: &Axes) {
        if let [(seconds, rate)] = self.points[..] {
            let _ = writeln!(
                svg,
                "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
                axes.x(seconds),
                axes.y(rate)
            );
        }
        let mut path = String::new();
        for &(seconds, rate) in &self.points {
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", axes.x(seconds), axes.y(rate));
        }
        if let (Some(first), Some(last)) = (self.points.first(), self.points.last()) {
            let bottom = PANEL_HEIGHT - BOTTOM;
            let (left, right) = (axes.x(first.0), axes.x(last.0));
            let _ = writeln!(svg, "<path class=\"area\" d=\"{path}L{right:.1} {bottom}L{left:.1} {bottom}Z\"/>");
            let _ = writeln!(svg, "<path class=\"line\" d=\"{path}\"/>");
        }
    }

    fn draw_shaded(&self, svg: &mut String, axes: &Axes) {
        let Some((start, seconds, label)) = &self.shaded else { return };
        let (left, right) = (axes.x(*start), axes.x(start + seconds));
        let (anchor, x) = if left > WIDTH / 2.0 { ("end", right) } else { ("start", left) };
        let _ = writeln!(
            svg,
            "<rect class=\"shade\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>\
             <text class=\"shade-label\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            (right - left).max(1.0),
            PANEL_HEIGHT - BOTTOM - TOP,
            TOP - 4.0,
            escape(label)
        );
    }
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
