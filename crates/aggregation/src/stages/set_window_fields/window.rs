//! Which documents of a partition belong to the window of each.

use std::ops::Range;

use bson::raw::{RawArrayBuf, RawBson, RawDocumentBuf, cstr};
use document::work;
use query_language::expression::sort_pattern::SortPattern;

use super::Partition;
use super::distance::Distance;
use crate::error::{AggregationError, Result};
use crate::stage::stage_document;
use crate::stages::position::Position;
use crate::stages::type_of;

/// One end of a window.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound<T> {
    Unbounded,
    Current,
    At(T),
}

/// A window.
#[derive(Debug, Clone)]
pub(super) enum Window {
    /// The whole partition.
    All,
    /// By the number of documents.
    Documents(Bound<i64>, Bound<i64>),
    /// By the value that is sorted by.
    Values { lower: Bound<Distance>, upper: Bound<Distance>, unit_name: Option<String> },
}

impl Window {
    /// The windows of all documents.
    pub(super) fn ranges(&self, partition: &Partition, sort: Option<&SortPattern>) -> Result<Vec<Range<usize>>> {
        let len = partition.len();
        match self {
            Window::All => Ok(vec![0..len; len]),
            Window::Documents(lower, upper) => Ok((0..len).map(|at| documents(at, len, *lower, *upper)).collect()),
            Window::Values { lower, upper, .. } => {
                let positions = positions(partition, sort)?;
                by_values(&positions, *lower, *upper)
            }
        }
    }

    /// The window as the client wrote it; `None` for the whole partition.
    pub(super) fn to_bson(&self) -> Option<RawDocumentBuf> {
        match self {
            Window::All => None,
            Window::Documents(lower, upper) => {
                let ends: RawArrayBuf =
                    [*lower, *upper].map(|bound| shown(bound, RawBson::Int64)).into_iter().collect();
                Some(stage_document(cstr!("documents"), ends))
            }
            Window::Values { lower, upper, unit_name } => {
                let distance = |distance| match distance {
                    Distance::Number(number) => number.to_bson(),
                    Distance::Time(amount, _) => RawBson::Int64(amount),
                };
                let ends: RawArrayBuf = [*lower, *upper].map(|bound| shown(bound, distance)).into_iter().collect();
                let mut document = stage_document(cstr!("range"), ends);
                if let Some(name) = unit_name {
                    document.append(cstr!("unit"), name.as_str());
                }
                Some(document)
            }
        }
    }
}

fn shown<T>(bound: Bound<T>, value: impl Fn(T) -> RawBson) -> RawBson {
    match bound {
        Bound::Unbounded => RawBson::String("unbounded".to_owned()),
        Bound::Current => RawBson::String("current".to_owned()),
        Bound::At(at) => value(at),
    }
}

fn documents(at: usize, len: usize, lower: Bound<i64>, upper: Bound<i64>) -> Range<usize> {
    let place = |distance: i64| (at as i64).saturating_add(distance).clamp(0, len as i64) as usize;
    let start = match lower {
        Bound::Unbounded => 0,
        Bound::Current => at,
        Bound::At(distance) => place(distance),
    };
    let end = match upper {
        Bound::Unbounded => len,
        Bound::Current => at + 1,
        Bound::At(distance) => place(distance.saturating_add(1)),
    };
    start..end.max(start)
}

/// The positions of all documents.
pub(super) fn positions(partition: &Partition, sort: Option<&SortPattern>) -> Result<Vec<Position>> {
    let mut found = Vec::with_capacity(partition.len());
    partition.each(0..partition.len(), |document| {
        let key = sort.map(|sort| sort.key(document)).transpose()?.unwrap_or_default();
        let value = key.first().map_or(RawBson::Null, RawBson::clone);
        let Some(position) = Position::of(value.as_raw_bson_ref()) else {
            let found = type_of(value.as_raw_bson_ref());
            let message = format!(
                "Invalid range: Expected the sortBy field to be a number or a date, but it was of type {found}"
            );
            return Err(AggregationError::numbered(5429414, message));
        };
        found.push(position);
        Ok(())
    })?;
    Ok(found)
}

/// Both ends only move on, as the positions ascend.
fn by_values(positions: &[Position], lower: Bound<Distance>, upper: Bound<Distance>) -> Result<Vec<Range<usize>>> {
    let (mut start, mut end) = (0, 0);
    let mut ranges = Vec::with_capacity(positions.len());
    for position in positions {
        work::step()?;
        if let Some(least) = limit(*position, lower)? {
            start += positions.iter().skip(start).take_while(|other| other.compare(least).is_lt()).count();
        }
        end = match limit(*position, upper)? {
            Some(most) => {
                let end = end.max(start);
                end + positions.iter().skip(end).take_while(|other| other.compare(most).is_le()).count()
            }
            None => positions.len(),
        };
        ranges.push(start..end.max(start));
    }
    Ok(ranges)
}

/// The position of an end; `None` for none.
fn limit(position: Position, bound: Bound<Distance>) -> Result<Option<Position>> {
    match bound {
        Bound::Unbounded => Ok(None),
        Bound::Current => Ok(Some(position)),
        Bound::At(distance) => match distance.from(position)? {
            Some(limit) => Ok(Some(limit)),
            None => {
                let (number, text) = match distance {
                    Distance::Number(_) => {
                        (5429413, "For windows that involve date or time ranges, a unit must be provided")
                    }
                    Distance::Time(..) => (5429513, "A window with a unit expects the sortBy field to be a date"),
                };
                Err(AggregationError::numbered(number, format!("Invalid range: {text}")))
            }
        },
    }
}
