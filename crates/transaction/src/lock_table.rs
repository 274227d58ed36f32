//! Locks on things that are named by a value rather than held in a structure: records and unique keys.
//!
//! Called by `change`, `insert`, `unique`, `index_build` and by transactions. A table is split into shards; in a shard the names that are
//! locked are in a short list. Who finds a name locked by another thread sleeps until something in the shard is released.
//!
//! Transactions own names from their first write until they end, which can be long. Nobody sleeps for that with anything locked: whoever
//! meets such a name is told, gives up what it holds, waits (`wait_until_released`) and begins again; another transaction
//! is in conflict.
//!
//! Against deadlock (`docs/lock-order.md`): a thread holds at most one record lock, takes unique keys only after it, and takes
//! unique keys in ascending order. Nobody who holds either waits for anything that needs them.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{WaitKind, waiting};

const SHARDS: usize = 128;

/// What a lock is called: two numbers.
pub(crate) type LockName = (u64, u64);

/// A name in 64 bits. Names that differ in their second number only differ in this, too; others by chance only, and then one waits for the other in vain.
type Fingerprint = u64;

/// The names that a transaction owns, so that it can let go of them.
#[derive(Debug)]
pub(crate) enum OwnedNames {
    Listed(Vec<Fingerprint>),
    /// Too many to be listed: they are looked for in the whole table.
    Many,
}

/// Names that are listed, at most.
const LISTED_MAX: usize = 16 << 10;

/// A transaction owns the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnedByTransaction(pub(crate) LockName);

/// What became of a transaction's wish for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It owns the name from now on.
    Taken,
    /// It owned it before.
    Had,
    /// Another transaction does.
    OfAnother,
}

/// A table of locks.
pub(crate) struct LockTable {
    shards: Vec<Shard>,
}

#[derive(Default)]
#[repr(align(64))]
struct Shard {
    held: Mutex<Held>,
    released: Condvar,
}

#[derive(Default)]
struct Held {
    /// By threads.
    names: Vec<LockName>,
    /// By transactions, with their numbers.
    owned: HashMap<Fingerprint, u64>,
    waiting: usize,
}

/// A lock that is held until this is dropped.
pub(crate) struct LockGuard<'a> {
    shard: &'a Shard,
    name: LockName,
}

impl LockTable {
    pub(crate) fn new() -> LockTable {
        LockTable { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    /// Takes a lock, waiting until no other thread holds it.
    pub(crate) fn lock(&self, name: LockName) -> Result<LockGuard<'_>, OwnedByTransaction> {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        shard.wait_for_threads(&mut held, name);
        if !held.owned.is_empty() && held.owned.contains_key(&fingerprint(name)) {
            return Err(OwnedByTransaction(name));
        }
        held.names.push(name);
        drop(held);
        Ok(LockGuard { shard, name })
    }

    /// Makes a transaction the owner of a name, once no thread holds it, and notes that in `names`.
    pub(crate) fn own(&self, transaction: u64, name: LockName, names: &mut OwnedNames) -> Ownership {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        shard.wait_for_threads(&mut held, name);
        let name = fingerprint(name);
        match held.owned.get(&name) {
            Some(owner) if *owner == transaction => Ownership::Had,
            Some(_) => Ownership::OfAnother,
            None => {
                held.owned.insert(name, transaction);
                names.push(name);
                Ownership::Taken
            }
        }
    }

    /// Ends a transaction's ownership.
    pub(crate) fn release(&self, transaction: u64, names: OwnedNames) {
        match names {
            OwnedNames::Listed(names) => {
                for name in names {
                    self.shard_of(name).release(|held| {
                        if held.owned.get(&name) == Some(&transaction) {
                            held.owned.remove(&name);
                        }
                    });
                }
            }
            OwnedNames::Many => {
                for shard in &self.shards {
                    shard.release(|held| held.owned.retain(|_, owner| *owner != transaction));
                }
            }
        }
    }

    /// Waits at most so long until no transaction owns the name; `false`: one still does.
    pub(crate) fn wait_until_released(&self, name: LockName, longest: Duration) -> bool {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        let name = fingerprint(name);
        if held.owned.contains_key(&name) {
            held.waiting += 1;
            waiting(WaitKind::Locks, || shard.released.wait_for(&mut held, longest));
            held.waiting -= 1;
        }
        !held.owned.contains_key(&name)
    }

    fn shard(&self, name: LockName) -> &Shard {
        self.shard_of(fingerprint(name))
    }

    fn shard_of(&self, name: Fingerprint) -> &Shard {
        &self.shards[(name >> 57) as usize % SHARDS]
    }
}

fn fingerprint(name: LockName) -> Fingerprint {
    mix(name.0.wrapping_add(mix(name.1)))
}

/// A bijection of which every bit depends on all (the finaliser of splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

impl Default for OwnedNames {
    fn default() -> OwnedNames {
        OwnedNames::Listed(Vec::new())
    }
}

impl OwnedNames {
    fn push(&mut self, name: Fingerprint) {
        match self {
            OwnedNames::Listed(names) if names.len() < LISTED_MAX => names.push(name),
            listed => *listed = OwnedNames::Many,
        }
    }
}

impl Shard {
    fn release(&self, remove: impl FnOnce(&mut Held)) {
        let mut held = self.held.lock();
        remove(&mut held);
        if held.owned.is_empty() {
            held.owned.shrink_to(64);
        }
        if held.waiting > 0 {
            self.released.notify_all();
        }
    }

    fn wait_for_threads(&self, held: &mut parking_lot::MutexGuard<'_, Held>, name: LockName) {
        while held.names.contains(&name) {
            held.waiting += 1;
            waiting(WaitKind::Locks, || self.released.wait(held));
            held.waiting -= 1;
        }
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        let mut held = self.shard.held.lock();
        if let Some(position) = held.names.iter().position(|name| *name == self.name) {
            held.names.swap_remove(position);
        }
        if held.waiting > 0 {
            self.shard.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let table = LockTable::new();
        let total = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let _guard = table.lock((7, round % 2)).unwrap();
                        // Not atomic on purpose: lost updates would show.
                        let seen = total.load(Ordering::Relaxed);
                        if round % 2 == 0 {
                            total.store(seen + 1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 1_000);
        assert!(table.shards.iter().all(|shard| shard.held.lock().names.is_empty()));
    }

    #[test]
    fn what_a_transaction_owns_is_nobody_elses_until_it_is_released() {
        let (table, mut first, mut second) = (LockTable::new(), OwnedNames::default(), OwnedNames::default());
        assert_eq!(table.own(1, (7, 1), &mut first), Ownership::Taken);
        assert_eq!(table.own(1, (7, 1), &mut first), Ownership::Had);
        assert_eq!(table.own(2, (7, 1), &mut second), Ownership::OfAnother);
        assert!(table.lock((7, 1)).is_err());
        assert!(!table.wait_until_released((7, 1), Duration::from_millis(1)));
        table.release(1, first);
        assert!(table.wait_until_released((7, 1), Duration::ZERO));
        assert!(table.lock((7, 1)).is_ok());
        assert_eq!(table.own(2, (7, 1), &mut second), Ownership::Taken);
    }

    #[test]
    fn names_too_many_to_be_listed_are_released_and_those_of_others_are_not() {
        let (table, mut many, mut other) = (LockTable::new(), OwnedNames::default(), OwnedNames::default());
        for number in 0..=LISTED_MAX as u64 {
            assert_eq!(table.own(1, (7, number), &mut many), Ownership::Taken);
        }
        assert_eq!(table.own(2, (8, 0), &mut other), Ownership::Taken);
        assert!(matches!(many, OwnedNames::Many));
        table.release(1, many);
        assert!((0..=LISTED_MAX as u64).all(|number| table.lock((7, number)).is_ok()));
        assert!(table.lock((8, 0)).is_err());
    }
}
