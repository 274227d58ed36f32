//! Going on with index builds that a restart has interrupted.
//!
//! The indexes are in state `Building` when the store is opened: from the checkpoint with what they have, or from the oplog without anything. Replay maintains
//! them like writers do. A thread of the background (`start_background`), or the simulator, then builds on, one collection after the other; queries do not
//! use them before. A unique index is filled from the start, since keys that writers had noted as suspicious were in memory.
//!
//! A build that ends the process each time would do so at every start. So the thread notes in a file, before it goes on with an index, how often that was tried
//! from where the build stands; an end of the process in order takes the note back. After `ATTEMPTS_MAX` the index is left as it is and set aside.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use collection::{Collection, Index, IndexState};
use platform::{Disk, OpenMode};

use super::StartedBuild;
use crate::commit_order::CommitInfo;
use crate::error::Result;
use crate::set_aside_work::{SetAsideWork, WorkOf};
use crate::store::Store;

/// Starts of the server in which a build may be gone on with from one place.
const ATTEMPTS_MAX: u32 = 4;
/// The file with the attempts: in each line the tree of the index, from where, and how often.
const ATTEMPTS_FILE: &str = "index-build-attempts";
const BUILD: &str = "going on with an index build";

impl Store {
    /// The collections that had indexes being built when the store was opened and have them still, by name.
    pub fn interrupted_builds(&self) -> Vec<Arc<Collection>> {
        let mut interrupted: Vec<_> = self.interrupted_builds.lock().clone();
        interrupted.retain(|collection| !collection.is_dropped() && is_building(collection));
        interrupted
    }

    pub(super) fn keeps_builds(&self) -> bool {
        self.keeps_builds.load(Ordering::Acquire)
    }

    /// The server ends: index builds that are stopped from now on go on at the next start.
    pub fn keep_index_builds(&self) {
        self.keeps_builds.store(true, Ordering::Release);
    }

    /// Notes what is to be gone on with. When the store is opened.
    pub(crate) fn note_interrupted_builds(&self) {
        let mut interrupted = self.catalog.all_collections();
        interrupted.retain(|collection| is_building(collection) && collection.aside().is_none());
        interrupted.sort_by_key(|collection| collection.ident());
        *self.interrupted_builds.lock() = interrupted;
    }

    /// A collection has indexes being built by nobody else than the background.
    pub(crate) fn note_interrupted_build(&self, collection: &Arc<Collection>) {
        let mut interrupted = self.interrupted_builds.lock();
        if !interrupted.iter().any(|known| Arc::ptr_eq(known, collection)) {
            interrupted.push(collection.clone());
        }
    }

    /// Finishes the interrupted builds of a collection. An error ends them, and the indexes are gone then, unless it is `Stopped`.
    ///
    /// # Errors
    /// As `create_indexes_unless`.
    pub fn resume_index_builds(
        &self,
        collection: &Arc<Collection>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<CommitInfo>> {
        let indexes = collection.indexes();
        let building =
            indexes.all().iter().filter(|index| index.state() == IndexState::Building && index.aside().is_none());
        let mut last = None;
        for index in building {
            let started = StartedBuild::of(vec![index.clone()], None);
            tracing::info!(namespace = %collection.namespace(), index = index.name(), from = index.filled().0, "an index build goes on");
            last = Some(self.run_index_build(collection, started, is_stopped)?);
        }
        self.interrupted_builds.lock().retain(|known| !Arc::ptr_eq(known, collection));
        Ok(last)
    }

    /// Goes on with all of them. One turn of the background.
    pub(crate) fn resume_all_builds(&self) {
        if !self.leads() {
            return self.fill_received_builds();
        }
        for collection in self.interrupted_builds() {
            // Whoever leads says when an index is ready, and how a build ends is logged.
            if self.is_stopping() || !self.may_log() {
                return;
            }
            let indexes = collection.indexes();
            let building: Vec<_> = indexes
                .all()
                .iter()
                .filter(|index| index.state() == IndexState::Building && index.aside().is_none())
                .cloned()
                .collect();
            if !self.may_be_tried(&collection, &building) {
                self.interrupted_builds.lock().retain(|known| !Arc::ptr_eq(known, &collection));
                continue;
            }
            let is_stopped = || self.is_stopping() || self.keeps_builds() || !self.leads();
            let resumed = self.resume_index_builds(&collection, &is_stopped);
            // Whatever became of it, the process is still there.
            self.forget_attempts(&building);
            if let Err(error) = resumed
                && !is_stopped()
                && self.may_log()
            {
                self.interrupted_builds.lock().retain(|known| !Arc::ptr_eq(known, &collection));
                let advice = "the index is gone, or is not used where it is still listed; drop it then. Look at the reason, and create it again";
                let still_there =
                    |index: &&Arc<Index>| collection.indexes().find(index.name()).is_none_or(|found| !found.is_ready());
                for index in building.iter().filter(still_there) {
                    self.set_build_aside(&collection, index, error.to_string(), advice);
                }
            }
        }
    }

    /// Whether what becomes of a build can be logged.
    fn may_log(&self) -> bool {
        self.check_writable().is_ok() && self.commits.check_leading().is_ok()
    }

    /// Notes that the builds of a collection are gone on with; `false`: that has ended the process too often.
    fn may_be_tried(&self, collection: &Arc<Collection>, building: &[Arc<Index>]) -> bool {
        let mut attempts = read_attempts(self.space.disk());
        for index in building {
            let tried = attempts.iter().find(|attempt| attempt.is_of(index)).map_or(0, |attempt| attempt.times);
            if tried >= ATTEMPTS_MAX {
                let reason = format!("the server ended {tried} times in the midst of it, each time at the same place");
                let advice = "the index is not used, and writes keep it up; drop it, look for documents that it cannot take, and create it again";
                self.set_build_aside(collection, index, reason, advice);
                return false;
            }
            attempts.retain(|attempt| attempt.tree != index.tree().0);
            attempts.push(Attempt { tree: index.tree().0, from: index.filled().0, times: tried + 1 });
        }
        if let Err(error) = write_attempts(self.space.disk(), &attempts) {
            tracing::warn!(%error, "that an index build goes on could not be noted");
        }
        true
    }

    fn forget_attempts(&self, building: &[Arc<Index>]) {
        let mut attempts = read_attempts(self.space.disk());
        attempts.retain(|attempt| building.iter().all(|index| index.tree().0 != attempt.tree));
        if let Err(error) = write_attempts(self.space.disk(), &attempts) {
            tracing::warn!(%error, "that an index build went on is still noted");
        }
    }

    fn set_build_aside(&self, collection: &Collection, index: &Index, reason: String, advice: &'static str) {
        let (namespace, name) = (collection.namespace().as_str().to_owned(), index.name().to_owned());
        let work = SetAsideWork { what: BUILD, namespace, index: name, reason, advice };
        self.set_aside(Some(WorkOf::Index(index.identity())), work);
    }
}

/// How often a build was gone on with from one place.
#[derive(Debug, PartialEq, Eq)]
struct Attempt {
    tree: u64,
    from: i64,
    times: u32,
}

impl Attempt {
    fn is_of(&self, index: &Index) -> bool {
        (self.tree, self.from) == (index.tree().0, index.filled().0)
    }

    fn parse(line: &str) -> Option<Attempt> {
        let mut fields = line.split(' ');
        let (tree, from, times) =
            (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Attempt { tree, from, times })
    }
}

/// What cannot be read was not noted.
fn read_attempts(disk: &dyn Disk) -> Vec<Attempt> {
    let read = || -> io::Result<Vec<u8>> {
        let file = disk.open(Path::new(ATTEMPTS_FILE), OpenMode::Read)?;
        let mut bytes = vec![0; file.length()?.min(1 << 20) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter_map(Attempt::parse).collect()
}

/// Without attempts there is no file.
fn write_attempts(disk: &dyn Disk, attempts: &[Attempt]) -> io::Result<()> {
    let path = Path::new(ATTEMPTS_FILE);
    if attempts.is_empty() {
        return if disk.exists(path)? { disk.remove(path) } else { Ok(()) };
    }
    let lines: String =
        attempts.iter().map(|Attempt { tree, from, times }| format!("{tree} {from} {times}\n")).collect();
    let file = disk.open(path, OpenMode::Create)?;
    file.set_length(0)?;
    file.write_all_at(lines.as_bytes(), 0)?;
    file.sync_data()?;
    disk.sync_directory(Path::new(""))
}

fn is_building(collection: &Arc<Collection>) -> bool {
    collection.indexes().all().iter().any(|index| index.state() == IndexState::Building && index.aside().is_none())
}
