//! Documents with `###` in the place of every value: what diagnostics show where values of documents are nobody's business.
//!
//! Used by the audit log, where `redactClientLogData` is set. Lines of the diagnostics log are the server's (`logging/line.rs`).

use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{array_elements, elements};

use crate::DocumentWriter;
use crate::request::document_writer::{ArrayWriter, document_of};

/// What stands for a value.
pub(crate) const REDACTED: &str = "###";

/// The document without its values, but for those of some fields of the outermost level.
pub(crate) fn redacted(document: &RawDocument, kept: &[&str]) -> RawDocumentBuf {
    // What is written is smaller than what there was, or nearly.
    document_of(|writer| write_fields(document, kept, writer)).unwrap_or_default()
}

fn write_fields(document: &RawDocument, kept: &[&str], writer: &mut DocumentWriter<'_>) {
    for element in elements(document) {
        match kept.contains(&element.name()) {
            true => writer.element(element),
            false => write_value(element.name(), element.value(), writer),
        }
    }
}

fn write_value(name: &str, value: RawBsonRef<'_>, writer: &mut DocumentWriter<'_>) {
    match value {
        RawBsonRef::Document(inner) => writer.document(name, |fields| write_fields(inner, &[], fields)),
        RawBsonRef::Array(inner) => writer.array(name, |list| write_elements(inner, list)),
        _ => writer.string(name, REDACTED),
    }
}

fn write_elements(array: &RawArray, list: &mut ArrayWriter<'_>) {
    for element in array_elements(array) {
        match element.value() {
            RawBsonRef::Document(inner) => list.push_document(|fields| write_fields(inner, &[], fields)),
            // An array in an array is one value.
            _ => list.push_string(REDACTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn names_stay_and_values_go() {
        let told = rawdoc! { "ns": "d.c", "args": { "find": "c", "filter": { "a": 5, "b": { "$in": [1, { "x": "y" }, [2]] } } } };
        let expected = rawdoc! {
            "ns": "d.c", "args": { "find": "###", "filter": { "a": "###", "b": { "$in": ["###", { "x": "###" }, "###"] } } }
        };
        assert_eq!(redacted(&told, &["ns"]), expected);
    }
}
