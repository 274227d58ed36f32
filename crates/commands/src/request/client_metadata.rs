//! What a client says of itself in its first `hello`.
//!
//! Read by fail points, `currentOp` and the records of operations.

use bson::RawDocument;

/// What the client's program calls itself, by what it said in its first `hello`.
pub(crate) fn application_name(metadata: &RawDocument) -> Option<&str> {
    let bson::RawBsonRef::Document(application) = document::get_field(metadata, "application")? else { return None };
    document::get_field(application, "name")?.as_str()
}
