//! Sums of numbers of mixed types, as `$add`, `$sum` and `$avg` need them.
//!
//! Integers are summed exactly, doubles with a compensation for what each addition rounds off, decimals with 34 digits;
//! the result takes the widest type seen: int, long, double, decimal. An integer sum too large for its type becomes
//! the next wider one.

use bson::raw::{RawArray, RawArrayBuf, RawBsonRef};
use document::decimal::{self, Decimal};
use document::{Number, array_elements};

/// A running sum. There is one for each group of a `$group`, so that what is rarely needed is elsewhere.
#[derive(Debug, Clone)]
pub struct Summation {
    integers: i64,
    doubles: CompensatedSum,
    rare: Option<Box<Rare>>,
    widest: Widest,
}

/// What sums of ordinary numbers do not need.
#[derive(Debug, Clone, Default)]
struct Rare {
    /// Integers beside those that fit into 64 bits.
    integers: i128,
    decimals: Option<Decimal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Widest {
    Int32,
    Int64,
    Double,
    Decimal,
}

impl Default for Summation {
    fn default() -> Self {
        Self { integers: 0, doubles: CompensatedSum::default(), rare: None, widest: Widest::Int32 }
    }
}

impl Summation {
    /// The int32 zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that it has elsewhere.
    pub fn bytes_elsewhere(&self) -> usize {
        self.rare.as_ref().map_or(0, |_| size_of::<Rare>())
    }

    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: Number) {
        let width = match number {
            Number::Int32(value) => {
                self.add_integer(i64::from(value));
                Widest::Int32
            }
            Number::Int64(value) => {
                self.add_integer(value);
                Widest::Int64
            }
            Number::Double(value) => {
                self.doubles.add(value);
                Widest::Double
            }
            Number::Decimal128(value) => {
                self.add_decimal(Decimal::from_bson(value));
                Widest::Decimal
            }
        };
        self.widest = self.widest.max(width);
    }

    #[inline]
    fn add_integer(&mut self, value: i64) {
        match self.integers.checked_add(value) {
            Some(sum) => self.integers = sum,
            None => self.add_wide(i128::from(value)),
        }
    }

    #[cold]
    fn add_wide(&mut self, value: i128) {
        self.rare.get_or_insert_default().integers += value;
    }

    #[cold]
    fn add_decimal(&mut self, value: Decimal) {
        let decimals = &mut self.rare.get_or_insert_default().decimals;
        *decimals = Some(decimals.map_or(value, |sum| decimal::add(sum, value)));
    }

    /// All integers.
    fn integers(&self) -> i128 {
        i128::from(self.integers) + self.rare.as_ref().map_or(0, |rare| rare.integers)
    }

    fn decimals(&self) -> Option<Decimal> {
        self.rare.as_ref().and_then(|rare| rare.decimals)
    }

    /// The sum in the widest type seen.
    pub fn total(&self) -> Number {
        match self.widest {
            Widest::Int32 => match i32::try_from(self.integers()) {
                Ok(total) => Number::Int32(total),
                Err(_) => self.long_total(),
            },
            Widest::Int64 => self.long_total(),
            Widest::Double => Number::Double(self.double_total()),
            Widest::Decimal => Number::Decimal128(self.decimal_total().to_bson()),
        }
    }

    /// The mean over `count` numbers: a double, or a decimal when there was one.
    pub fn mean(&self, count: u64) -> Number {
        match self.widest {
            Widest::Decimal => {
                let count = Decimal::from_i64(i64::try_from(count).unwrap_or(i64::MAX));
                Number::Decimal128(decimal::divide(self.decimal_total(), count).to_bson())
            }
            _ => Number::Double(self.double_total() / count as f64),
        }
    }

    /// The state as BSON, so that a sum can be set aside and taken up by `merge`.
    pub fn to_partial(&self) -> RawArrayBuf {
        let mut partial = RawArrayBuf::new();
        partial.push(self.widest as i32);
        partial.push((self.integers() >> 64) as i64);
        partial.push(self.integers() as i64);
        // Beside an infinity what was lost is no number.
        let [sum, lost] = self.doubles.parts();
        partial.push(sum);
        partial.push(lost);
        match self.decimals() {
            Some(decimals) => partial.push(decimals.to_bson()),
            None => partial.push(RawBsonRef::Null),
        }
        partial
    }

    /// Adds a sum set aside by `to_partial`.
    pub fn merge(&mut self, partial: &RawArray) {
        let parts: Vec<_> = array_elements(partial).map(|element| element.value()).collect();
        let [widest, high, low, sum, lost, decimals] = parts.as_slice() else { return };
        let (high, low) = (high.as_i64().unwrap_or(0), low.as_i64().unwrap_or(0));
        let integers = (i128::from(high) << 64) | i128::from(low as u64);
        match i64::try_from(integers) {
            Ok(integers) => self.add_integer(integers),
            Err(_) => self.add_wide(integers),
        }
        self.doubles.add(sum.as_f64().unwrap_or(0.0));
        self.doubles.add(lost.as_f64().unwrap_or(0.0));
        if let RawBsonRef::Decimal128(value) = decimals {
            self.add(Number::Decimal128(*value));
        }
        self.widest = self.widest.max(match widest.as_i32() {
            Some(0) | None => Widest::Int32,
            Some(1) => Widest::Int64,
            Some(2) => Widest::Double,
            Some(_) => Widest::Decimal,
        });
    }

    fn long_total(&self) -> Number {
        match i64::try_from(self.integers()) {
            Ok(total) => Number::Int64(total),
            Err(_) => Number::Double(self.integers() as f64),
        }
    }

    fn double_total(&self) -> f64 {
        let mut sum = self.doubles.clone();
        // Two doubles hold any sum of fewer than 2^43 int64 values exactly.
        let (integers, high) = (self.integers(), self.integers() as f64);
        sum.add(high);
        sum.add((integers - high as i128) as f64);
        sum.total()
    }

    fn decimal_total(&self) -> Decimal {
        let mut total = self.decimals().unwrap_or(Decimal::from_i64(0));
        let integers = self.integers();
        if integers != 0 {
            total = decimal::add(total, exact_decimal(integers as f64, integers));
        }
        for part in self.doubles.parts() {
            if part != 0.0 {
                total = decimal::add(total, decimal_of_double(part));
            }
        }
        total
    }
}

/// An integer sum as a decimal; one of more than 38 digits cannot come from fewer than 2^63 values.
fn exact_decimal(nearest: f64, integer: i128) -> Decimal {
    Decimal::parse(&integer.to_string()).unwrap_or_else(|| decimal_of_double(nearest))
}

/// A double with all the digits that a decimal can hold, without trailing zeroes after the point.
pub fn decimal_of_double(value: f64) -> Decimal {
    if !value.is_finite() {
        return Decimal::from_f64(value);
    }
    let text = format!("{value:.33e}");
    match Decimal::parse(&text) {
        Some(Decimal::Finite { negative, mut coefficient, mut exponent }) => {
            while exponent < 0 && coefficient.is_multiple_of(10) && coefficient != 0 {
                coefficient /= 10;
                exponent += 1;
            }
            let exponent = if coefficient == 0 { 0 } else { exponent };
            Decimal::Finite { negative, coefficient, exponent }
        }
        other => other.unwrap_or(Decimal::NaN),
    }
}

/// A sum of doubles and, apart, what rounding lost (Neumaier's variant of Kahan's summation).
#[derive(Debug, Clone, Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, value: f64) {
        let next = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() { (self.sum - next) + value } else { (value - next) + self.sum };
        self.sum = next;
    }

    /// Infinities and NaN make the compensation meaningless.
    fn total(&self) -> f64 {
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }

    fn parts(&self) -> [f64; 2] {
        [self.sum, if self.sum.is_finite() { self.lost } else { 0.0 }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(numbers: &[Number]) -> Number {
        let mut sum = Summation::new();
        numbers.iter().for_each(|number| sum.add(*number));
        sum.total()
    }

    #[test]
    fn widest_type_wins() {
        use Number::{Double, Int32, Int64};
        assert_eq!(total(&[Int32(1), Int32(2)]), Int32(3));
        assert_eq!(total(&[Int32(i32::MAX), Int32(1)]), Int64(1 << 31));
        assert_eq!(total(&[Int32(i32::MAX), Int32(1), Int32(-1)]), Int32(i32::MAX));
        assert_eq!(total(&[Int64(1), Int32(2)]), Int64(3));
        assert_eq!(total(&[Int64(i64::MAX), Int64(1)]), Double(9_223_372_036_854_775_808.0));
        assert_eq!(total(&[Int32(1), Double(0.5)]), Double(1.5));
    }

    #[test]
    fn doubles_are_compensated() {
        assert_eq!(total(&[Number::Double(0.1); 10]), Number::Double(1.0));
        assert_eq!(total(&[Number::Double(1e100), Number::Double(1.0), Number::Double(-1e100)]), Number::Double(1.0));
        assert_eq!(total(&[Number::Double(f64::INFINITY), Number::Double(1.0)]), Number::Double(f64::INFINITY));
    }

    #[test]
    fn sums_go_on_from_what_was_set_aside() {
        let large = [Number::Int64(i64::MAX), Number::Int64(i64::MAX), Number::Int32(1)];
        let infinite = [Number::Double(f64::INFINITY), Number::Int32(1)];
        let decimal = [Number::Decimal128("1.5".parse().unwrap()), Number::Int64(i64::MIN), Number::Int64(i64::MIN)];
        let mixed = [Number::Double(1e100), Number::Double(1.0), Number::Double(-1e100), Number::Int32(2)];
        for numbers in [&large[..], &infinite, &decimal, &mixed] {
            let mut whole = Summation::new();
            for number in numbers {
                let mut part = Summation::new();
                part.add(*number);
                whole.merge(&part.to_partial());
            }
            assert_eq!(whole.total(), total(numbers), "{numbers:?}");
        }
    }

    #[test]
    fn doubles_join_decimals_with_all_digits() {
        assert_eq!(document::decimal::format(decimal_of_double(1.5)), "1.5");
        assert_eq!(document::decimal::format(decimal_of_double(0.1)), "0.1000000000000000055511151231257827");
        assert_eq!(document::decimal::format(decimal_of_double(300.0)), "300");
    }
}
