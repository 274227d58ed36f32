//! What the flight recorder writes, keeps and warns of.

use std::sync::atomic::{AtomicI64, Ordering};

use bson::{RawDocumentBuf, rawdoc};
use flight_recorder::file_names::{DIRECTORY, begin};
use flight_recorder::{Chunk, blocks};
use platform::{Disk, RealDisk, SimulatedClock, SystemClock};

use super::*;

/// A server whose figures grow.
#[derive(Default)]
struct Growing(AtomicI64);

impl StatusSource for Growing {
    fn status(&self) -> Result<RawDocumentBuf, String> {
        let moment = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(rawdoc! { "uptimeMillis": moment * 1_000, "plimsoll": { "writes": { "areAccepted": moment < 320 } } })
    }

    fn is_used_since(&self, before: &mut u64) -> bool {
        *before += 1;
        true
    }
}

/// A server that so many commands have used.
struct Used(AtomicI64);

impl StatusSource for Used {
    fn status(&self) -> Result<RawDocumentBuf, String> {
        Ok(rawdoc! {})
    }

    fn is_used_since(&self, before: &mut u64) -> bool {
        let commands = self.0.load(Ordering::Relaxed) as u64;
        std::mem::replace(before, commands) != commands
    }
}

#[test]
fn a_server_that_nobody_uses_is_looked_at_less_often() {
    let used = Used(AtomicI64::new(0));
    let mut looked = Looked::default();
    let (mut processor_time, mut due) = (Duration::ZERO, Vec::new());
    for second in 0..30 {
        match second {
            7 | 8 => _ = used.0.fetch_add(1, Ordering::Relaxed),
            20 | 21 => processor_time += INTERVAL / 50,
            _ => processor_time += INTERVAL / 1_000,
        }
        if looked.is_due(INTERVAL * second, processor_time, &used) {
            due.push(second);
        }
    }
    assert_eq!(due, [0, 5, 7, 8, 13, 18, 20, 21, 26]);
}

fn recorder(writes: Option<SyncSender<Written>>) -> Recorder {
    Recorder::new(Arc::new(Growing::default()), Arc::new(SystemClock::new()), writes, Warnings::default())
}

/// All moments that a folder's files have, in the order of their names.
#[allow(clippy::disallowed_methods, reason = "a test")]
fn recorded(directory: &std::path::Path) -> Vec<usize> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory.join(DIRECTORY)).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let read = |path| {
        blocks(&std::fs::read(path).unwrap())
            .map(|block| Chunk::decode(&block.unwrap()).unwrap().times.len())
            .collect::<Vec<_>>()
    };
    names.into_iter().flat_map(read).collect()
}

#[test]
fn moments_are_written_in_chunks_and_the_last_ones_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(directory.path()).unwrap());
    let (writes, taken) = sync_channel(100);
    let mut recorder = recorder(Some(writes));
    let clock = Arc::new(SimulatedClock::new(1_000));
    recorder.clock = clock.clone();
    for _ in 0..CHUNK_MOMENTS + 25 {
        clock.advance(INTERVAL);
        recorder.take();
    }
    let before: Vec<Written> = taken.try_iter().collect();
    let mut files = FigureFiles::new(disk.clone(), 1 << 20);
    before.iter().for_each(|written| files.write(written).unwrap());
    // A crash now loses five moments of the second chunk.
    assert_eq!(recorded(directory.path()), [CHUNK_MOMENTS, 20]);
    recorder.finish();
    taken.iter().for_each(|written| files.write(&written).unwrap());
    assert_eq!(recorded(directory.path()), [CHUNK_MOMENTS, 25]);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn a_start_goes_on_where_the_last_run_ended_also_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(directory.path()).unwrap());
    let block = |moments: i64| {
        let mut chunk = ChunkWriter::default();
        (0..moments).for_each(|moment| chunk.push(77 + moment, &rawdoc! { "a": 1 }));
        encode_brief_block(&chunk.encode())
    };
    let start = || FigureFiles::new(disk.clone(), 1 << 20);
    start().write(&Written::Kept { began: 70, block: block(1) }).unwrap();
    start().write(&Written::Current(block(2))).unwrap();
    start().write(&Written::Kept { began: 99, block: block(3) }).unwrap();
    assert_eq!(recorded(directory.path()), [1, 2, 3]);
    let names = || std::fs::read_dir(directory.path().join(DIRECTORY)).unwrap().map(|entry| entry.unwrap().path());
    let only = names().next().unwrap();
    assert_eq!((names().count(), begin(only.file_name().unwrap().to_str().unwrap())), (1, Some(70)));
    // A file whose end is torn is left as it is.
    let whole = std::fs::read(&only).unwrap();
    std::fs::write(&only, &whole[..whole.len() - 1]).unwrap();
    start().write(&Written::Kept { began: 111, block: block(4) }).unwrap();
    assert_eq!(names().count(), 2);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn no_more_is_kept_than_may_be() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(directory.path()).unwrap());
    for began in 0..5 {
        let mut files = FigureFiles::new(disk.clone(), 3_000);
        // Whole files, as no chunk is: each is left as it is.
        files.write(&Written::Kept { began, block: vec![0; 1_400] }).unwrap();
    }
    let mut left: Vec<_> = std::fs::read_dir(directory.path().join(DIRECTORY))
        .unwrap()
        .filter_map(|entry| begin(entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    left.sort_unstable();
    assert_eq!(left, [3, 4]);
}

#[test]
fn trouble_becomes_a_warning_and_goes_with_its_end() {
    let mut recorder = recorder(None);
    let clock = Arc::new(SimulatedClock::new(1_000));
    recorder.clock = clock.clone();
    let seconds = |recorder: &mut Recorder, count: usize| {
        for _ in 0..count {
            clock.advance(INTERVAL);
            recorder.take();
        }
    };
    seconds(&mut recorder, 330);
    let names: Vec<_> = recorder.warnings.lock().iter().map(|finding| finding.pattern).collect();
    assert_eq!(names, ["writesStopped"]);
    recorder.source = Arc::new(Growing::default());
    seconds(&mut recorder, 5);
    assert_eq!(*recorder.warnings.lock(), []);
}

#[test]
fn it_ends_soon_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory.path()).unwrap());
    let (clock, source) = (Arc::new(SystemClock::new()), Arc::new(Growing::default()));
    let begun = FlightRecording::begin(source, clock, Some((disk, 1 << 20)), Warnings::default()).unwrap();
    begun.stop();
}
