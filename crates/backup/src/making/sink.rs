//! The threads that store objects while the next ones are read and packed: as many as the place takes side by side.
//!
//! Objects that are handed over together are stored in their order, and others in any. After a failure nothing more is begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Clock, LongWork, WorkBudget};
use transaction::Store;

use crate::error::{BackupError, Result};
use crate::object_store::ObjectStore;

/// Objects that wait, beside those that are being stored.
const WAITING_MAX: usize = 1;

/// Names and bytes.
type Together = Vec<(String, Vec<u8>)>;

/// See the module's head.
pub(super) struct Sink {
    sender: Option<SyncSender<Together>>,
    threads: Vec<JoinHandle<Result<()>>>,
    has_failed: Arc<AtomicBool>,
}

impl Sink {
    pub(super) fn begin(objects: &Arc<dyn ObjectStore>, store: &Store) -> Result<Sink> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (receiver, has_failed) = (Arc::new(Mutex::new(receiver)), Arc::new(AtomicBool::new(false)));
        let mut sink = Sink { sender: Some(sender), threads: Vec::new(), has_failed: has_failed.clone() };
        for _ in 0..objects.side_by_side().max(1) {
            let (objects, receiver, has_failed) = (objects.clone(), receiver.clone(), has_failed.clone());
            let (foreground, clock) = (store.foreground().clone(), store.clock().clone());
            let thread = platform::spawn_named("backup", move || {
                let _long = LongWork::begin(&foreground);
                let mut storing = Storing { objects: &*objects, budget: WorkBudget::new(foreground), clock: &*clock };
                storing.store_all(&receiver, &has_failed)
            });
            sink.threads.push(thread.map_err(BackupError::io("a thread", "started"))?);
        }
        Ok(sink)
    }

    /// Hands objects over.
    pub(super) fn put(&mut self, together: Together) -> Result<()> {
        let is_taken = !self.has_failed.load(Ordering::Acquire)
            && self.sender.as_ref().is_some_and(|sender| sender.send(together).is_ok());
        if is_taken { Ok(()) } else { self.finish().and(Err(BackupError::Stopped)) }
    }

    /// Waits until all are stored.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.sender.take().is_none() {
            // It has told its error already.
            return Err(BackupError::Stopped);
        }
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        // One that panicked is in the log.
        ended.into_iter().try_for_each(|stored| stored.unwrap_or(Err(BackupError::Stopped)))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Whoever drops it has an error of his own to tell, or has finished.
        let _ = self.finish();
    }
}

/// One of the threads. It gives way to clients, as the one that reads and packs does.
struct Storing<'a> {
    objects: &'a dyn ObjectStore,
    budget: WorkBudget,
    clock: &'a dyn Clock,
}

impl Storing<'_> {
    fn store_all(&mut self, receiver: &Mutex<Receiver<Together>>, has_failed: &AtomicBool) -> Result<()> {
        let next = || receiver.lock().recv().ok();
        while let Some(together) = next() {
            for (name, bytes) in together {
                if has_failed.load(Ordering::Acquire) {
                    // Taken, so that nobody waits for room.
                    break;
                }
                if let Err(error) = self.store(&name, &bytes) {
                    has_failed.store(true, Ordering::Release);
                    return Err(BackupError::io(&name, "written")(error));
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let Storing { objects, budget, clock } = self;
        // To wait for the disk and for objects is no work.
        budget.begin_stretch(*clock);
        objects.put_resting(name, bytes, &mut || {
            let _ = budget.step(*clock, || Duration::ZERO);
        })
    }
}
