//! `$group`: documents grouped by the value of an expression, with accumulators over each group.

mod gatherer;
mod grouping;
mod hasher;
mod key;
mod merging;
mod table;

use std::sync::Arc;

use bson::raw::{CStr, CString, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::accumulator::AccumulatorExpression;
use query_language::expression::{DependencySet, ParseContext};
use query_language::rows::RowNames;

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::BoxSource;
use crate::row_stage::{self, AreRead, FieldNames, RowConsumer};
use crate::stage::{Needs, OneOfEach, PipelineStage, Stage, Which, stage_document};
use gatherer::RowGatherer;
use grouping::Grouping;
use key::GroupKey;

/// What to group by and what to compute.
#[derive(Debug)]
pub(crate) struct Group {
    key: GroupKey,
    fields: Vec<(CString, AccumulatorExpression)>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(specification) = argument else {
        return Err(AggregationError::numbered(15947, "a group's fields must be specified in an object"));
    };
    let expressions = context.expressions();
    let mut key = None;
    let mut fields: Vec<(CString, AccumulatorExpression)> = Vec::new();
    for element in specification {
        let (name, value) = element?;
        match name.as_str() {
            "_id" if key.is_some() => {
                return Err(AggregationError::numbered(15948, "a group's _id may only be specified once"));
            }
            "_id" => key = Some(GroupKey::parse(value, &expressions)?),
            "$doingMerge" => {
                return Err(AggregationError::numbered(17030, "$doingMerge should be true if present"));
            }
            _ => fields.push(parse_field(name, value, &expressions)?),
        }
    }
    match key {
        Some(key) => Ok(vec![Stage::other(Group { key, fields })]),
        None => Err(AggregationError::numbered(15955, "a group specification must include an _id")),
    }
}

/// The accumulators of a document of such fields, for stages that group in other ways.
pub(super) fn parse_fields(
    document: &RawDocument,
    context: &PipelineContext,
) -> Result<Vec<(CString, AccumulatorExpression)>> {
    let expressions = context.expressions();
    document.iter().map(|element| element.map(|(name, value)| parse_field(name, value, &expressions))?).collect()
}

fn parse_field(
    name: &CStr,
    value: RawBsonRef<'_>,
    expressions: &ParseContext,
) -> Result<(CString, AccumulatorExpression)> {
    check_field_name(name.as_str())?;
    let accumulator = AccumulatorExpression::parse_field(name.as_str(), value, expressions)?;
    Ok((CString::from(name), accumulator))
}

fn check_field_name(field: &str) -> Result<()> {
    if field.contains('.') {
        let message = format!("The field name '{field}' cannot contain '.'");
        return Err(AggregationError::numbered(40235, message));
    }
    if field.starts_with('$') {
        let message = format!("The field name '{field}' cannot be an operator name");
        return Err(AggregationError::numbered(40236, message));
    }
    Ok(())
}

impl Group {
    /// Whether it gives the number of all documents, whatever they are.
    fn counts_documents(&self) -> bool {
        self.key.is_constant() && self.fields.iter().all(|(_, accumulator)| accumulator.counts_documents())
    }
}

impl Group {
    /// Whether it reads what is known of documents beside their fields.
    fn reads_metadata(&self) -> bool {
        let mut set = DependencySet::new();
        self.dependencies(&mut set);
        set.metadata.is_any()
    }
}

impl PipelineStage for Group {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Grouping::new(self, source, run.clone())))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        self.key.dependencies(set);
        self.fields.iter().for_each(|(_, accumulator)| accumulator.dependencies(set));
        Needs::Nothing
    }

    fn one_of_each(&self) -> Option<OneOfEach> {
        let path = self.key.as_field_path()?.as_str().to_owned();
        let all_are = |name: &str| self.fields.iter().all(|(_, accumulator)| accumulator.name() == name);
        match () {
            () if self.fields.is_empty() => Some(OneOfEach { path, which: Which::Any }),
            () if all_are("$first") => Some(OneOfEach { path, which: Which::First }),
            () if all_are("$last") => Some(OneOfEach { path, which: Which::Last }),
            () => None,
        }
    }

    fn row_fields(&self) -> Option<FieldNames> {
        let mut set = DependencySet::new();
        self.dependencies(&mut set);
        row_stage::fields_of(&set)
    }

    fn row_consumer(
        self: Arc<Self>,
        columns: &RowNames,
        read: AreRead,
        run: &RunContext,
    ) -> Option<Box<dyn RowConsumer>> {
        // Their number may be known without reading them.
        if read == AreRead::ForThis && self.counts_documents() {
            return None;
        }
        Some(Box::new(RowGatherer::new(&self, columns, run)?))
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("_id"), self.key.to_bson()?);
        for (name, accumulator) in &self.fields {
            inner.append(name, accumulator.to_bson()?);
        }
        Ok(stage_document(cstr!("$group"), inner))
    }
}
