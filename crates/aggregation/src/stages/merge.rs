//! `$merge`: writes the documents into a collection, each beside or into the one with the same values of some fields.
//!
//! Parsed by `parse`; the host writes (`PipelineHost::begin_merge`), document by document as they come. What was
//! written before an error stays.

mod parse;

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawDocumentBuf, cstr};
use query_language::expression::{DependencySet, EvaluationContext, Expression, Variables, check_bound};

use crate::context::RunContext;
use crate::error::Result;
use crate::host::{BoxSource, DocumentSource, MergeRules};
use crate::stage::{Needs, PipelineStage, Placement, stage_document};
pub(crate) use parse::parse;

/// The variable that a pipeline of `whenMatched` sees the new document by.
const NEW: &str = "new";

#[derive(Debug)]
struct Merge {
    rules: MergeRules,
    /// The modes as the client wrote them, or their defaults.
    when_matched: bson::RawBson,
    when_not_matched: &'static str,
    /// `let` without `new`.
    bindings: Vec<(String, Expression)>,
    declared: Option<RawDocumentBuf>,
}

impl PipelineStage for Merge {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Writing { stage: self, source, run: run.clone() }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.whole_document = true;
        Needs::WhatFollows
    }

    fn placement(&self) -> Placement {
        Placement::Last
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut into = RawDocumentBuf::new();
        into.append(cstr!("db"), self.rules.target.database.as_str());
        into.append(cstr!("coll"), self.rules.target.collection.as_str());
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("into"), into);
        match self.rules.on.as_slice() {
            [only] => inner.append(cstr!("on"), only.as_str()),
            several => {
                let fields: RawArrayBuf = several.iter().map(|path| path.as_str()).collect();
                inner.append(cstr!("on"), fields);
            }
        }
        if let Some(declared) = &self.declared {
            inner.append(cstr!("let"), declared.clone());
        }
        inner.append(cstr!("whenMatched"), self.when_matched.clone());
        inner.append(cstr!("whenNotMatched"), self.when_not_matched);
        Ok(stage_document(cstr!("$merge"), inner))
    }
}

impl Merge {
    /// The variables that `whenMatched` sees for a document.
    fn variables_for(&self, document: &RawDocumentBuf, outer: &Variables) -> Result<Variables> {
        let context = EvaluationContext::new(document, outer);
        let mut variables = outer.clone();
        variables.define(NEW, Some(document.clone().into()))?;
        for (name, expression) in &self.bindings {
            let value = expression.evaluate(&context)?;
            check_bound(&value)?;
            value.before_copying()?;
            variables.define(name, value.into_raw_bson())?;
        }
        Ok(variables)
    }
}

struct Writing {
    stage: Arc<Merge>,
    source: BoxSource,
    run: RunContext,
}

impl DocumentSource for Writing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let mut writer = self.run.host.begin_merge(&self.stage.rules)?;
        while let Some(document) = self.source.next()? {
            let variables = self.stage.variables_for(&document, self.run.variables())?;
            writer.write(&document, variables)?;
        }
        Ok(None)
    }
}
