//! The disk in memory against an array of bytes.

use proptest::prelude::*;

use super::*;

/// Places of files are in pages of the engine here.
const PAGE_BYTES: usize = 16 << 10;

fn file(disk: &MemoryDisk, name: &str) -> Arc<dyn File> {
    disk.open(Path::new(name), OpenMode::Create).unwrap()
}

fn content(file: &Arc<dyn File>) -> Vec<u8> {
    let mut bytes = vec![9; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn names_behave_as_those_of_a_directory() {
    let disk = MemoryDisk::new(1 << 20);
    let path = Path::new;
    assert_eq!(disk.open(path("a/b"), OpenMode::Create).err().unwrap().kind(), io::ErrorKind::NotFound);
    disk.create_directory(path("a")).unwrap();
    disk.create_directory(path("a")).unwrap();
    file(&disk, "a/b").write_all_at(b"x", 0).unwrap();
    assert_eq!(disk.open(path("a/b"), OpenMode::CreateNew).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(disk.remove(path("a")).unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
    disk.rename(path("a/b"), path("c")).unwrap();
    assert_eq!(
        (disk.list(path("")).unwrap(), disk.list(path("./a")).unwrap()),
        (vec!["a".to_owned(), "c".to_owned()], Vec::new())
    );
    file(&disk, "d");
    assert_eq!(disk.rename_new(path("c"), path("d")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(disk.rename_new(path("c"), path("a")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    disk.remove(path("d")).unwrap();
    disk.rename_new(path("c"), path("d")).unwrap();
    disk.rename_new(path("d"), path("c")).unwrap();
    disk.remove(path("a")).unwrap();
    assert!(disk.exists(path("c")).unwrap() && !disk.exists(path("a")).unwrap());
    assert!(disk.open(path("../c"), OpenMode::Read).is_err());
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_open_and_then_its_room_returns() {
    let disk = MemoryDisk::new(10 * PAGE_BYTES as u64);
    let open = file(&disk, "a");
    open.write_all_at(&[7; 3 * PAGE_BYTES], 0).unwrap();
    disk.remove(Path::new("a")).unwrap();
    assert_eq!(content(&open), vec![7; 3 * PAGE_BYTES]);
    assert_eq!(disk.available_bytes().unwrap(), 7 * PAGE_BYTES as u64);
    drop(open);
    assert_eq!(disk.available_bytes().unwrap(), disk.total_bytes().unwrap());
}

#[test]
fn what_was_not_written_does_not_make_a_file_longer() {
    let disk = MemoryDisk::new(PAGE_BYTES as u64);
    let (full, empty) = (file(&disk, "a"), file(&disk, "b"));
    full.write_all_at(&[7; PAGE_BYTES], 0).unwrap();
    empty.write_all_at(&[], 9).unwrap();
    assert_eq!(empty.write_all_at(b"x", 9).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(empty.length().unwrap(), 0);
}

#[test]
fn a_full_disk_says_so() {
    let disk = MemoryDisk::new(2 * PAGE_BYTES as u64);
    let open = file(&disk, "a");
    assert!(crate::disk::is_disk_full(&open.allocate(0, 1 << 40).unwrap_err()));
    let refused = open.write_all_at(&[1; 3 * PAGE_BYTES], 0).unwrap_err();
    assert!(crate::disk::is_disk_full(&refused));
    open.punch_hole(0, 1 << 40).unwrap();
    open.write_all_at(&[1; 2 * PAGE_BYTES], 0).unwrap();
    open.set_length(0).unwrap();
    open.allocate(0, 2 * PAGE_BYTES as u64).unwrap();
    let other = file(&disk, "b");
    assert!(crate::disk::is_disk_full(&other.write_all_at(&[1], 0).unwrap_err()), "what is allocated is taken");
    open.write_all_at(&[1; 2 * PAGE_BYTES], 0).unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, Vec<u8>),
    SetLength(u64),
    Punch(u64, u64),
    Allocate(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = || 0_u64..5 * PAGE_BYTES as u64;
    prop_oneof![
        (place(), prop::collection::vec(any::<u8>(), 0..2 * PAGE_BYTES)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        place().prop_map(Step::SetLength),
        (place(), place()).prop_map(|(at, length)| Step::Punch(at, length)),
        (place(), place()).prop_map(|(at, length)| Step::Allocate(at, length)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_is_as_an_array_of_bytes(steps in prop::collection::vec(step(), 1..20)) {
        let disk = MemoryDisk::new(1 << 30);
        let open = file(&disk, "a");
        let mut model: Vec<u8> = Vec::new();
        let grow = |model: &mut Vec<u8>, length: u64| model.resize(model.len().max(length as usize), 0);
        for step in steps {
            match step {
                Step::Write(at, bytes) => {
                    open.write_all_at(&bytes, at).unwrap();
                    if !bytes.is_empty() {
                        grow(&mut model, at + bytes.len() as u64);
                        model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                Step::SetLength(length) => {
                    open.set_length(length).unwrap();
                    model.resize(length as usize, 0);
                }
                Step::Punch(at, length) => {
                    open.punch_hole(at, length).unwrap();
                    let end = model.len().min((at + length) as usize);
                    if (at as usize) < end {
                        model[at as usize..end].fill(0);
                    }
                }
                Step::Allocate(at, length) => {
                    open.allocate(at, length).unwrap();
                    grow(&mut model, at + length);
                }
            }
            prop_assert_eq!(&content(&open), &model);
        }
        let taken = disk.total_bytes().unwrap() - disk.available_bytes().unwrap();
        prop_assert!(taken <= (model.len().div_ceil(PAGE_BYTES) * PAGE_BYTES) as u64);
    }
}
