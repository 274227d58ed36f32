//! `$count`: one document with the number of documents, none when there are none.

use std::sync::Arc;

use bson::raw::{CString, RawBsonRef, RawDocumentBuf, cstr};
use document::Number;
use query_language::expression::DependencySet;
use query_language::rows::{RowBatch, RowNames};

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, source_of};
use crate::row_stage::{AreRead, FieldNames, RowConsumer};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// The name of the field that gets the number.
#[derive(Debug)]
struct Count(CString);

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let refuse = |number, message| Err(AggregationError::numbered(number, message));
    let RawBsonRef::String(name) = argument else {
        return refuse(40156, "the count field must be a non-empty string");
    };
    if name.is_empty() {
        return refuse(40157, "the count field must be a non-empty string");
    }
    if name.starts_with('$') {
        return refuse(40158, "the count field cannot be a $-prefixed path");
    }
    if name.contains('\0') {
        return refuse(40159, "the count field cannot contain a null byte");
    }
    if name.contains('.') {
        return refuse(40160, "the count field cannot contain '.'");
    }
    Ok(vec![Stage::other(Count(CString::try_from(name)?))])
}

impl PipelineStage for Count {
    fn open(self: Arc<Self>, source: BoxSource, _: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Counting { stage: self, source, done: false }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn row_fields(&self) -> Option<FieldNames> {
        Some(FieldNames::new())
    }

    fn row_consumer(self: Arc<Self>, _: &RowNames, read: AreRead, _: &RunContext) -> Option<Box<dyn RowConsumer>> {
        // Their number may be known without reading them.
        (read == AreRead::InAnyCase).then(|| Box::new(CountedRows { stage: self, count: 0 }) as Box<dyn RowConsumer>)
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$count"), bson::RawBson::String(self.0.as_str().to_owned())))
    }
}

struct Counting {
    stage: Arc<Count>,
    source: BoxSource,
    done: bool,
}

impl DocumentSource for Counting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let mut count = match self.source.count_rest()? {
            Some(counted) => i64::try_from(counted).unwrap_or(i64::MAX),
            None => 0,
        };
        while self.source.lend()?.is_some() {
            count += 1;
        }
        Ok(self.stage.document(count))
    }
}

impl Count {
    fn document(&self, count: i64) -> Option<RawDocumentBuf> {
        if count == 0 {
            return None;
        }
        let mut document = RawDocumentBuf::new();
        document.append(&self.0, Number::from_i64_narrowed(count).to_bson_ref());
        Some(document)
    }
}

/// The same over rows.
struct CountedRows {
    stage: Arc<Count>,
    count: i64,
}

impl RowConsumer for CountedRows {
    fn take(&mut self, batch: &RowBatch) -> Result<()> {
        self.count += batch.rows() as i64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<BoxSource> {
        Ok(source_of(self.stage.document(self.count)))
    }
}
