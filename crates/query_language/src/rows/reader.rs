//! Takes the fields that are wanted out of documents, into a batch.

use bson::{RawBsonRef, RawDocument};
use document::{elements, same_name, work};

use super::batch::{Column, RowBatch, RowNames, Slot, slot_of_element};
use crate::error::Result;

/// Rows of a batch: enough that what is done once for it costs nothing for a row, few enough that they stay near the processor.
pub const BATCH_ROWS: usize = 1024;
/// Bytes of values after which a batch is full though it has fewer rows.
const BATCH_BYTES: usize = 256 << 10;
/// Units of work that a document is at least.
const DOCUMENT_UNITS: usize = 4;

/// Fills batches with the fields of some names.
#[derive(Debug)]
pub struct RowReader {
    names: RowNames,
    rows_max: usize,
    batch: RowBatch,
}

impl RowReader {
    /// A reader of these fields, in batches of so many rows at most.
    pub fn new(names: RowNames, rows_max: usize) -> Self {
        let batch = RowBatch { columns: vec![Column::new(); names.len()], ..RowBatch::default() };
        Self { names, rows_max: rows_max.max(1), batch }
    }

    /// The names of the fields.
    pub fn names(&self) -> &RowNames {
        &self.names
    }

    /// How many rows a batch has at most.
    pub fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// The rows read since the last [`RowReader::clear`].
    pub fn batch(&self) -> &RowBatch {
        &self.batch
    }

    /// The same, for stages that change them.
    pub fn batch_mut(&mut self) -> &mut RowBatch {
        &mut self.batch
    }

    /// Begins an empty batch.
    pub fn clear(&mut self) {
        // Stages may have made other columns of those that were read.
        self.batch.columns.resize_with(self.names.len(), Column::new);
        self.batch.columns.iter_mut().for_each(Column::clear);
        self.batch.bytes.clear();
        self.batch.bytes.shrink_to(2 * BATCH_BYTES);
        self.batch.rows = 0;
    }

    /// Whether the batch is to be taken on before more is read.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.rows >= self.rows_max || self.batch.bytes.len() >= BATCH_BYTES
    }

    /// Adds the row of a document.
    ///
    /// # Errors
    /// There is no memory for its values; the command is to stop.
    #[inline]
    pub fn take(&mut self, document: &RawDocument) -> Result<()> {
        self.take_rest(document, self.names.len())
    }

    /// Adds the row of a document in which a field of the top has another value.
    ///
    /// # Errors
    /// As `take`.
    pub fn take_with(&mut self, document: &RawDocument, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        let mut left = self.names.len();
        let place = self.names.iter().position(|known| **known == *name);
        let RowBatch { columns, bytes, .. } = &mut self.batch;
        if let Some(column) = place.and_then(|place| columns.get_mut(place)) {
            column.push(Slot::of_value(Some(value), bytes)?);
            left -= 1;
        }
        self.take_rest(document, left)
    }

    /// Adds what a document has in the columns that have nothing for its row yet, so many of them.
    #[inline]
    fn take_rest(&mut self, document: &RawDocument, mut left: usize) -> Result<()> {
        work::note_search(document.as_bytes());
        work::done(DOCUMENT_UNITS)?;
        let Self { names, batch: RowBatch { columns, bytes, rows }, .. } = self;
        let row = *rows;
        for element in elements(document) {
            if left == 0 {
                break;
            }
            let name = element.name_bytes();
            let Some(position) = names.iter().position(|known| same_name(known.as_bytes(), name)) else { continue };
            // Of fields of one name the first counts.
            if let Some(column) = columns.get_mut(position)
                && column.len() == row
            {
                column.push(slot_of_element(&element, bytes)?);
                left -= 1;
            }
        }
        *rows += 1;
        if left > 0 {
            columns.iter_mut().for_each(|column| column.resize(row + 1, Slot::MISSING));
        }
        Ok(())
    }

    /// Adds a row of a document that nothing is read of.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn take_unread(&mut self) -> Result<()> {
        work::step()?;
        self.batch.rows += 1;
        self.batch.columns.iter_mut().for_each(|column| column.push(Slot::MISSING));
        Ok(())
    }
}
