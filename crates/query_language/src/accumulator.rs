//! Accumulators: values gathered over a group of documents.
//!
//! Called by the `$group` and `$bucket` stages, and by the expressions of the same names. `AccumulatorExpression` is
//! one accumulator as the client wrote it; it makes an `Accumulator` a group, feeds it with what its argument evaluates to,
//! and asks it for the result. A state can be written out as a partial result and merged again, so that groups spill.

mod add_to_set;
mod average;
mod concat_arrays;
mod count;
mod extreme;
mod extreme_n;
mod first;
mod first_n;
mod merge_objects;
mod parse;
pub(crate) mod percentile;
mod push;
mod reduce;
mod registry;
mod script;
mod standard_deviation;
mod states;
mod sum;
mod top;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};

pub use parse::AccumulatorExpression;
pub(crate) use registry::make_unary;
pub use registry::{ACCUMULATORS, AccumulatorOperator};
pub use states::GroupStates;

use crate::error::Result;
use crate::expression::Value;
use crate::expression::sort_pattern::SortKey;
use crate::rows::Slot;

/// What one document contributes.
#[derive(Debug)]
pub enum Input<'v> {
    /// The value of the argument.
    Value(Value<'v>),
    /// The value of `output` and the key it is ordered by (`$top` and its kin).
    Keyed(SortKey, Value<'v>),
}

impl<'v> Input<'v> {
    /// The value, whether keyed or not.
    pub fn into_value(self) -> Value<'v> {
        match self {
            Input::Value(value) | Input::Keyed(_, value) => value,
        }
    }
}

/// The state of one accumulator for one group.
pub trait Accumulator: std::fmt::Debug + Send {
    /// Takes one document's contribution in. Contributions come in the order of the documents.
    fn accumulate(&mut self, input: Input<'_>) -> Result<()>;

    /// The same with the value of a column's slot.
    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        let value = slot.value(bytes);
        crate::growth::before_copying(value, 1)?;
        self.accumulate(Input::Value(value.into()))
    }

    /// The result so far.
    fn finish(&self) -> Result<Value<'static>>;

    /// Bytes held by the state, for the stage's memory limit.
    fn memory_bytes(&self) -> usize;

    /// The state as BSON, to be spilled.
    fn to_partial(&self) -> Result<RawBson>;

    /// Takes in the state of later documents of the same group, as `to_partial` wrote it.
    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()>;
}

/// Bytes of a value in memory, near enough for a limit.
pub fn value_bytes(value: &RawBson) -> usize {
    size_of::<RawBson>()
        + match value {
            RawBson::String(text) | RawBson::Symbol(text) | RawBson::JavaScriptCode(text) => text.len(),
            RawBson::Array(array) => array.as_bytes().len(),
            RawBson::Document(document) => document.as_bytes().len(),
            RawBson::Binary(binary) => binary.bytes.len(),
            RawBson::RegularExpression(regex) => regex.pattern.len() + regex.options.len(),
            RawBson::JavaScriptCodeWithScope(code) => code.code.len() + code.scope.as_bytes().len(),
            _ => 0,
        }
}

/// An optional value as an array of none or one, for partial states.
fn optional_to_partial(value: Option<&RawBson>) -> RawBson {
    RawBson::Array(value.map(RawBson::as_raw_bson_ref).into_iter().collect::<RawArrayBuf>())
}

/// The elements of a partial state that is an array.
fn partial_elements(partial: RawBsonRef<'_>) -> impl Iterator<Item = RawBsonRef<'_>> {
    partial.as_array().into_iter().flat_map(document::array_elements).map(|element| element.value())
}

#[cfg(test)]
mod tests;
