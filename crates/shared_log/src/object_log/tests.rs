//! The log in objects beside the one in memory, with several handles, batches, lost answers and somebody who has slept.

use std::collections::BTreeMap;

use platform::{SeededRandom, SimulatedClock};

use super::*;
use crate::{MemoryLog, Ticket};

/// A store in memory, which may lose answers.
#[derive(Default)]
struct MemoryObjects {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Of so many requests that store something the answer is lost.
    answers_lost: AtomicU64,
    ignores_conditions: bool,
}

impl MemoryObjects {
    fn answer<T>(&self, value: T) -> io::Result<T> {
        let lost = self.answers_lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lost| lost.checked_sub(1));
        if lost.is_ok() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(value) }
    }
}

impl Objects for MemoryObjects {
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let mut objects = self.objects.lock();
        let is_new = self.ignores_conditions || !objects.contains_key(name);
        if is_new {
            objects.insert(name.to_owned(), bytes.to_vec());
        }
        self.answer(is_new)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.objects.lock().insert(name.to_owned(), bytes.to_vec());
        self.answer(())
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.objects.lock().get(name).cloned())
    }

    fn list_after(&self, folder: &str, after: &str, count_max: usize) -> io::Result<Vec<String>> {
        let objects = self.objects.lock();
        let names = objects.keys().filter_map(|name| name.strip_prefix(folder)?.strip_prefix('/'));
        Ok(names.filter(|name| *name > after).take(count_max).map(str::to_owned).collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.objects.lock().remove(name);
        Ok(())
    }
}

fn created() -> Arc<MemoryObjects> {
    let objects = Arc::new(MemoryObjects::default());
    ObjectLog::create(&*objects, &SeededRandom::new(0)).unwrap();
    objects
}

/// A handle whose clock moves as it waits.
fn open(objects: &Arc<MemoryObjects>, seed: u64) -> (ObjectLog, Arc<SimulatedClock>) {
    let clock = Arc::new(SimulatedClock::new(0));
    (ObjectLog::open(objects.clone(), clock.clone(), Arc::new(SeededRandom::new(seed))).unwrap(), clock)
}

fn send(log: &dyn SharedLog, records: &[Vec<u8>]) -> Vec<std::result::Result<Offset, String>> {
    let tickets = (0..).map(Ticket);
    let batch: Vec<_> =
        tickets.zip(records).map(|(ticket, bytes)| Sending { ticket, bytes: bytes.as_slice().into() }).collect();
    log.begin_append(&batch);
    let outcomes = log.outcomes(Duration::ZERO);
    assert_eq!(outcomes.len(), records.len());
    outcomes.into_iter().map(|outcome| outcome.result.map_err(|error| error.to_string())).collect()
}

fn read(log: &dyn SharedLog, from: u64) -> std::result::Result<Vec<(u64, Vec<u8>)>, String> {
    let found = log.read(Offset(from), usize::MAX, Duration::ZERO).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|record| (record.offset.0, record.bytes.to_vec())).collect())
}

#[test]
fn a_log_is_made_once_and_known_by_its_identity() {
    let objects = Arc::new(MemoryObjects::default());
    let clock = Arc::new(SimulatedClock::new(0));
    let absent = ObjectLog::open(objects.clone(), clock, Arc::new(SeededRandom::new(1)));
    assert!(matches!(absent.err(), Some(SharedLogError::Absent)));
    let identity = ObjectLog::create(&*objects, &SeededRandom::new(1)).unwrap();
    assert!(matches!(ObjectLog::create(&*objects, &SeededRandom::new(2)), Err(SharedLogError::Exists)));
    let (log, _) = open(&objects, 1);
    assert_eq!(log.identity().unwrap(), identity);
    assert_eq!(log.check().unwrap(), [""; 0]);
    objects.put(IDENTITY, b"something else").unwrap();
    assert!(matches!(log.identity(), Err(SharedLogError::Damaged { .. })));
}

#[test]
fn a_store_that_makes_an_object_twice_is_refused() {
    let objects = Arc::new(MemoryObjects { ignores_conditions: true, ..MemoryObjects::default() });
    ObjectLog::create(&*objects, &SeededRandom::new(0)).unwrap();
    assert_eq!(open(&objects, 1).0.check().unwrap().len(), 1);
}

/// Offsets, records, bounds and errors are those of the log in memory, whichever of several handles is used.
#[test]
fn it_does_what_the_log_in_memory_does() {
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let objects = created();
        let mut handles = [open(&objects, 1), open(&objects, 2), open(&objects, 3)];
        let model = MemoryLog::new(seed).connect();
        for number in 0..150_u64 {
            let (handle, clock) = &handles[random.below(3) as usize];
            // Long enough for everybody to look again.
            clock.sleep(BEGINNING_EVERY);
            match random.below(20) {
                0..9 => {
                    let record = |_| vec![number as u8; 1 + random.below(300) as usize];
                    let records: Vec<_> = (0..1 + random.below(100)).map(record).collect();
                    assert_eq!(send(handle, &records), send(&model, &records));
                }
                9..17 => {
                    let from = random.below(model.bounds().unwrap().end.0 + 2);
                    assert_eq!(read(handle, from), read(&model, from), "seed {seed}");
                }
                17 => assert_eq!(handle.bounds().unwrap(), model.bounds().unwrap()),
                18 => handles[random.below(3) as usize] = open(&objects, 10 + number),
                _ => {
                    let Bounds { first, end } = model.bounds().unwrap();
                    let offset = Offset(first.0 + random.below(end.0 - first.0 + 1));
                    // To the batch that has it.
                    let trimmed = handle.trim_before(offset).unwrap();
                    assert!(trimmed <= offset && trimmed.0 + BATCH_RECORDS_MAX as u64 > offset.0);
                    assert_eq!(model.trim_before(trimmed).unwrap(), trimmed);
                }
            }
        }
    }
}

#[test]
fn a_lost_answer_leaves_the_records_there_once_or_twice() {
    let objects = created();
    let (log, _) = open(&objects, 1);
    objects.answers_lost.store(1, Ordering::SeqCst);
    assert!(send(&log, &[b"one".to_vec()])[0].as_ref().is_err_and(|error| error.contains("not known")));
    assert_eq!(send(&log, &[b"one".to_vec()]), [Ok(Offset(1))]);
    assert_eq!(read(&log, 0).unwrap().len(), 2);
    // Two who append at once: each finds the other's.
    let (other, _) = open(&objects, 2);
    assert_eq!(send(&log, &[b"two".to_vec()]), [Ok(Offset(2))]);
    assert_eq!(send(&other, &[b"three".to_vec(), b"four".to_vec()]), [Ok(Offset(3)), Ok(Offset(4))]);
    assert_eq!(send(&log, &[b"five".to_vec()]), [Ok(Offset(5))]);
}

#[test]
fn who_has_slept_while_his_place_was_trimmed_appends_behind_it() {
    let objects = created();
    let ((log, _), (sleeper, _)) = (open(&objects, 1), open(&objects, 2));
    for number in 0..5 {
        send(&log, &[vec![number + 1]]);
    }
    log.trim_before(Offset(4)).unwrap();
    assert_eq!(objects.list_after(RECORDS, "", 10).unwrap(), [numbered(4)]);
    assert_eq!(send(&sleeper, &[b"late".to_vec()]), [Ok(Offset(5))]);
    assert!(read(&log, 0).unwrap_err().contains("is gone"));
    // A batch that lies before the beginning and would reach beyond it is none.
    let (late, _) = open(&objects, 4);
    late.trim_before(Offset(6)).unwrap();
    objects.put_new(&batch_name(Offset(3)), &Batch::encode(9, &[b"left".as_slice(); 20])).unwrap();
    assert!(read(&open(&objects, 5).0, 6).unwrap().is_empty());
    assert_eq!(open(&objects, 5).0.bounds().unwrap(), Bounds { first: Offset(6), end: Offset(6) });
    assert_eq!(send(&sleeper, &[b"next".to_vec()]), [Ok(Offset(6))]);
    // What he has left there goes with the next trim.
    log.trim_before(Offset(7)).unwrap();
    assert_eq!(objects.list_after(RECORDS, "", 10).unwrap(), [""; 0]);
    assert_eq!(open(&objects, 3).0.bounds().unwrap(), Bounds { first: Offset(7), end: Offset(7) });
}

#[test]
fn what_is_missing_is_told_from_the_end() {
    let objects = created();
    let (log, _) = open(&objects, 1);
    for number in 0..200 {
        send(&log, &[vec![number]]);
    }
    objects.delete(&batch_name(Offset(70))).unwrap();
    assert!(read(&open(&objects, 2).0, 70).unwrap_err().contains("missing"));
    for gone in 100..200 {
        objects.delete(&batch_name(Offset(gone))).unwrap();
    }
    assert!(read(&open(&objects, 3).0, 150).unwrap_err().contains("ends at record 100"));
}

#[test]
fn notices_are_put_up_and_read_now_and_then() {
    let objects = created();
    let (log, clock) = open(&objects, 1);
    log.post(7, b"first").unwrap();
    log.post(7, b"too soon").unwrap();
    assert_eq!(log.notices().unwrap(), [b"first".to_vec()]);
    clock.sleep(NOTICES_EVERY);
    log.post(7, b"second").unwrap();
    assert_eq!(log.notices().unwrap(), [b"second".to_vec()]);
    log.withdraw(7).unwrap();
    assert!(log.notices().unwrap().is_empty());
}
