//! The frame of a report: head, style, banner, sections, raw data. Nothing is loaded from anywhere.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

pub(super) use crate::chart::escape;

/// A page being written.
pub(super) struct Page {
    title: String,
    body: String,
}

/// How a banner is meant; it is said in words and by a sign as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Neutral,
}

/// Cells with more characters are kept from becoming very narrow.
const LONG_CELL: usize = 24;

const STYLE: &str = "\
:root { color-scheme: light dark; --ground: #ffffff; --text: #1c2430; --faint: #566272; --line: #dde2e8; --panel: #f5f7f9;
  --first: #0b62b8; --second: #a34a05; --third: #5f3dc4; --bad: #b3261e; --good: #1b6e3c; }
@media (prefers-color-scheme: dark) { :root { --ground: #12161c; --text: #e8ecf1; --faint: #9aa6b5; --line: #2c3440;
  --panel: #1a2028; --first: #6cb4ff; --second: #f0a35e; --third: #b9a5ff; --bad: #ff8a80; --good: #7ddc9f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.3rem 0 .3rem; }
p { margin: .4rem 0; } .faint { color: var(--faint); font-size: .9rem; } code { font-size: .92em; overflow-wrap: anywhere; }
.banner { border-left: .3rem solid var(--first); background: var(--panel); padding: .6rem .9rem; margin: .8rem 0; font-size: 1.05rem; overflow-wrap: anywhere; }
.banner.bad { border-color: var(--bad); } .banner.good { border-color: var(--good); }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; min-width: 20rem; }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--faint); font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
td.name { overflow-wrap: break-word; } td.long { overflow-wrap: anywhere; min-width: 9rem; } .worse, .better { font-weight: 600; white-space: nowrap; }
.worse { color: var(--bad); } .better { color: var(--good); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .6rem; margin: .8rem 0; }
.figure { background: var(--panel); padding: .5rem .7rem; border-radius: .3rem; } .figure b { display: block; font-size: 1.15rem; }
.figure span { color: var(--faint); font-size: .85rem; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .2rem; }
svg.chart { width: 100%; height: auto; max-width: 42rem; display: block; } svg.chart text { fill: var(--text); font-size: 14px; }
svg.chart .faint { fill: var(--faint); } svg.chart .grid { stroke: var(--line); } svg.chart .axis { stroke: var(--faint); }
svg.chart .s0 { stroke: var(--first); } svg.chart .s1 { stroke: var(--second); stroke-dasharray: 7 4; }
svg.chart .s2 { stroke: var(--third); stroke-dasharray: 2 3; } svg.chart path { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg.chart .shade { fill: var(--bad); fill-opacity: .16; } svg.chart .m0 { fill: var(--first); } svg.chart .m1 { fill: var(--second); } svg.chart .m2 { fill: var(--third); }
svg.chart .interval { stroke: var(--text); stroke-width: 2.5; } svg.chart .dot { fill: var(--text); }
.key { display: inline-block; margin-right: 1.2rem; font-size: .9rem; } .key svg { vertical-align: middle; width: 2.4rem; height: .7rem; }
.key .s0 { stroke: var(--first); } .key .s1 { stroke: var(--second); stroke-dasharray: 7 4; } .key .s2 { stroke: var(--third); stroke-dasharray: 2 3; }
object { width: 100%; min-width: 44rem; border: 1px solid var(--line); background: #fff; display: block; } details { margin: .6rem 0; } summary { cursor: pointer; }
@media (max-width: 36rem) { svg.chart text { font-size: 21px; } }
button { font: inherit; padding: .3rem .8rem; }
";

/// Hands out the raw data as a file; the only script of a report.
const SCRIPT: &str = "document.getElementById('save').addEventListener('click', () => {\
 const text = document.getElementById('data').textContent;\
 const link = document.createElement('a');\
 link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));\
 link.download = 'data.json'; link.click(); });";

impl Page {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: format!("<h1>{}</h1>\n", escape(title)) }
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.body += &format!("<h2>{}</h2>\n", escape(text));
    }

    pub(super) fn small_heading(&mut self, text: &str) {
        self.body += &format!("<h3>{}</h3>\n", escape(text));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.body += &format!("<p>{}</p>\n", escape(text));
    }

    pub(super) fn faint(&mut self, text: &str) {
        self.body += &format!("<p class=\"faint\">{}</p>\n", escape(text));
    }

    pub(super) fn banner(&mut self, tone: Tone, text: &str) {
        let (class, sign) = match tone {
            Tone::Good => ("good", "\u{25B2} "),
            Tone::Bad => ("bad", "\u{25BC} "),
            Tone::Neutral => ("", ""),
        };
        self.body += &format!("<div class=\"banner {class}\">{sign}{}</div>\n", with_code(text));
    }

    /// Large numbers with what they are.
    pub(super) fn figures(&mut self, figures: &[(String, String)]) {
        self.body += "<div class=\"figures\">";
        for (value, name) in figures {
            self.body += &format!("<div class=\"figure\"><b>{}</b><span>{}</span></div>", escape(value), escape(name));
        }
        self.body += "</div>\n";
    }

    /// A table; columns whose heading begins with `#` hold numbers. A cell may begin with `!worse ` or `!better `.
    pub(super) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) {
        self.body += "<div class=\"scroll\"><table><thead><tr>";
        for heading in headings {
            let (class, text) = heading.strip_prefix('#').map_or(("", *heading), |text| (" class=\"number\"", text));
            self.body += &format!("<th{class}>{}</th>", escape(text));
        }
        self.body += "</tr></thead><tbody>\n";
        for row in rows {
            self.body += "<tr>";
            for (cell, heading) in row.iter().zip(headings) {
                let (mark, text) = match cell.strip_prefix("!worse ") {
                    Some(text) => (" worse", text),
                    None => cell.strip_prefix("!better ").map_or(("", cell.as_str()), |text| (" better", text)),
                };
                let kind = match heading.starts_with('#') {
                    true => "number",
                    false if text.chars().count() > LONG_CELL => "name long",
                    false => "name",
                };
                self.body += &format!("<td class=\"{kind}{mark}\">{}</td>", escape(text));
            }
            self.body += "</tr>\n";
        }
        self.body += "</tbody></table></div>\n";
    }

    /// What is folded away until asked for.
    pub(super) fn folded(&mut self, summary: &str, write: impl FnOnce(&mut Self)) {
        self.body += &format!("<details><summary>{}</summary>\n", escape(summary));
        write(self);
        self.body += "</details>\n";
    }

    /// HTML made by this crate.
    pub(super) fn raw(&mut self, html: &str) {
        self.body += html;
    }

    /// A flame graph: interactive, in a frame of its own, and to be saved.
    pub(super) fn flame_graph(&mut self, caption: &str, svg: &str) {
        let address = format!("data:image/svg+xml;base64,{}", BASE64_STANDARD.encode(svg));
        let height = svg_height(svg).unwrap_or(600.0).min(1200.0);
        self.body += &format!(
            "<figure><figcaption>{caption}</figcaption><div class=\"scroll\"><object type=\"image/svg+xml\" data=\"{address}\" style=\"height:{height}px\">\
             flame graph</object></div><a download=\"flame-graph.svg\" href=\"{address}\">save the picture</a></figure>\n",
            caption = escape(caption)
        );
    }

    /// The document, with its raw data.
    pub(super) fn finish(self, data: &impl Serialize) -> String {
        let data = serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<main>\n{}<h2>Raw data</h2>\n<p><button id=\"save\">Save as JSON</button></p>\n</main>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            escape(&self.title),
            self.body
        )
    }
}

fn svg_height(svg: &str) -> Option<f64> {
    let tag = svg.split("<svg").nth(1)?.split('>').next()?;
    tag.split(" height=\"").nth(1)?.split('"').next()?.parse().ok()
}

/// Escaped, what stands between backticks as code.
fn with_code(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in text.split('`').enumerate() {
        match place % 2 {
            0 => html += &escape(part),
            _ => html += &format!("<code>{}</code>", escape(part)),
        }
    }
    html
}
