//! Counters that prove invariants: who writes pages (I3) and whether writing rebuilds keys (I2).
//!
//! `node` reports every key it materialises; `page_cache` opens a [`PageWriteScope`] around the writing of pages. A key
//! materialised inside such a scope is one that writing a page needed, which must never happen. A scope opened on a
//! thread that did not call [`mark_background_thread`] is a client thread that writes pages, which must never happen
//! either. Both are exported in the engine's statistics and asserted to be 0 in tests.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static IN_PAGE_WRITE: Cell<bool> = const { Cell::new(false) };
    static KEYS: Cell<u64> = const { Cell::new(0) };
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Counters of one engine.
#[derive(Default)]
pub(crate) struct InvariantCounters {
    pages_written: AtomicU64,
    keys_materialised: AtomicU64,
    client_page_writes: AtomicU64,
}

impl InvariantCounters {
    /// Pages written by eviction and checkpoints.
    pub(crate) fn pages_written(&self) -> u64 {
        self.pages_written.load(Ordering::Relaxed)
    }

    /// Keys materialised while pages were written (I2: 0).
    pub(crate) fn keys_materialised(&self) -> u64 {
        self.keys_materialised.load(Ordering::Relaxed)
    }

    /// Pages written by threads that are not the engine's own (I3: 0).
    pub(crate) fn client_page_writes(&self) -> u64 {
        self.client_page_writes.load(Ordering::Relaxed)
    }
}

/// Says that the calling thread is one whose work is writing pages.
pub fn mark_background_thread() {
    IS_BACKGROUND.set(true);
}

/// Called by `node` for each key that is put together from prefix and suffix.
#[inline]
pub(crate) fn key_materialised() {
    if IN_PAGE_WRITE.get() {
        KEYS.set(KEYS.get() + 1);
    }
}

/// The time during which the calling thread writes pages.
pub(crate) struct PageWriteScope<'a> {
    counters: &'a InvariantCounters,
    pages: u64,
}

impl<'a> PageWriteScope<'a> {
    /// Begins writing.
    pub(crate) fn begin(counters: &'a InvariantCounters) -> Self {
        IN_PAGE_WRITE.set(true);
        KEYS.set(0);
        Self { counters, pages: 0 }
    }

    /// Counts one page.
    pub(crate) fn count_page(&mut self) {
        self.pages += 1;
    }
}

impl Drop for PageWriteScope<'_> {
    fn drop(&mut self) {
        IN_PAGE_WRITE.set(false);
        self.counters.pages_written.fetch_add(self.pages, Ordering::Relaxed);
        self.counters.keys_materialised.fetch_add(KEYS.get(), Ordering::Relaxed);
        if !IS_BACKGROUND.get() {
            self.counters.client_page_writes.fetch_add(self.pages, Ordering::Relaxed);
        }
    }
}
