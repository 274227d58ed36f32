//! `$expMovingAvg`: an average in which later documents count for more.

use bson::raw::{RawBson, RawDocumentBuf, cstr};
use document::Number;
use query_language::expression::Expression;

use super::super::Partition;
use super::Numbers;
use crate::error::Result;

/// How much the newest document counts for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Smoothing {
    /// So that this many documents have most of the weight.
    Documents(i64),
    /// Between 0 and 1.
    Alpha(Number),
}

impl Smoothing {
    fn alpha(self) -> Number {
        match self {
            Smoothing::Documents(count) => Number::Double(2.0 / (count as f64 + 1.0)),
            Smoothing::Alpha(alpha) => alpha,
        }
    }

    pub(super) fn append_to(self, document: &mut RawDocumentBuf) {
        match self {
            Smoothing::Documents(count) => document.append(cstr!("N"), count),
            Smoothing::Alpha(alpha) => document.append(cstr!("alpha"), alpha.to_bson()),
        }
    }
}

/// Null for documents whose input is no number; they are passed over.
pub(super) fn evaluate(partition: &mut Partition, input: &Expression, smoothing: Smoothing) -> Result<Numbers> {
    let alpha = smoothing.alpha();
    let rest = Number::Int32(1).subtract(alpha);
    let mut average: Option<Number> = None;
    let mut results = Vec::with_capacity(partition.len());
    for number in 0..partition.len() {
        let value = partition.value(input, number)?;
        let value = value.as_ref().and_then(|value| Number::from_bson(value.as_raw_bson_ref()));
        let result = value.map(|value| match average {
            None => value,
            Some(average) => value.multiply(alpha).add(average.multiply(rest)),
        });
        average = result.or(average);
        results.push(Some(result.map_or(RawBson::Null, Number::to_bson)));
    }
    partition.hold(results.len() * size_of::<Option<RawBson>>())?;
    Ok(results)
}
