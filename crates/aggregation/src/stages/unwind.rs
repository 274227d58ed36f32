//! `$unwind`: a document for each element of an array, the element in the array's place.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::{get_field, split_element};
use query_language::expression::{DependencySet, FieldPath, Metadata};

use super::project::first_component;
use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::cursor::Interruptible;
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, Unwinds, stage_document};

/// Bytes that an array begins with.
const LENGTH_BYTES: usize = 4;

#[derive(Debug)]
struct Unwind(Unwinds);

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let refuse = AggregationError::numbered;
    let (mut path, mut index_path, mut keep_empty) = (None, None, false);
    match argument {
        RawBsonRef::String(_) => path = Some(argument),
        RawBsonRef::Document(document) => {
            for element in document {
                let (name, value) = element?;
                match (name.as_str(), value) {
                    ("path", value) => path = Some(value),
                    ("preserveNullAndEmptyArrays", RawBsonRef::Boolean(keep)) => keep_empty = keep,
                    ("preserveNullAndEmptyArrays", other) => {
                        let text = "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got";
                        return Err(refuse(28809, format!("{text} {}", type_of(other))));
                    }
                    ("includeArrayIndex", RawBsonRef::String(name)) if !name.is_empty() => {
                        index_path = Some(parse_index_path(name)?);
                    }
                    ("includeArrayIndex", other) => {
                        let text =
                            "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got";
                        return Err(refuse(28810, format!("{text} {}", type_of(other))));
                    }
                    (other, _) => return Err(refuse(28811, format!("unrecognized option to $unwind stage: {other}"))),
                }
            }
        }
        other => {
            let text = "expected either a string or an object as specification for $unwind stage, got";
            return Err(refuse(15981, format!("{text} {}", type_of(other))));
        }
    }
    let path = match path {
        None => return Err(refuse(28812, "no path specified to $unwind stage".to_owned())),
        Some(RawBsonRef::String(path)) => path,
        Some(other) => {
            let found = type_of(other);
            return Err(refuse(28808, format!("expected a string as the path for $unwind stage, got {found}")));
        }
    };
    let Some(path) = path.strip_prefix('$') else {
        return Err(refuse(28818, format!("path option to $unwind stage should be prefixed with a '$': {path}")));
    };
    Ok(vec![Stage::other(Unwind(Unwinds { path: FieldPath::parse(path)?, index_path, keep_empty }))])
}

fn parse_index_path(name: &str) -> Result<FieldPath> {
    if name.starts_with('$') {
        let message = format!("includeArrayIndex option to $unwind stage should not be prefixed with a '$': {name}");
        return Err(AggregationError::numbered(28822, message));
    }
    Ok(FieldPath::parse(name)?)
}

impl PipelineStage for Unwind {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let unwinding = Unwinding { stage: self, source, document: RawDocumentBuf::new(), rest: 0, index: 0 };
        // One document may become a million: what follows works long before the source is asked again.
        Ok(Box::new(Interruptible::new(Box::new(unwinding), Arc::clone(&run.host))))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.add_path(self.0.path.as_str());
        Needs::WhatFollows
    }

    fn lets_filter_pass(&self, paths: &[String]) -> bool {
        let changed = [Some(&self.0.path), self.0.index_path.as_ref()];
        let changed: Vec<&str> = changed.iter().flatten().map(|path| first_component(path.as_str())).collect();
        !paths.iter().any(|path| changed.contains(&first_component(path)))
    }

    fn unwinds(&self) -> Option<&Unwinds> {
        Some(&self.0)
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let Unwinds { path, index_path, keep_empty } = &self.0;
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("path"), format!("${}", path.as_str()));
        if *keep_empty {
            inner.append(cstr!("preserveNullAndEmptyArrays"), true);
        }
        if let Some(path) = index_path {
            inner.append(cstr!("includeArrayIndex"), path.as_str());
        }
        Ok(stage_document(cstr!("$unwind"), inner))
    }
}

struct Unwinding {
    stage: Arc<Unwind>,
    source: BoxSource,
    /// The document being unwound; how many of its last bytes begin with the next element, 0 for none; that element's position.
    document: RawDocumentBuf,
    rest: usize,
    index: i64,
}

impl DocumentSource for Unwinding {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            let bytes = self.document.as_bytes();
            let rest = bytes.get(bytes.len().saturating_sub(self.rest)..).unwrap_or_default();
            if let Some((element, after)) = split_element(rest) {
                let index = RawBsonRef::Int64(self.index);
                let unwound = with_path(&self.document, self.stage.0.path.as_path(), Some(element.value()))?;
                (self.rest, self.index) = (after.len(), self.index + 1);
                return self.stage.0.with_index(unwound, index).map(Some);
            }
            let Some(document) = self.source.next()? else { return Ok(None) };
            if let Some(unchanged) = self.begin(document)? {
                return Ok(Some(unchanged));
            }
        }
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}

impl Unwinding {
    /// Takes a document in; gives it back when it is not to be unwound but kept.
    fn begin(&mut self, document: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        (self.rest, self.index) = (0, 0);
        let kept = match nested_value(&document, &self.stage.0.path) {
            Some(RawBsonRef::Array(array)) if array.is_empty() => {
                if !self.stage.0.keep_empty {
                    return Ok(None);
                }
                with_path(&document, self.stage.0.path.as_path(), None)?
            }
            Some(RawBsonRef::Array(array)) => {
                // Elements are read from the document one after the other: a list of them would take several times its bytes.
                let before = array.as_bytes().as_ptr() as usize - document.as_bytes().as_ptr() as usize;
                self.rest = document.as_bytes().len() - before - LENGTH_BYTES;
                self.document = document;
                return Ok(None);
            }
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined) if !self.stage.0.keep_empty => return Ok(None),
            _ => document,
        };
        self.stage.0.with_index(kept, RawBsonRef::Null).map(Some)
    }
}

impl Unwinds {
    /// The document with the position of its element, if that is wanted.
    pub(super) fn with_index(&self, document: RawDocumentBuf, index: RawBsonRef<'_>) -> Result<RawDocumentBuf> {
        match &self.index_path {
            Some(path) => with_path(&document, path.as_path(), Some(index)),
            None => Ok(document),
        }
    }

    /// As explain shows it in the stage that does it.
    pub(super) fn to_bson(&self) -> RawDocumentBuf {
        let mut shown = RawDocumentBuf::new();
        shown.append(cstr!("preserveNullAndEmptyArrays"), self.keep_empty);
        if let Some(path) = &self.index_path {
            shown.append(cstr!("includeArrayIndex"), path.as_str());
        }
        shown
    }
}

/// The value at a path through documents only.
fn nested_value<'d>(document: &'d RawDocument, path: &FieldPath) -> Option<RawBsonRef<'d>> {
    let path = path.as_path();
    let mut value = get_field(document, path.first())?;
    for position in 1..path.len() {
        value = get_field(value.as_document()?, path.name(position))?;
    }
    Some(value)
}
