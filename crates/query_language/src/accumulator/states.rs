//! The states of one accumulator for all groups of a `$group`, one behind the other in memory.
//!
//! Those of the frequent accumulators are of a type of their own, so that a column is added without a call for each row.

use bson::spec::ElementType;

use super::average::Average;
use super::count::Count;
use super::extreme::Extreme;
use super::first::{First, Last};
use super::sum::Sum;
use super::{Accumulator, AccumulatorExpression};
use crate::error::Result;
use crate::expression::EvaluationContext;
use crate::rows::Slot;

/// The states of one accumulator, by the number of their group.
pub trait GroupStates: std::fmt::Debug + Send {
    /// Makes room for so many groups in all.
    fn make_room(&mut self, groups: usize);

    /// Bytes that so many groups take, beside what their values take elsewhere.
    fn bytes_for(&self, groups: usize) -> usize;

    /// Bytes that values take elsewhere.
    fn bytes_elsewhere(&self) -> usize;

    /// Bytes of the largest state so far.
    fn largest_bytes(&self) -> usize;

    /// A state for the next group; `context` is as for [`AccumulatorExpression::new_state`].
    ///
    /// # Errors
    /// Those of that.
    fn add_group(&mut self, expression: &AccumulatorExpression, context: &EvaluationContext<'_>) -> Result<()>;

    /// Feeds a document to its group.
    ///
    /// # Errors
    /// Those of the expression, and of the accumulator.
    fn accumulate(
        &mut self,
        group: usize,
        expression: &AccumulatorExpression,
        context: &EvaluationContext<'_>,
    ) -> Result<()>;

    /// Feeds the rows of a column to their groups.
    ///
    /// # Errors
    /// Those of the accumulator.
    fn accumulate_rows(&mut self, groups: &[u32], slots: &[Slot], bytes: &[u8]) -> Result<()>;

    /// The state of a group.
    fn state(&self, group: usize) -> Option<&dyn Accumulator>;

    /// The same, to be changed; its bytes are not noted then.
    fn state_mut(&mut self, group: usize) -> Option<&mut dyn Accumulator>;

    /// Begins anew with no groups, with the room that there is.
    fn restart(&mut self);

    /// Gives up all groups.
    fn clear(&mut self);
}

/// A state of a type that is known.
trait TypedState: Accumulator + Clone {
    /// Whether a value may make a state larger.
    fn may_grow(slot: Slot) -> bool;
}

impl TypedState for Sum {
    #[inline]
    fn may_grow(slot: Slot) -> bool {
        slot.element_type() == Some(ElementType::Decimal128)
    }
}

impl TypedState for Average {
    #[inline]
    fn may_grow(slot: Slot) -> bool {
        slot.element_type() == Some(ElementType::Decimal128)
    }
}

impl TypedState for Count {
    #[inline]
    fn may_grow(_: Slot) -> bool {
        false
    }
}

impl TypedState for Extreme {
    #[inline]
    fn may_grow(slot: Slot) -> bool {
        slot.number().is_none()
    }
}

impl TypedState for First {
    #[inline]
    fn may_grow(slot: Slot) -> bool {
        slot.inline_word().is_none()
    }
}

impl TypedState for Last {
    #[inline]
    fn may_grow(_: Slot) -> bool {
        true
    }
}

/// The states of an accumulator of a type that is known.
#[derive(Debug)]
struct Typed<A> {
    new: A,
    sizes: Sizes,
    states: Vec<A>,
}

/// The states of any accumulator.
#[derive(Debug, Default)]
struct Boxed {
    sizes: Sizes,
    states: Vec<Box<dyn Accumulator>>,
}

/// What states take beside their own places.
#[derive(Debug, Default)]
struct Sizes {
    elsewhere: usize,
    largest: usize,
}

impl Sizes {
    /// Notes that a state of so many bytes has so many now.
    #[inline]
    fn note(&mut self, before: usize, after: usize) {
        self.elsewhere = (self.elsewhere + after).saturating_sub(before);
        self.largest = self.largest.max(after);
    }
}

/// What the allocator adds to a box.
const BOX_BYTES: usize = 16;

impl AccumulatorExpression {
    /// The states of a `$group`'s groups; none yet.
    pub fn new_states(&self) -> Box<dyn GroupStates> {
        fn typed<A: TypedState + 'static>(new: A) -> Box<dyn GroupStates> {
            Box::new(Typed { sizes: Sizes { elsewhere: 0, largest: new.memory_bytes() }, new, states: Vec::new() })
        }
        match self.name() {
            "$sum" => typed(Sum::default()),
            "$avg" => typed(Average::default()),
            "$count" => typed(Count::default()),
            "$min" => typed(Extreme::least()),
            "$max" => typed(Extreme::greatest()),
            "$first" => typed(First::default()),
            "$last" => typed(Last::default()),
            _ => Box::new(Boxed::default()),
        }
    }
}

impl<A: TypedState> GroupStates for Typed<A> {
    fn make_room(&mut self, groups: usize) {
        self.states.reserve_exact(groups.saturating_sub(self.states.len()));
    }

    fn bytes_for(&self, groups: usize) -> usize {
        groups * size_of::<A>()
    }

    fn bytes_elsewhere(&self) -> usize {
        self.sizes.elsewhere
    }

    fn largest_bytes(&self) -> usize {
        self.sizes.largest
    }

    fn add_group(&mut self, _: &AccumulatorExpression, _: &EvaluationContext<'_>) -> Result<()> {
        self.states.push(self.new.clone());
        Ok(())
    }

    fn accumulate(
        &mut self,
        group: usize,
        expression: &AccumulatorExpression,
        context: &EvaluationContext<'_>,
    ) -> Result<()> {
        let Some(state) = self.states.get_mut(group) else { return Ok(()) };
        let before = state.memory_bytes();
        expression.accumulate(state, context)?;
        self.sizes.note(before, state.memory_bytes());
        Ok(())
    }

    fn accumulate_rows(&mut self, groups: &[u32], slots: &[Slot], bytes: &[u8]) -> Result<()> {
        for (group, slot) in groups.iter().zip(slots) {
            let Some(state) = self.states.get_mut(*group as usize) else { continue };
            if A::may_grow(*slot) {
                let before = state.memory_bytes();
                state.accumulate_slot(*slot, bytes)?;
                self.sizes.note(before, state.memory_bytes());
            } else {
                state.accumulate_slot(*slot, bytes)?;
            }
        }
        Ok(())
    }

    fn state(&self, group: usize) -> Option<&dyn Accumulator> {
        self.states.get(group).map(|state| state as &dyn Accumulator)
    }

    fn state_mut(&mut self, group: usize) -> Option<&mut dyn Accumulator> {
        self.states.get_mut(group).map(|state| state as &mut dyn Accumulator)
    }

    fn restart(&mut self) {
        self.states.clear();
        self.sizes.elsewhere = 0;
    }

    fn clear(&mut self) {
        self.states = Vec::new();
        self.sizes = Sizes { elsewhere: 0, largest: self.new.memory_bytes() };
    }
}

impl GroupStates for Boxed {
    fn make_room(&mut self, groups: usize) {
        self.states.reserve_exact(groups.saturating_sub(self.states.len()));
    }

    fn bytes_for(&self, groups: usize) -> usize {
        groups * (size_of::<Box<dyn Accumulator>>() + BOX_BYTES)
    }

    fn bytes_elsewhere(&self) -> usize {
        self.sizes.elsewhere
    }

    fn largest_bytes(&self) -> usize {
        self.sizes.largest
    }

    fn add_group(&mut self, expression: &AccumulatorExpression, context: &EvaluationContext<'_>) -> Result<()> {
        let state = expression.new_state(context)?;
        self.sizes.note(0, state.memory_bytes());
        self.states.push(state);
        Ok(())
    }

    fn accumulate(
        &mut self,
        group: usize,
        expression: &AccumulatorExpression,
        context: &EvaluationContext<'_>,
    ) -> Result<()> {
        let Some(state) = self.states.get_mut(group) else { return Ok(()) };
        let before = state.memory_bytes();
        expression.accumulate(state.as_mut(), context)?;
        self.sizes.note(before, state.memory_bytes());
        Ok(())
    }

    fn accumulate_rows(&mut self, groups: &[u32], slots: &[Slot], bytes: &[u8]) -> Result<()> {
        for (group, slot) in groups.iter().zip(slots) {
            let Some(state) = self.states.get_mut(*group as usize) else { continue };
            let before = state.memory_bytes();
            state.accumulate_slot(*slot, bytes)?;
            self.sizes.note(before, state.memory_bytes());
        }
        Ok(())
    }

    fn state(&self, group: usize) -> Option<&dyn Accumulator> {
        self.states.get(group).map(|state| state.as_ref() as &dyn Accumulator)
    }

    fn state_mut(&mut self, group: usize) -> Option<&mut dyn Accumulator> {
        self.states.get_mut(group).map(|state| state.as_mut() as &mut dyn Accumulator)
    }

    fn restart(&mut self) {
        self.states.clear();
        self.sizes.elsewhere = 0;
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
