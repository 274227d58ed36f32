//! Sort patterns (`{a: 1, "b.c": -1}`) and the keys they give a document.
//!
//! Used by `$sort`, `$sortArray`, `$top` and their kin. A path through arrays sorts by its least value ascending and by
//! its greatest descending; a missing value sorts as null, an empty array as undefined, below null.

use std::cmp::Ordering;

use bson::raw::{RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use document::{array_elements, get_field, work};

use super::field_path::FieldPath;
use super::meta;
use super::metadata::{Keyword, Metadata, MetadataUse};
use super::number;
use super::order::compare;
use super::parse::show;
use crate::error::{ErrorKind, QueryError, Result};
use crate::growth;

/// A parsed sort pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SortPattern {
    parts: Vec<SortPart>,
}

/// One field of a sort pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SortPart {
    /// The path sorted by.
    pub path: FieldPath,
    /// From greatest to least.
    pub descending: bool,
    /// By what is known of a document, whatever is at the path.
    pub keyword: Option<Keyword>,
}

/// What is said of a part.
#[derive(PartialEq, Eq)]
enum SortBy {
    Ascending,
    Descending,
    /// From greatest to least.
    Known(Keyword),
}

/// The values a document is sorted by, one a part.
pub type SortKey = Vec<RawBson>;

impl SortPattern {
    /// Parses a pattern; directions are 1 and -1, or a score by `$meta`.
    pub fn parse(pattern: &RawDocument) -> Result<Self> {
        let mut parts = Vec::new();
        for element in pattern {
            let (name, direction) = element?;
            let path = FieldPath::parse(name.as_str())?;
            let by = parse_direction(name.as_str(), direction)?;
            let keyword = if let SortBy::Known(keyword) = by { Some(keyword) } else { None };
            parts.push(SortPart { path, descending: by != SortBy::Ascending, keyword });
        }
        if parts.is_empty() {
            return Err(QueryError::new(ErrorKind::Location(15976), "$sort stage must have at least one sort key"));
        }
        Ok(Self { parts })
    }

    /// The parts in order of significance.
    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// The key of a document.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn key(&self, document: &RawDocument) -> Result<SortKey> {
        self.key_with(document, &Metadata::default())
    }

    /// What it is by beside fields.
    pub fn metadata(&self) -> MetadataUse {
        let keywords = self.parts.iter().filter_map(|part| part.keyword);
        keywords.fold(MetadataUse::default(), |all, keyword| all | keyword.reads())
    }

    /// The key of a document of which this is known.
    ///
    /// # Errors
    /// The command is to stop; what it is by is not known.
    pub fn key_with(&self, document: &RawDocument, metadata: &Metadata) -> Result<SortKey> {
        let key = |part: &SortPart| {
            work::step()?;
            match part.keyword {
                Some(keyword) => Ok(known(keyword, metadata)?.into()),
                None => part.key(document),
            }
        };
        self.parts.iter().map(key).collect()
    }

    /// The value of a part in the key of a document of which this is known, without a copy.
    ///
    /// # Errors
    /// The command is to stop; what it is by is not known.
    pub fn value<'d>(
        &self,
        part: &SortPart,
        document: &'d RawDocument,
        metadata: &'d Metadata,
    ) -> Result<RawBsonRef<'d>> {
        work::step()?;
        match part.keyword {
            Some(keyword) => known(keyword, metadata),
            None => Ok(part.value(document)),
        }
    }

    /// The key of any value: one that is not a document has no fields.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn key_of_value(&self, value: RawBsonRef<'_>) -> Result<SortKey> {
        match value {
            RawBsonRef::Document(document) => self.key(document),
            _ => {
                work::done(self.parts.len())?;
                Ok(vec![RawBson::Null; self.parts.len()])
            }
        }
    }

    /// Orders two keys.
    pub fn compare(&self, left: &[RawBson], right: &[RawBson]) -> Ordering {
        for ((part, left), right) in self.parts.iter().zip(left).zip(right) {
            let ordering = compare(Some(left.as_raw_bson_ref()), Some(right.as_raw_bson_ref()));
            if ordering.is_ne() {
                return if part.descending { ordering.reverse() } else { ordering };
            }
        }
        Ordering::Equal
    }

    /// The pattern as the client wrote it.
    pub fn to_document(&self) -> Result<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        for part in &self.parts {
            let name = <&bson::raw::CStr>::try_from(part.path.as_str())?;
            match (part.keyword, part.descending) {
                (Some(keyword), _) => document.append(name, bson::rawdoc! { "$meta": keyword.name() }),
                (None, true) => document.append(name, -1),
                (None, false) => document.append(name, 1),
            }
        }
        Ok(document)
    }
}

fn known(keyword: Keyword, metadata: &Metadata) -> Result<RawBsonRef<'_>> {
    metadata.value(keyword).ok_or_else(|| keyword.not_available())
}

/// Scores are sorted by, the greatest first. What has a distance comes in the order of it already.
fn sort_keyword(value: RawBsonRef<'_>) -> Result<SortBy> {
    match meta::keyword_of(value)? {
        keyword @ (Keyword::TextScore | Keyword::Score) => Ok(SortBy::Known(keyword)),
        other => {
            let message = format!("a sort by {{$meta: \"{}\"}} is not implemented", other.name());
            Err(QueryError::new(ErrorKind::NotImplemented, message))
        }
    }
}

fn parse_direction(name: &str, direction: RawBsonRef<'_>) -> Result<SortBy> {
    match direction {
        RawBsonRef::Document(document) => match document.iter().next().transpose()? {
            Some((name, keyword)) if name == "$meta" => sort_keyword(keyword),
            _ => {
                let shown = show(direction);
                let message = format!("Illegal key in $sort specification: {name}: {shown}");
                Err(QueryError::new(ErrorKind::Location(15974), message))
            }
        },
        value if !number::is_number(value) => {
            let shown = show(value);
            let message = format!("Illegal key in $sort specification: {name}: {shown}");
            Err(QueryError::new(ErrorKind::Location(15974), message))
        }
        value => match number::to_f64(value) {
            Some(1.0) => Ok(SortBy::Ascending),
            Some(-1.0) => Ok(SortBy::Descending),
            _ => {
                let message = "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
                Err(QueryError::new(ErrorKind::Location(15975), message))
            }
        },
    }
}

impl SortPart {
    fn key(&self, document: &RawDocument) -> Result<RawBson> {
        let value = self.value(document);
        growth::before_copying(Some(value), 1)?;
        Ok(RawBson::from(value))
    }

    fn value<'d>(&self, document: &'d RawDocument) -> RawBsonRef<'d> {
        let mut best = Best { value: None, descending: self.descending };
        collect(document, self.path.as_path(), 0, &mut best);
        best.value.unwrap_or(RawBsonRef::Null)
    }
}

/// The least value seen, or the greatest when descending.
struct Best<'a> {
    value: Option<RawBsonRef<'a>>,
    descending: bool,
}

impl<'a> Best<'a> {
    fn offer(&mut self, value: RawBsonRef<'a>) {
        work::count(1);
        let replaces = self.value.is_none_or(|best| {
            let ordering = compare(Some(value), Some(best));
            if self.descending { ordering.is_gt() } else { ordering.is_lt() }
        });
        if replaces {
            self.value = Some(value);
        }
    }
}

/// Offers every value at the path from a component on; a document without it offers null.
fn collect<'a>(document: &'a RawDocument, path: &document::FieldPath, position: usize, best: &mut Best<'a>) {
    let last = position + 1 == path.len();
    work::note_search(document.as_bytes());
    match get_field(document, path.name(position)) {
        None => best.offer(RawBsonRef::Null),
        Some(value) if last => offer_leaf(value, best),
        Some(RawBsonRef::Document(inner)) => collect(inner, path, position + 1, best),
        Some(RawBsonRef::Array(array)) => collect_in_array(array, path, position + 1, best),
        Some(_) => best.offer(RawBsonRef::Null),
    }
}

/// Offers a value at the end of the path: each element of an array, undefined for an empty one.
fn offer_leaf<'a>(value: RawBsonRef<'a>, best: &mut Best<'a>) {
    match value {
        RawBsonRef::Array(array) if array.is_empty() => best.offer(RawBsonRef::Undefined),
        RawBsonRef::Array(array) => array_elements(array).for_each(|element| best.offer(element.value())),
        value => best.offer(value),
    }
}

/// Goes on into the documents of an array, or into the element that a numeric component names.
fn collect_in_array<'a>(array: &'a RawArray, path: &document::FieldPath, position: usize, best: &mut Best<'a>) {
    let named = path.position(position).and_then(|named| array_elements(array).nth(named));
    if let Some(element) = named {
        match element.value() {
            value if position + 1 == path.len() => offer_leaf(value, best),
            RawBsonRef::Document(inner) => collect(inner, path, position + 1, best),
            RawBsonRef::Array(inner) => collect_in_array(inner, path, position + 1, best),
            _ => best.offer(RawBsonRef::Null),
        }
        return;
    }
    if array.is_empty() {
        best.offer(RawBsonRef::Null);
    }
    for element in array_elements(array) {
        match element.value() {
            RawBsonRef::Document(inner) => collect(inner, path, position, best),
            _ => best.offer(RawBsonRef::Null),
        }
    }
}
