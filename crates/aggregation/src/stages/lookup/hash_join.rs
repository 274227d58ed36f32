//! A foreign collection in memory, found by the hash of the joined field: for `$lookup` by equal fields when no index on the
//! foreign field serves.
//!
//! The hash only proposes: each document is put under every value that its field could be equal to, and the filter that
//! would have been sent to the collection decides.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{array_elements, get_field, hash_value};
use query_language::expression::{FieldPath, Value};
use query_language::filter::{Filter, FilterOptions};

use crate::context::Memory;
use crate::error::Result;
use crate::host::DocumentSource;

/// What a document costs beside its bytes.
const DOCUMENT_BYTES: usize = 2 * size_of::<RawDocumentBuf>() + 16;
/// What a value of a document costs.
const VALUE_BYTES: usize = 3 * size_of::<(u64, Vec<u32>)>() + 32;

/// The documents of the foreign collection.
pub(super) struct HashJoin {
    documents: Vec<RawDocumentBuf>,
    positions: HashMap<u64, Vec<u32>>,
    hasher: RandomState,
    /// Counts it for as long as it is there.
    _memory: Memory,
}

impl HashJoin {
    /// Reads all documents; `None` when they do not fit into the stage's memory.
    pub(super) fn build(
        foreign: &FieldPath,
        source: &mut dyn DocumentSource,
        mut memory: Memory,
    ) -> Result<Option<Self>> {
        let path: Vec<&str> = foreign.as_str().split('.').collect();
        let hasher = RandomState::new();
        let (mut documents, mut positions) = (Vec::new(), HashMap::<u64, Vec<u32>>::new());
        let (mut bytes, mut hashes) = (0, Vec::new());
        while let Some(document) = source.next()? {
            hashes.clear();
            collect(&document, &path, &mut |value| hashes.push(hash(&hasher, value)));
            hashes.sort_unstable();
            hashes.dedup();
            bytes += DOCUMENT_BYTES + document.as_bytes().len() + hashes.len() * VALUE_BYTES;
            if !memory.holds(bytes) {
                return Ok(None);
            }
            let Ok(position) = u32::try_from(documents.len()) else { return Ok(None) };
            hashes.iter().for_each(|hash| positions.entry(*hash).or_default().push(position));
            documents.push(document);
        }
        Ok(Some(Self { documents, positions, hasher, _memory: memory }))
    }

    /// The documents whose field equals the local value, as `condition` says, in the order of the collection.
    pub(super) fn matches(
        &self,
        local: &Value<'_>,
        condition: &RawDocument,
        options: &FilterOptions,
    ) -> Result<Vec<&RawDocumentBuf>> {
        let filter = Filter::parse(condition, options)?;
        let mut candidates: Vec<u32> = Vec::new();
        let mut propose = |value: RawBsonRef<'_>| {
            candidates.extend(self.positions.get(&hash(&self.hasher, value)).into_iter().flatten());
        };
        match local.get() {
            None => propose(RawBsonRef::Null),
            Some(RawBsonRef::Array(array)) => array_elements(array).for_each(|element| propose(element.value())),
            Some(value) => propose(value),
        }
        candidates.sort_unstable();
        candidates.dedup();
        let mut matches = Vec::new();
        for document in candidates.into_iter().filter_map(|position| self.documents.get(position as usize)) {
            if filter.matches(document)? {
                matches.push(document);
            }
        }
        Ok(matches)
    }
}

/// Null, missing and undefined are one.
fn hash(hasher: &RandomState, value: RawBsonRef<'_>) -> u64 {
    let mut state = hasher.build_hasher();
    let value = if matches!(value, RawBsonRef::Undefined) { RawBsonRef::Null } else { value };
    hash_value(value, &mut state);
    state.finish()
}

/// Every value that a filter on `path` may compare with; null wherever the path does not go on.
fn collect(document: &RawDocument, path: &[&str], found: &mut dyn FnMut(RawBsonRef<'_>)) {
    let Some((name, rest)) = path.split_first() else { return };
    match get_field(document, name) {
        Some(value) => follow(value, rest, found),
        None => found(RawBsonRef::Null),
    }
}

fn follow(value: RawBsonRef<'_>, path: &[&str], found: &mut dyn FnMut(RawBsonRef<'_>)) {
    match value {
        RawBsonRef::Array(array) if path.is_empty() => {
            found(value);
            array_elements(array).for_each(|element| found(element.value()));
        }
        value if path.is_empty() => found(value),
        RawBsonRef::Document(inner) => collect(inner, path, found),
        RawBsonRef::Array(array) => {
            let position = path.first().and_then(|name| name.parse::<usize>().ok());
            found(RawBsonRef::Null);
            for (index, element) in array_elements(array).enumerate() {
                if position == Some(index) {
                    follow(element.value(), path.get(1..).unwrap_or_default(), found);
                }
                if let RawBsonRef::Document(inner) = element.value() {
                    collect(inner, path, found);
                }
            }
        }
        _ => found(RawBsonRef::Null),
    }
}
