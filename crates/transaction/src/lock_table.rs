//! Locks on things that are named by a value rather than held in a structure: records and unique keys.
//!
//! Called by `change`, `insert`, `unique` and `index_build`. A table is split into shards; in a shard the names that are
//! locked are in a short list. Who finds a name locked sleeps until something in the shard is released.
//!
//! Against deadlock (`docs/lock-order.md`): a thread holds at most one record lock, takes unique keys only after it, and takes
//! unique keys in ascending order. Nobody who holds either waits for anything that needs them.

use parking_lot::{Condvar, Mutex};

const SHARDS: usize = 128;

/// What a lock is called: two numbers.
pub(crate) type LockName = (u64, u64);

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
    names: Vec<LockName>,
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

    /// Takes a lock, waiting until nobody else holds it.
    pub(crate) fn lock(&self, name: LockName) -> LockGuard<'_> {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        while held.names.contains(&name) {
            held.waiting += 1;
            shard.released.wait(&mut held);
            held.waiting -= 1;
        }
        held.names.push(name);
        drop(held);
        LockGuard { shard, name }
    }

    fn shard(&self, name: LockName) -> &Shard {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the name.
        let mixed = (name.0.rotate_left(32) ^ name.1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(mixed >> 57) as usize % SHARDS]
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
                        let _guard = table.lock((7, round % 2));
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
}
