//! The documents and indexes that simulated clients use: few fields, many shapes, so that everything about index entries
//! happens often (missing fields, arrays, values that compare equal across types, keys that repeat, values that overflow a page).

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use platform::{Random, SeededRandom};

use crate::model::Document;

/// How many indexes there are to create.
pub(crate) const INDEXES: u8 = 7;

/// The index whose uniqueness the model foretells.
pub(crate) const UNIQUE_INDEX: u8 = 4;

/// Whether the index has an entry for every document.
pub(crate) fn is_full(index: u8) -> bool {
    matches!(index, 0 | 2 | 5 | 6)
}

/// The name of an index.
pub(crate) fn index_name(index: u8) -> String {
    format!("i{index}")
}

/// The definition of an index.
pub(crate) fn index(index: u8) -> RawDocumentBuf {
    let name = index_name(index);
    match index {
        0 => rawdoc! { "key": { "a": 1 }, "name": name },
        1 => rawdoc! { "key": { "b": -1, "a.c": 1 }, "name": name, "sparse": true },
        2 => rawdoc! { "key": { "a": 1, "_id": 1 }, "name": name, "unique": true },
        3 => rawdoc! { "key": { "a": -1 }, "name": name, "partialFilterExpression": { "b": { "$gt": 0 } } },
        UNIQUE_INDEX => rawdoc! { "key": { "u": 1 }, "name": name, "unique": true, "sparse": true },
        5 => rawdoc! { "key": { "tags": 1 }, "name": name },
        _ => rawdoc! { "key": { "long": 1, "a": 1, "b": 1 }, "name": name },
    }
}

/// How large documents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Up to 200 bytes.
    Tiny,
    /// Up to 3 KB.
    Small,
    /// Some go over a page, one in thirty up to 1 MB.
    Mixed,
}

impl Sizes {
    fn draw(self, random: &SeededRandom) -> usize {
        let bound = match self {
            Sizes::Tiny => 100,
            Sizes::Small if random.chance(0.2) => 3_000,
            Sizes::Small => 200,
            Sizes::Mixed => match random.below(30) {
                0 => 1_000_000,
                1..=4 => 30_000,
                _ => 500,
            },
        };
        random.below(bound) as usize
    }
}

/// A new document. `ids` bounds the values that may clash.
pub(crate) fn draw(random: &SeededRandom, id: i32, ids: i32, sizes: Sizes) -> Arc<Document> {
    let mut raw = rawdoc! { "_id": id };
    let number = random.below(16) as i32;
    match random.below(9) {
        0 => raw.append(cstr!("a"), number),
        1 => raw.append(cstr!("a"), f64::from(number)),
        2 => raw.append(cstr!("a"), i64::from(number)),
        3 => raw.append(cstr!("a"), "text"),
        4 => raw.append(cstr!("a"), array(&[1, 2, number])),
        5 => raw.append(cstr!("a"), rawdoc! { "c": number }),
        6 => raw.append(cstr!("a"), RawArrayBuf::new()),
        _ => {}
    }
    // Two arrays in the fields of one index would be refused.
    let a_is_scalar = !matches!(raw.get("a"), Ok(Some(bson::RawBsonRef::Array(_))));
    match random.below(6) {
        0 => raw.append(cstr!("b"), bson::RawBson::Null),
        1 if a_is_scalar => raw.append(cstr!("b"), array(&[id, 7])),
        2 => {}
        _ => raw.append(cstr!("b"), number - 4),
    }
    let unique = random.chance(0.5).then(|| random.below(ids as u64 * 4) as i32);
    if let Some(unique) = unique {
        raw.append(cstr!("u"), unique);
    }
    if random.chance(0.4) {
        let tags: Vec<i32> = (0..random.below(12)).map(|_| random.below(40) as i32).collect();
        raw.append(cstr!("tags"), array(&tags));
    }
    if random.chance(0.3) {
        // Some index keys are nearly as long as can be.
        let longest = if random.chance(0.9) { 900 } else { 1_950 };
        let length = random.below(longest) as usize;
        raw.append(cstr!("long"), "prefix/".repeat(3) + &text(random, length));
    }
    let padding = sizes.draw(random);
    raw.append(cstr!("padding"), text(random, padding));
    Arc::new(Document { raw, unique })
}

/// The same document with another `a`: what most updates do.
pub(crate) fn redraw_field(random: &SeededRandom, old: &Document) -> Arc<Document> {
    let mut raw = RawDocumentBuf::new();
    let number = random.below(1_000) as i32;
    for element in old.raw.iter().flatten() {
        if element.0 == "a" {
            raw.append(cstr!("a"), number);
        } else {
            raw.append(element.0, element.1);
        }
    }
    Arc::new(Document { raw, unique: old.unique })
}

fn array(values: &[i32]) -> RawArrayBuf {
    RawArrayBuf::from_iter(values.iter().copied())
}

/// Letters: half of the time such that compression gains nothing.
fn text(random: &SeededRandom, length: usize) -> String {
    if random.chance(0.5) {
        return "p".repeat(length);
    }
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(b'0' + byte % 64)).collect()
}
