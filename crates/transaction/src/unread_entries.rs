//! Entries of the oplog that replay can make nothing of and that do not say whom they are about.
//!
//! Called when a store is opened. The change that such an entry stands for is missing somewhere, and the next checkpoint makes that final. So the entry is kept aside in a file
//! before anything else is written, and each start tells of it until somebody has looked at the file and removed it.

use collection::UnreadEntries;
use oplog::{LocalOplog, Oplog};

use crate::error::Result;
use crate::set_aside_work::SetAsideWork;
use crate::store::Store;

/// What is told of them.
const WHAT: &str = "an entry of the oplog";
const ADVICE: &str = "the change that it stands for is missing, nobody knows in which collection: all are served as they are. Change streams do not tell of it. Look at the \
     file in the oplog's directory, restore what is missing from a backup if need be, then remove the file";

/// Keeps them aside.
///
/// # Errors
/// `Oplog`: they cannot be read again, or not be kept; then nothing has been changed.
pub(crate) fn keep_unread_entries(oplog: &LocalOplog, unread: &UnreadEntries) -> Result<()> {
    for entry in &unread.listed {
        if let Some(found) = oplog.read_from(entry.position)?.next_entry()? {
            let payload = found.payload.to_vec();
            oplog.keep_entry_aside(entry.position, &payload)?;
        }
    }
    Ok(())
}

impl Store {
    /// Tells of those that were kept aside now and at earlier starts.
    pub(crate) fn note_unread_entries(&self) {
        let unread = &self.recovery().unread;
        for entry in &unread.listed {
            tracing::error!(position = %entry.position, reason = entry.reason, "an entry of the oplog cannot be read");
        }
        let more = unread.count.saturating_sub(unread.listed.len() as u64);
        let mut reasons = match self.oplog().entries_aside() {
            Ok(names) => names,
            Err(error) => vec![format!("files with such entries cannot be listed: {error}")],
        };
        if more > 0 {
            reasons.push(format!("{more} more, which are not kept"));
        }
        for reason in reasons {
            let (namespace, index) = Default::default();
            self.set_aside(None, SetAsideWork { what: WHAT, namespace, index, reason, advice: ADVICE });
        }
    }
}
