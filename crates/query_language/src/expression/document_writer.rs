//! Builds a document field by field where a later value replaces an earlier one in its place.
//!
//! Used by the operators that merge or set fields (`$mergeObjects`, `$arrayToObject`, `$setField`) and by stages that
//! add computed fields.

use std::collections::HashMap;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::Result;
use crate::growth::document_of;

/// Fields beyond which names are found through a table instead of one after the other.
const LINEAR_FIELDS_MAX: usize = 16;

/// An ordered set of fields by name.
#[derive(Debug, Default)]
pub struct DocumentWriter<'a> {
    fields: Vec<(&'a str, RawBsonRef<'a>)>,
    positions: HashMap<&'a str, usize>,
}

impl<'a> DocumentWriter<'a> {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a field: in its place when it exists, at the end otherwise.
    pub fn set(&mut self, name: &'a str, value: RawBsonRef<'a>) {
        match self.position(name).and_then(|position| self.fields.get_mut(position)) {
            Some((_, slot)) => *slot = value,
            None => {
                self.fields.push((name, value));
                self.index_from(self.fields.len() - 1);
            }
        }
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) {
        if let Some(position) = self.position(name) {
            self.fields.remove(position);
            self.positions.clear();
            self.index_from(0);
        }
    }

    /// Sets every field of a document.
    pub fn merge(&mut self, document: &'a RawDocument) -> Result<()> {
        for element in document {
            let (name, value) = element?;
            self.set(name.as_str(), value);
        }
        Ok(())
    }

    /// The document.
    pub fn finish(&self) -> Result<RawDocumentBuf> {
        document_of(self.fields.iter().copied())
    }

    fn position(&self, name: &str) -> Option<usize> {
        match self.positions.is_empty() {
            true => self.fields.iter().position(|(known, _)| *known == name),
            false => self.positions.get(name).copied(),
        }
    }

    /// Keeps the table in step once there are enough fields to have one.
    fn index_from(&mut self, first: usize) {
        if self.fields.len() <= LINEAR_FIELDS_MAX {
            return;
        }
        let first = if self.positions.is_empty() { 0 } else { first };
        let named = self.fields.iter().enumerate().skip(first);
        self.positions.extend(named.map(|(position, (name, _))| (*name, position)));
    }
}
