//! A shared log made again after it was lost, from the oplog of one member (`plimsoll log restore`).
//!
//! ```text
//! record 0:  Restored   which log it continues, from which term, and where the member's oplog begins
//! then:      a claim of the next term, all that the member's oplog has, a step-down for nobody
//! ```
//!
//! So the others read it as any log: what they have is compared with what is there, byte by byte, and what they lack is there. Who has something that is not
//! there is refused (`enter`), as the former log may have acknowledged it. Called by `server`, with all members stopped.

use std::sync::Arc;
use std::time::Duration;

use oplog::{LocalOplog, Oplog, OplogPosition};
use platform::{Clock, Random};
use shared_log::{
    Leader, LogIdentity, Offset, Place, RANGE_BYTES_MAX, Reading, Record, RecordKind, Role, Rule, Sending, SharedLog,
    SharedLogError, Standing, Ticket, Writer,
};

use crate::error::{ReplicationError, Result};
use crate::joining::{LOOK, Patience, READ_BYTES};

/// From one look at what has become of what was sent to the next.
const PAUSE: Duration = Duration::from_millis(1);
/// Known by no member, so that none takes it for an earlier life of its own.
const ADDRESS: &str = "plimsoll log restore";

/// What the new log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredLog {
    /// What it is known by.
    pub identity: LogIdentity,
    /// The log that it continues.
    pub former: LogIdentity,
    /// The term that it begins with.
    pub term: u64,
    /// Where what it has of the oplog begins.
    pub begins: u64,
    /// And where it ends: what was acknowledged behind that is lost.
    pub ends: u64,
}

/// Fills an empty log with all that the oplog has of a member, which has followed another log up to `standing`.
///
/// # Errors
/// `NotEmpty`; `OplogBehind` when a part of the oplog is missing; `NoAnswer`; those of the log. A log that was begun is to be removed, and made anew.
pub fn restore(
    log: &dyn SharedLog,
    oplog: &LocalOplog,
    standing: &Standing,
    (clock, random): (&Arc<dyn Clock>, &dyn Random),
) -> Result<RestoredLog> {
    let (bounds, identity) = (log.bounds()?, log.identity()?);
    if bounds.end > Offset(0) {
        return Err(ReplicationError::NotEmpty { records: bounds.end.0 });
    }
    let (begins, end) = (oplog.first_position().0, oplog.end_position());
    if standing.whole.position > end.0 {
        return Err(ReplicationError::OplogBehind { end, whole: standing.whole.position });
    }
    let former = standing.log;
    let first =
        Record { term: standing.term.max(1), confirmed: begins, chain: 0, kind: RecordKind::Restored { former } };
    let mut filling = Filling { log, patience: Patience::new(clock.clone()) };
    let mut reading = Reading::new(identity, Place::default());
    filling.append_first(&first.encode()?, &mut reading)?;
    let me = Leader { node: Leader::node_at(ADDRESS), incarnation: random.next_u64(), address: ADDRESS.to_owned() };
    let mut writer = Writer::claim(reading, me)?;
    filling.ship(&mut writer, oplog, begins)?;
    Ok(RestoredLog { identity, former, term: writer.term(), begins, ends: writer.confirmed() })
}

struct Filling<'l> {
    log: &'l dyn SharedLog,
    patience: Patience,
}

impl Filling<'_> {
    /// Nobody else appends, so it is the first record or it is not there.
    fn append_first(&mut self, record: &Arc<[u8]>, reading: &mut Reading) -> Result<()> {
        self.log.begin_append(&[Sending { ticket: Ticket(0), bytes: record.clone() }]);
        loop {
            let outcome = self.log.outcomes(LOOK).into_iter().find(|outcome| outcome.ticket == Ticket(0));
            match outcome.map(|outcome| outcome.result) {
                Some(Ok(Offset(0))) => break,
                Some(Ok(offset)) => return Err(ReplicationError::NotEmpty { records: offset.0 }),
                Some(Err(refused)) => {
                    return Err(SharedLogError::Unreachable { cause: refused.to_string() }.into());
                }
                None => self.patience.wait_for(PAUSE)?,
            }
        }
        self.patience.heard();
        reading.step(Offset(0), record)?;
        Ok(())
    }

    /// Claims the lead, ships everything, and gives the lead up.
    fn ship(&mut self, writer: &mut Writer, oplog: &LocalOplog, begins: u64) -> Result<()> {
        let mut entries = oplog.read_canonical(OplogPosition(begins))?;
        while !matches!(writer.role(), Role::SteppedDown { .. }) {
            if let Role::Lost { term, leader } = writer.role() {
                return Err(ReplicationError::OtherLeads { address: leader.address.clone(), term: *term });
            }
            while writer.wanted().is_some() && *writer.role() == Role::Leading {
                let mut bytes = Vec::new();
                let whole = entries.read(&mut bytes, RANGE_BYTES_MAX)?;
                match bytes.is_empty() {
                    true => writer.step_down(None),
                    false => writer.ship(&bytes, whole)?,
                }
            }
            while let Some(sending) = writer.next_sending()? {
                self.log.begin_append(&[sending]);
            }
            let before = writer.reading().next();
            self.hear(writer)?;
            if writer.reading().next() > before {
                self.patience.heard();
            } else {
                self.patience.wait_for(PAUSE)?;
            }
        }
        Ok(())
    }

    fn hear(&self, writer: &mut Writer) -> Result<()> {
        for outcome in self.log.outcomes(LOOK) {
            if let Some(record) = writer.answered(outcome.ticket, outcome.result) {
                writer.read(record.offset, &record.bytes)?;
            }
        }
        if !writer.wants_to_read() {
            return Ok(());
        }
        let records = match self.log.read(writer.reading().next(), READ_BYTES, Duration::ZERO) {
            Err(error) if error.is_passing() => return Ok(()),
            records => records?,
        };
        for record in records {
            writer.read(record.offset, &record.bytes)?;
        }
        Ok(())
    }
}
