//! PROJECTION_COVERED: the query's projection of what index keys hold, without reading documents.
//!
//! A key has null for a missing field too; only then is the document read.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Element, elements};
use index_key::{decode_key, decode_wanted};
use planner::ProjectionUse;
use query_language::expression::Metadata;
use smallvec::SmallVec;

use crate::error::{ExecutorError, Result};
use crate::projection::project;
use crate::stage::{BoxedStage, Context, KeyEntry, PlanStage, Step};
use crate::statistics::StageStatistics;

pub(crate) struct CoveredProjection {
    input: BoxedStage,
    /// Fields of the key pattern that the projection reads.
    needed: Vec<usize>,
    /// Whether what the keys hold is wanted as it is, without a projection; unknown before the first key.
    is_as_it_is: Option<bool>,
    fetched: Vec<u8>,
    projected: Vec<u8>,
    statistics: StageStatistics,
}

impl CoveredProjection {
    pub(crate) fn new(input: BoxedStage, needed: Vec<usize>) -> CoveredProjection {
        CoveredProjection {
            input,
            needed,
            is_as_it_is: None,
            fetched: Vec::new(),
            projected: Vec::new(),
            statistics: StageStatistics::default(),
        }
    }

    fn project(&mut self, context: &Context<'_>) -> Result<()> {
        let record_id = self.input.record_id();
        let Some(entry) = self.input.key()? else {
            return Err(ExecutorError::Damaged("a covered plan without an index key".to_owned()));
        };
        let is_as_it_is = *self.is_as_it_is.get_or_insert_with(|| {
            let fields = self.needed.iter().filter_map(|field| entry.pattern.fields().get(*field));
            context.query.projection_use == ProjectionUse::Needed
                && fields.into_iter().all(|field| field.path.len() == 1)
        });
        if is_as_it_is
            && !decode_wanted(entry.pattern, (entry.key, entry.type_bits), &self.needed, &mut self.projected)?
        {
            return Ok(());
        }
        let values = decode_key(entry.pattern, entry.key, entry.type_bits)?;
        let held: SmallVec<[Element<'_>; 8]> = elements(&values)
            .enumerate()
            .filter(|(index, _)| self.needed.contains(index))
            .map(|(_, field)| field)
            .collect();
        if held.iter().any(|element| matches!(element.value(), RawBsonRef::Null)) {
            self.statistics.docs_examined += 1;
            if let Some(record_id) = record_id
                && context.view.get_record(context.collection, record_id, &mut self.fetched)?
            {
                return project(
                    context,
                    RawDocument::from_bytes(&self.fetched)?,
                    Metadata::default(),
                    &mut self.projected,
                );
            }
        }
        if context.query.projection_use == ProjectionUse::Needed && !held.iter().any(|field| field.name().contains('.'))
        {
            write_fields(&held, &mut self.projected);
            return Ok(());
        }
        let fields: Vec<(&str, RawBsonRef<'_>)> =
            held.iter().map(|element| (element.name(), element.value())).collect();
        project(context, &nested(&fields)?, Metadata::default(), &mut self.projected)
    }
}

/// Writes the document of some fields over `out`.
fn write_fields(fields: &[Element<'_>], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; 4]);
    for field in fields {
        out.push(field.element_type as u8);
        out.extend_from_slice(field.name_bytes());
        out.push(0);
        out.extend_from_slice(field.value_bytes());
    }
    out.push(0);
    let length = out.len() as i32;
    if let Some(header) = out.first_chunk_mut() {
        *header = length.to_le_bytes();
    }
}

/// The document in which each dotted path leads to its value.
fn nested(fields: &[(&str, RawBsonRef<'_>)]) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    let mut done: Vec<&str> = Vec::new();
    for (path, value) in fields {
        let Some((name, _)) = path.split_once('.') else {
            document.append(<&bson::raw::CStr>::try_from(*path)?, *value);
            continue;
        };
        if done.contains(&name) {
            continue;
        }
        done.push(name);
        let below = fields.iter().filter_map(|(path, value)| match path.split_once('.') {
            Some((first, rest)) if first == name => Some((rest, *value)),
            _ => None,
        });
        document.append(<&bson::raw::CStr>::try_from(name)?, nested(&below.collect::<Vec<_>>())?);
    }
    Ok(document)
}

impl PlanStage for CoveredProjection {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.statistics.works += 1;
        let step = self.input.next(context)?;
        if step == Step::Advanced {
            self.statistics.advanced += 1;
            self.project(context)?;
        }
        self.statistics.is_at_end |= step == Step::End;
        Ok(step)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(RawDocument::from_bytes(&self.projected)?)
    }

    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        // The key has become the document.
        Ok(None)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn input(&self) -> Option<&dyn PlanStage> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanStage> {
        Some(&mut *self.input)
    }
}
