//! Documents with one path changed, copied element by element without decoding the rest.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use document::{Element, FieldPath, elements};
use query_language::growth::{value_bytes, write_value};

use crate::error::Result;

/// A document with the value at `path` set (`None` removes it). A value on the way that is not a document is replaced
/// by one, as MongoDB does for computed fields of stages.
pub(crate) fn with_path(
    document: &RawDocument,
    path: &FieldPath,
    value: Option<RawBsonRef<'_>>,
) -> Result<RawDocumentBuf> {
    let extra = 32 + path.as_str().len();
    let size = document.as_bytes().len() + extra + value.map_or(0, value_bytes);
    query_language::before_allocating_if_large(size)?;
    let mut out = Vec::with_capacity(size);
    write_changed(&mut out, Some(document), path, 0, value)?;
    Ok(RawDocumentBuf::from_bytes(out)?)
}

fn write_changed(
    out: &mut Vec<u8>,
    document: Option<&RawDocument>,
    path: &FieldPath,
    position: usize,
    value: Option<RawBsonRef<'_>>,
) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let name = path.name(position);
    let mut found = false;
    for element in document.into_iter().flat_map(elements) {
        if !found && element.name_bytes() == name.as_bytes() {
            found = true;
            write_field(out, Some(element), path, position, value)?;
        } else {
            copy_element(out, &element);
        }
    }
    if !found {
        write_field(out, None, path, position, value)?;
    }
    out.push(0);
    let length = (out.len() - start) as i32;
    if let Some(header) = out.get_mut(start..start + 4) {
        header.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

/// Writes the field that the component at `position` names.
fn write_field(
    out: &mut Vec<u8>,
    old: Option<Element<'_>>,
    path: &FieldPath,
    position: usize,
    value: Option<RawBsonRef<'_>>,
) -> Result<()> {
    let name = path.name(position);
    if position + 1 == path.len() {
        if let Some(value) = value {
            write_value(out, name.as_bytes(), value)?;
        }
        return Ok(());
    }
    let inner = old.and_then(|element| match element.value() {
        RawBsonRef::Document(inner) => Some(inner),
        _ => None,
    });
    if let (None, None) = (inner, value) {
        // Nothing to remove below; what stands there stays.
        if let Some(old) = old {
            copy_element(out, &old);
        }
        return Ok(());
    }
    out.push(ElementType::EmbeddedDocument as u8);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    write_changed(out, inner, path, position + 1, value)
}

fn copy_element(out: &mut Vec<u8>, element: &Element<'_>) {
    out.push(element.element_type as u8);
    out.extend_from_slice(element.name_bytes());
    out.push(0);
    out.extend_from_slice(element.value_bytes());
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn edited(document: Document, path: &str, value: Option<RawBsonRef<'_>>) -> Document {
        let document = RawDocumentBuf::try_from(document).unwrap();
        Document::try_from(with_path(&document, &FieldPath::new(path), value).unwrap()).unwrap()
    }

    #[test]
    fn paths_are_set_in_place() {
        let five = Some(RawBsonRef::Int32(5));
        assert_eq!(edited(doc! {"a": 1, "b": 2}, "a", five), doc! {"a": 5, "b": 2});
        assert_eq!(edited(doc! {"a": 1}, "c", five), doc! {"a": 1, "c": 5});
        assert_eq!(edited(doc! {"a": {"x": 1, "y": 2}}, "a.x", five), doc! {"a": {"x": 5, "y": 2}});
        assert_eq!(edited(doc! {"a": 1}, "a.x", five), doc! {"a": {"x": 5}});
        assert_eq!(edited(doc! {}, "a.b.c", five), doc! {"a": {"b": {"c": 5}}});
    }

    #[test]
    fn paths_are_removed() {
        assert_eq!(edited(doc! {"a": 1, "b": 2}, "a", None), doc! {"b": 2});
        assert_eq!(edited(doc! {"a": {"x": 1}}, "a.x", None), doc! {"a": {}});
        assert_eq!(edited(doc! {"a": 1}, "a.x", None), doc! {"a": 1});
    }
}
