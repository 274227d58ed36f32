//! The directory log beside the one in memory, and through failing power, failing disks and hands that meddle.

use platform::{
    InjectedError, MemoryDisk, OpenMode, Operation, RealDisk, SeededRandom, SimulatedClock, SimulatedDisk, SystemClock,
    SystemRandom,
};

use super::*;
use crate::{MemoryLog, Ticket};

fn open(disk: &Arc<dyn Disk>, seed: u64) -> Result<DirectoryLog> {
    let clock = Arc::new(SimulatedClock::new(0));
    DirectoryLog::open(Arc::clone(disk), clock, Arc::new(SeededRandom::new(seed)))
}

fn created(disk: Arc<dyn Disk>) -> (Arc<dyn Disk>, DirectoryLog) {
    DirectoryLog::create(&*disk, &SeededRandom::new(0)).unwrap();
    let log = open(&disk, 1).unwrap();
    (disk, log)
}

fn send(log: &dyn SharedLog, bytes: &[u8]) -> std::result::Result<Offset, Refused> {
    log.begin_append(&[Sending { ticket: Ticket(7), bytes: bytes.into() }]);
    let outcome = log.outcomes(Duration::ZERO).pop().unwrap();
    assert_eq!(outcome.ticket, Ticket(7));
    outcome.result
}

fn read(log: &dyn SharedLog, from: u64, bytes_max: usize) -> std::result::Result<Vec<(u64, Vec<u8>)>, String> {
    let found = log.read(Offset(from), bytes_max, Duration::ZERO);
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|record| (record.offset.0, record.bytes.to_vec())).collect())
}

#[test]
fn a_log_is_made_once_and_known_by_its_identity() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory.path()).unwrap());
    assert!(matches!(open(&disk, 1).err(), Some(SharedLogError::Absent)));
    let identity = DirectoryLog::create(&*disk, &SystemRandom).unwrap();
    assert!(matches!(DirectoryLog::create(&*disk, &SystemRandom), Err(SharedLogError::Exists)));
    let log = DirectoryLog::open(Arc::clone(&disk), Arc::new(SystemClock::new()), Arc::new(SystemRandom)).unwrap();
    assert_eq!(log.identity().unwrap(), identity);
    assert_eq!(log.check().unwrap(), [""; 0]);
    assert_eq!(disk.list(Path::new("")).unwrap(), ["identity", "records", "sending", "trimmed"]);
    assert!(disk.list(Path::new("sending")).unwrap().is_empty());
    disk.open(Path::new("identity"), OpenMode::ReadWrite).unwrap().write_all_at(b"x", 14).unwrap();
    assert!(matches!(log.identity(), Err(SharedLogError::Damaged { .. })));
}

/// Offsets, records, bounds and errors are those of the log in memory, whichever of several handles is used.
#[test]
fn it_does_what_the_log_in_memory_does() {
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(64 << 20));
        let (disk, log) = created(disk);
        let mut handles = [log, open(&disk, 2).unwrap(), open(&disk, 3).unwrap()];
        let model = MemoryLog::new(seed).connect();
        for number in 0..150_u64 {
            let chosen = random.below(3) as usize;
            match random.below(20) {
                0..9 => {
                    let bytes = vec![number as u8; 1 + random.below(300) as usize];
                    assert_eq!(send(&handles[chosen], &bytes).unwrap(), send(&model, &bytes).unwrap());
                }
                9..17 => {
                    let from = random.below(model.bounds().unwrap().end.0 + 2);
                    let bytes_max = random.below(1_000) as usize;
                    let expected = read(&model, from, bytes_max);
                    assert_eq!(read(&handles[chosen], from, bytes_max), expected, "seed {seed}");
                }
                17 => assert_eq!(handles[chosen].bounds().unwrap(), model.bounds().unwrap()),
                18 => handles[chosen] = open(&disk, number).unwrap(),
                _ => {
                    let Bounds { first, end } = model.bounds().unwrap();
                    let offset = Offset(first.0 + random.below(end.0 - first.0 + 1));
                    assert_eq!(handles[chosen].trim_before(offset).unwrap(), model.trim_before(offset).unwrap());
                }
            }
        }
        assert!(handles[0].check().unwrap().is_empty());
    }
}

/// Names that are given while others are listed may or may not be among them.
#[test]
#[allow(clippy::disallowed_methods, reason = "the hand of others, without the time that syncs take")]
fn a_log_that_others_append_to_is_opened_whole() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory.path()).unwrap());
    DirectoryLog::create(&*disk, &SystemRandom).unwrap();
    let put = |number: u64| std::fs::write(directory.path().join(record_path(Offset(number))), b"x").unwrap();
    (0..3_000).for_each(put);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (3_000..8_000).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(put));
        for seed in 0..60 {
            let ends = [(); 2].map(|()| open(&disk, seed).unwrap().bounds().unwrap().end);
            assert!(ends[0] <= ends[1] && ends[0] >= Offset(3_000), "{ends:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    std::fs::remove_file(directory.path().join(record_path(Offset(7)))).unwrap();
    assert!(matches!(open(&disk, 1).err(), Some(SharedLogError::Damaged { offset: Offset(7), .. })));
}

/// What was acknowledged, and what was read, is there for ever; what was refused is not; and no record is missing among others.
#[test]
fn nothing_is_lost_when_the_power_fails() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..300 {
        let random = SeededRandom::new(seed);
        let simulated = SimulatedDisk::new(seed);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (_, log) = created(Arc::clone(&disk));
        let mut handles = vec![log, open(&disk, 2).unwrap()];
        let mut known: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut refused: Vec<Vec<u8>> = Vec::new();
        for number in 0..60_u64 {
            let chosen = random.below(2) as usize;
            match random.below(10) {
                0..5 => {
                    let bytes = [vec![seed as u8; random.below(900) as usize], number.to_le_bytes().to_vec()].concat();
                    match send(&handles[chosen], &bytes) {
                        Ok(offset) => known.push((offset.0, bytes)),
                        Err(Refused::NotAppended(_)) => refused.push(bytes),
                        Err(Refused::Unknown(_)) => lost += 1,
                    }
                }
                5..7 => known.extend(read(&handles[chosen], 0, usize::MAX).unwrap_or_default()),
                7 => simulated.power_loss_after(random.below(12)),
                8 => {
                    let operation = [Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDirectory];
                    simulated.fail_after(operation[random.below(4) as usize], 0, InjectedError::InputOutput);
                }
                _ => {
                    simulated.clear_faults();
                    simulated.process_crash();
                    simulated.power_on();
                    handles = vec![open(&disk, number).unwrap(), open(&disk, number + 1).unwrap()];
                }
            }
        }
        simulated.clear_faults();
        simulated.power_on();
        simulated.power_loss();
        let log = open(&disk, 9).unwrap();
        let all = read(&log, 0, usize::MAX).unwrap();
        assert!(all.iter().enumerate().all(|(index, (offset, _))| *offset == index as u64));
        for record in &known {
            assert!(all.contains(record), "seed {seed}: record {} is lost", record.0);
        }
        assert!(!all.iter().any(|(_, bytes)| refused.contains(bytes)), "seed {seed}");
        kept += known.len();
        send(&log, b"goes on").unwrap();
    }
    assert!(kept > 3_000 && lost > 50, "{kept} kept, {lost} of unknown fate");
}

/// Somebody who has slept since the log had that name to give away gives it a second time.
#[test]
fn a_name_that_was_trimmed_is_given_to_nobody() {
    let (disk, log) = created(Arc::new(MemoryDisk::new(1 << 20)));
    for number in 0..9 {
        send(&log, &[number]).unwrap();
    }
    let sleeper = open(&disk, 2).unwrap();
    let sending = sending_path(Offset(9), 1);
    write_new(&*disk, &sending, b"late").unwrap();
    write_new(&*disk, &sending_path(Offset(2), 1), b"left by somebody who died").unwrap();
    assert_eq!(log.trim_before(Offset(6)).unwrap(), Offset(6));
    assert_eq!(disk.list(Path::new(SENDING)).unwrap().len(), 1);
    disk.rename_new(&sending, &record_path(Offset(3))).unwrap();
    let refused = sleeper.settle(Offset(3)).unwrap_err();
    assert!(matches!(refused, Refused::NotAppended(SharedLogError::Trimmed { first: Offset(6), .. })), "{refused}");
    assert!(read(&log, 3, 1).unwrap_err().contains("record 3 of the shared log is gone; the oldest is 6"));
    assert_eq!(log.trim_before(Offset(9)).unwrap(), Offset(9));
    assert!(disk.list(Path::new(RECORDS)).unwrap().is_empty());
    assert_eq!(disk.list(Path::new(TRIMMED)).unwrap(), ["00000000000000000009"]);
    assert_eq!(send(&sleeper, b"next").unwrap(), Offset(9));
    assert_eq!(open(&disk, 3).unwrap().bounds().unwrap(), Bounds { first: Offset(9), end: Offset(10) });
}

#[test]
fn what_was_taken_away_by_hand_is_noticed() {
    let (disk, log) = created(Arc::new(MemoryDisk::new(1 << 20)));
    for number in 0..6 {
        send(&log, &[number]).unwrap();
    }
    let remove = |offset| disk.remove(&record_path(Offset(offset))).unwrap();
    remove(3);
    for error in [log.read(Offset(3), 1, Duration::ZERO).err(), log.check().err(), open(&disk, 2).err()] {
        assert!(matches!(error, Some(SharedLogError::Damaged { offset: Offset(3), .. })), "{error:?}");
    }
    remove(4);
    remove(5);
    // The newest are gone: who has read them neither reads nor appends.
    assert!(matches!(log.read(Offset(6), 1, Duration::ZERO), Err(SharedLogError::Shorter { end: Offset(3), .. })));
    assert!(matches!(send(&log, b"x"), Err(Refused::NotAppended(SharedLogError::Shorter { .. }))));
    disk.open(&record_path(Offset(2)), OpenMode::ReadWrite).unwrap().set_length(0).unwrap();
    assert!(matches!(log.read(Offset(2), 1, Duration::ZERO), Err(SharedLogError::Damaged { .. })));
}

#[test]
fn a_full_disk_and_records_that_are_too_large_are_refused_and_leave_nothing() {
    let disk = SimulatedDisk::new(1);
    let (disk, log) = {
        let (shared, log) = created(Arc::new(disk.clone()));
        disk.set_capacity_bytes(Some(disk.used_bytes() + 4096));
        (shared, log)
    };
    let full = send(&log, &[1; 20_000]).unwrap_err();
    assert!(matches!(full, Refused::NotAppended(SharedLogError::Full)), "{full}");
    let large = send(&log, &vec![1; STORED_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(large, Refused::NotAppended(SharedLogError::TooLarge { .. })), "{large}");
    assert!(disk.list(Path::new(SENDING)).unwrap().is_empty());
    assert_eq!(send(&log, b"little").unwrap(), Offset(0));
}

#[test]
fn a_reader_waits_at_the_end_as_long_as_it_is_told_to() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(1 << 20));
    DirectoryLog::create(&*disk, &SeededRandom::new(0)).unwrap();
    let clock = Arc::new(SimulatedClock::new(0));
    let log = DirectoryLog::open(disk, Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(SeededRandom::new(1))).unwrap();
    assert!(log.read(Offset(0), 1, Duration::from_millis(50)).unwrap().is_empty());
    assert_eq!(clock.monotonic(), Duration::from_millis(50));
}

#[test]
fn an_encrypted_log_has_a_key_from_its_beginning_on() {
    let (outer, other) = (platform::OuterKey::new([1; 32]), platform::OuterKey::new([2; 32]));
    let (disk, log) = created(Arc::new(MemoryDisk::new(1 << 20)));
    assert!(log.key(None).unwrap().is_none());
    let key = log.key(Some(&outer)).unwrap().unwrap();
    let sealed = crate::SealedLog::new(Box::new(log), key, Arc::new(SeededRandom::new(3))).unwrap();
    assert_eq!(send(&sealed, b"a record").unwrap(), Offset(0));
    // Another member.
    let log = open(&disk, 4).unwrap();
    assert!(matches!(log.key(None), Err(SharedLogError::Key { .. })));
    assert!(matches!(log.key(Some(&other)), Err(SharedLogError::Key { .. })));
    log.rotate_key(&outer, &other).unwrap();
    assert!(log.key(Some(&outer)).is_err());
    let key = log.key(Some(&other)).unwrap().unwrap();
    let sealed = crate::SealedLog::new(Box::new(log), key, Arc::new(SeededRandom::new(5))).unwrap();
    let found = sealed.read(Offset(0), 100, Duration::ZERO).unwrap();
    assert_eq!(&*found[0].bytes, b"a record");
    // One that has records without a key stays as it is.
    let (_disk, log) = created(Arc::new(MemoryDisk::new(1 << 20)));
    send(&log, b"for all to read").unwrap();
    assert!(matches!(log.key(Some(&outer)), Err(SharedLogError::Key { .. })));
}
