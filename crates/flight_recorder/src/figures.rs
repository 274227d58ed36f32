//! The figures of one reply of `serverStatus`: its numbers and texts, each by its path.
//!
//! Called by `chunk` when a moment is recorded.

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument};

/// How deep a reply may be. Deeper documents are left out.
const DEPTH_MAX: usize = 16;
/// What is kept of a text, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// A value at one moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A whole number; also a date in milliseconds, a timestamp's seconds, yes as 1 and no as 0.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// A text; a list of texts as one, with `; ` between them.
    Text(String),
}

impl Figure {
    /// As a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Figure::Whole(number) => Some(*number as f64),
            Figure::Number(number) => Some(*number),
            Figure::Text(_) => None,
        }
    }
}

/// The value at a path of names with dots between them.
pub fn value_at<'a>(status: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    match path.split_once('.') {
        None => status.get(path).ok().flatten(),
        Some((name, rest)) => value_at(status.get(name).ok().flatten()?.as_document()?, rest),
    }
}

/// The figure at a path, if there is one.
pub fn figure_at(status: &RawDocument, path: &str) -> Option<Figure> {
    figure(value_at(status, path)?)
}

/// Calls `take` with all figures of a reply and their paths, which have dots between their names. A list of documents
/// counts as how many there are.
pub(crate) fn visit_figures(status: &RawDocument, mut take: impl FnMut(&str, Figure)) {
    visit(status, &mut String::new(), 0, &mut take);
}

/// All figures of a reply.
#[cfg(test)]
pub(crate) fn figures(status: &RawDocument) -> Vec<(String, Figure)> {
    let mut found = Vec::new();
    visit_figures(status, |path, figure| found.push((path.to_owned(), figure)));
    found
}

fn visit(document: &RawDocument, path: &mut String, depth: usize, take: &mut impl FnMut(&str, Figure)) {
    if depth == DEPTH_MAX {
        return;
    }
    let above = path.len();
    for (name, value) in document.into_iter().flatten() {
        // What replies carry beside their content.
        if depth == 0 && (name.as_str() == "ok" || name.as_str().starts_with('$') || name.as_str() == "operationTime") {
            continue;
        }
        if above > 0 {
            path.push('.');
        }
        path.push_str(name.as_str());
        match value {
            RawBsonRef::Document(inner) => visit(inner, path, depth + 1, take),
            _ => figure(value).into_iter().for_each(|figure| take(path, figure)),
        }
        path.truncate(above);
    }
}

/// What a value counts as; `None`: as no figure.
pub fn figure(value: RawBsonRef<'_>) -> Option<Figure> {
    Some(match value {
        RawBsonRef::Int32(number) => Figure::Whole(i64::from(number)),
        RawBsonRef::Int64(number) => Figure::Whole(number),
        RawBsonRef::Boolean(yes) => Figure::Whole(i64::from(yes)),
        RawBsonRef::DateTime(time) => Figure::Whole(time.timestamp_millis()),
        RawBsonRef::Timestamp(time) => Figure::Whole(i64::from(time.time)),
        RawBsonRef::Double(number) => Figure::Number(number),
        RawBsonRef::String(text) => Figure::Text(cut(text)),
        RawBsonRef::Binary(bytes) if bytes.subtype == BinarySubtype::Uuid => Figure::Text(hex::encode(bytes.bytes)),
        RawBsonRef::Array(list) => {
            let items: Vec<_> = list.into_iter().flatten().collect();
            let texts: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
            match texts {
                Some(texts) if !texts.is_empty() => Figure::Text(cut(&texts.join("; "))),
                _ => Figure::Whole(items.len() as i64),
            }
        }
        _ => return None,
    })
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn numbers_and_texts_by_their_paths() {
        let status = rawdoc! {
            "host": "a", "uptime": 1.5, "localTime": bson::DateTime::from_millis(7), "ok": 1.0, "$clusterTime": {},
            "plimsoll": { "writes": { "areAccepted": true }, "setAside": [{}, {}], "heldBack": { "why": null, "explanations": ["x", "y"] } },
        };
        let whole = |number| Figure::Whole(number);
        let expected = [
            ("host", Figure::Text("a".to_owned())),
            ("uptime", Figure::Number(1.5)),
            ("localTime", whole(7)),
            ("plimsoll.writes.areAccepted", whole(1)),
            ("plimsoll.setAside", whole(2)),
            ("plimsoll.heldBack.explanations", Figure::Text("x; y".to_owned())),
        ];
        assert_eq!(figures(&status), expected.map(|(path, figure)| (path.to_owned(), figure)));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let status = rawdoc! { "text": "é".repeat(TEXT_BYTES_MAX) };
        let found = figures(&status);
        assert_eq!(found[0].1, Figure::Text("é".repeat(TEXT_BYTES_MAX / 2)));
    }
}
