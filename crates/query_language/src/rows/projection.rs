//! A projection over the columns of a batch: other columns, some of them computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::COLUMNS_MAX;
use super::batch::{Column, RowBatch, RowNames, Slot};
use super::expression::{RowExpression, RowValues};
use crate::error::Result;
use crate::expression::Variables;
use crate::growth::make_room;
use crate::projection::{Mode, Projection, tree::Field};

/// How a projection is applied to a batch.
#[derive(Debug)]
pub struct RowProjection {
    projection: Arc<Projection>,
    input: RowNames,
    output: RowNames,
    /// Where each column of the output comes from.
    sources: Vec<Source>,
    /// What is computed: by the ordinal of its field.
    computed: Vec<(usize, RowExpression, RowValues)>,
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// There is none.
    Missing,
    Column(usize),
    /// An entry of `computed`.
    Computed(usize),
}

impl Projection {
    /// The fields of documents that it reads to give those of these names; `None`: it has no form for rows.
    pub fn row_needs(&self, wanted: &BTreeSet<String>) -> Option<BTreeSet<String>> {
        if self.needs_match_details() || self.metadata().is_any() {
            return None;
        }
        let mut needed = BTreeSet::new();
        for name in wanted {
            match self.fields.find(name.as_bytes()).map(|(_, field)| field) {
                Some(Field::Include) => drop(needed.insert(name.clone())),
                None if self.mode != Mode::Inclusion => drop(needed.insert(name.clone())),
                None | Some(Field::Exclude | Field::Computed(_)) => {}
                Some(Field::Nested(_) | Field::Slice(_) | Field::ElemMatch(_) | Field::Positional) => return None,
            }
        }
        // Whether what nobody reads fails is to be seen, too.
        for (_, field) in self.fields.iter() {
            match field {
                Field::Computed(expression) => {
                    let mut set = crate::expression::DependencySet::new();
                    expression.dependencies(&mut set);
                    if set.whole_document || set.metadata.is_any() {
                        return None;
                    }
                    needed.extend(set.paths.iter().map(|path| first_name(path).to_owned()));
                }
                Field::Nested(inner) if inner.has_computed => return None,
                _ => {}
            }
        }
        Some(needed)
    }
}

/// The field that a path begins with.
pub(crate) fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

impl RowProjection {
    /// The form of a projection from columns of these names to columns of those; `None`: it has none.
    pub fn compile(projection: &Arc<Projection>, input: &RowNames, output: &RowNames) -> Option<Self> {
        let position = |name: &str| input.iter().position(|known| **known == *name);
        let (mut sources, mut computed) = (vec![Source::Missing; output.len()], Vec::new());
        for (name, source) in output.iter().zip(&mut sources) {
            *source = match projection.fields.find(name.as_bytes()).map(|(_, field)| field) {
                Some(Field::Include) => position(name).map_or(Source::Missing, Source::Column),
                None if projection.mode != Mode::Inclusion => position(name).map_or(Source::Missing, Source::Column),
                _ => Source::Missing,
            };
        }
        for (ordinal, (name, field)) in projection.fields.iter().enumerate() {
            let Field::Computed(expression) = field else { continue };
            let compiled = RowExpression::compile(expression, input)?;
            let place = output.iter().position(|known| **known == *name);
            if let Some(source) = place.and_then(|place| sources.get_mut(place)) {
                *source = match compiled.column() {
                    Some(column) => Source::Column(column),
                    None => Source::Computed(computed.len()),
                };
            } else if !compiled.may_fail() {
                continue;
            }
            computed.push((ordinal, compiled, RowValues::default()));
        }
        if computed.len() > COLUMNS_MAX {
            return None;
        }
        Some(Self {
            projection: Arc::clone(projection),
            input: Arc::clone(input),
            output: Arc::clone(output),
            sources,
            computed,
        })
    }

    /// The names of the columns that it gives.
    pub fn output(&self) -> &RowNames {
        &self.output
    }

    /// Puts the columns of the projection in the place of those that are there.
    ///
    /// # Errors
    /// Those of its expressions.
    pub fn apply(&mut self, batch: &mut RowBatch, variables: &Variables) -> Result<()> {
        for (ordinal, expression, values) in &mut self.computed {
            if let Some((_, Field::Computed(source))) = self.projection.fields.iter().nth(*ordinal) {
                expression.evaluate(source, (batch, &self.input), variables, values)?;
            }
        }
        let mut columns: Vec<Column> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            columns.push(match *source {
                Source::Missing => vec![Slot::MISSING; batch.rows()],
                Source::Column(column) => batch.column(column).to_vec(),
                Source::Computed(place) => match self.computed.get_mut(place) {
                    Some((_, _, values)) => moved(values, &mut batch.bytes)?,
                    None => Column::new(),
                },
            });
        }
        batch.columns = columns;
        Ok(())
    }
}

/// A computed column whose bytes lie behind those of a batch.
fn moved(values: &RowValues, bytes: &mut Vec<u8>) -> Result<Column> {
    if values.bytes.is_empty() {
        return Ok(values.slots.clone());
    }
    make_room(bytes, values.bytes.len())?;
    let start = bytes.len() as u64;
    bytes.extend_from_slice(&values.bytes);
    Ok(values.slots.iter().map(|slot| slot.shifted(start)).collect())
}
