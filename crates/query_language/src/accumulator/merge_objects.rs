//! `$mergeObjects`: the documents merged in order; null and missing do not count, other types are an error.

use bson::raw::{RawBson, RawBsonRef, RawDocumentBuf};

use super::{Accumulator, Input};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::Value;
use crate::expression::document_writer::DocumentWriter;

#[derive(Debug, Default)]
struct MergeObjects(RawDocumentBuf);

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(MergeObjects::default())
}

impl Accumulator for MergeObjects {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let value = input.into_value();
        if value.is_nullish() {
            return Ok(());
        }
        let Some(document) = value.as_document() else {
            let shown = crate::filter::value_text::value(value.or_null());
            let found = value.type_name();
            let message = format!("$mergeObjects requires object inputs, but input {shown} is of type {found}");
            return Err(QueryError::new(ErrorKind::Location(40400), message));
        };
        let mut writer = DocumentWriter::new();
        writer.merge(&self.0)?;
        writer.merge(document)?;
        self.0 = writer.finish()?;
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.0.clone().into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_bytes().len()
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Document(self.0.clone()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        self.accumulate(Input::Value(partial.into()))
    }
}
