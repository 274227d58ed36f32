//! The files: options that last, page-table files that are replaced, and what inspection says of them.

use std::path::Path;

use platform::{Disk, SimulatedDisk};

use super::*;

#[test]
fn creation_decides_identity_and_extents_and_openings_are_counted() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    assert!(store.recovered().is_none() && store.was_clean_shutdown());
    assert_eq!((store.epoch(), store.page_id_limit()), (1, 0));
    drop(store);
    let other = PageStoreOptions { extent_bytes: 2 << 20, uuid: [9; 16], ..small_options() };
    let store = open_with(&disk, other).unwrap();
    assert!(!store.was_clean_shutdown());
    let superblock = store.superblock();
    assert_eq!(superblock.uuid, small_options().uuid);
    assert_eq!(superblock.extent_bytes, 64 << 10);
    assert_eq!((superblock.open_count, superblock.created_millis), (2, 1_000));
    let unaligned = PageStoreOptions { extent_bytes: 100_000, ..small_options() };
    let refused = open_with(&SimulatedDisk::new(1), unaligned);
    assert!(matches!(refused, Err(PageStoreError::Argument { .. })));
}

#[test]
fn page_table_files_are_replaced_when_changes_outgrow_the_base() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let pages: Vec<_> = (0..300).map(|_| (store.allocate_page_id().unwrap(), 1)).collect();
    write(&store, &pages, store.epoch()).unwrap();
    checkpoint(&store, b"").unwrap();
    let mut names = Vec::new();
    for version in 2..60 {
        write(&store, &[(PageId(version), version)], store.epoch()).unwrap();
        checkpoint(&store, b"").unwrap();
        names.extend(disk.list(Path::new(PAGE_TABLE_DIRECTORY)).unwrap());
        assert_eq!(disk.list(Path::new(PAGE_TABLE_DIRECTORY)).unwrap().len(), 1);
    }
    names.dedup();
    assert!(names.len() > 2, "{names:?}");
    assert_sound(&store);
    disk.power_loss();
    assert_eq!(open(&disk).recovered().unwrap().number, 59);
}

#[test]
fn checkpoint_of_many_pages_spans_records() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, PageStoreOptions { page_table_bytes_min: 1 << 20, ..small_options() }).unwrap();
    let pages: Vec<_> = (0..200_000).map(|_| store.allocate_page_id().unwrap()).collect();
    pages.iter().for_each(|page| store.free_page(*page));
    let kept = store.allocate_page_id().unwrap();
    write(&store, &[(kept, 1)], 1).unwrap();
    checkpoint(&store, &[7; 100_000]).unwrap();
    assert!(matches!(store.publish(&vec![0; 300_000]), Err(PageStoreError::Argument { .. })));
    disk.power_loss();
    let store = open(&disk);
    assert_eq!(store.recovered().unwrap().mark, [7; 100_000]);
    assert_durable(&store, &[(kept, 1)].into());
}

#[test]
fn inspection_describes_a_store_without_changing_it() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let pages: Vec<_> = (0..40).map(|_| (store.allocate_page_id().unwrap(), 1)).collect();
    write(&store, &pages, store.epoch()).unwrap();
    checkpoint(&store, b"one").unwrap();
    write(&store, &pages[..10], store.epoch()).unwrap();
    checkpoint(&store, b"two").unwrap();
    let live_bytes = store.statistics().unwrap().live_bytes;
    let written_bytes = disk.counts().written_bytes;
    let inspection = Inspection::open(Arc::new(disk.clone())).unwrap();
    assert_eq!(inspection.checkpoint(), &RecoveredCheckpoint { number: 2, mark: b"two".to_vec() });
    assert_eq!(inspection.superblock(), &Superblock { checkpoint_floor: 0, ..store.superblock() });
    assert_eq!(inspection.superblock_slots().unwrap().iter().filter(|slot| slot.is_ok()).count(), 2);
    let files = inspection.page_table_files().unwrap();
    let file = files[0].as_ref().unwrap();
    assert_eq!(file.valid_bytes, file.bytes);
    let checkpoints: Vec<_> = file.checkpoints.iter().map(|found| (found.number, found.kind, found.entries)).collect();
    let (base, delta) = (CheckpointKind::Base, CheckpointKind::Delta);
    assert_eq!(checkpoints, [(0, base, 0), (1, delta, 40), (2, delta, 10)]);
    let extents = inspection.extents();
    assert_eq!(extents.iter().map(|extent| extent.live_bytes).sum::<u64>(), live_bytes);
    let blocks: Vec<_> = extents
        .iter()
        .flat_map(|extent| inspection.blocks(extent.index).unwrap())
        .filter(|block| block.is_live)
        .collect();
    assert_eq!(blocks.len(), 40);
    assert!(blocks.iter().all(|block| block.damage.is_none() && block.codec == Codec::Lz4));
    assert_eq!(inspection.pages().count(), 40);
    assert_eq!(disk.counts().written_bytes, written_bytes);
}

#[test]
fn bytes_are_where_the_format_document_says() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let page = PageId(0);
    assert_eq!(store.allocate_page_id().unwrap(), page);
    let address = write(&store, &[(page, 2)], 1).unwrap()[0].address;
    checkpoint(&store, b"mark").unwrap();
    store.close().unwrap();
    let bytes_of = |path: &str| {
        let file = disk.open(Path::new(path), platform::OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let u32_at = |bytes: &[u8], offset: usize| u32::from_le_bytes(*bytes[offset..].first_chunk().unwrap());
    let u64_at = |bytes: &[u8], offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().unwrap());

    let pages = bytes_of("pages.plimsoll");
    // Created with sequence 0, opened with 1, closed with 2.
    assert_eq!(&pages[..8], b"PLMPAGES");
    assert_eq!([8, 12, 16, 20].map(|offset| u32_at(&pages, offset)), [3, 16_384, 64 << 10, 1]);
    assert_eq!(&pages[24..40], b"sixteen bytes id");
    assert_eq!([40, 48, 56, 64].map(|offset| u64_at(&pages, offset)), [1_000, 2, 1, 1]);
    assert_eq!(u32_at(&pages, 4092), crc32c::crc32c(&pages[..4092]));
    assert_eq!(u64_at(&pages[4096..], 48), 1);

    // One reserved extent comes first.
    assert_eq!(address.offset_bytes(), 8192 + (64 << 10));
    assert_eq!(address.0, (2 << 52) | (address.offset_bytes() / 64 * 4096 + address.length_bytes() as u64 / 64));
    let block = &pages[address.offset_bytes() as usize..][..address.length_bytes()];
    assert_eq!(u32_at(block, 0), crc32c::crc32c(&block[4..]));
    assert_eq!(&block[4..8], b"PB\x01\x01");
    assert_eq!(block[32..36], [24, 0, 2, 0]);
    assert_eq!([u64_at(block, 8), u64_at(block, 16), u32_at(block, 28).into()], [0, 1, 16_384]);
    assert_eq!((32 + u32_at(block, 24) as usize).next_multiple_of(64), block.len());

    let table = bytes_of("page_table/00000001");
    assert_eq!(&table[..8], b"PLMTABLE");
    assert_eq!([u32_at(&table, 8), u32_at(&table, 12)], [3, 1]);
    assert_eq!(&table[16..32], b"sixteen bytes id");
    assert_eq!(u32_at(&table, 60), crc32c::crc32c(&table[..60]));
    // The commit of base 0, then the entries and the commit of delta 1.
    let kinds = [64, 128, 192].map(|record| (&table[record + 4..record + 12], u64_at(&table, record + 16)));
    assert_eq!(
        kinds,
        [(b"PTRC\x02\x01\0\0", 0), (b"PTRC\x01\x02\0\0", 1), (b"PTRC\x02\x02\0\0", 1)]
            .map(|(kind, number)| (&kind[..], number))
    );
    assert_eq!(
        [64, 128, 192].map(|record| (u32_at(&table, record + 24), u32_at(&table, record + 28))),
        [(1, 0), (1, 1), (1, 2)]
    );
    let payload = &table[160..160 + u32_at(&table, 140) as usize];
    assert!((1..128).contains(&address.length_units()));
    // Two units of room: 8192 beside the length, in two bytes of a varint behind seven bits of that.
    assert_eq!(payload[..3], [0, 0x80 | address.length_units() as u8, 0x40]);
    assert_eq!((u64_at(&table, 224), &table[232..236]), (1, &b"mark"[..]));
    assert_eq!(table.len(), 256);
}
