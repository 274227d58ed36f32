//! A list of who is there that keeps nobody there.
//!
//! Called for connections, sessions with open transactions and rings, which come in thousands and go. Who is gone is forgotten by the next
//! look: a list that is looked through many times a second costs what is there, and not what was there once.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A list is made shorter when it has room for so many times as many as there are.
const ROOM_MAX: usize = 4;

/// See the module's head.
#[derive(Debug)]
pub struct WeakList<T> {
    list: Mutex<Vec<Weak<T>>>,
    belongs: fn(&T) -> bool,
}

impl<T> Default for WeakList<T> {
    fn default() -> Self {
        Self::of_those_that(|_| true)
    }
}

impl<T> WeakList<T> {
    /// Who does not belong here any more is taken off like who is gone. What `belongs` locks must not be held by who calls anything of this.
    pub fn of_those_that(belongs: fn(&T) -> bool) -> Self {
        Self { list: Mutex::default(), belongs }
    }

    /// Adds one, at the end.
    pub fn push(&self, one: &Arc<T>) {
        let mut list = self.list.lock();
        if list.len() == list.capacity() {
            list.retain(|one| one.upgrade().is_some_and(|one| (self.belongs)(&one)));
        }
        list.push(Arc::downgrade(one));
    }

    /// Takes those off that are so, whoever holds them.
    pub fn remove(&self, is_so: impl Fn(&T) -> bool) {
        self.list.lock().retain(|one| one.upgrade().is_some_and(|one| !is_so(&one)));
    }

    /// Those that are there, in the order in which they were added.
    pub fn all(&self) -> Vec<Arc<T>> {
        let mut list = self.list.lock();
        let mut there = Vec::with_capacity(list.len());
        list.retain(|one| match one.upgrade() {
            Some(one) if (self.belongs)(&one) => {
                there.push(one);
                true
            }
            _ => false,
        });
        if list.capacity() > ROOM_MAX * list.len() {
            list.shrink_to_fit();
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn with(numbers: std::ops::Range<u32>) -> Vec<Arc<AtomicU32>> {
        numbers.map(|number| Arc::new(AtomicU32::new(number))).collect()
    }

    fn numbers(list: &WeakList<AtomicU32>) -> Vec<u32> {
        list.all().iter().map(|number| number.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn who_is_gone_or_belongs_there_no_more_is_forgotten_with_the_next_look() {
        let list = WeakList::of_those_that(|number: &AtomicU32| number.load(Ordering::Relaxed) > 0);
        let mut there = with(1..1_000);
        there.iter().for_each(|one| list.push(one));
        assert_eq!(numbers(&list), Vec::from_iter(1..1_000));
        there.retain(|number| number.load(Ordering::Relaxed) % 300 == 7);
        assert_eq!(numbers(&list), [7, 307, 607, 907]);
        there[1].store(0, Ordering::Relaxed);
        assert_eq!(numbers(&list), [7, 607, 907]);
        assert_eq!(list.list.lock().len(), 3);
        list.remove(|number| number.load(Ordering::Relaxed) == 607);
        assert_eq!(numbers(&list), [7, 907]);
        drop(there);
        assert!(list.all().is_empty());
        assert_eq!(list.list.lock().capacity(), 0, "and its memory given back");
    }

    #[test]
    fn who_comes_and_goes_while_nobody_looks_does_not_make_it_grow() {
        let list = WeakList::default();
        let stays = with(0..1);
        list.push(&stays[0]);
        (1..10_000).for_each(|number| list.push(&Arc::new(AtomicU32::new(number))));
        assert!(list.list.lock().capacity() < 10);
        assert_eq!(numbers(&list), [0]);
    }
}
