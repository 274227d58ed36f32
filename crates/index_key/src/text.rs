//! The keys of text indexes: for each term of a document the term and its score, between the values of the other
//! fields.
//!
//! Called by `key_pattern` and `generate`. Fields with the value `"text"` stand side by side, and in their place the
//! index has `_fts` and `_ftsx`.
//!
//! ```text
//! {a: 1, t: "text", b: 1} is {a: 1, _fts: "text", _ftsx: 1, b: 1}
//! {a: 5, t: "cakes and ale", b: 7}   (5, "ale", 0.75, 7) (5, "cake", 0.75, 7)
//! ```

use std::borrow::Cow;
use std::fmt::Write;

use bson::RawDocument;
use document::{ValueView, elements, elements_of_bytes, work};
use sha2::{Digest, Sha256};
use text_search::{TextDefinition, TextError, scores};

use crate::encode::{encode_stored, encode_view};
use crate::error::KeyError;
use crate::generate::{Found, follow};
use crate::key_pattern::{Direction, FieldKind, KeyField, KeyPattern, parse_field};
use crate::key_set::KeySet;

/// What stands in the place of the texts: the term, and its score.
const TERM_FIELD: &str = "_fts";
const SCORE_FIELD: &str = "_ftsx";

/// Longer terms are in keys by their beginning and a digest.
const TERM_BYTES_MAX: usize = 128;
/// Bytes of such a beginning, at most, and of the digest.
const BEGINNING_BYTES_MAX: usize = 96;
const DIGEST_BYTES: usize = 16;

/// Whether a key pattern is that of a text index.
pub(crate) fn is_text(document: &RawDocument) -> bool {
    elements(document).any(|element| element.value().as_str() == Some("text"))
}

/// The fields of keys, and of the document those that are named as texts.
pub(crate) fn parse(document: &RawDocument) -> Result<(Box<[KeyField]>, TextDefinition), KeyError> {
    let mut fields: Vec<KeyField> = Vec::new();
    let mut texts = Vec::new();
    let mut is_behind_texts = false;
    for element in elements(document) {
        let name = element.name();
        if element.value().as_str() != Some("text") {
            if name == SCORE_FIELD && fields.last().is_some_and(|field| field.kind == FieldKind::Score) {
                continue;
            }
            is_behind_texts |= fields.iter().any(|field| field.kind == FieldKind::Term);
            let field = parse_field(element)?;
            if field.kind != FieldKind::Ordered {
                return refused("a text index can only have ascending and descending fields beside its texts");
            }
            fields.push(field);
            continue;
        }
        if is_behind_texts {
            return refused("'text' fields in index must all be adjacent");
        }
        if name != TERM_FIELD {
            texts.push(name);
        }
        if !fields.iter().any(|field| field.kind == FieldKind::Term) {
            fields.push(placeholder(TERM_FIELD, FieldKind::Term));
            fields.push(placeholder(SCORE_FIELD, FieldKind::Score));
        }
    }
    Ok((fields.into(), TextDefinition::of_fields(texts)?))
}

fn refused<T>(message: &str) -> Result<T, KeyError> {
    Err(KeyError::CannotCreateIndex(message.to_owned()))
}

fn placeholder(name: &str, kind: FieldKind) -> KeyField {
    KeyField { path: document::FieldPath::new(name), direction: Direction::Ascending, kind }
}

/// The pattern as the catalog has it.
pub(crate) fn canonical(pattern: &KeyPattern) -> bson::RawDocumentBuf {
    let mut document = bson::RawDocumentBuf::new();
    for field in pattern.fields() {
        let Ok(name) = <&bson::raw::CStr>::try_from(field.path.as_str()) else { continue };
        match (field.kind, field.direction) {
            (FieldKind::Term, _) => document.append(name, "text"),
            (_, Direction::Ascending) => document.append(name, 1),
            (_, Direction::Descending) => document.append(name, -1),
        }
    }
    document
}

/// A term as keys have it.
pub fn key_term(term: &str) -> Cow<'_, str> {
    if term.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(term);
    }
    let mut end = BEGINNING_BYTES_MAX;
    while !term.is_char_boundary(end) {
        end -= 1;
    }
    let mut shortened = term.get(..end).unwrap_or_default().to_owned();
    for byte in Sha256::digest(term).iter().take(DIGEST_BYTES) {
        // Writing to a string cannot fail.
        let _ = write!(shortened, "{byte:02x}");
    }
    Cow::Owned(shortened)
}

/// Writes the keys of `document` into `keys`, sorted; none for a document without terms.
pub(crate) fn expand(
    pattern: &KeyPattern,
    definition: &TextDefinition,
    document: &RawDocument,
    keys: &mut KeySet,
) -> Result<(), KeyError> {
    let scores = scores(definition, document, &|bytes| keys.has_room(bytes))?;
    if scores.is_empty() {
        return Ok(());
    }
    let mut others = Vec::new();
    for field in pattern.fields() {
        others.push(if field.kind == FieldKind::Ordered { find(field, document)? } else { Found::Missing });
    }
    for (term, score) in &scores {
        work::step()?;
        let (out, type_bits) = keys.begin_key();
        for (field, other) in pattern.fields().iter().zip(&others) {
            match (field.kind, other) {
                (FieldKind::Term, _) => {
                    encode_view(out, type_bits, ValueView::String(key_term(term).as_bytes()), field.direction, None);
                }
                (FieldKind::Score, _) => {
                    encode_view(out, type_bits, ValueView::Double(*score), field.direction, None);
                }
                (_, Found::Value(element_type, stored)) => {
                    encode_stored(out, type_bits, *element_type, stored, field.direction, None);
                }
                _ => encode_view(out, type_bits, ValueView::Null, field.direction, None),
            }
        }
        keys.finish_key();
        keys.check_limits()?;
    }
    Ok(keys.sort()?)
}

/// The value of a field beside the texts, which may not be in an array.
fn find<'d>(field: &KeyField, document: &'d RawDocument) -> Result<Found<'d>, KeyError> {
    work::search(document.as_bytes())?;
    let first = elements_of_bytes(document.as_bytes()).find_named(field.path.first().as_bytes());
    let Some(first) = first else { return Ok(Found::Missing) };
    match follow(first.element_type, first.value_bytes(), &field.path)? {
        Found::Array => Err(KeyError::ArrayBesideText { field: field.path.as_str().to_owned() }),
        found => Ok(found),
    }
}

impl From<TextError> for KeyError {
    fn from(error: TextError) -> KeyError {
        match error {
            TextError::Definition(message) => KeyError::CannotCreateIndex(message),
            TextError::NoMemory { bytes } => KeyError::NoMemory { bytes },
            TextError::Interrupted(interruption) => KeyError::Interrupted(interruption),
            other => KeyError::Text(other),
        }
    }
}
