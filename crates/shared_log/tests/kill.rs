//! Several processes append to one directory log and are killed at any moment: what one of them was told to be appended is there, whole and
//! once, and the log goes on.
//!
//! The processes are this program again, with `appender` as the test to be run.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use platform::{Random, RealDisk, SeededRandom, SystemClock, SystemRandom};
use shared_log::{DirectoryLog, Offset, Sending, SharedLog, Ticket};

/// Where the appender finds the log; not set, it does nothing.
const DIRECTORY: &str = "SHARED_LOG_DIRECTORY";
const NUMBER: &str = "SHARED_LOG_NUMBER";
const PROCESSES: u64 = 3;
const KILLS: u64 = 12;

fn open(directory: &Path) -> DirectoryLog {
    let disk = Arc::new(RealDisk::new(directory).unwrap());
    DirectoryLog::open(disk, Arc::new(SystemClock::new()), Arc::new(SystemRandom)).unwrap()
}

/// Says which process it is from, which of its appends, and has bytes that follow from that.
fn record(process: u64, append: u64) -> Vec<u8> {
    let random = SeededRandom::new((process << 32) | append);
    let mut bytes = vec![0; 16 + random.below(20_000) as usize];
    random.fill(&mut bytes[16..]);
    bytes[..8].copy_from_slice(&process.to_le_bytes());
    bytes[8..16].copy_from_slice(&append.to_le_bytes());
    bytes
}

/// Not a test: what the processes do.
#[test]
fn appender() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let number: u64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let log = open(Path::new(&directory));
    let mut out = std::io::stdout().lock();
    for append in 0.. {
        log.begin_append(&[Sending { ticket: Ticket(append), bytes: record(number, append).into() }]);
        let outcome = log.outcomes(Duration::ZERO).pop().unwrap();
        writeln!(out, "appended {append} {}", outcome.result.unwrap()).unwrap();
        out.flush().unwrap();
    }
}

fn start(directory: &Path, number: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["appender", "--exact", "--nocapture", "--test-threads", "1"]);
    command.env(DIRECTORY, directory).env(NUMBER, number.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Lets it append some, kills it, and gives what it was told.
fn let_and_kill(mut child: Child, appends: u64) -> Vec<(u64, u64)> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = Vec::new();
    for line in lines {
        // The first line of its own stands behind what the test's frame has written.
        let Some(rest) = line.as_ref().unwrap().split("appended ").nth(1) else { continue };
        let Some((append, offset)) = rest.split_once(' ') else { continue };
        // The last one may be cut.
        let (Ok(append), Ok(offset)) = (append.parse(), offset.parse()) else { continue };
        told.push((append, offset));
        if told.len() as u64 == appends {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    told
}

#[test]
fn what_was_appended_survives_kills() {
    let directory = tempfile::tempdir().unwrap();
    DirectoryLog::create(&RealDisk::new(directory.path()).unwrap(), &SystemRandom).unwrap();
    let random = SeededRandom::new(3);
    let mut running: Vec<(u64, Child)> =
        (0..PROCESSES).map(|number| (number, start(directory.path(), number))).collect();
    let mut told: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut seen = Vec::new();
    let reader = open(directory.path());
    for number in PROCESSES..PROCESSES + KILLS {
        let (killed, child) = running.remove(random.below(PROCESSES) as usize);
        for (append, offset) in let_and_kill(child, 5 + random.below(40)) {
            assert_eq!(told.insert(offset, record(killed, append)), None, "offset {offset} was given twice");
        }
        running.push((number, start(directory.path(), number)));
        let from = Offset(seen.len() as u64);
        seen.extend(reader.read(from, 1 << 20, Duration::ZERO).unwrap().into_iter().map(|found| found.bytes));
    }
    for (killed, child) in running {
        told.extend(let_and_kill(child, 1).into_iter().map(|(append, offset)| (offset, record(killed, append))));
    }
    let log = open(directory.path());
    let end = log.bounds().unwrap().end.0;
    let all = log.read(Offset(0), usize::MAX, Duration::ZERO).unwrap();
    assert_eq!(all.len() as u64, end);
    assert!(all.iter().zip(&seen).all(|(now, before)| now.bytes == *before), "what was read has changed");
    for found in &all {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| found.bytes[at + index]));
        assert_eq!(found.bytes[..], record(number(0), number(8)), "record {} is torn", found.offset);
    }
    assert!(told.len() as u64 > 10 * KILLS, "{} appends", told.len());
    for (offset, bytes) in told {
        assert_eq!(all[offset as usize].bytes[..], bytes, "record {offset} is another");
    }
    assert!(log.check().unwrap().is_empty());
}
