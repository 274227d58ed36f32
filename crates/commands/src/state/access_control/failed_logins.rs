//! How long who failed to log in waits before he is answered again.
//!
//! Counted by client address and user together, so that nobody can lock somebody else out, in a table of fixed size. What
//! collides shares its count: that makes somebody wait at most as long as the longest wait.

use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::names::UserName;

/// Pairs of address and user that are told apart.
pub(crate) const FAILURES_KEPT: usize = 4096;
/// Failures that are not held against anybody: typing errors.
const FREE_FAILURES: u32 = 3;
/// The first wait; each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// After this time without a failure all is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    failures: u32,
    last: Duration,
}

/// See the module's head.
pub(crate) struct FailedLogins {
    seed: u64,
    counts: Mutex<Box<[Count]>>,
    pub(crate) failed: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) slowed: AtomicU64,
}

impl FailedLogins {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            counts: Mutex::new(vec![Count::default(); FAILURES_KEPT].into_boxed_slice()),
            failed: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
        }
    }

    /// How long this one has to wait now.
    pub(crate) fn wait(&self, client: Option<IpAddr>, user: &UserName, now: Duration) -> Option<Duration> {
        let count = self.counts.lock().get(self.place(client, user)).copied().unwrap_or_default();
        let held_against = count.failures.saturating_sub(FREE_FAILURES);
        if held_against == 0 || now.saturating_sub(count.last) > FORGOTTEN_AFTER {
            return None;
        }
        self.slowed.fetch_add(1, Ordering::Relaxed);
        let factor = 1_u32.checked_shl(held_against - 1).unwrap_or(u32::MAX);
        Some(FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT))
    }

    /// Notes how a login has ended.
    pub(crate) fn note(&self, client: Option<IpAddr>, user: &UserName, now: Duration, has_succeeded: bool) {
        let counter = if has_succeeded { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let place = self.place(client, user);
        if let Some(count) = self.counts.lock().get_mut(place) {
            let is_over = now.saturating_sub(count.last) > FORGOTTEN_AFTER;
            let failures = if has_succeeded || is_over { 0 } else { count.failures };
            *count = Count { failures: failures.saturating_add(u32::from(!has_succeeded)).min(64), last: now };
        }
    }

    fn place(&self, client: Option<IpAddr>, user: &UserName) -> usize {
        let mut hasher = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().build_hasher();
        hasher.write_u64(self.seed);
        std::hash::Hash::hash(&(client, user), &mut hasher);
        (hasher.finish() % FAILURES_KEPT as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_are_bounded_and_end_with_success_or_time() {
        let failed = FailedLogins::new(7);
        let (user, client) = (UserName::new("ada", "admin"), "10.0.0.1".parse().ok());
        let at = Duration::from_secs;
        for _ in 0..FREE_FAILURES {
            assert_eq!(failed.wait(client, &user, at(1)), None);
            failed.note(client, &user, at(1), false);
        }
        failed.note(client, &user, at(1), false);
        assert_eq!(failed.wait(client, &user, at(1)), Some(FIRST_WAIT));
        assert_eq!(failed.wait("10.0.0.2".parse().ok(), &user, at(1)), None);
        (0..100).for_each(|_| failed.note(client, &user, at(2), false));
        assert_eq!(failed.wait(client, &user, at(2)), Some(LONGEST_WAIT));
        assert_eq!(failed.wait(client, &user, at(200)), None);
        failed.note(client, &user, at(3), true);
        assert_eq!(failed.wait(client, &user, at(3)), None);
        assert_eq!((failed.failed.into_inner(), failed.succeeded.into_inner()), (104, 1));
    }
}
