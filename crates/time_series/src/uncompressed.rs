//! The first of MongoDB's layouts: `data` has a document for each field, with values by the measurement's number.
//!
//! Dumps of MongoDB 5 to 7 have such buckets. Which measurements there are the field with the time says.

use std::collections::BTreeMap;
use std::ops::Range;

use bson::RawDocument;
use document::{elements, get_field};

use crate::{Result, damaged};

/// A value of a measurement: name, type, and where its bytes are.
type Value = (Range<usize>, u8, Range<usize>);

/// The measurements of such a bucket that are left.
pub(crate) struct Uncompressed {
    data: Vec<u8>,
    rows: std::vec::IntoIter<Vec<Value>>,
}

impl Uncompressed {
    pub(crate) fn open(data: &RawDocument, time: &str) -> Result<Uncompressed> {
        let bytes = data.as_bytes();
        let Some(times) = get_field(data, time).and_then(|times| times.as_document()) else {
            return damaged("it has no times");
        };
        let number = |name: &str| name.parse::<u32>().ok();
        let mut rows: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
        for element in elements(times) {
            let Some(number) = number(element.name()) else { return damaged("a measurement has no number") };
            rows.insert(number, Vec::new());
        }
        for column in elements(data) {
            let Some(values) = column.value().as_document() else { return damaged("a column is no document") };
            for value in elements(values) {
                let Some(row) = number(value.name()).and_then(|number| rows.get_mut(&number)) else {
                    return damaged("a value belongs to no measurement");
                };
                let range = |part: &[u8]| {
                    let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
                    start..start + part.len()
                };
                row.push((range(column.name_bytes()), value.element_type as u8, range(value.value_bytes())));
            }
        }
        Ok(Uncompressed { data: bytes.to_vec(), rows: rows.into_values().collect::<Vec<_>>().into_iter() })
    }

    pub(crate) fn left(&self) -> usize {
        self.rows.len()
    }

    /// Gives the next measurement's fields; `false` at the end.
    pub(crate) fn next(&mut self, mut give: impl FnMut(&[u8], u8, &[u8])) -> bool {
        let Some(row) = self.rows.next() else { return false };
        for (name, tag, value) in row {
            if let (Some(name), Some(value)) = (self.data.get(name), self.data.get(value)) {
                give(name, tag, value);
            }
        }
        true
    }
}
