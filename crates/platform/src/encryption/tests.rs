//! An encrypted disk is a disk: it gives what a plain one gives, through crashes, and never wrong bytes.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::sector::{CONTENT_BYTES, DAMAGED, HEADER_BYTES, SECTOR_BYTES};
use super::*;
use crate::{Disk, File, InjectedError, OpenMode, Operation, Random, SeededRandom, SimulatedDisk};

const CONTENT: u64 = CONTENT_BYTES as u64;
/// More than two groups of sectors.
const FILE_BYTES: u64 = 300_000;

fn key(byte: u8) -> OuterKey {
    OuterKey::new([byte; 32])
}

fn create(inner: &SimulatedDisk, seed: u64) -> EncryptedDisk {
    EncryptedDisk::create(Arc::new(inner.clone()), &key(1), Arc::new(SeededRandom::new(seed))).unwrap()
}

fn reopen(inner: &SimulatedDisk, seed: u64) -> EncryptedDisk {
    EncryptedDisk::open(Arc::new(inner.clone()), &key(1), Arc::new(SeededRandom::new(seed))).unwrap()
}

fn contents(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Bytes that no place has in common with its neighbours.
fn some_bytes(random: &SeededRandom, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    random.fill(&mut bytes);
    bytes
}

/// A place, often at the border of a sector, and a length.
fn some_range(random: &SeededRandom) -> (u64, u64) {
    let offset = match random.below(3) {
        0 => random.below(FILE_BYTES / CONTENT) * CONTENT,
        1 => random.below(2_000),
        _ => random.below(FILE_BYTES),
    };
    let length = match random.below(4) {
        0 => random.below(20),
        1 => CONTENT * random.below(20),
        2 => random.below(3_000),
        _ => random.below(FILE_BYTES / 2),
    };
    (offset, length)
}

fn change(random: &SeededRandom, file: &dyn File) -> io::Result<()> {
    let (offset, length) = some_range(random);
    match random.below(10) {
        0..5 => file.write_all_at(&some_bytes(random, length), offset),
        5..7 => file.write_all_at(&some_bytes(random, length), file.length()?),
        7 => file.set_length(offset),
        8 => file.punch_hole(offset, length),
        // Of nothing, the simulated disk makes the file longer and the real one does not.
        _ => file.allocate(offset, length.max(1)),
    }
}

#[test]
fn it_gives_what_a_plain_disk_gives() {
    for seed in 0..40 {
        let (inner, plain) = (SimulatedDisk::new(seed), SimulatedDisk::new(seed));
        let disk = create(&inner, seed);
        let path = Path::new("file");
        let files = [disk.open(path, OpenMode::Create).unwrap(), plain.open(path, OpenMode::Create).unwrap()];
        // A second handle sees and does the same.
        let other = disk.open(path, OpenMode::ReadWrite).unwrap();
        let choices = SeededRandom::new(seed);
        for step in 0..40 {
            let seed = choices.next_u64();
            let encrypted = if step % 3 == 0 { &other } else { &files[0] };
            change(&SeededRandom::new(seed), &**encrypted).unwrap();
            change(&SeededRandom::new(seed), &*files[1]).unwrap();
            assert_eq!(files[0].length().unwrap(), files[1].length().unwrap(), "seed {seed}");
            let (offset, length) = some_range(&choices);
            let mut read = [vec![1; length as usize], vec![1; length as usize]];
            let counts = [0, 1].map(|number| files[number].read_at(&mut read[number], offset).unwrap());
            assert_eq!(counts[0], counts[1], "seed {seed}");
            assert!(read[0] == read[1], "seed {seed}");
        }
        assert!(contents(&*files[0]) == contents(&*files[1]), "seed {seed}");
        drop((files, other, disk));
        assert!(contents(&*reopen(&inner, 9).open(path, OpenMode::Read).unwrap()).len() <= 2 * FILE_BYTES as usize);
    }
}

/// Every byte is what it was when it was last durable, or what some later change made of it.
#[test]
fn a_crash_leaves_each_byte_as_it_was_or_as_it_was_to_be() {
    let path = Path::new("file");
    for seed in 0..60 {
        let inner = SimulatedDisk::new(seed);
        let choices = SeededRandom::new(seed);
        let mut disk = create(&inner, seed);
        disk.open(path, OpenMode::Create).unwrap().allocate(0, FILE_BYTES).unwrap();
        disk.open(path, OpenMode::ReadWrite).unwrap().sync_data().unwrap();
        disk.sync_directory(Path::new("")).unwrap();
        let mut durable = vec![0; FILE_BYTES as usize];
        for life in 0..4 {
            let file = disk.open(path, OpenMode::ReadWrite).unwrap();
            let mut states = vec![durable.clone()];
            for _ in 0..choices.below(8) {
                let (offset, length) = some_range(&choices);
                let length = length.min(FILE_BYTES - offset);
                let bytes = some_bytes(&choices, length);
                let mut next = states[states.len() - 1].clone();
                next[offset as usize..(offset + length) as usize].copy_from_slice(&bytes);
                file.write_all_at(&bytes, offset).unwrap();
                states.push(next);
                if choices.chance(0.3) {
                    file.sync_data().unwrap();
                    states.drain(..states.len() - 1);
                }
            }
            if choices.chance(0.7) {
                inner.power_loss()
            } else {
                inner.process_crash()
            }
            disk = reopen(&inner, seed * 10 + life);
            durable = contents(&*disk.open(path, OpenMode::Read).unwrap());
            assert_eq!(durable.len() as u64, FILE_BYTES);
            let is_right = |at: usize| states.iter().any(|state| state[at] == durable[at]);
            assert!((0..durable.len()).all(is_right), "seed {seed}");
            disk.open(path, OpenMode::ReadWrite).unwrap().sync_data().unwrap();
        }
    }
}

#[test]
fn what_is_durable_survives_failing_and_torn_writes_beside_it() {
    let path = Path::new("log");
    for seed in 0..100 {
        let inner = SimulatedDisk::new(seed);
        inner.fail_writes_between_sectors();
        let disk = create(&inner, seed);
        let file = disk.open(path, OpenMode::Create).unwrap();
        file.write_all_at(&[1; 700], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_directory(Path::new("")).unwrap();
        match seed % 3 {
            0 => inner.fail_next(Operation::Write, InjectedError::InputOutput),
            1 => inner.set_capacity_bytes(Some(inner.used_bytes())),
            _ => {}
        }
        let _ = file.write_all_at(&[2; 9_000], 700);
        inner.power_loss();
        let file = reopen(&inner, seed).open(path, OpenMode::Read).unwrap();
        let bytes = contents(&*file);
        assert_eq!(bytes[..700], [1; 700], "seed {seed}");
        assert!(bytes[700..].iter().all(|byte| *byte == 0 || *byte == 2), "seed {seed}");
    }
}

#[test]
fn a_file_whose_beginning_was_lost_is_empty_and_can_be_written() {
    let mut lost = 0;
    for seed in 0..60 {
        let inner = SimulatedDisk::new(seed);
        let disk = create(&inner, seed);
        inner.power_loss_after(seed % 6);
        let opened = disk.open(Path::new("file"), OpenMode::Create);
        lost += usize::from(opened.is_err());
        drop((opened, disk));
        inner.power_loss();
        inner.power_on();
        let disk = reopen(&inner, seed);
        let file = disk.open(Path::new("file"), OpenMode::Create).unwrap();
        assert_eq!(file.length().unwrap(), 0);
        file.write_all_at(b"new", 5).unwrap();
        assert_eq!(contents(&*file), b"\0\0\0\0\0new");
    }
    assert!(lost > 10, "the power failed {lost} times");
}

#[test]
fn one_flipped_bit_is_an_error_that_names_the_file_and_hides_nothing_else() {
    let inner = SimulatedDisk::new(1);
    let disk = create(&inner, 1);
    let path = Path::new("pages");
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.write_all_at(&[7; 5 * CONTENT_BYTES], 0).unwrap();
    let behind = HEADER_BYTES..HEADER_BYTES + 5 * SECTOR_BYTES as u64;
    for at in (0..100).chain(behind.step_by(37)) {
        inner.flip_bit(path, at, (at % 8) as u8).unwrap();
        let file = disk.open(path, OpenMode::Read).unwrap();
        let mut bytes = [0; 5 * CONTENT_BYTES];
        let read = file.read_exact_at(&mut bytes, 0);
        assert!(bytes.iter().all(|byte| *byte == 7 || *byte == 0), "wrong bytes after a flip at {at}");
        // The header is there twice.
        assert_eq!(read.is_ok(), at < HEADER_BYTES);
        if let Err(error) = read {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("pages"), "{error}");
            file.read_exact_unverified_at(&mut bytes, 0).unwrap();
            let damaged = bytes.iter().filter(|byte| **byte == DAMAGED).count();
            let intact = bytes.iter().filter(|byte| **byte == 7).count();
            assert_eq!((damaged, intact), (CONTENT_BYTES, 4 * CONTENT_BYTES));
        }
        inner.flip_bit(path, at, (at % 8) as u8).unwrap();
    }
    assert_eq!(contents(&*file), [7; 5 * CONTENT_BYTES]);
}

#[test]
fn a_header_is_healed_by_the_other_one_and_without_both_the_file_is_refused() {
    let inner = SimulatedDisk::new(2);
    let disk = create(&inner, 2);
    let path = Path::new("pages");
    disk.open(path, OpenMode::Create).unwrap().write_all_at(b"content", 0).unwrap();
    for half in [0, HEADER_BYTES / 2] {
        inner.flip_bit(path, half + 20, 1).unwrap();
        let file = disk.open(path, OpenMode::ReadWrite).unwrap();
        assert_eq!(contents(&*file), b"content");
    }
    inner.flip_bit(path, 20, 1).unwrap();
    inner.flip_bit(path, HEADER_BYTES / 2 + 30, 1).unwrap();
    for mode in [OpenMode::Read, OpenMode::Create] {
        let error = disk.open(path, mode).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("pages"), "{error}");
    }
}

#[test]
fn sectors_that_are_moved_are_noticed() {
    let inner = SimulatedDisk::new(1);
    let disk = create(&inner, 1);
    for name in ["a", "b"] {
        disk.open(Path::new(name), OpenMode::Create).unwrap().write_all_at(&[3; 2 * CONTENT_BYTES], 0).unwrap();
    }
    let below = |name: &str| inner.open(Path::new(name), OpenMode::ReadWrite).unwrap();
    let mut sector = [0; SECTOR_BYTES];
    below("a").read_exact_at(&mut sector, HEADER_BYTES).unwrap();
    for (name, place) in [("a", 1), ("b", 0)] {
        below(name).write_all_at(&sector, HEADER_BYTES + place * SECTOR_BYTES as u64).unwrap();
        let file = disk.open(Path::new(name), OpenMode::Read).unwrap();
        let read = file.read_exact_at(&mut [0; 10], place * CONTENT);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

/// The nonces and keys of all sectors that were ever below, whatever crashed in between.
#[test]
fn no_nonce_comes_twice() {
    let inner = SimulatedDisk::new(3);
    let mut disk = create(&inner, 3);
    let path = Path::new("file");
    let (mut seen, mut sectors) = (HashSet::new(), HashSet::new());
    for life in 0..20 {
        inner.power_loss_after(if life % 2 == 0 { 1_000 } else { life });
        if let Ok(file) = disk.open(path, OpenMode::Create) {
            for _ in 0..5 {
                let _ = file.write_all_at(&[life as u8; 3_000], 100);
                let Ok(below) = inner.open(path, OpenMode::Read) else { break };
                let mut bytes = vec![0; below.length().unwrap() as usize];
                if below.read_exact_at(&mut bytes, 0).is_err() {
                    break;
                }
                for sector in bytes[bytes.len().min(HEADER_BYTES as usize)..].chunks_exact(SECTOR_BYTES) {
                    if sectors.insert(sector.to_vec()) && sector[..4] != [0; 4] {
                        assert!(seen.insert(sector[..12].to_vec()), "a nonce came again in life {life}");
                    }
                }
            }
        }
        inner.power_loss();
        inner.power_on();
        disk = reopen(&inner, life);
    }
    assert!(seen.len() > 100, "{}", seen.len());
}

#[test]
fn the_key_is_told_apart_and_changed_without_touching_data() {
    let inner = SimulatedDisk::new(5);
    let disk = create(&inner, 5);
    let file = disk.open(Path::new("file"), OpenMode::Create).unwrap();
    file.write_all_at(b"content", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.list(Path::new("")).unwrap(), ["file"]);
    drop(disk);
    let shared: Arc<dyn Disk> = Arc::new(inner.clone());
    let open = |byte| EncryptedDisk::open(Arc::clone(&shared), &key(byte), Arc::new(SeededRandom::new(1)));
    assert!(matches!(open(2).err(), Some(EncryptionError::WrongKey)));
    let random = SeededRandom::new(2);
    assert!(matches!(rotate_outer_key(&inner, &key(2), &key(3), &random), Err(EncryptionError::WrongKey)));
    for operations in 0..8 {
        inner.power_loss_after(operations);
        let rotated = rotate_outer_key(&inner, &key(1), &key(2), &random);
        inner.power_loss();
        inner.power_on();
        // Whatever happened: one of the two opens it.
        let opened = open(1).or_else(|error| if rotated.is_ok() { Err(error) } else { open(2) });
        match opened {
            Ok(_) => {}
            Err(_) => drop(open(2).unwrap()),
        }
        if open(2).is_ok() {
            rotate_outer_key(&inner, &key(2), &key(1), &random).unwrap();
        }
    }
    rotate_outer_key(&inner, &key(1), &key(2), &random).unwrap();
    assert!(matches!(open(1).err(), Some(EncryptionError::WrongKey)));
    let file = open(2).unwrap().open(Path::new("file"), OpenMode::Read).unwrap();
    assert_eq!(contents(&*file), b"content");
    let length = inner.open(Path::new(KEYS_FILE), OpenMode::Read).unwrap().length().unwrap();
    for at in 0..length {
        inner.flip_bit(Path::new(KEYS_FILE), at, 3).unwrap();
        assert!(open(2).is_err(), "a flip at {at} goes unnoticed");
        inner.flip_bit(Path::new(KEYS_FILE), at, 3).unwrap();
    }
}

#[test]
fn holes_side_by_side_give_their_space_back() {
    let inner = SimulatedDisk::new(6);
    let disk = create(&inner, 6);
    let file = disk.open(Path::new("pages"), OpenMode::Create).unwrap();
    file.write_all_at(&[9; 1 << 20], 0).unwrap();
    let before = inner.used_bytes();
    for page in 0..(1 << 20) / 4096 {
        file.punch_hole(page * 4096, 4096).unwrap();
    }
    assert!(contents(&*file).iter().all(|byte| *byte == 0));
    let left = inner.used_bytes();
    assert!(left < before / 2, "{left} of {before}");
}

#[test]
fn readers_and_writers_of_neighbours_do_not_disturb_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let inner: Arc<dyn Disk> = Arc::new(crate::RealDisk::new(directory.path()).unwrap());
    let disk = EncryptedDisk::create(inner, &key(1), Arc::new(crate::SystemRandom)).unwrap();
    let file = disk.open(Path::new("file"), OpenMode::Create).unwrap();
    file.set_length(8 * 1000).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let file = Arc::clone(&file);
            scope.spawn(move || {
                for round in 1..=200_u8 {
                    file.write_all_at(&[round; 1000], thread * 1000).unwrap();
                    let mut read = [0; 1000];
                    file.read_exact_at(&mut read, thread * 1000).unwrap();
                    assert_eq!(read, [round; 1000]);
                }
            });
        }
    });
    assert!(contents(&*file).iter().all(|byte| *byte == 200));
}

/// What a failed write has left of the headers is no content, and a plain file is not taken for that.
#[test]
fn a_file_whose_headers_were_only_begun_is_new_and_a_plain_one_is_refused() {
    let inner = SimulatedDisk::new(5);
    let disk = create(&inner, 6);
    let name = Path::new("a");
    disk.open(name, OpenMode::Create).unwrap();
    let headers = {
        let below = inner.open(name, OpenMode::Read).unwrap();
        let mut bytes = vec![0; HEADER_BYTES as usize];
        below.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    for length in [0, 1, 5, 8, 20, 43, 512, 4096, 4100, 4139] {
        let below = inner.open(name, OpenMode::ReadWrite).unwrap();
        below.set_length(0).unwrap();
        below.write_all_at(&headers[..length], 0).unwrap();
        let file = disk.open(name, OpenMode::Create).unwrap();
        file.write_all_at(b"content", 0).unwrap();
        assert_eq!(contents(&*disk.open(name, OpenMode::Read).unwrap()), b"content", "{length}");
    }
    for plain in [&b"PLMSOPLG"[..], b"x", b"\0\0\0y"] {
        let below = inner.open(name, OpenMode::ReadWrite).unwrap();
        below.set_length(0).unwrap();
        below.write_all_at(plain, 0).unwrap();
        let refused = disk.open(name, OpenMode::Create).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert_eq!(contents(&*inner.open(name, OpenMode::Read).unwrap()), plain);
    }
}

#[test]
fn a_disk_that_stays_full_lets_sessions_begin_and_files_without_headers_be_removed() {
    let inner = SimulatedDisk::new(8);
    let disk = create(&inner, 9);
    let file = disk.open(Path::new("a"), OpenMode::Create).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    file.sync_data().unwrap();
    let begun = Path::new("begun");
    inner.open(begun, OpenMode::Create).unwrap();
    disk.sync_directory(Path::new("")).unwrap();
    inner.set_capacity_bytes(Some(inner.used_bytes()));
    for session in 2..40 {
        inner.power_loss();
        // What the power failure has freed is used by others.
        inner.set_capacity_bytes(Some(inner.used_bytes()));
        let disk = reopen(&inner, session);
        let file = disk.open(Path::new("a"), OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[session as u8; 5000], 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(contents(&*file), [session as u8; 5000]);
        let empty = disk.open(begun, OpenMode::ReadWrite).unwrap();
        assert!(contents(&*empty).is_empty());
        assert_eq!(empty.write_all_at(b"x", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.open(Path::new("new"), OpenMode::Create).err().unwrap().kind(), io::ErrorKind::StorageFull);
    }
    inner.set_capacity_bytes(None);
    reopen(&inner, 50).open(begun, OpenMode::ReadWrite).unwrap().write_all_at(b"x", 0).unwrap();
}
