//! Conditions decided on index keys, before any document is read. Numbers, dates and the like cost no allocation.

use document::{FieldPath, ValueView, elements};
use index_key::{KeyPattern, KeyReader, KeyValue, decode_key};
use query_language::filter::FilterNode;
use smallvec::SmallVec;

use crate::error::Result;

pub(crate) struct KeyFilter {
    node: FilterNode,
    /// The field of the key that the condition is about, if it is a single one.
    sole_position: Option<usize>,
    text: Vec<u8>,
}

/// A component, with its text in a buffer of its own.
enum Component {
    Scalar(ValueView<'static>),
    Text(std::ops::Range<usize>),
    /// Only decoding tells.
    Opaque,
}

impl KeyFilter {
    pub(crate) fn new(node: FilterNode, pattern: &KeyPattern) -> KeyFilter {
        let path = node.path();
        let sole_position = pattern.fields().iter().position(|field| Some(&field.path) == path);
        KeyFilter { node, sole_position, text: Vec::new() }
    }

    #[inline]
    pub(crate) fn accepts(&mut self, pattern: &KeyPattern, key: &[u8]) -> Result<bool> {
        match self.sole_position {
            Some(position) => self.accepts_component(pattern, key, position),
            None => self.accepts_components(pattern, key),
        }
    }

    #[inline]
    fn accepts_component(&mut self, pattern: &KeyPattern, key: &[u8], position: usize) -> Result<bool> {
        let mut reader = KeyReader::new(pattern, key);
        for _ in 0..position {
            reader.skip_component();
        }
        self.text.clear();
        match component(reader.next(), &mut self.text) {
            Component::Scalar(view) => Ok(self.node.matches_view(view)?),
            Component::Text(range) => {
                Ok(self.node.matches_view(ValueView::String(self.text.get(range).unwrap_or_default()))?)
            }
            Component::Opaque => self.accepts_decoded(pattern, key),
        }
    }

    fn accepts_components(&mut self, pattern: &KeyPattern, key: &[u8]) -> Result<bool> {
        self.text.clear();
        let text = &mut self.text;
        let components: SmallVec<[Component; 8]> =
            KeyReader::new(pattern, key).map(|value| component(Some(value), text)).collect();
        if components.iter().any(|component| matches!(component, Component::Opaque)) {
            return self.accepts_decoded(pattern, key);
        }
        let lookup = |path: &FieldPath| {
            let position = pattern.fields().iter().position(|field| field.path == *path)?;
            match components.get(position)? {
                Component::Scalar(view) => Some(*view),
                Component::Text(range) => Some(ValueView::String(self.text.get(range.clone())?)),
                Component::Opaque => None,
            }
        };
        Ok(self.node.matches_keys(&lookup)?)
    }

    /// The types of numbers are of no account to conditions on keys, so no type bits are needed.
    fn accepts_decoded(&self, pattern: &KeyPattern, key: &[u8]) -> Result<bool> {
        let document = decode_key(pattern, key, &[])?;
        let lookup = |path: &FieldPath| {
            let position = pattern.fields().iter().position(|field| field.path == *path)?;
            elements(&document).nth(position).map(|element| element.view())
        };
        Ok(self.node.matches_keys(&lookup)?)
    }
}

#[inline]
fn component(value: Option<KeyValue<'_>>, text: &mut Vec<u8>) -> Component {
    let view = match value {
        Some(KeyValue::Int(number)) => ValueView::Int64(number),
        Some(KeyValue::Double(number)) => ValueView::Double(number),
        Some(KeyValue::ObjectId(id)) => ValueView::ObjectId(id),
        Some(KeyValue::Boolean(truth)) => ValueView::Boolean(truth),
        Some(KeyValue::Date(millis)) => ValueView::DateTime(millis),
        Some(KeyValue::Timestamp(stamp)) => ValueView::Timestamp(stamp),
        Some(KeyValue::Null) => ValueView::Null,
        Some(KeyValue::String(stored)) => {
            let start = text.len();
            stored.append_to(text);
            return Component::Text(start..text.len());
        }
        Some(KeyValue::Decimal { .. } | KeyValue::Other(_)) | None => return Component::Opaque,
    };
    Component::Scalar(view)
}
