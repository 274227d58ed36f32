//! Index definitions met while a catalog is read: equal ones are parsed once and kept once.
//!
//! Called by `load` and by `salvage`, for `stored`. A server of many tenants has hundreds of thousands of indexes, and few definitions.

use std::collections::HashMap;
use std::sync::Arc;

use bson::RawDocument;
use index_key::KeyGenerator;

use crate::error::Result;
use crate::index::{Index, IndexList, IndexShape};
use crate::index_specification::IndexSpecification;

/// A shape, and why the definition that it is of cannot be read, if it cannot.
type Known = (Arc<IndexShape>, Option<Arc<str>>);

/// What was met so far.
#[derive(Default)]
pub(crate) struct IndexShapes {
    /// By the bytes of the stored specification.
    shapes: HashMap<Box<[u8]>, Known>,
    /// By the addresses of the shapes, which stay as long as `shapes` has them.
    generators: HashMap<Box<[usize]>, Arc<KeyGenerator>>,
}

impl IndexShapes {
    /// The shape of an index defined like this, and why its definition cannot be read, if it cannot.
    ///
    /// # Errors
    /// Those of `IndexSpecification::parse`, when not even a placeholder can be made of it.
    pub(crate) fn shape(&mut self, specification: &RawDocument) -> Result<Known> {
        if let Some(known) = self.shapes.get(specification.as_bytes()) {
            return Ok(known.clone());
        }
        let shape = match IndexSpecification::parse(specification) {
            Ok(parsed) => (IndexShape::new(parsed), None),
            Err(error) => {
                let reason = format!("its definition cannot be read: {error}");
                (IndexShape::unreadable(specification)?, Some(reason.into()))
            }
        };
        self.shapes.insert(specification.as_bytes().into(), shape.clone());
        Ok(shape)
    }

    /// The list of these indexes, whose shapes are from here.
    pub(crate) fn list(&mut self, indexes: Vec<Arc<Index>>) -> IndexList {
        let addresses: Box<[usize]> = indexes.iter().map(|index| Arc::as_ptr(index.shape()) as usize).collect();
        match self.generators.get(&addresses) {
            Some(generator) => IndexList::with_generator(indexes, generator.clone()),
            None => {
                let list = IndexList::new(indexes);
                self.generators.insert(addresses, list.generator().clone());
                list
            }
        }
    }
}
