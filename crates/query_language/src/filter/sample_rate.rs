//! `$sampleRate`: each document with a given probability.

use std::sync::Arc;

use bson::RawBsonRef;

use super::FilterNode;
use super::parse::{Parser, bad_value};
use crate::error::Result;
use crate::expression::Variables;

/// Matches with a probability, by the random state of the command's variables.
#[derive(Debug, Clone)]
pub struct SampleRate {
    /// From 0 to 1.
    pub rate: f64,
    variables: Arc<Variables>,
}

impl SampleRate {
    pub(crate) fn accepts(&self) -> bool {
        // 53 random bits are every double in [0, 1) of that spacing.
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.variables.next_random() >> 11) as f64) / STEPS < self.rate
    }
}

/// `{$sampleRate: rate}`.
pub(crate) fn parse(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<FilterNode> {
    let rate = match value {
        RawBsonRef::Int32(number) => f64::from(number),
        RawBsonRef::Int64(number) => number as f64,
        RawBsonRef::Double(number) => number,
        RawBsonRef::Decimal128(number) => number.to_string().parse().unwrap_or(f64::NAN),
        _ => return bad_value("argument to $sampleRate must be a numeric type"),
    };
    if !(0.0..=1.0).contains(&rate) {
        return bad_value("numeric argument to $sampleRate must be in [0, 1]");
    }
    Ok(FilterNode::SampleRate(SampleRate { rate, variables: Arc::clone(&parser.options.variables) }))
}
