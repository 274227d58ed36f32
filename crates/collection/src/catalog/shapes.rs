//! The definitions that the indexes of all collections have: equal ones are parsed once and kept once.
//!
//! Called by the catalog whenever it makes an index or a list of them, and by `salvage`. A server of many tenants has hundreds of thousands of indexes, and few
//! definitions. What no index has any more goes when the number of those that are kept has doubled.

use std::collections::HashMap;
use std::sync::Arc;

use bson::RawDocument;
use index_key::KeyGenerator;
use platform::MemoryReservation;

use crate::error::Result;
use crate::index::{Index, IndexList, IndexShape};
use crate::index_specification::IndexSpecification;

/// A shape, and why the definition that it is of cannot be read, if it cannot.
type Known = (Arc<IndexShape>, Option<Arc<str>>);

/// Of a definition that is stored in so many bytes, parsed: a partial filter most of all.
const STORED_COPIES: usize = 6;
/// What a definition takes beside that, and a list of them.
const SHAPE_BYTES: usize = 1 << 10;
const LIST_BYTES: usize = 1 << 10;
/// So few are never looked through.
const KEPT_MIN: usize = 256;

/// Those that there are.
pub(crate) struct IndexShapes {
    /// By the bytes of the stored specification.
    shapes: HashMap<Box<[u8]>, Known>,
    /// By the addresses of the shapes, which stay as long as `shapes` has them.
    generators: HashMap<Box<[usize]>, Arc<KeyGenerator>>,
    /// Stored bytes of all definitions.
    stored_bytes: usize,
    /// When there are more, those that nobody has are let go.
    kept_max: usize,
    memory: MemoryReservation,
}

impl IndexShapes {
    /// None yet. What they take is counted in `memory`.
    pub(crate) fn new(memory: MemoryReservation) -> IndexShapes {
        let (shapes, generators) = (HashMap::new(), HashMap::new());
        IndexShapes { shapes, generators, stored_bytes: 0, kept_max: KEPT_MIN, memory }
    }

    /// The shape of an index of this definition.
    pub(crate) fn shape_of(&mut self, specification: IndexSpecification) -> Arc<IndexShape> {
        let stored = specification.to_document();
        match self.shapes.get(stored.as_bytes()) {
            Some((shape, None)) => shape.clone(),
            _ => self.keep(&stored, (IndexShape::new(specification), None)).0,
        }
    }

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
        Ok(self.keep(specification, shape))
    }

    fn keep(&mut self, stored: &RawDocument, shape: Known) -> Known {
        self.make_room();
        if self.shapes.insert(stored.as_bytes().into(), shape.clone()).is_none() {
            self.stored_bytes += stored.as_bytes().len();
        }
        self.count_memory();
        shape
    }

    /// Lets go of what nobody has, if there is so much. A list that somebody has keeps its shapes, so none of those goes whose address a kept generator is found by.
    fn make_room(&mut self) {
        if self.shapes.len() + self.generators.len() < self.kept_max {
            return;
        }
        self.generators.retain(|_, generator| Arc::strong_count(generator) > 1);
        self.shapes.retain(|_, (shape, _)| Arc::strong_count(shape) > 1);
        self.kept_max = KEPT_MIN.max(2 * (self.shapes.len() + self.generators.len()));
        self.stored_bytes = self.shapes.keys().map(|stored| stored.len()).sum();
    }

    fn count_memory(&mut self) {
        let bytes =
            self.stored_bytes * STORED_COPIES + self.shapes.len() * SHAPE_BYTES + self.generators.len() * LIST_BYTES;
        self.memory.resize_unchecked(bytes as u64);
    }

    /// The list of these indexes, whose shapes are from here.
    pub(crate) fn list(&mut self, indexes: Vec<Arc<Index>>) -> IndexList {
        self.make_room();
        let addresses: Box<[usize]> = indexes.iter().map(|index| Arc::as_ptr(index.shape()) as usize).collect();
        match self.generators.get(&addresses) {
            Some(generator) => IndexList::with_generator(indexes, generator.clone()),
            None => {
                let list = IndexList::new(indexes);
                self.generators.insert(addresses, list.generator().clone());
                self.count_memory();
                list
            }
        }
    }
}
