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

const SHARDS: usize = 128;

/// What a lock is called: two numbers.
pub(crate) type LockName = (u64, u64);

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
    owned: HashMap<LockName, u64>,
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
        if !held.owned.is_empty() && held.owned.contains_key(&name) {
            return Err(OwnedByTransaction(name));
        }
        held.names.push(name);
        drop(held);
        Ok(LockGuard { shard, name })
    }

    /// Makes a transaction the owner of a name, once no thread holds it.
    pub(crate) fn own(&self, transaction: u64, name: LockName) -> Ownership {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        shard.wait_for_threads(&mut held, name);
        match held.owned.get(&name) {
            Some(owner) if *owner == transaction => Ownership::Had,
            Some(_) => Ownership::OfAnother,
            None => {
                held.owned.insert(name, transaction);
                Ownership::Taken
            }
        }
    }

    /// Ends a transaction's ownership.
    pub(crate) fn release(&self, transaction: u64, names: &[LockName]) {
        for name in names {
            let shard = self.shard(*name);
            let mut held = shard.held.lock();
            if held.owned.get(name) == Some(&transaction) {
                held.owned.remove(name);
            }
            if held.owned.is_empty() {
                held.owned.shrink_to(64);
            }
            if held.waiting > 0 {
                shard.released.notify_all();
            }
        }
    }

    /// Waits at most so long until no transaction owns the name; `false`: one still does.
    pub(crate) fn wait_until_released(&self, name: LockName, longest: Duration) -> bool {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        if held.owned.contains_key(&name) {
            held.waiting += 1;
            shard.released.wait_for(&mut held, longest);
            held.waiting -= 1;
        }
        !held.owned.contains_key(&name)
    }

    fn shard(&self, name: LockName) -> &Shard {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the name.
        let mixed = (name.0.rotate_left(32) ^ name.1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(mixed >> 57) as usize % SHARDS]
    }
}

impl Shard {
    fn wait_for_threads(&self, held: &mut parking_lot::MutexGuard<'_, Held>, name: LockName) {
        while held.names.contains(&name) {
            held.waiting += 1;
            self.released.wait(held);
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
        let table = LockTable::new();
        assert_eq!(table.own(1, (7, 1)), Ownership::Taken);
        assert_eq!(table.own(1, (7, 1)), Ownership::Had);
        assert_eq!(table.own(2, (7, 1)), Ownership::OfAnother);
        assert!(table.lock((7, 1)).is_err());
        assert!(!table.wait_until_released((7, 1), Duration::from_millis(1)));
        table.release(1, &[(7, 1)]);
        assert!(table.wait_until_released((7, 1), Duration::ZERO));
        assert!(table.lock((7, 1)).is_ok());
        assert_eq!(table.own(2, (7, 1)), Ownership::Taken);
    }
}
