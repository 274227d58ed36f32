//! What the shared log has, put into this member's oplog or compared with what is there.
//!
//! Used while a member joins, for each record that it reads. Bytes that the oplog has must be the same; bytes behind its end wait until their entry is whole.

use oplog::{CanonicalReader, LocalOplog, Oplog, OplogPosition};
use shared_log::Effect;

use crate::error::{ReplicationError, Result};

/// See the module's head.
pub(crate) struct LocalCopy<'o> {
    oplog: &'o LocalOplog,
    /// Reads what the oplog has where the log goes on; `None`: to be opened, or the oplog has nothing more.
    known: Option<CanonicalReader>,
    /// Behind the oplog's end: the beginning of an entry.
    half: Vec<u8>,
    /// Where the set's entries end that were read.
    whole: u64,
}

impl LocalCopy<'_> {
    /// The member has the oplog up to `whole` at least, as the log has it.
    pub(crate) fn new(oplog: &LocalOplog, whole: u64) -> LocalCopy<'_> {
        LocalCopy { oplog, known: None, half: Vec::new(), whole }
    }

    /// A record was read.
    pub(crate) fn take(&mut self, effect: &Effect<'_>) -> Result<()> {
        match effect {
            Effect::Accepted { position, bytes, whole } => self.take_bytes(*position, bytes, *whole),
            // The set's oplog begins there, or what is left of it.
            Effect::Claimed { term: 1, cut_at, .. } | Effect::Restored { cut_at, .. }
                if self.oplog.end_position().0 < *cut_at =>
            {
                Err(ReplicationError::NeedsCopy { begins: *cut_at, end: self.oplog.end_position() })
            }
            Effect::Claimed { cut_at, .. } | Effect::Ended { cut_at, .. } | Effect::Restored { cut_at, .. } => {
                self.forget_half(*cut_at);
                Ok(())
            }
            Effect::Foreign | Effect::Ignored(_) | Effect::Alive => Ok(()),
        }
    }

    fn forget_half(&mut self, cut_at: u64) {
        self.half.clear();
        (self.known, self.whole) = (None, cut_at);
    }

    fn take_bytes(&mut self, position: u64, bytes: &[u8], whole: u64) -> Result<()> {
        let new = self.compare(position, bytes)?;
        self.half.extend_from_slice(new);
        let end = self.oplog.end_position().0;
        // The entries that are whole now, if they are not in the oplog already.
        if let Some(length) = whole.checked_sub(end).filter(|length| *length > 0) {
            self.oplog.append_received(&self.half[..length as usize])?;
            self.half.drain(..length as usize);
            self.known = None;
        }
        self.whole = whole;
        Ok(())
    }

    /// The rest of the bytes, behind what the oplog has. What the oplog has given up is in a checkpoint, which was published once the log had it.
    fn compare<'b>(&mut self, position: u64, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let (first, end) = (self.oplog.first_position().0, self.oplog.end_position().0);
        let known_length = (end.saturating_sub(position) as usize).min(bytes.len());
        let (theirs, new) = bytes.split_at(known_length);
        let given_up = (first.saturating_sub(position) as usize).min(known_length);
        let (theirs, from) = (&theirs[given_up..], position + given_up as u64);
        if theirs.is_empty() {
            return Ok(new);
        }
        let reader = match &mut self.known {
            Some(reader) if reader.position().0 == from => reader,
            // The log goes on where an entry begins, and so does what is left of the oplog.
            none => none.insert(self.oplog.read_canonical(OplogPosition(from))?),
        };
        let mut own = Vec::with_capacity(theirs.len());
        reader.read(&mut own, theirs.len())?;
        if own != theirs {
            return Err(ReplicationError::Differs { from: self.whole, to: from + theirs.len() as u64 });
        }
        Ok(new)
    }
}
