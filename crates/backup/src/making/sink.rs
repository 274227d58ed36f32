//! The thread that stores objects while the next ones are read and packed.
//!
//! Objects are stored in the order in which they come. After a failure nothing more is stored.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{BackupError, Result};
use crate::object_store::ObjectStore;

/// Objects that wait.
const WAITING_MAX: usize = 1;

/// See the module's head.
pub(super) struct Sink {
    sender: Option<SyncSender<(String, Vec<u8>)>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Sink {
    pub(super) fn begin(objects: Arc<dyn ObjectStore>) -> Result<Sink> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let thread = platform::spawn_named("backup", move || store_all(&*objects, &receiver));
        let thread = thread.map_err(BackupError::io("a thread", "started"))?;
        Ok(Sink { sender: Some(sender), thread: Some(thread) })
    }

    /// Hands an object over.
    pub(super) fn put(&mut self, name: String, bytes: Vec<u8>) -> Result<()> {
        let is_taken = self.sender.as_ref().is_some_and(|sender| sender.send((name, bytes)).is_ok());
        if is_taken { Ok(()) } else { self.finish().and(Err(BackupError::Stopped)) }
    }

    /// Waits until all are stored.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(stored)) => stored,
            // It panicked, or has told its error already.
            Some(Err(_)) | None => Err(BackupError::Stopped),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Whoever drops it has an error of his own to tell.
            let _ = self.finish();
        }
    }
}

fn store_all(objects: &dyn ObjectStore, receiver: &Receiver<(String, Vec<u8>)>) -> Result<()> {
    for (name, bytes) in receiver {
        objects.put(&name, &bytes).map_err(BackupError::io(&name, "written"))?;
    }
    Ok(())
}
