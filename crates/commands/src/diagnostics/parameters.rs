//! Server parameters that can be changed while the server runs.
//!
//! Read where they are used; set by `setParameter`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::admission::Algorithm;

/// How long a transaction may be open, in seconds, unless told otherwise.
const TRANSACTION_LIFETIME_SECONDS: u64 = 60;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Parameters {
    transaction_lifetime_seconds: AtomicU64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { transaction_lifetime_seconds: AtomicU64::new(TRANSACTION_LIFETIME_SECONDS) }
    }
}

impl Parameters {
    /// `transactionLifetimeLimitSeconds`.
    pub(crate) fn transaction_lifetime_seconds(&self) -> u64 {
        self.transaction_lifetime_seconds.load(Ordering::Relaxed)
    }

    /// Sets it; gives what it was.
    pub(crate) fn set_transaction_lifetime_seconds(&self, seconds: u64) -> u64 {
        self.transaction_lifetime_seconds.swap(seconds, Ordering::Relaxed)
    }
}

/// The value of `storageEngineConcurrencyAdjustmentAlgorithm`.
pub(crate) fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::ThroughputProbing => "throughputProbing",
        Algorithm::Fixed => "fixedConcurrentTransactions",
    }
}

/// The algorithm of that name.
pub(crate) fn algorithm_named(name: &str) -> Option<Algorithm> {
    [Algorithm::ThroughputProbing, Algorithm::Fixed].into_iter().find(|algorithm| algorithm_name(*algorithm) == name)
}
