//! What a capped collection must be: which documents lie in the ring in which order, and what an insert may overtake.
//!
//! Part of `model`. Where a document lies and how far the head has moved is taken from the oplog's entry, and judged: places only grow, what goes is the oldest, the
//! limits hold, and no more goes than the region asks for.

use std::collections::BTreeMap;

use collection::CappedOptions;

/// A slot of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The document's `_id`; `None` when it is deleted.
    pub(crate) id: Option<i32>,
    /// Bytes of the document when it was inserted.
    bytes: u64,
}

/// A ring.
#[derive(Clone, Debug)]
pub(crate) struct RingModel {
    pub(crate) limits: CappedOptions,
    /// By record id.
    pub(crate) slots: BTreeMap<i64, Slot>,
    /// The longest slot there ever was.
    longest: u64,
    /// Whether the limits were changed: the region is cut in two then until it has been gone around.
    is_resized: bool,
}

/// Bytes that a document takes in the region.
fn slot_bytes(length: u64) -> u64 {
    (24 + length).next_multiple_of(8)
}

impl RingModel {
    pub(crate) fn new(limits: CappedOptions) -> RingModel {
        RingModel { limits, slots: BTreeMap::new(), longest: 0, is_resized: false }
    }

    pub(crate) fn resize(&mut self, limits: CappedOptions) {
        self.limits = limits;
        self.is_resized = true;
    }

    /// A document of so many bytes was put at a place, and everything before `head` is gone. Returns the `_id`s of that.
    pub(crate) fn insert(&mut self, id: i32, place: i64, head: i64, length: u64) -> Vec<i32> {
        let kept = self.slots.split_off(&head);
        let gone = std::mem::replace(&mut self.slots, kept);
        self.longest = self.longest.max(slot_bytes(length));
        self.slots.insert(place, Slot { id: Some(id), bytes: length });
        gone.values().filter_map(|slot| slot.id).collect()
    }

    pub(crate) fn delete(&mut self, id: i32) {
        if let Some(slot) = self.slots.values_mut().rev().find(|slot| slot.id == Some(id)) {
            slot.id = None;
        }
    }

    pub(crate) fn place_of(&self, id: i32) -> Option<i64> {
        self.slots.iter().rev().find(|(_, slot)| slot.id == Some(id)).map(|(place, _)| *place)
    }

    /// What is wrong with an insert that has not been made yet. `bytes_of`: of a document as it is now.
    pub(crate) fn judge(&self, place: i64, head: i64, length: u64, bytes_of: impl Fn(i32) -> u64) -> Option<String> {
        if let Some((last, _)) = self.slots.last_key_value()
            && place <= *last
        {
            return Some(format!("place {place} is not behind {last}"));
        }
        if head > place {
            return Some(format!("the insert at {place} moves the head to {head}"));
        }
        let live = |slot: &Slot| slot.id.map_or(0, &bytes_of);
        let kept: Vec<&Slot> = self.slots.range(head..).map(|(_, slot)| slot).collect();
        let bytes = length + kept.iter().map(|slot| live(slot)).sum::<u64>();
        let documents = 1 + kept.iter().filter(|slot| slot.id.is_some()).count() as u64;
        let is_too_much =
            |bytes: u64, documents: u64| bytes > self.limits.size || self.limits.max.is_some_and(|max| documents > max);
        if is_too_much(bytes, documents) && !kept.is_empty() {
            return Some(format!("{documents} documents of {bytes} bytes are left: {:?}", self.limits));
        }
        let (_, overtaken) = self.slots.range(..head).next_back()?;
        let (bytes, documents) = (bytes + live(overtaken), documents + u64::from(overtaken.id.is_some()));
        if is_too_much(bytes, documents) || self.is_resized {
            return None;
        }
        // Then only the region can have asked for it: the slots and what one lap leaves unused fill it.
        let used: u64 = kept.iter().map(|slot| slot_bytes(slot.bytes)).sum();
        let lost = 3 * self.longest.max(slot_bytes(length));
        let enough = used + slot_bytes(length) + slot_bytes(overtaken.bytes) + lost > self.limits.size;
        (!enough).then(|| format!("{used} bytes are left of {}, and more was overtaken", self.limits.size))
    }
}
