//! Numbers of any BSON type: exact comparison across types, conversions and MongoDB's arithmetic result types.
//!
//! Used by updates (`$inc`, `$mul`), expressions and accumulators. Result types: decimal128 wins over double, double
//! over integers; int32 overflows into int64. What int64 overflow does depends on the caller: an error in updates
//! (`checked_*`), a double in expressions (`add`, `subtract`, `multiply`).

use std::cmp::Ordering;

use bson::{Decimal128, RawBson, RawBsonRef};

use crate::decimal::{self, Decimal};
use crate::exact::compare_double_with_decimal;
use crate::value_view::ValueView;

/// A BSON number.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal128(Decimal128),
}

impl Number {
    /// The number in `value`; `None` when it is not one.
    #[inline]
    pub fn from_bson(value: RawBsonRef<'_>) -> Option<Self> {
        match value {
            RawBsonRef::Int32(value) => Some(Number::Int32(value)),
            RawBsonRef::Int64(value) => Some(Number::Int64(value)),
            RawBsonRef::Double(value) => Some(Number::Double(value)),
            RawBsonRef::Decimal128(value) => Some(Number::Decimal128(value)),
            _ => None,
        }
    }

    /// The number in `view`; `None` when it is not one.
    #[inline]
    pub fn from_view(view: ValueView<'_>) -> Option<Self> {
        match view {
            ValueView::Int32(value) => Some(Number::Int32(value)),
            ValueView::Int64(value) => Some(Number::Int64(value)),
            ValueView::Double(value) => Some(Number::Double(value)),
            ValueView::Decimal128(bytes) => Some(Number::Decimal128(Decimal128::from_bytes(bytes))),
            _ => None,
        }
    }

    /// As a borrowed BSON value.
    #[inline]
    pub fn to_bson_ref(self) -> RawBsonRef<'static> {
        match self {
            Number::Int32(value) => RawBsonRef::Int32(value),
            Number::Int64(value) => RawBsonRef::Int64(value),
            Number::Double(value) => RawBsonRef::Double(value),
            Number::Decimal128(value) => RawBsonRef::Decimal128(value),
        }
    }

    /// As an owned BSON value.
    pub fn to_bson(self) -> RawBson {
        self.to_bson_ref().into()
    }

    /// An integer as int32 when it fits, else as int64.
    #[inline]
    pub fn from_i64_narrowed(value: i64) -> Self {
        i32::try_from(value).map_or(Number::Int64(value), Number::Int32)
    }

    /// Exact comparison across types. NaN equals NaN and is below every other number; zeroes are equal.
    #[inline]
    pub fn compare(self, other: Number) -> Ordering {
        match (self.integer(), other.integer()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => self.compare_non_integers(other),
        }
    }

    fn compare_non_integers(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Double(left), Number::Double(right)) => compare_doubles(left, right),
            (Number::Double(left), Number::Int32(right)) => compare_double_with_integer(left, i64::from(right)),
            (Number::Double(left), Number::Int64(right)) => compare_double_with_integer(left, right),
            (Number::Int32(left), Number::Double(right)) => compare_double_with_integer(right, left.into()).reverse(),
            (Number::Int64(left), Number::Double(right)) => compare_double_with_integer(right, left).reverse(),
            (Number::Double(left), Number::Decimal128(right)) => {
                compare_double_with_decimal(left, Decimal::from_bson(right))
            }
            (Number::Decimal128(left), Number::Double(right)) => {
                compare_double_with_decimal(right, Decimal::from_bson(left)).reverse()
            }
            _ => self.to_decimal().compare(other.to_decimal()),
        }
    }

    /// The value of an int32 or int64.
    #[inline]
    pub fn integer(self) -> Option<i64> {
        match self {
            Number::Int32(value) => Some(i64::from(value)),
            Number::Int64(value) => Some(value),
            _ => None,
        }
    }

    /// True for NaN of either type.
    pub fn is_nan(self) -> bool {
        match self {
            Number::Double(value) => value.is_nan(),
            Number::Decimal128(value) => Decimal::from_bson(value) == Decimal::NaN,
            _ => false,
        }
    }

    /// True for NaN and the infinities.
    pub fn is_nan_or_infinite(self) -> bool {
        match self {
            Number::Double(value) => !value.is_finite(),
            Number::Decimal128(value) => !matches!(Decimal::from_bson(value), Decimal::Finite { .. }),
            _ => false,
        }
    }

    /// True for zero of either sign.
    pub fn is_zero(self) -> bool {
        match self {
            Number::Double(value) => value == 0.0,
            Number::Decimal128(value) => Decimal::from_bson(value).is_zero(),
            _ => self.integer() == Some(0),
        }
    }

    /// True when the value has no fractional part, whatever its size; false for NaN and infinities.
    pub fn is_integral(self) -> bool {
        match self {
            Number::Double(value) => value.is_finite() && value.trunc() == value,
            Number::Decimal128(value) => Decimal::from_bson(value).is_integral(),
            _ => true,
        }
    }

    /// -1, 0 or 1; 0 also for NaN.
    pub fn sign(self) -> i8 {
        match self {
            Number::Int32(value) => value.signum() as i8,
            Number::Int64(value) => value.signum() as i8,
            Number::Double(value) => (value > 0.0) as i8 - (value < 0.0) as i8,
            Number::Decimal128(value) => Decimal::from_bson(value).sign(),
        }
    }

    /// The value as int64 when it is exactly one, whatever its type.
    #[inline]
    pub fn to_i64_exact(self) -> Option<i64> {
        match self {
            Number::Double(value) => double_to_i64(value).filter(|integer| *integer as f64 == value),
            Number::Decimal128(value) => {
                let decimal = Decimal::from_bson(value);
                if decimal.is_integral() { decimal.to_i64_truncated() } else { None }
            }
            _ => self.integer(),
        }
    }

    /// The value truncated towards zero; `None` when it does not fit an int64, or for NaN.
    #[inline]
    pub fn to_i64_truncated(self) -> Option<i64> {
        match self {
            Number::Double(value) => double_to_i64(value),
            Number::Decimal128(value) => Decimal::from_bson(value).to_i64_truncated(),
            _ => self.integer(),
        }
    }

    /// The value truncated towards zero, or the end of the range of int64 that is nearest; zero for NaN.
    pub fn to_i64_saturating(self) -> i64 {
        match (self.to_i64_truncated(), self.to_f64()) {
            (Some(value), _) => value,
            (None, value) if value > 0.0 => i64::MAX,
            (None, value) if value < 0.0 => i64::MIN,
            (None, _) => 0,
        }
    }

    /// The nearest double.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int32(value) => f64::from(value),
            Number::Int64(value) => value as f64,
            Number::Double(value) => value,
            Number::Decimal128(value) => Decimal::from_bson(value).to_f64(),
        }
    }

    /// As a decimal: integers exactly, doubles rounded to 15 significant digits as MongoDB does.
    pub fn to_decimal(self) -> Decimal {
        match self {
            Number::Int32(value) => Decimal::from_i64(i64::from(value)),
            Number::Int64(value) => Decimal::from_i64(value),
            Number::Double(value) => Decimal::from_f64(value),
            Number::Decimal128(value) => Decimal::from_bson(value),
        }
    }

    /// Sum; integers too large for int64 become a double.
    #[allow(
        clippy::should_implement_trait,
        reason = "a rule of MongoDB's expressions, not what `+` would mean to a reader"
    )]
    pub fn add(self, other: Number) -> Number {
        self.checked_add(other).unwrap_or_else(|| Number::Double(self.to_f64() + other.to_f64()))
    }

    /// Difference; integers too large for int64 become a double.
    pub fn subtract(self, other: Number) -> Number {
        self.checked_subtract(other).unwrap_or_else(|| Number::Double(self.to_f64() - other.to_f64()))
    }

    /// Product; integers too large for int64 become a double.
    pub fn multiply(self, other: Number) -> Number {
        self.checked_multiply(other).unwrap_or_else(|| Number::Double(self.to_f64() * other.to_f64()))
    }

    /// Sum; `None` when two integers overflow int64.
    pub fn checked_add(self, other: Number) -> Option<Number> {
        self.apply(other, i64::checked_add, |left, right| left + right, decimal::add)
    }

    /// Difference; `None` when two integers overflow int64.
    pub fn checked_subtract(self, other: Number) -> Option<Number> {
        self.apply(other, i64::checked_sub, |left, right| left - right, decimal::subtract)
    }

    /// Product; `None` when two integers overflow int64.
    pub fn checked_multiply(self, other: Number) -> Option<Number> {
        self.apply(other, i64::checked_mul, |left, right| left * right, decimal::multiply)
    }

    /// Quotient: a double, or a decimal when either side is one. `None` for a zero divisor.
    pub fn divide(self, other: Number) -> Option<Number> {
        if other.is_zero() {
            return None;
        }
        Some(if self.is_decimal() || other.is_decimal() {
            Number::Decimal128(decimal::divide(self.to_decimal(), other.to_decimal()).to_bson())
        } else {
            Number::Double(self.to_f64() / other.to_f64())
        })
    }

    /// Remainder with the dividend's sign. `None` for a zero divisor.
    pub fn remainder(self, other: Number) -> Option<Number> {
        if other.is_zero() {
            return None;
        }
        self.apply(
            other,
            // The one overflow, MIN % -1, is zero.
            |left, right| Some(left.checked_rem(right).unwrap_or(0)),
            |left, right| left % right,
            decimal::remainder,
        )
    }

    /// Absolute value; int32's minimum becomes an int64. `None` for int64's minimum.
    pub fn checked_absolute(self) -> Option<Number> {
        Some(match self {
            Number::Int32(value) => Number::from_i64_narrowed(i64::from(value).abs()),
            Number::Int64(value) => Number::Int64(value.checked_abs()?),
            Number::Double(value) => Number::Double(value.abs()),
            Number::Decimal128(value) => {
                let mut bytes = value.bytes();
                bytes[15] &= 0x7F;
                Number::Decimal128(Decimal128::from_bytes(bytes))
            }
        })
    }

    /// True for decimal128.
    pub fn is_decimal(self) -> bool {
        matches!(self, Number::Decimal128(_))
    }

    /// Applies an operation in the result type of the two operands.
    fn apply(
        self,
        other: Number,
        integers: impl FnOnce(i64, i64) -> Option<i64>,
        doubles: impl FnOnce(f64, f64) -> f64,
        decimals: impl FnOnce(Decimal, Decimal) -> Decimal,
    ) -> Option<Number> {
        if let (Some(left), Some(right)) = (self.integer(), other.integer()) {
            let result = integers(left, right)?;
            let both_int32 = matches!((self, other), (Number::Int32(_), Number::Int32(_)));
            return Some(if both_int32 { Number::from_i64_narrowed(result) } else { Number::Int64(result) });
        }
        Some(if self.is_decimal() || other.is_decimal() {
            Number::Decimal128(decimals(self.to_decimal(), other.to_decimal()).to_bson())
        } else {
            Number::Double(doubles(self.to_f64(), other.to_f64()))
        })
    }
}

/// Truncates towards zero; `None` out of range and for NaN.
#[inline]
fn double_to_i64(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (-LIMIT..LIMIT).contains(&value).then_some(value as i64)
}

/// NaN equals NaN and is below every number; zeroes are equal.
#[inline]
pub(crate) fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

#[inline]
fn compare_double_with_integer(left: f64, right: i64) -> Ordering {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if left.is_nan() || left < -LIMIT {
        return Ordering::Less;
    }
    if left >= LIMIT {
        return Ordering::Greater;
    }
    let whole = left.trunc();
    (whole as i64).cmp(&right).then_with(|| left.partial_cmp(&whole).unwrap_or(Ordering::Equal))
}
