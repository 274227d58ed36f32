//! How a member joins its set: it reads the shared log to its end, brings its oplog to where the log is, and claims the lead or follows.
//!
//! Called while a store is being opened, before its oplog is replayed. What the log has beyond the oplog is appended: a client may have been told of it. What the
//! oplog has beyond the log stays in a member that leads, and is shipped in the new term: nobody was told of it. A member that follows must not have it.
//!
//! A log that was made again after it was lost (`restoring`) is followed by whoever has followed the former one, from its beginning. It cuts nothing then: what it has
//! and the log has not may have been acknowledged.
//!
//! Who led last leads again (`enter`): it is known that nobody of that name is there. Whoever finds that another one led follows, and claims when that one is silent.

use std::sync::Arc;
use std::time::Duration;

use oplog::{LocalOplog, Oplog};
use platform::Clock;
use shared_log::{
    Leader, LogIdentity, Offset, Place, Reading, Record, RecordKind, Role, Rule, SharedLog, SharedLogError, Writer,
};

use crate::error::{ReplicationError, Result};
use crate::local_copy::LocalCopy;
use crate::standing_file::StandingFile;

/// Bytes of records read at a time.
pub(crate) const READ_BYTES: usize = 4 << 20;
/// How long the log may be silent before a start is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long is waited at a time for news.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A member that leads.
pub struct Joined {
    pub(crate) writer: Writer,
    pub(crate) standing: StandingFile,
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Joined(term {})", self.writer.term())
    }
}

impl Joined {
    /// Where the set's oplog ended when the term began: everything before is confirmed.
    pub fn confirmed(&self) -> u64 {
        self.writer.confirmed()
    }

    /// The term that it leads in.
    pub fn term(&self) -> u64 {
        self.writer.term()
    }
}

/// A member that follows.
pub struct Follows {
    pub(crate) reading: Reading,
    pub(crate) standing: StandingFile,
}

/// How a member has joined.
pub enum Entered {
    /// It leads.
    Leads(Joined),
    /// Another one does, or has until now.
    Follows(Follows),
}

/// Brings the oplog to the end of the log, and claims the lead.
///
/// # Errors
/// Everything that `ReplicationError` knows.
pub fn join(
    log: &dyn SharedLog,
    oplog: &LocalOplog,
    standing: StandingFile,
    me: Leader,
    clock: &Arc<dyn Clock>,
) -> Result<Joined> {
    let mut joining = Joining::begin(log, oplog, &standing, clock)?;
    match joining.claim(me)? {
        Claimed::Leads(writer) => joining.leads(writer, standing),
        Claimed::Lost { term, leader, .. } => Err(ReplicationError::OtherLeads { address: leader.address, term }),
    }
}

/// Brings the oplog to the end of the log. Claims the lead if nobody has it, or this member had it; follows otherwise.
///
/// # Errors
/// Everything that `ReplicationError` knows; with `Unconfirmed` and `Differs` the oplog is to be cut, and it is to be tried again.
pub fn enter(
    log: &dyn SharedLog,
    oplog: &LocalOplog,
    mut standing: StandingFile,
    me: Leader,
    clock: &Arc<dyn Clock>,
) -> Result<Entered> {
    let mut joining = Joining::begin(log, oplog, &standing, clock)?;
    let mut reading = joining.reading.clone();
    if reading.leader().is_none_or(|leader| leader.node == me.node) {
        match joining.claim(me)? {
            Claimed::Leads(writer) => return joining.leads(writer, standing).map(Entered::Leads),
            Claimed::Lost { reading: found, .. } => reading = found,
        }
    }
    let whole = reading.whole().position;
    if oplog.end_position().0 > whole {
        return Err(ReplicationError::Unconfirmed { from: whole });
    }
    oplog.wait_durable(oplog.end_position())?;
    standing.store(reading.standing())?;
    // Half an entry is read again: it is to be kept until it is whole.
    let reading = Reading::resumed(reading.standing());
    Ok(Entered::Follows(Follows { reading, standing }))
}

/// What has become of a claim.
enum Claimed {
    Leads(Writer),
    Lost { term: u64, leader: Leader, reading: Reading },
}

struct Joining<'a> {
    log: &'a dyn SharedLog,
    oplog: &'a LocalOplog,
    reading: Reading,
    copy: LocalCopy<'a>,
    patience: Patience,
}

/// Which log a member has followed before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This one, or none.
    This,
    /// The one that this one continues.
    Former,
}

impl<'a> Joining<'a> {
    /// Reads to the end.
    fn begin(
        log: &'a dyn SharedLog,
        oplog: &'a LocalOplog,
        standing: &StandingFile,
        clock: &Arc<dyn Clock>,
    ) -> Result<Joining<'a>> {
        let mut patience = Patience::new(clock.clone());
        let (reading, origin) = begin_reading(log, oplog, standing, &mut patience)?;
        let mut copy = LocalCopy::new(oplog, reading.whole().position);
        let read = read_to_end(log, reading, &mut copy, &mut patience);
        let reading = match (origin, read) {
            (Origin::Former, Err(ReplicationError::Differs { from, .. })) => {
                return Err(ReplicationError::NotRestored { from });
            }
            (Origin::Former, Ok(reading)) if oplog.end_position().0 > reading.whole().position => {
                return Err(ReplicationError::NotRestored { from: reading.whole().position });
            }
            (_, read) => read?,
        };
        Ok(Joining { log, oplog, reading, copy, patience })
    }

    fn claim(&mut self, me: Leader) -> Result<Claimed> {
        let Joining { log, oplog, reading, copy, patience } = self;
        // A first claim says that the set's oplog begins where this one ends, so that must stay its end.
        oplog.wait_durable(oplog.end_position())?;
        let mut writer = Writer::claim(reading.clone(), me.clone())?;
        while *writer.role() == Role::Claiming {
            if let Some(sending) = writer.next_sending()? {
                log.begin_append(&[sending]);
            }
            for outcome in log.outcomes(LOOK) {
                if let Some(record) = writer.answered(outcome.ticket, outcome.result) {
                    copy.take(&writer.read(record.offset, &record.bytes)?)?;
                }
            }
            for record in patience.records(log.read(writer.reading().next(), READ_BYTES, LOOK))? {
                // An answer has brought it already.
                if record.offset == writer.reading().next() {
                    copy.take(&writer.read(record.offset, &record.bytes)?)?;
                }
            }
            // A claim of an earlier life has arrived late.
            if matches!(writer.role(), Role::Lost { leader, .. } if leader.node == me.node) {
                writer = Writer::claim(writer.into_reading(), me.clone())?;
            }
        }
        match writer.role().clone() {
            Role::Lost { term, leader } => Ok(Claimed::Lost { term, leader, reading: writer.into_reading() }),
            _ => Ok(Claimed::Leads(writer)),
        }
    }

    fn leads(&self, writer: Writer, mut standing: StandingFile) -> Result<Joined> {
        // What the log has is here for good before a standing says so.
        self.oplog.wait_durable(self.oplog.end_position())?;
        standing.store(writer.reading().standing())?;
        Ok(Joined { writer, standing })
    }
}

fn begin_reading(
    log: &dyn SharedLog,
    oplog: &LocalOplog,
    standing: &StandingFile,
    patience: &mut Patience,
) -> Result<(Reading, Origin)> {
    let found = loop {
        match log.identity() {
            Err(error) if error.is_passing() => patience.wait_longer()?,
            identity => break identity?,
        }
    };
    let end = oplog.end_position();
    let from_the_beginning = || Reading::new(found, Place { position: end.0, chain: 0 });
    match standing.stored() {
        Some(standing) if standing.whole.position > end.0 => {
            Err(ReplicationError::OplogBehind { end, whole: standing.whole.position })
        }
        Some(standing) if standing.log != found => match former_log(log, patience)? {
            Some(former) if former == standing.log => Ok((from_the_beginning(), Origin::Former)),
            _ => Err(ReplicationError::OtherLog { found, known: standing.log }),
        },
        Some(standing) => Ok((Reading::resumed(standing.clone()), Origin::This)),
        // If this member makes the first claim, the set's oplog begins where its own ends.
        None => Ok((from_the_beginning(), Origin::This)),
    }
}

/// Which log this one continues, as its first record says.
fn former_log(log: &dyn SharedLog, patience: &mut Patience) -> Result<Option<LogIdentity>> {
    let first = Offset(0);
    loop {
        let records = match log.read(first, 1, LOOK) {
            Err(SharedLogError::Trimmed { .. }) => return Ok(None),
            Ok(records) if records.is_empty() => return Ok(None),
            records => patience.records(records)?,
        };
        if let Some(record) = records.first() {
            let kind = Record::parse(&record.bytes, first)?.map(|record| record.kind);
            return Ok(match kind {
                Some(RecordKind::Restored { former }) => Some(former),
                _ => None,
            });
        }
    }
}

fn read_to_end(
    log: &dyn SharedLog,
    mut reading: Reading,
    copy: &mut LocalCopy<'_>,
    patience: &mut Patience,
) -> Result<Reading> {
    // The end as it is now: under load it moves for ever, and asking takes longer than a record.
    let end = loop {
        match log.bounds() {
            Err(error) if error.is_passing() => patience.wait_longer()?,
            bounds => break bounds?.end,
        }
    };
    while reading.next() < end {
        for record in patience.records(log.read(reading.next(), READ_BYTES, LOOK))? {
            copy.take(&reading.step(record.offset, &record.bytes)?)?;
        }
    }
    Ok(reading)
}

/// How long the log has been silent.
pub(crate) struct Patience {
    clock: Arc<dyn Clock>,
    heard: Duration,
}

impl Patience {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Patience {
        Patience { heard: clock.monotonic(), clock }
    }

    /// It has said something.
    pub(crate) fn heard(&mut self) {
        self.heard = self.clock.monotonic();
    }

    /// The log cannot be reached: in a moment, unless it has been so for too long.
    fn wait_longer(&self) -> Result<()> {
        self.wait_for(LOOK)
    }

    /// The same for a moment of this length.
    pub(crate) fn wait_for(&self, pause: Duration) -> Result<()> {
        if self.clock.monotonic().saturating_sub(self.heard) > PATIENCE {
            return Err(ReplicationError::NoAnswer { seconds: PATIENCE.as_secs() });
        }
        self.clock.sleep(pause);
        Ok(())
    }

    /// What was read, which may be nothing.
    fn records(
        &mut self,
        read: std::result::Result<Vec<shared_log::StoredRecord>, SharedLogError>,
    ) -> Result<Vec<shared_log::StoredRecord>> {
        match read {
            Ok(records) if !records.is_empty() => {
                self.heard();
                Ok(records)
            }
            Err(error) if !error.is_passing() => Err(error.into()),
            _ => self.wait_longer().map(|()| Vec::new()),
        }
    }
}
