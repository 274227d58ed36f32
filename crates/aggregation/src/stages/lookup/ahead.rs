//! Documents that are read ahead, so that what belongs to them is looked for together: by `_id`, in the order of keys.
//!
//! Neighbours in a tree are then looked for one after the other, which the processor's caches like. Results come in the
//! order of the outer documents. Used by the stage where one document by `_id` is all that can belong to each.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use bson::raw::{RawArray, RawDocument, RawDocumentBuf};
use query_language::expression::{FieldPath, Metadata};

use crate::error::Result;
use crate::host::{DocumentSource, FindById};

/// Documents that are looked for together: at first, and at most.
const AT_FIRST: usize = 16;
/// Bytes of documents that are read ahead, and of what is found for them. What is beyond is looked for in its turn.
const OUTER_BYTES_MAX: usize = 1 << 20;
const FOUND_BYTES_MAX: usize = 4 << 20;
/// All that may be held.
pub(super) const BYTES_MAX: usize = OUTER_BYTES_MAX + FOUND_BYTES_MAX;

/// An array's bytes around its only element, a document: type, name; and the end.
const ELEMENT_HEAD: [u8; 3] = [3, b'0', 0];
const ARRAY_OVERHEAD: usize = size_of::<i32>() + ELEMENT_HEAD.len() + 1;

/// A document with what was found for it.
pub(super) struct Outer {
    pub(super) document: RawDocumentBuf,
    pub(super) metadata: Metadata,
    matched: Matched,
}

#[derive(Debug, Clone)]
enum Matched {
    /// It is to be looked for in its turn.
    Unknown,
    Nothing,
    /// The array with the document, in the bytes of what was found.
    One(Range<usize>),
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Ahead {
    outer: VecDeque<Outer>,
    found: Vec<u8>,
    /// Documents that are read next.
    wanted: usize,
    /// What comes behind those that were read.
    end: Option<Result<()>>,
}

/// An array of nothing.
const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

impl Ahead {
    /// The next document; `None` at the end. So many are read at once at most.
    pub(super) fn next(
        &mut self,
        source: &mut dyn DocumentSource,
        (finder, local): (&mut dyn FindById, &FieldPath),
        at_once_max: usize,
    ) -> Result<Option<Outer>> {
        if self.outer.is_empty() {
            match self.end.take() {
                None => self.read(source, at_once_max),
                Some(end) => return end.map(|()| None),
            }
            self.look(finder, local);
        }
        match self.outer.pop_front() {
            Some(outer) => Ok(Some(outer)),
            None => self.end.take().unwrap_or(Ok(())).map(|()| None),
        }
    }

    /// What belongs to a document; `None`: it is to be looked for.
    pub(super) fn matches<'f>(&'f self, outer: &Outer) -> Option<&'f RawArray> {
        let bytes = match &outer.matched {
            Matched::Unknown => return None,
            Matched::Nothing => &EMPTY[..],
            Matched::One(range) => self.found.get(range.clone())?,
        };
        document::raw_array(bytes)
    }

    fn read(&mut self, source: &mut dyn DocumentSource, at_once_max: usize) {
        self.wanted = (self.wanted * 2).clamp(AT_FIRST, at_once_max);
        let mut bytes = 0;
        while self.outer.len() < self.wanted && bytes < OUTER_BYTES_MAX {
            match source.next() {
                Ok(Some(document)) => {
                    bytes += document.as_bytes().len();
                    let metadata = source.metadata();
                    self.outer.push_back(Outer { document, metadata, matched: Matched::Unknown });
                }
                Ok(None) => {
                    self.end = Some(Ok(()));
                    return;
                }
                // It is told once those before it have been given.
                Err(error) => {
                    self.end = Some(Err(error));
                    return;
                }
            }
        }
    }

    /// Looks for what belongs to the documents that were read. What fails is met again in its turn.
    fn look(&mut self, finder: &mut dyn FindById, local: &FieldPath) {
        self.found.clear();
        self.found.shrink_to(FOUND_BYTES_MAX);
        let (outer, found) = (self.outer.make_contiguous(), &mut self.found);
        let mut matched = vec![Matched::Unknown; outer.len()];
        let values: Vec<_> = outer.iter().map(|outer| local.evaluate(&outer.document).ok()).collect();
        let (mut ids, mut numbers) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
        for (number, value) in values.iter().enumerate() {
            if let Some(value) = value.as_ref().filter(|value| super::is_one_id(value)) {
                ids.push(value.or_null());
                numbers.push(number);
            }
        }
        let looked_for = finder.find_all(&ids, &mut |position, document| {
            let of_document = match document {
                None => Matched::Nothing,
                Some(document) if found.len() + document.as_bytes().len() > FOUND_BYTES_MAX => {
                    return ControlFlow::Break(());
                }
                Some(document) => Matched::One(append_array(found, document)),
            };
            if let Some(place) = numbers.get(position).and_then(|number| matched.get_mut(*number)) {
                *place = of_document;
            }
            ControlFlow::Continue(())
        });
        if looked_for.is_ok() {
            outer.iter_mut().zip(matched).for_each(|(outer, matched)| outer.matched = matched);
        }
    }
}

/// Writes the array with a document, and says where.
fn append_array(found: &mut Vec<u8>, document: &RawDocument) -> Range<usize> {
    let begun = found.len();
    let length = ARRAY_OVERHEAD + document.as_bytes().len();
    found.extend_from_slice(&(length as i32).to_le_bytes());
    found.extend_from_slice(&ELEMENT_HEAD);
    found.extend_from_slice(document.as_bytes());
    found.push(0);
    begun..begun + length
}
