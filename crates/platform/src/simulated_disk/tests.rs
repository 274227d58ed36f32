//! What the simulated disk promises about durability, faults and space.

use proptest::prelude::*;

use super::*;
use crate::SimulatedClock;

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn create(disk: &SimulatedDisk, name: &str) -> Arc<dyn File> {
    disk.open(path(name), OpenMode::Create).unwrap()
}

fn contents(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    let file = disk.open(path(name), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_was_synced_survives_and_what_was_not_may_be_lost() {
    let mut kept = 0;
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let file = create(&disk, "file");
        file.write_all_at(&[1; 2000], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_directory(path("")).unwrap();
        file.write_all_at(&[2; 2000], 2000).unwrap();
        disk.power_loss();
        let bytes = contents(&disk, "file");
        assert_eq!(&bytes[..2000], &[1; 2000]);
        assert!(bytes[2000..].iter().all(|byte| *byte == 0 || *byte == 2));
        kept += usize::from(bytes.len() == 4000 && bytes[2000..].iter().all(|byte| *byte == 2));
    }
    assert!((20..180).contains(&kept), "kept in {kept} of 200 runs");
}

#[test]
fn some_writes_are_torn_at_sectors() {
    let torn = (0..300).filter(|seed| {
        let disk = SimulatedDisk::new(*seed);
        let file = create(&disk, "file");
        file.allocate(0, 4096).unwrap();
        file.sync_data().unwrap();
        disk.sync_directory(path("")).unwrap();
        file.write_all_at(&[7; 4096], 0).unwrap();
        disk.power_loss();
        let bytes = contents(&disk, "file");
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is written whole or not");
        }
        bytes.contains(&7) && bytes.contains(&0)
    });
    assert!(torn.count() > 20);
}

#[test]
fn names_survive_only_with_a_synced_directory() {
    let mut found = 0;
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        disk.create_directory(path("inner")).unwrap();
        disk.sync_directory(path("")).unwrap();
        create(&disk, "inner/synced").sync_data().unwrap();
        disk.sync_directory(path("inner")).unwrap();
        create(&disk, "inner/unsynced").sync_data().unwrap();
        disk.power_loss();
        assert!(disk.exists(path("inner/synced")).unwrap());
        found += usize::from(disk.exists(path("inner/unsynced")).unwrap());
    }
    assert!((10..90).contains(&found), "found in {found} of 100 runs");
}

#[test]
fn a_rename_is_never_halfway() {
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        let write = |name: &str, byte: u8| {
            let file = create(&disk, name);
            file.write_all_at(&[byte; 10], 0).unwrap();
            file.sync_data().unwrap();
        };
        write("current", 1);
        disk.sync_directory(path("")).unwrap();
        write("new", 2);
        disk.rename(path("new"), path("current")).unwrap();
        disk.power_loss();
        let bytes = contents(&disk, "current");
        assert!(bytes == [1; 10] || bytes == [2; 10], "{bytes:?}");
    }
}

#[test]
fn a_new_name_takes_the_place_of_nothing() {
    let disk = SimulatedDisk::new(1);
    create(&disk, "one").write_all_at(b"1", 0).unwrap();
    create(&disk, "other").write_all_at(b"2", 0).unwrap();
    let taken = disk.rename_new(path("one"), path("other")).unwrap_err();
    assert_eq!((taken.kind(), contents(&disk, "other")), (std::io::ErrorKind::AlreadyExists, b"2".to_vec()));
    disk.rename_new(path("one"), path("new")).unwrap();
    assert!(contents(&disk, "new") == b"1" && !disk.exists(path("one")).unwrap());
}

#[test]
fn directories_lost_take_their_files_along() {
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        disk.create_directory(path("a/b")).unwrap();
        create(&disk, "a/b/file").sync_data().unwrap();
        disk.sync_directory(path("a/b")).unwrap();
        disk.power_loss();
        let whole = disk.exists(path("a")).unwrap() && disk.exists(path("a/b")).unwrap();
        assert_eq!(disk.exists(path("a/b/file")).unwrap(), whole);
    }
}

#[test]
fn open_files_are_dead_after_a_crash_and_keep_unsynced_writes_after_a_process_crash() {
    let disk = SimulatedDisk::new(1);
    let file = create(&disk, "file");
    file.write_all_at(b"text", 0).unwrap();
    disk.process_crash();
    assert!(file.length().is_err() && file.sync_data().is_err() && file.write_all_at(b"x", 0).is_err());
    assert_eq!(contents(&disk, "file"), b"text");
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let disk = SimulatedDisk::new(seed);
        for number in 0..20 {
            let file = create(&disk, &format!("file{number}"));
            file.write_all_at(&[number; 1500], 100).unwrap();
        }
        disk.power_loss();
        let names = disk.list(path("")).unwrap();
        names.iter().map(|name| (name.clone(), contents(&disk, name))).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert!((0..10).any(|seed| run(seed) != run(5)));
}

#[test]
fn a_failed_sync_loses_writes_that_reads_still_show() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        let file = create(&disk, "file");
        disk.sync_directory(path("")).unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        disk.fail_next(Operation::Sync, InjectedError::InputOutput);
        file.sync_data().unwrap_err();
        assert_eq!(contents(&disk, "file"), [1; 512]);
        file.sync_data().unwrap();
        disk.power_loss();
        lost += usize::from(contents(&disk, "file").is_empty());
    }
    assert!((10..90).contains(&lost), "lost in {lost} of 100 runs");
}

#[test]
fn faults_fire_when_told() {
    let disk = SimulatedDisk::new(1);
    let file = create(&disk, "file");
    disk.fail_after(Operation::Write, 2, InjectedError::InputOutput);
    let results: Vec<bool> = (0..4).map(|_| file.write_all_at(b"x", 0).is_ok()).collect();
    assert_eq!(results, [true, true, false, true]);
    disk.fail_always(Operation::Open, InjectedError::TooManyOpenFiles);
    assert!(disk.open(path("file"), OpenMode::Read).is_err() && disk.open(path("file"), OpenMode::Read).is_err());
    disk.clear_faults();
    disk.open(path("file"), OpenMode::Read).unwrap();
    disk.set_error_probability(Operation::Read, 1.0);
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(disk.counts().of(Operation::Write), 4);
    disk.reset_counts();
    assert_eq!(disk.counts(), OperationCounts::default());
}

#[test]
fn a_full_disk_refuses_and_heals() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity_bytes(Some(8192));
    let file = create(&disk, "file");
    file.allocate(0, 8192).unwrap();
    assert_eq!(disk.available_bytes().unwrap(), 0);
    file.write_all_at(&[1; 8192], 0).unwrap();
    let other = create(&disk, "other");
    assert!(crate::is_disk_full(&other.write_all_at(b"x", 0).unwrap_err()));
    assert!(crate::is_disk_full(&other.allocate(0, 1).unwrap_err()));
    file.punch_hole(0, 4096).unwrap();
    other.write_all_at(b"x", 0).unwrap();
    disk.remove(path("file")).unwrap();
    assert_eq!(disk.available_bytes().unwrap(), 0, "an open file keeps its space");
    drop(file);
    assert_eq!(disk.available_bytes().unwrap(), 4096);
}

#[test]
fn flipped_bits_stay_flipped() {
    let disk = SimulatedDisk::new(1);
    let file = create(&disk, "file");
    file.write_all_at(&[0; 3], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory(path("")).unwrap();
    disk.flip_bit(path("file"), 1, 4).unwrap();
    assert_eq!(contents(&disk, "file"), [0, 16, 0]);
    disk.power_loss();
    assert_eq!(contents(&disk, "file"), [0, 16, 0]);
}

#[test]
fn delays_pass_on_the_clock() {
    let clock = Arc::new(SimulatedClock::new(0));
    let disk = SimulatedDisk::with_clock(1, Arc::clone(&clock) as Arc<dyn Clock>);
    disk.set_delay(Operation::Sync, Duration::from_millis(30));
    create(&disk, "file").sync_data().unwrap();
    assert_eq!(clock.monotonic(), Duration::from_millis(30));
}

#[test]
fn names_follow_the_rules_of_a_file_system() {
    let disk = SimulatedDisk::new(1);
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    let open = |name, mode| disk.open(path(name), mode).map(|_| ());
    assert_eq!(kind(open("missing", OpenMode::Read)), io::ErrorKind::NotFound);
    assert_eq!(kind(open("missing/file", OpenMode::Create)), io::ErrorKind::NotFound);
    assert_eq!(kind(open("../file", OpenMode::Create)), io::ErrorKind::InvalidInput);
    disk.create_directory(path("directory")).unwrap();
    open("directory/file", OpenMode::CreateNew).unwrap();
    assert_eq!(kind(open("directory/file", OpenMode::CreateNew)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(open("directory", OpenMode::Read)), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.remove(path("directory"))), io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove(path("missing"))), io::ErrorKind::NotFound);
    assert_eq!(disk.list(path("directory")).unwrap(), ["file"]);
    assert_eq!(disk.list(path("")).unwrap(), ["directory"]);
}

proptest! {
    /// After any writes, the last of which were not synced, each surviving sector is the durable one or one of the writes.
    #[test]
    fn every_surviving_sector_was_written_once(
        seed: u64,
        synced in prop::collection::vec((0_u64..4000, 1_usize..3000), 0..5),
        unsynced in prop::collection::vec((0_u64..4000, 1_usize..3000), 0..5),
    ) {
        let disk = SimulatedDisk::new(seed);
        let file = create(&disk, "file");
        disk.sync_directory(path("")).unwrap();
        let mut versions = vec![vec![0; 8000]];
        for (number, (offset, length)) in synced.iter().chain(&unsynced).enumerate() {
            file.write_all_at(&vec![number as u8 + 1; *length], *offset).unwrap();
            let mut next = versions.last().unwrap().clone();
            next[*offset as usize..*offset as usize + length].fill(number as u8 + 1);
            versions.push(next);
            if number + 1 == synced.len() {
                file.sync_data().unwrap();
            }
        }
        disk.power_loss();
        for (position, byte) in contents(&disk, "file").iter().enumerate() {
            let durable = versions[synced.len()][position];
            let later = (synced.len() + 1..versions.len()).map(|version| versions[version][position]);
            prop_assert!(*byte == durable || later.into_iter().any(|value| value == *byte));
        }
    }
}

#[test]
fn power_fails_at_the_chosen_operation_and_the_dead_touch_nothing_more() {
    let disk = SimulatedDisk::new(3);
    let file = disk.open(Path::new("a"), OpenMode::Create).unwrap();
    file.write_all_at(b"synced", 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory(Path::new("")).unwrap();
    disk.power_loss_after(1);
    file.write_all_at(b"other.", 0).unwrap();
    assert!(!disk.is_down());
    assert!(file.sync_data().is_err());
    assert!(disk.is_down());
    assert!(disk.remove(Path::new("a")).is_err());
    assert!(file.write_all_at(b"x", 0).is_err());
    disk.power_on();
    let file = disk.open(Path::new("a"), OpenMode::Read).unwrap();
    assert_eq!(file.length().unwrap(), 6);
}
