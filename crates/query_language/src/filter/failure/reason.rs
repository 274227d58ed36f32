//! What is said of each operator of a path.

use bson::spec::ElementType;
use document::LeafArrays;

/// What is said of an operator.
pub(super) struct Reason {
    /// When it does not hold.
    pub(super) failed: &'static str,
    /// When it does, and is negated.
    pub(super) succeeded: &'static str,
    /// Which values it looks at.
    pub(super) arrays: LeafArrays,
    /// The types that it can hold for, where these are few.
    pub(super) expected: Option<&'static [ElementType]>,
}

const NUMBERS: &[ElementType] = &[ElementType::Int32, ElementType::Int64, ElementType::Double, ElementType::Decimal128];
const BITS: &[ElementType] =
    &[ElementType::Int32, ElementType::Int64, ElementType::Double, ElementType::Decimal128, ElementType::Binary];
const TEXTS: &[ElementType] = &[ElementType::String, ElementType::Symbol, ElementType::RegularExpression];
const ARRAYS: &[ElementType] = &[ElementType::Array];

pub(super) fn reason_of(operator: &str) -> Reason {
    use LeafArrays::{Expand, Whole};
    let (failed, succeeded, arrays, expected) = match operator {
        "$exists" => ("path does not exist", "path does exist", Whole, None),
        "$type" => ("type did not match", "type did match", Expand, None),
        "$in" => ("no matching value found in array", "matching value found in array", Expand, None),
        // These are negations: they fail when what they negate holds.
        "$nin" => ("matching value found in array", "no matching value found in array", Expand, None),
        "$ne" => ("comparison succeeded", "comparison failed", Expand, None),
        "$mod" => (
            "$mod did not evaluate to expected remainder",
            "$mod did evaluate to expected remainder",
            Expand,
            Some(NUMBERS),
        ),
        "$regex" => ("regular expression did not match", "regular expression did match", Expand, Some(TEXTS)),
        "$size" => {
            ("array length was not equal to given size", "array length was equal to given size", Whole, Some(ARRAYS))
        }
        "$bitsAllSet" | "$bitsAnySet" | "$bitsAllClear" | "$bitsAnyClear" => {
            ("bitwise operator failed to match", "bitwise operator matched successfully", Expand, Some(BITS))
        }
        "$geoWithin" | "$within" => (
            "none of the considered geometries were contained within the expression\u{2019}s geometry",
            "at least one of considered geometries was contained within the expression\u{2019}s geometry",
            Expand,
            None,
        ),
        "$geoIntersects" => (
            "none of the considered geometries intersected the expression\u{2019}s geometry",
            "at least one of considered geometries intersected the expression\u{2019}s geometry",
            Expand,
            None,
        ),
        "$all" => ("array did not contain all specified values", "array did contain all specified values", Whole, None),
        "$elemMatch" => {
            ("array did not satisfy the child predicate", "array did satisfy the child predicate", Whole, Some(ARRAYS))
        }
        _ => ("comparison failed", "comparison succeeded", Expand, None),
    };
    Reason { failed, succeeded, arrays, expected }
}
