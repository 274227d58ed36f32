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

/// A state as it lies among the others of its accumulator: in its own place, or in a box.
trait State: std::fmt::Debug + Send + Sized {
    /// What new ones are made from.
    type Pattern: std::fmt::Debug + Send;

    /// Bytes that one takes, beside what its values take elsewhere.
    const BYTES: usize;

    /// What is noted when there is none yet.
    fn no_sizes(pattern: &Self::Pattern) -> Sizes;

    /// A new one; what it takes elsewhere is noted.
    ///
    /// # Errors
    /// Those of [`AccumulatorExpression::new_state`].
    fn begin(
        pattern: &Self::Pattern,
        expression: &AccumulatorExpression,
        context: &EvaluationContext<'_>,
        sizes: &mut Sizes,
    ) -> Result<Self>;

    /// Whether a value may make it larger.
    fn may_grow(slot: Slot) -> bool;

    fn memory_bytes(&self) -> usize;

    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()>;

    fn accumulator(&self) -> &dyn Accumulator;

    fn accumulator_mut(&mut self) -> &mut dyn Accumulator;
}

/// Of a type that is known.
impl<A: TypedState + 'static> State for A {
    type Pattern = A;

    const BYTES: usize = size_of::<A>();

    fn no_sizes(pattern: &A) -> Sizes {
        Sizes { elsewhere: 0, largest: Accumulator::memory_bytes(pattern) }
    }

    #[inline]
    fn begin(pattern: &A, _: &AccumulatorExpression, _: &EvaluationContext<'_>, _: &mut Sizes) -> Result<A> {
        Ok(pattern.clone())
    }

    #[inline]
    fn may_grow(slot: Slot) -> bool {
        <A as TypedState>::may_grow(slot)
    }

    #[inline]
    fn memory_bytes(&self) -> usize {
        Accumulator::memory_bytes(self)
    }

    #[inline]
    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        Accumulator::accumulate_slot(self, slot, bytes)
    }

    fn accumulator(&self) -> &dyn Accumulator {
        self
    }

    fn accumulator_mut(&mut self) -> &mut dyn Accumulator {
        self
    }
}

/// Of any accumulator.
impl State for Box<dyn Accumulator> {
    type Pattern = ();

    const BYTES: usize = size_of::<Self>() + BOX_BYTES;

    fn no_sizes((): &()) -> Sizes {
        Sizes::default()
    }

    fn begin(
        (): &(),
        expression: &AccumulatorExpression,
        context: &EvaluationContext<'_>,
        sizes: &mut Sizes,
    ) -> Result<Self> {
        let state = expression.new_state(context)?;
        sizes.note(0, state.as_ref().memory_bytes());
        Ok(state)
    }

    fn may_grow(_: Slot) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        self.as_ref().memory_bytes()
    }

    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        self.as_mut().accumulate_slot(slot, bytes)
    }

    fn accumulator(&self) -> &dyn Accumulator {
        self.as_ref()
    }

    fn accumulator_mut(&mut self) -> &mut dyn Accumulator {
        self.as_mut()
    }
}

/// The states of one accumulator.
#[derive(Debug)]
struct States<S: State> {
    pattern: S::Pattern,
    sizes: Sizes,
    states: Vec<S>,
}

impl<S: State> States<S> {
    fn new(pattern: S::Pattern) -> Self {
        Self { sizes: S::no_sizes(&pattern), pattern, states: Vec::new() }
    }
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
            Box::new(States::<A>::new(new))
        }
        match self.name() {
            "$sum" => typed(Sum::default()),
            "$avg" => typed(Average::default()),
            "$count" => typed(Count::default()),
            "$min" => typed(Extreme::least()),
            "$max" => typed(Extreme::greatest()),
            "$first" => typed(First::default()),
            "$last" => typed(Last::default()),
            _ => Box::new(States::<Box<dyn Accumulator>>::new(())),
        }
    }
}

impl<S: State> GroupStates for States<S> {
    fn make_room(&mut self, groups: usize) {
        self.states.reserve_exact(groups.saturating_sub(self.states.len()));
    }

    fn bytes_for(&self, groups: usize) -> usize {
        groups * S::BYTES
    }

    fn bytes_elsewhere(&self) -> usize {
        self.sizes.elsewhere
    }

    fn largest_bytes(&self) -> usize {
        self.sizes.largest
    }

    fn add_group(&mut self, expression: &AccumulatorExpression, context: &EvaluationContext<'_>) -> Result<()> {
        self.states.push(S::begin(&self.pattern, expression, context, &mut self.sizes)?);
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
        expression.accumulate(state.accumulator_mut(), context)?;
        self.sizes.note(before, state.memory_bytes());
        Ok(())
    }

    fn accumulate_rows(&mut self, groups: &[u32], slots: &[Slot], bytes: &[u8]) -> Result<()> {
        for (group, slot) in groups.iter().zip(slots) {
            let Some(state) = self.states.get_mut(*group as usize) else { continue };
            if S::may_grow(*slot) {
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
        self.states.get(group).map(State::accumulator)
    }

    fn state_mut(&mut self, group: usize) -> Option<&mut dyn Accumulator> {
        self.states.get_mut(group).map(State::accumulator_mut)
    }

    fn restart(&mut self) {
        self.states.clear();
        self.sizes.elsewhere = 0;
    }

    fn clear(&mut self) {
        self.states = Vec::new();
        self.sizes = S::no_sizes(&self.pattern);
    }
}
