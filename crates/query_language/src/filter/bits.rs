//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear`, `$bitsAnyClear`.
//!
//! Numbers are read as 64-bit two's complement with the sign extended for ever; binary data as bits from the least
//! significant of its first byte on, followed by zeroes for ever. Doubles with a fraction and numbers beyond 64 bits never
//! match; decimals are rounded to whole numbers, as MongoDB does.

use bson::RawBsonRef;
use dec::Rounding;
use document::decimal::{self, Decimal};
use document::{FieldPath, Number, ValueView, work};

use super::FilterNode;
use super::parse::{FieldOperand, bad_value};
use super::value_text;
use super::whole_number;
use crate::error::{ErrorKind, QueryError, Result};

/// Which test of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BitTest {
    /// `$bitsAllSet`.
    AllSet,
    /// `$bitsAnySet`.
    AnySet,
    /// `$bitsAllClear`.
    AllClear,
    /// `$bitsAnyClear`.
    AnyClear,
}

impl BitTest {
    /// The operator's name.
    pub fn name(self) -> &'static str {
        match self {
            BitTest::AllSet => "$bitsAllSet",
            BitTest::AnySet => "$bitsAnySet",
            BitTest::AllClear => "$bitsAllClear",
            BitTest::AnyClear => "$bitsAnyClear",
        }
    }
}

/// A test of bits at given positions.
#[derive(Debug, Clone)]
pub struct BitsFilter {
    /// Where the number or binary data is.
    pub path: FieldPath,
    /// Which test.
    pub test: BitTest,
    /// Sorted, without duplicates; 0 is the least significant.
    pub positions: Vec<u32>,
}

impl BitsFilter {
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> bool {
        if let Some(ValueView::Binary { bytes, .. }) = value {
            return self.holds(|position| bit_of_bytes(bytes, position));
        }
        let Some(number) = value.and_then(Number::from_view).and_then(whole) else { return false };
        self.holds(|position| (number >> position.min(63)) & 1 == 1)
    }

    fn holds(&self, is_set: impl Fn(u32) -> bool) -> bool {
        work::count(work::of_elements(self.positions.len()));
        let mut positions = self.positions.iter();
        match self.test {
            BitTest::AllSet => positions.all(|position| is_set(*position)),
            BitTest::AnySet => positions.any(|position| is_set(*position)),
            BitTest::AllClear => positions.all(|position| !is_set(*position)),
            BitTest::AnyClear => positions.any(|position| !is_set(*position)),
        }
    }
}

/// The number whose bits are tested.
fn whole(number: Number) -> Option<i64> {
    match number {
        Number::Decimal128(value) => {
            let decimal = Decimal::from_bson(value);
            let whole = if decimal.is_integral() { decimal } else { decimal::quantize(decimal, 0, Rounding::HalfEven) };
            whole.to_i64_truncated()
        }
        _ => number.to_i64_exact(),
    }
}

fn bit_of_bytes(bytes: &[u8], position: u32) -> bool {
    bytes.get((position / 8) as usize).is_some_and(|byte| (byte >> (position % 8)) & 1 == 1)
}

/// `{path: {$bitsAllSet: mask}}`: a number, binary data, or an array of positions.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let test = match operand.name {
        "$bitsAllSet" => BitTest::AllSet,
        "$bitsAnySet" => BitTest::AnySet,
        "$bitsAllClear" => BitTest::AllClear,
        _ => BitTest::AnyClear,
    };
    let mut positions = match operand.value {
        RawBsonRef::Array(positions) => listed_positions(positions)?,
        RawBsonRef::Binary(binary) => {
            let end = u32::try_from(binary.bytes.len().saturating_mul(8)).unwrap_or(u32::MAX);
            (0..end).filter(|position| bit_of_bytes(binary.bytes, *position)).collect()
        }
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
            let mask = mask(operand)?;
            (0..64).filter(|position| (mask >> position) & 1 == 1).collect()
        }
        other => {
            let element = value_text::element(operand.name, other);
            return bad_value(format!(
                "{} takes an Array, a number, or a BinData but received: {element}",
                operand.name
            ));
        }
    };
    positions.sort_unstable();
    positions.dedup();
    Ok(FilterNode::Bits(BitsFilter { path: operand.path.clone(), test, positions }))
}

fn mask(operand: &FieldOperand<'_>) -> Result<i64> {
    let failed = |problem| Err(QueryError::new(ErrorKind::FailedToParse, problem));
    match whole_number::parse(operand.name, operand.value) {
        Ok(mask) if mask < 0 => {
            let element = value_text::element(operand.name, operand.value);
            failed(format!("Expected a non-negative number in: {element}"))
        }
        Ok(mask) => Ok(mask),
        Err(problem) => failed(problem),
    }
}

fn listed_positions(list: &bson::RawArray) -> Result<Vec<u32>> {
    let mut positions = Vec::new();
    for (ordinal, value) in list.into_iter().enumerate() {
        let (name, value) = (ordinal.to_string(), value?);
        let number = match whole_number::parse(&name, value) {
            Ok(number) => number,
            Err(problem) => return bad_value(format!("Failed to parse bit position. {problem}")),
        };
        let element = || value_text::element(&name, value);
        if number < 0 {
            let problem = format!("Expected a non-negative number in: {}", element());
            return bad_value(format!("Failed to parse bit position. {problem}"));
        }
        match i32::try_from(number) {
            Ok(position) => positions.push(position.unsigned_abs()),
            Err(_) => {
                let problem = "bit positions cannot be represented as a 32-bit signed integer but got";
                return bad_value(format!("{problem}: {}", element()));
            }
        }
    }
    Ok(positions)
}
