//! Threads that apply replayed entries: one queue each, entries of one record always in the same.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use bson::Uuid;
use storage_engine::{Engine, Timestamp};

use super::apply::EntryApplier;
use crate::catalog::Catalog;
use crate::error::{CollectionError, Result};
use crate::oplog_entry::{DocumentEntry, Entry};

/// Entries are handed over in groups of about this many bytes.
const GROUP_BYTES: usize = 256 << 10;
/// Groups waiting for one worker.
const GROUPS_WAITING: usize = 8;

/// Payloads one behind the other.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    ends: Vec<(usize, Timestamp)>,
}

enum Order {
    Apply(Group),
    /// Say when everything before this is applied.
    Report(Sender<()>),
}

struct Worker {
    orders: SyncSender<Order>,
    pending: Group,
    thread: JoinHandle<Result<BTreeSet<Uuid>>>,
}

/// The workers of one replay. With no threads, entries are applied at once by the caller, for the simulator.
pub(super) struct Workers {
    workers: Vec<Worker>,
    own: EntryApplier,
}

impl Workers {
    pub(super) fn start(catalog: &Arc<Catalog>, engine: &Arc<Engine>, threads: usize) -> Result<Workers> {
        let applier = || EntryApplier::new(catalog.clone(), engine.clone());
        let mut workers = Vec::new();
        for number in 0..threads {
            let (orders, received) = sync_channel(GROUPS_WAITING);
            let applier = applier();
            let thread = platform::spawn_named(&format!("replay-{number}"), move || work(&received, applier))
                .map_err(|error| CollectionError::Damaged(format!("no thread for replay: {error}")))?;
            workers.push(Worker { orders, pending: Group::default(), thread });
        }
        Ok(Workers { workers, own: applier() })
    }

    /// Has an entry applied after all earlier ones of the same record.
    pub(super) fn dispatch(&mut self, entry: &DocumentEntry<'_>, timestamp: Timestamp, payload: &[u8]) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        // A ring is written in order.
        let is_ring = self.own.collection(entry.uuid).is_some_and(|collection| collection.ring().is_some());
        (entry.uuid.bytes(), if is_ring { 0 } else { entry.record_id.0 }).hash(&mut hasher);
        let count = self.workers.len().max(1);
        let Some(worker) = self.workers.get_mut(hasher.finish() as usize % count) else {
            return self.own.apply(entry, timestamp);
        };
        worker.pending.bytes.extend_from_slice(payload);
        worker.pending.ends.push((worker.pending.bytes.len(), timestamp));
        if worker.pending.bytes.len() >= GROUP_BYTES { self.hand_over() } else { Ok(()) }
    }

    /// Gives every worker what waits for it. A worker that is gone has failed; `stop` says how.
    fn hand_over(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            let group = std::mem::take(&mut worker.pending);
            if !group.ends.is_empty() && worker.orders.send(Order::Apply(group)).is_err() {
                return self.stop().map(drop);
            }
        }
        Ok(())
    }

    /// Waits until everything dispatched is applied.
    pub(super) fn finish_dispatched(&mut self) -> Result<()> {
        self.own.forget_collection();
        self.hand_over()?;
        let (report, reports) = channel();
        let asked = self.workers.iter().filter(|worker| worker.orders.send(Order::Report(report.clone())).is_ok());
        let asked = asked.count();
        drop(report);
        if reports.iter().take(asked).count() == self.workers.len() { Ok(()) } else { self.stop().map(drop) }
    }

    /// Finishes what was dispatched and ends the threads. Returns the collections whose indexes are to be swept.
    ///
    /// # Errors
    /// The first worker's error.
    pub(super) fn stop(&mut self) -> Result<BTreeSet<Uuid>> {
        for worker in &mut self.workers {
            let group = std::mem::take(&mut worker.pending);
            // Fails only when the worker has failed, which joining tells.
            let _ = worker.orders.send(Order::Apply(group));
        }
        let mut result = Ok(std::mem::take(&mut self.own.to_sweep));
        for worker in self.workers.drain(..) {
            drop(worker.orders);
            let ended = worker.thread.join();
            let ended = ended.unwrap_or_else(|_| Err(CollectionError::Damaged("a replay thread panicked".to_owned())));
            result = match (result, ended) {
                (Ok(mut all), Ok(more)) => {
                    all.extend(more);
                    Ok(all)
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        result
    }
}

fn work(orders: &Receiver<Order>, mut applier: EntryApplier) -> Result<BTreeSet<Uuid>> {
    for order in orders {
        match order {
            Order::Apply(group) => {
                let mut start = 0;
                for (end, timestamp) in group.ends {
                    let payload = group.bytes.get(start..end).unwrap_or_default();
                    if let Entry::Document(entry) = Entry::decode(payload)? {
                        applier.apply(&entry, timestamp)?;
                    }
                    start = end;
                }
            }
            Order::Report(report) => {
                applier.forget_collection();
                // The reader waits for it, unless it has given up.
                let _ = report.send(());
            }
        }
    }
    Ok(applier.to_sweep)
}
