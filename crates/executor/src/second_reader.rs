//! The second thread of a long scan: reads pieces ahead of the scan's own thread while a processor is spare.
//!
//! Begun by `shared_scan`. It reads through the same view, compares text by the same collation, and counts what it holds
//! as the command does. It stops where it is when somebody else wants a processor, when the scan ends, and at anything
//! that fails; what it has not finished then is read by the own thread.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use collection::Collection;
use document::work::{self, Watch};
use platform::command_memory::{self, MemoryWait, Patience};
use platform::{Foreground, SecondThread, WorkingMemory};
use query_language::filter::FilterNode;
use transaction::ReadView;

use crate::scan_pieces::ScanPieces;

/// How long it waits for the own thread to take over what is ready, before it ends.
const PATIENCE: Duration = Duration::from_millis(50);

/// What the second thread needs.
pub(crate) struct SecondReader {
    pub(crate) pieces: Arc<ScanPieces>,
    pub(crate) view: ReadView,
    pub(crate) collection: Arc<Collection>,
    pub(crate) filter: Option<FilterNode>,
    pub(crate) memory: WorkingMemory,
    pub(crate) foreground: Arc<Foreground>,
    /// Whether it goes on while others want its processor, for tests.
    pub(crate) insists: bool,
}

/// Stops what takes long inside of a document once the scan has ended.
struct EndOfScan(Arc<ScanPieces>);

impl Watch for EndOfScan {
    fn interruption(&self) -> Option<work::Interruption> {
        let why = work::Interruption { name: "Interrupted", message: "the scan has ended" };
        self.0.is_over().then_some(why)
    }
}

impl MemoryWait for EndOfScan {
    fn gives_up(&self) -> bool {
        true
    }
}

impl SecondReader {
    /// Begins the thread; `None`: the machine has no room for one.
    pub(crate) fn begin(self) -> Option<JoinHandle<()>> {
        let collator = document::collation::in_force();
        let read = move || {
            let _collation = document::collation::enter(collator);
            self.read();
        };
        platform::spawn_named("second-reader", read).ok()
    }

    fn read(self) {
        let second = SecondThread::begin(&self.foreground);
        let end: Arc<EndOfScan> = Arc::new(EndOfScan(self.pieces.clone()));
        let _watching = work::watch(end.clone());
        let _memory = self.memory.begin_command(Patience::FailsAtOnce, end);
        let mut cursor = self.view.record_cursor(&self.collection);
        let is_in_the_way = || !self.insists && second.is_in_the_way();
        while !is_in_the_way()
            && let Some(span) = self.pieces.wait_for_piece(PATIENCE)
        {
            let stops = || self.pieces.is_over() || is_in_the_way();
            let gathered = self.pieces.gather(&mut cursor, self.filter.as_ref(), span, stops);
            let fits = command_memory::check(Patience::FailsAtOnce).is_ok();
            let gathered = gathered.ok().flatten().filter(|_| fits);
            let goes_on = gathered.is_some();
            self.pieces.finish(span, gathered);
            if !goes_on {
                return;
            }
        }
    }
}
