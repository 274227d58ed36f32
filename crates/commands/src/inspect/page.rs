//! One page, its keys and values decoded as far as its tree is known.

use bson::{Bson, Document, RawDocument, doc};
use index_key::{decode_key, decode_record_key, split_record_id};
use storage_engine::{EntryDescription, EntryValue, PageContent, PageDescription, Timestamp};

use super::trees::{TreeName, TreeNames};
use super::{hex, number, timestamp};

pub(super) fn describe(page: &PageDescription, names: &TreeNames) -> Document {
    let name = names.get(page.tree);
    let mut described = doc! {
        "page": number(page.page.0),
        "tree": number(page.tree.0),
        "offset": number(page.address.offset_bytes()),
        "bytes": number(page.address.length_bytes() as u64),
    };
    match name {
        Some(TreeName::Catalog) => drop(described.insert("catalog", true)),
        Some(TreeName::Sessions) => drop(described.insert("sessions", true)),
        Some(TreeName::Records { namespace }) => drop(described.insert("ns", namespace)),
        Some(TreeName::Index { namespace, index, .. }) => {
            described.insert("ns", namespace);
            described.insert("index", index);
        }
        None => {}
    }
    match &page.content {
        PageContent::Unknown(kind) => drop(described.insert("unknownKind", i32::from(*kind))),
        PageContent::SavedChanges { next, bytes } => {
            described.insert("kind", "savedChanges");
            described.insert("next", next.map_or(Bson::Null, |next| number(next.0)));
            described.insert("bytes", number(*bytes as u64));
        }
        PageContent::Overflow { next, payload } => {
            described.insert("kind", "overflow");
            described.insert("next", next.map_or(Bson::Null, |next| number(next.0)));
            described.insert("payload", hex(payload));
        }
        PageContent::Node { level, lower_fence, upper_fence, prefix, free_bytes, entries, rightmost } => {
            described.insert("kind", if *level == 0 { "leaf" } else { "inner" });
            described.insert("level", i32::from(*level));
            described.insert("lowerFence", hex(lower_fence));
            described.insert("upperFence", upper_fence.as_deref().map_or(Bson::Null, |fence| hex(fence).into()));
            described.insert("prefix", hex(prefix));
            described.insert("freeBytes", number(*free_bytes as u64));
            let entries = entries.iter().map(|entry| Bson::Document(describe_entry(entry, name)));
            described.insert("entries", entries.collect::<Vec<_>>());
            if let Some(rightmost) = rightmost {
                described.insert("rightmost", number(rightmost.0));
            }
        }
    }
    described
}

fn describe_entry(entry: &EntryDescription, name: Option<&TreeName>) -> Document {
    let mut described = match (&entry.value, name) {
        (EntryValue::Inline(value), Some(TreeName::Index { pattern: Some(pattern), .. })) => {
            decode_entry(&entry.key, |key| decode_key(pattern, key, value).ok())
        }
        (EntryValue::Child(_), _)
        | (_, Some(TreeName::Catalog | TreeName::Sessions | TreeName::Index { .. }) | None) => None,
        (_, Some(TreeName::Records { .. })) => decode_record_key(&entry.key).map(|id| doc! { "recordId": id }),
    }
    .unwrap_or_else(|| doc! { "key": hex(&entry.key) });
    match &entry.value {
        EntryValue::Child(child) => drop(described.insert("child", number(child.0))),
        EntryValue::Overflow { bytes, head } => {
            described.insert("overflow", doc! { "bytes": number((*bytes).into()), "head": number(head.0) });
        }
        // The values of an index are what its keys need to be decoded.
        EntryValue::Inline(_) if described.contains_key("keys") => {}
        EntryValue::Inline(value) => {
            let document = RawDocument::from_bytes(value).ok().and_then(|raw| Document::try_from(raw).ok());
            let shown = document.map_or_else(|| Bson::String(hex(value)), Bson::Document);
            described.insert(if matches!(shown, Bson::Document(_)) { "document" } else { "value" }, shown);
        }
    }
    if entry.is_ghost {
        described.insert("ghost", true);
    }
    if entry.since > 0 {
        described.insert("since", timestamp(Timestamp(entry.since)));
    }
    described
}

/// The key of an index entry: `{keys: {<path>: <value>, ...}, recordId}`.
fn decode_entry(key: &[u8], decode: impl Fn(&[u8]) -> Option<bson::RawDocumentBuf>) -> Option<Document> {
    let (index_key, record_id) = split_record_id(key)?;
    let keys = Document::try_from(&*decode(index_key)?).ok()?;
    Some(doc! { "keys": keys, "recordId": record_id })
}
