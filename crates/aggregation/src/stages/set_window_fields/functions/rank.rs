//! `$rank`, `$denseRank` and `$documentNumber`.

use bson::raw::{CStr, RawBson, cstr};
use query_language::expression::sort_pattern::{SortKey, SortPattern};

use super::super::Partition;
use super::Numbers;
use crate::error::Result;

/// How places are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ranking {
    /// Equal documents share a number, and those behind go on as if they did not.
    Rank,
    /// Equal documents share a number, and none is left out.
    DenseRank,
    /// Each document has its own.
    DocumentNumber,
}

impl Ranking {
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Ranking::Rank => cstr!("$rank"),
            Ranking::DenseRank => cstr!("$denseRank"),
            Ranking::DocumentNumber => cstr!("$documentNumber"),
        }
    }

    pub(super) fn evaluate(self, partition: &mut Partition, sort: Option<&SortPattern>) -> Result<Numbers> {
        let (mut results, mut before): (Numbers, Option<SortKey>) = (Vec::with_capacity(partition.len()), None);
        let (mut rank, mut dense) = (0, 0);
        let mut number = 0;
        partition.each(0..partition.len(), |document| {
            number += 1;
            let key = sort.map(|sort| sort.key(document)).transpose()?.unwrap_or_default();
            let is_equal = match (sort, &before) {
                (Some(sort), Some(before)) => sort.compare(before, &key).is_eq(),
                _ => false,
            };
            if !is_equal {
                (rank, dense) = (number, dense + 1);
            }
            before = Some(key);
            let value = match self {
                Ranking::Rank => rank,
                Ranking::DenseRank => dense,
                Ranking::DocumentNumber => number,
            };
            results.push(Some(narrowed(value)));
            Ok(())
        })?;
        partition.hold(results.len() * size_of::<Option<RawBson>>())?;
        Ok(results)
    }
}

fn narrowed(value: i64) -> RawBson {
    document::Number::from_i64_narrowed(value).to_bson()
}
