//! The catalog as it is kept in the engine's catalog tree. Formats are in `docs/file-format.md`, "Catalog".
//!
//! | key | value |
//! |---|---|
//! | 1 ‖ collection ident (8 bytes big-endian) | BSON: uuid, ns, options, tree, indexes, and aside where it is set aside |
//! | 2 ‖ collection ident | documents and bytes, 8 bytes little-endian each, as of the checkpoint's mark |
//! | 3 ‖ tree id (8 bytes big-endian) | nothing: the tree belongs to nobody any more and is to be dropped |
//! | 4 ‖ tree id (8 bytes big-endian) | nothing: the tree has what sessions have written, by session (see `transaction`) |

use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{RawArrayBuf, RawBinaryRef, RawBsonRef, RawDocument, RawDocumentBuf, Uuid};
use storage_engine::TreeId;

use super::shapes::IndexShapes;
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::index::{Index, IndexState};
use crate::namespace::Namespace;
use crate::options::CollectionOptions;
use crate::record_id::RecordId;

pub(crate) const COLLECTION_KEY: u8 = 1;
pub(crate) const COUNTS_KEY: u8 = 2;
pub(crate) const DROPPED_TREE_KEY: u8 = 3;
pub(crate) const SESSION_TREE_KEY: u8 = 4;

/// A key of the catalog tree.
pub(crate) fn key(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    if let Some(rest) = key.get_mut(1..) {
        rest.copy_from_slice(&number.to_be_bytes());
    }
    key
}

/// Splits a key of the catalog tree.
pub(crate) fn split_key(key: &[u8]) -> Result<(u8, u64)> {
    match key.split_first() {
        Some((kind, number)) if number.len() == 8 => {
            Ok((*kind, number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))))
        }
        _ => Err(CollectionError::Damaged("a catalog key has the wrong length".to_owned())),
    }
}

/// The value under `COUNTS_KEY`.
pub(crate) fn encode_counts(documents: i64, bytes: i64) -> [u8; 16] {
    let mut value = [0; 16];
    let (first, second) = value.split_at_mut(8);
    first.copy_from_slice(&documents.to_le_bytes());
    second.copy_from_slice(&bytes.to_le_bytes());
    value
}

/// Reads the value under `COUNTS_KEY`.
pub(crate) fn decode_counts(value: &[u8]) -> Result<(i64, i64)> {
    match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        (Some(documents), Some(bytes)) if value.len() == 16 => {
            Ok((i64::from_le_bytes(*documents), i64::from_le_bytes(*bytes)))
        }
        _ => Err(CollectionError::Damaged("the counts of a collection have the wrong length".to_owned())),
    }
}

/// The value under `COLLECTION_KEY`.
pub(crate) fn encode_collection(collection: &Collection) -> RawDocumentBuf {
    let definition = collection.definition();
    let mut indexes = RawArrayBuf::new();
    for index in collection.indexes().listed() {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("spec"), index.stored_specification());
        document.append(cstr!("tree"), index.tree().0 as i64);
        document.append(cstr!("ready"), index.state() == IndexState::Ready);
        if index.state() == IndexState::Building {
            document.append(cstr!("filled"), index.filled().0);
        }
        let mut multikey = RawArrayBuf::new();
        index.multikey_paths().into_iter().for_each(|components| multikey.push(components as i64));
        document.append(cstr!("multikey"), multikey);
        if let Some(reason) = index.aside().filter(|_| index.is_readable()) {
            document.append(cstr!("aside"), reason);
        }
        indexes.push(document);
    }
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("uuid"), uuid_value(&collection.uuid().bytes()));
    document.append(cstr!("ns"), definition.namespace.as_str());
    document.append(cstr!("options"), definition.options.to_document());
    document.append(cstr!("tree"), collection.record_tree().0 as i64);
    document.append(cstr!("indexes"), indexes);
    if let Some(reason) = collection.aside() {
        document.append(cstr!("aside"), reason);
    }
    document
}

/// What `encode_collection` wrote.
pub(crate) struct StoredCollection {
    pub(crate) uuid: Uuid,
    pub(crate) namespace: Namespace,
    pub(crate) options: CollectionOptions,
    pub(crate) record_tree: TreeId,
    pub(crate) indexes: Vec<Index>,
    /// Why it was set aside.
    pub(crate) aside: Option<String>,
    /// Why its options cannot be read, which are none then.
    pub(crate) unreadable_options: Option<String>,
}

/// Reads the value under `COLLECTION_KEY`.
pub(crate) fn decode_collection(value: &[u8], now_millis: i64, shapes: &mut IndexShapes) -> Result<StoredCollection> {
    let document = RawDocument::from_bytes(value).map_err(CollectionError::damaged("catalog entry"))?;
    let namespace = string_field(document, "ns")?;
    let indexes = match field(document, "indexes")? {
        RawBsonRef::Array(indexes) => indexes,
        _ => return Err(damaged("indexes")),
    };
    let mut decoded = Vec::new();
    for index in indexes {
        match index.map_err(CollectionError::damaged("catalog entry"))? {
            RawBsonRef::Document(index) => decoded.push(decode_index(index, namespace, now_millis, shapes)?),
            _ => return Err(damaged("indexes")),
        }
    }
    let options = CollectionOptions::parse(document_field(document, "options")?);
    let aside = match document::get_field(document, "aside") {
        Some(RawBsonRef::String(reason)) => Some(reason.to_owned()),
        _ => None,
    };
    let unreadable_options = options.as_ref().err().map(|error| format!("its options cannot be read: {error}"));
    Ok(StoredCollection {
        uuid: uuid_field(document, "uuid")?,
        namespace: Namespace::parse(namespace)?,
        options: options.unwrap_or_default(),
        record_tree: TreeId(number_field(document, "tree")?),
        indexes: decoded,
        aside,
        unreadable_options,
    })
}

fn decode_index(document: &RawDocument, namespace: &str, now_millis: i64, shapes: &mut IndexShapes) -> Result<Index> {
    let (shape, unreadable) = shapes.shape(document_field(document, "spec")?)?;
    let tree = TreeId(number_field(document, "tree")?);
    let state = match field(document, "ready")? {
        RawBsonRef::Boolean(true) => IndexState::Ready,
        _ => IndexState::Building,
    };
    let RawBsonRef::Array(multikey) = field(document, "multikey")? else { return Err(damaged("multikey")) };
    let multikey_paths: Vec<u64> = document::array_elements(multikey)
        .map(|components| match components.value() {
            RawBsonRef::Int64(components) => components as u64,
            _ => 0,
        })
        .collect();
    let index = Index::of_shape(shape, tree, state, &multikey_paths, now_millis);
    let aside = match document::get_field(document, "aside") {
        Some(RawBsonRef::String(reason)) => Some(reason),
        _ => unreadable.as_deref(),
    };
    aside.into_iter().for_each(|reason| index.set_aside(namespace, reason));
    // An older version did not say.
    if let Some(RawBsonRef::Int64(filled)) = document::get_field(document, "filled") {
        index.set_filled(RecordId(filled));
    }
    Ok(index)
}

fn damaged(name: &str) -> CollectionError {
    CollectionError::Damaged(format!("field '{name}' is missing or has the wrong type"))
}

fn field<'a>(document: &'a RawDocument, name: &str) -> Result<RawBsonRef<'a>> {
    document::get_field(document, name).ok_or_else(|| damaged(name))
}

pub(crate) fn string_field<'a>(document: &'a RawDocument, name: &str) -> Result<&'a str> {
    match field(document, name)? {
        RawBsonRef::String(text) => Ok(text),
        _ => Err(damaged(name)),
    }
}

pub(crate) fn document_field<'a>(document: &'a RawDocument, name: &str) -> Result<&'a RawDocument> {
    match field(document, name)? {
        RawBsonRef::Document(value) => Ok(value),
        _ => Err(damaged(name)),
    }
}

pub(crate) fn uuid_field(document: &RawDocument, name: &str) -> Result<Uuid> {
    match field(document, name)? {
        RawBsonRef::Binary(binary) => binary.bytes.try_into().map(Uuid::from_bytes).map_err(|_| damaged(name)),
        _ => Err(damaged(name)),
    }
}

/// A UUID as BSON has it: binary of subtype 4.
pub(crate) fn uuid_value(bytes: &[u8; 16]) -> RawBinaryRef<'_> {
    RawBinaryRef { subtype: BinarySubtype::Uuid, bytes }
}

fn number_field(document: &RawDocument, name: &str) -> Result<u64> {
    match field(document, name)? {
        RawBsonRef::Int64(number) => Ok(number as u64),
        _ => Err(damaged(name)),
    }
}
