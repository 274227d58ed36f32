//! The buffers of one writer, reused from change to change.

use bson::RawDocument;
use collection::DocumentChange;

use crate::unique::UniqueBuffers;

/// What a thread needs to change documents. Make one per worker or operation and pass it to every call.
#[derive(Default)]
pub struct WriteContext {
    pub(crate) change: DocumentChange,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
    pub(crate) unique: UniqueBuffers,
}

impl WriteContext {
    /// Empty buffers.
    pub fn new() -> WriteContext {
        WriteContext::default()
    }

    /// The document as the last `change_document` found it; meaningful when it did not report `Gone`.
    pub fn old_document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.old).ok()
    }

    /// The document as the last `change_document` left it; meaningful when it reported `Replaced`.
    pub fn new_document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.new).ok()
    }
}
