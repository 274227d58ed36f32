//! What pipelines that no script has are run with: `optimization`, `rows` and `windows` make them.

use std::sync::Arc;

use aggregation::{Namespace, Pipeline, PipelineContext};
use bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc};
use query_language::expression::Variables;

use crate::host::TestHost;
use crate::{Result, run};

pub(crate) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// Documents with these fields, and their numbers as `_id`.
pub(crate) fn numbered(documents: &[Document]) -> Vec<RawDocumentBuf> {
    let numbered = documents.iter().enumerate().map(|(id, fields)| {
        let mut document = doc! { "_id": id as i32 };
        document.extend(fields.clone());
        raw(&document)
    });
    numbered.collect()
}

pub(crate) fn variables() -> Arc<Variables> {
    Arc::new(Variables::new(DateTime::from_millis(0), None, 1))
}

pub(crate) fn context() -> PipelineContext {
    PipelineContext::new(Namespace::new("test", "local"), variables())
}

/// A pipeline, made by `parser` of its stages.
pub(crate) fn parsed(
    stages: &[Document],
    context: &PipelineContext,
    parser: fn(&[&RawDocument], &PipelineContext) -> Result<Pipeline>,
) -> Result<Pipeline> {
    let stages: Vec<_> = stages.iter().map(raw).collect();
    parser(&stages.iter().map(|stage| &**stage).collect::<Vec<_>>(), context)
}

/// What a pipeline gives, and its error as text: with batches of so many rows, where that is said, and with so much
/// memory for a stage, which then may use temporary storage.
pub(crate) fn outcome(
    documents: Vec<RawDocumentBuf>,
    stages: &[Document],
    rows: Option<usize>,
    memory: Option<usize>,
) -> std::result::Result<Vec<String>, String> {
    let mut context = context();
    context.batch_rows_max = rows.unwrap_or(context.batch_rows_max);
    let host = Arc::new(TestHost::new(documents.clone(), documents.clone()));
    if let Some(bytes) = memory {
        context.memory_bytes_max = bytes;
        host.allow_spilling();
    }
    let pipeline = parsed(stages, &context, Pipeline::parse).map_err(|error| error.to_string())?;
    run(&pipeline, documents, &host).map_err(|error| error.to_string())
}
