//! Background work that failed in a way that trying again does not heal: it is told, marked and left alone, and the server serves the rest.
//!
//! Three kinds of work end here: building an index again when the oplog is replayed, going on with an index build, and deleting what has expired. Each reports to
//! `set_aside`, which logs it once; `serverStatus` shows the list until the server is started again. What is set aside is marked by the tree of its
//! index, so a new index on the same fields is a new try.

use parking_lot::Mutex;
use storage_engine::TreeId;

use crate::store::Store;

/// Reports kept: the oldest go.
const REPORTS_MAX: usize = 256;

/// Work that is not done any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideWork {
    /// What was to be done.
    pub what: &'static str,
    /// `database.collection`.
    pub namespace: String,
    /// Name of the index.
    pub index: String,
    /// Why it failed.
    pub reason: String,
    /// What an operator can do.
    pub advice: &'static str,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SetAsideList {
    reports: Mutex<Vec<(Option<TreeId>, SetAsideWork)>>,
}

impl Store {
    /// Background work that failed and is not tried again, oldest first.
    pub fn set_aside_work(&self) -> Vec<SetAsideWork> {
        self.set_aside.reports.lock().iter().map(|(_, work)| work.clone()).collect()
    }

    /// Tells and marks it. `tree`: of the index, if it is still there.
    pub(crate) fn set_aside(&self, tree: Option<TreeId>, work: SetAsideWork) {
        let SetAsideWork { what, namespace, index, reason, advice } = &work;
        tracing::error!(what, namespace, index, reason, advice, "background work has failed and is set aside");
        let mut reports = self.set_aside.reports.lock();
        if reports.len() == REPORTS_MAX {
            reports.remove(0);
        }
        reports.push((tree, work));
    }

    /// Whether work of this kind on an index has been set aside.
    pub(crate) fn is_set_aside(&self, what: &str, tree: TreeId) -> bool {
        self.set_aside.reports.lock().iter().any(|(marked, work)| *marked == Some(tree) && work.what == what)
    }
}
