//! A whole log, read from its first record to its end: what is damaged, what is missing, and whether it follows the rule.
//!
//! Called by `plimsoll log check`. A log that was trimmed is judged by the rule from where a standing is known; before that, and behind damage, each record is only
//! looked at by itself.

use std::ops::Range;

use crate::reading::{Effect, Place, Reading, Rule};
use crate::record::Record;
use crate::{ARRIVES_WITHIN, Offset, Result, SharedLog, SharedLogError, Standing, StoredRecord};

/// Bytes read at a time.
const READ_BYTES: usize = 4 << 20;
/// How often a read is tried that a disturbance of the network ends.
const READ_ATTEMPTS: u32 = 4;
/// Problems that are listed.
const LISTED_MAX: usize = 100;

/// What a log has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Records read.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records of others.
    pub foreign: u64,
    /// Records of ours that do not count: of past terms, repeats, and what overtook.
    pub ignored: u64,
    /// The newest term.
    pub term: u64,
    /// From which record on the rule has judged.
    pub judged_from: Option<Offset>,
    /// Bytes of the oplog that count, among those that were judged.
    pub accepted: u64,
    /// What is wrong, each a sentence.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more_problems: u64,
}

impl Examined {
    fn complain(&mut self, problem: String) {
        if self.problems.len() < LISTED_MAX {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }
}

/// Reads a log. `standings`: what is known of places in it, from copies and members. `gaps`: records that are known to be missing.
///
/// # Errors
/// `Unreachable`; what is wrong with the log itself is in the result.
pub fn examine(
    log: &dyn SharedLog,
    range: Range<Offset>,
    (standings, gaps): (&[Standing], &[Range<Offset>]),
) -> Result<Examined> {
    let mut examined = Examined::default();
    for gap in gaps {
        let last = gap.end.0.saturating_sub(1);
        examined.complain(match last == gap.start.0 {
            true => format!("record {last} is missing, and there are later ones"),
            false => format!("records {} to {last} are missing, and there are later ones", gap.start),
        });
    }
    let identity = log.identity()?;
    let mut judging = (range.start == Offset(0)).then(|| Reading::new(identity, Place::default()));
    let mut next = range.start;
    while next < range.end {
        if let Some(gap) = gaps.iter().find(|gap| gap.contains(&next)) {
            (next, judging) = (gap.end, None);
            continue;
        }
        let records = match read_patiently(log, next) {
            Err(error @ SharedLogError::Damaged { .. }) => {
                examined.complain(error.to_string());
                (next, judging) = (next.following(), None);
                continue;
            }
            records => records?,
        };
        if records.is_empty() {
            examined.complain(format!("the log had records up to {} and ends with {next} now", range.end));
            break;
        }
        for stored in records {
            if gaps.iter().any(|gap| gap.contains(&stored.offset)) {
                break;
            }
            if let Some(known) = standings.iter().find(|known| known.log == identity && known.next == stored.offset)
                && judging.is_none()
            {
                judging = Some(Reading::resumed(known.clone()));
            }
            examined.take(&mut judging, stored.offset, &stored.bytes);
            next = stored.offset.following();
        }
    }
    Ok(examined)
}

fn read_patiently(log: &dyn SharedLog, from: Offset) -> Result<Vec<StoredRecord>> {
    let mut attempt = 1;
    loop {
        match log.read(from, READ_BYTES, ARRIVES_WITHIN) {
            Err(error) if error.is_passing() && attempt < READ_ATTEMPTS => attempt += 1,
            outcome => return outcome,
        }
    }
}

impl Examined {
    fn take(&mut self, judging: &mut Option<Reading>, offset: Offset, bytes: &[u8]) {
        (self.records, self.bytes) = (self.records + 1, self.bytes + bytes.len() as u64);
        match Record::parse(bytes, offset) {
            Ok(Some(record)) => self.term = self.term.max(record.term),
            Ok(None) => self.foreign += 1,
            Err(error) => {
                self.complain(error.to_string());
                *judging = None;
                return;
            }
        }
        let Some(reading) = judging else { return };
        self.judged_from.get_or_insert(offset);
        match reading.step(offset, bytes) {
            Ok(Effect::Accepted { bytes, .. }) => self.accepted += bytes.len() as u64,
            Ok(Effect::Ignored(_)) => self.ignored += 1,
            Ok(_) => {}
            Err(error) => {
                self.complain(error.to_string());
                *judging = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::record::RecordKind;
    use crate::{Leader, MemoryLog, Sending, Ticket};

    fn put(log: &dyn SharedLog, bytes: Arc<[u8]>) {
        log.begin_append(&[Sending { ticket: Ticket(0), bytes }]);
        log.outcomes(Duration::ZERO).pop().unwrap().result.unwrap();
    }

    fn range(start: u64, chain: u32, bytes: &[u8]) -> Arc<[u8]> {
        let kind = RecordKind::Range { start, whole: bytes.len(), bytes };
        Record { term: 1, confirmed: start, chain, kind }.encode().unwrap()
    }

    fn filled() -> MemoryLog {
        let log = MemoryLog::new(1);
        let connection = log.connect();
        let leader = Leader { node: 1, incarnation: 1, address: "db1:1".to_owned() };
        put(&connection, Record { term: 1, confirmed: 0, chain: 0, kind: RecordKind::Claim(leader) }.encode().unwrap());
        put(&connection, range(0, 0, b"one"));
        put(&connection, range(0, 0, b"one"));
        put(&connection, range(3, crc32c::crc32c(b"one"), b"two"));
        put(&connection, b"something else".as_slice().into());
        log
    }

    #[test]
    fn a_whole_log_is_judged_and_its_damage_is_named() {
        let log = filled();
        let connection = log.connect();
        let all = Offset(0)..connection.bounds().unwrap().end;
        let whole = examine(&connection, all.clone(), (&[], &[])).unwrap();
        assert_eq!((whole.records, whole.foreign, whole.ignored, whole.accepted), (5, 1, 1, 6));
        assert_eq!((whole.term, whole.judged_from, whole.problems), (1, Some(Offset(0)), Vec::new()));
        // A writer that has followed another rule.
        put(&connection, range(6, 7, b"wrong"));
        let mut cut = range(6, crc32c::crc32c(b"onetwo"), b"three").to_vec();
        cut.pop();
        put(&connection, cut.into());
        let all = Offset(0)..connection.bounds().unwrap().end;
        let found = examine(&connection, all.clone(), (&[], &[])).unwrap();
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
        let gap = Offset(2)..Offset(4);
        let found = examine(&connection, all, (&[], &[gap])).unwrap();
        assert!(found.problems[0].starts_with("records 2 to 3 are missing"), "{:?}", found.problems);
        assert_eq!(found.records, 5);
    }
}
