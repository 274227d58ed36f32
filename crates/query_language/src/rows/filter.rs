//! A filter over the columns of a batch.
//!
//! What compares a field of the top with a constant goes through its column; the rest of the filter looks at each row that is left.

use document::{ValueView, work};

use super::batch::{Row, RowBatch, RowNames};
use crate::error::Result;
use crate::filter::{Comparison, Filter, FilterNode};

/// How a filter is evaluated over a batch.
#[derive(Debug)]
pub struct RowFilter {
    /// Conditions on columns. A field that no column has has none.
    comparisons: Vec<(Option<usize>, Comparison)>,
    rest: Vec<FilterNode>,
    names: RowNames,
    kept: Vec<bool>,
}

impl RowFilter {
    /// The form of a filter over columns of these names; `None`: it reads whole documents.
    pub fn compile(filter: &Filter, names: &RowNames) -> Option<Self> {
        if filter.referenced_paths().whole_document {
            return None;
        }
        let conditions = match filter.root() {
            FilterNode::And(children) => children.as_slice(),
            other => std::slice::from_ref(other),
        };
        let (mut comparisons, mut rest) = (Vec::new(), Vec::new());
        for condition in conditions {
            match condition {
                FilterNode::Comparison(leaf) if leaf.path.len() == 1 => {
                    let column = names.iter().position(|name| **name == *leaf.path.first());
                    comparisons.push((column, leaf.clone()));
                }
                other => rest.push(other.clone()),
            }
        }
        Some(Self { comparisons, rest, names: names.clone(), kept: Vec::new() })
    }

    /// Leaves the rows that the filter accepts.
    ///
    /// # Errors
    /// Those of the filter's expressions; the command is to stop.
    pub fn apply(&mut self, batch: &mut RowBatch) -> Result<()> {
        let Self { comparisons, rest, names, kept } = self;
        kept.clear();
        kept.resize(batch.rows(), true);
        for (column, comparison) in comparisons.iter() {
            work::done(batch.rows())?;
            let Some(column) = column else {
                if !comparison.accepts_missing() {
                    kept.fill(false);
                }
                continue;
            };
            for ((row, slot), kept) in batch.column(*column).iter().enumerate().zip(kept.iter_mut()) {
                if *kept {
                    *kept = match slot.view(batch.bytes()) {
                        Some(ValueView::Array(_)) => {
                            let node = FilterNode::Comparison(comparison.clone());
                            node.matches_row(Row::new(batch, names, row))?
                        }
                        value => comparison.accepts(value),
                    };
                }
            }
        }
        for node in rest.iter() {
            for (row, kept) in kept.iter_mut().enumerate() {
                if *kept {
                    work::step()?;
                    *kept = node.matches_row(Row::new(batch, names, row))?;
                }
            }
        }
        batch.retain(kept);
        Ok(())
    }
}
