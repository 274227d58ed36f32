//! A checkpoint that is copied while others are published: its blocks stay until they are copied, and no longer.

use platform::SimulatedDisk;

use super::*;

/// Pages with versions, of which some change and go from round to round.
struct Content {
    store: Arc<PageStore>,
    versions: BTreeMap<PageId, u64>,
    round: u64,
}

impl Content {
    fn new() -> Content {
        let store = Arc::new(open(&SimulatedDisk::new(3)));
        Content { store, versions: BTreeMap::new(), round: 0 }
    }

    /// Changes, frees and creates pages, has the rest of them cleaned, and publishes.
    fn go_on(&mut self) {
        self.round += 1;
        let gone: Vec<_> = self.versions.keys().copied().filter(|page| (page.0 + self.round) % 9 == 4).collect();
        gone.iter().for_each(|page| self.store.free_page(*page));
        self.versions.retain(|page, _| !gone.contains(page));
        let mut changed: Vec<_> =
            self.versions.keys().copied().filter(|page| (page.0 + self.round).is_multiple_of(3)).collect();
        changed.extend((0..20).map(|_| self.store.allocate_page_id().unwrap()));
        let changed: Vec<_> = changed.into_iter().map(|page| (page, self.round * 1000 + page.0)).collect();
        write(&self.store, &changed, self.store.epoch()).unwrap();
        self.versions.extend(changed);
        self.store.clean_step(CleaningEffort::Thorough, &|_, _, _| true).unwrap();
        checkpoint(&self.store, &self.round.to_le_bytes()).unwrap();
        assert_sound(&self.store);
    }

    fn backed_bytes(&self) -> u64 {
        self.store.statistics().unwrap().backed_bytes
    }
}

/// That the blocks from `offset` on are those of the checkpoint.
fn assert_copied(pinned: &PinnedCheckpoint, offset: u64, versions: &BTreeMap<PageId, u64>) {
    let mut image = vec![0; PAGE_BYTES];
    let blocks = pinned.blocks_in(&(offset..u64::MAX));
    let each = |block: CopiedBlock, bytes: &[u8]| {
        super::super::block::read_block(bytes, block.page, &mut image).unwrap();
        assert!(image == image_of(block.page, versions[&block.page]), "{:?} is another", block.page);
        Ok::<_, PageStoreError>(())
    };
    pinned.read_blocks(&blocks, each).unwrap();
}

#[test]
fn a_pinned_checkpoint_is_whole_however_many_are_published() {
    let mut content = Content::new();
    (0..5).for_each(|_| content.go_on());
    let (pinned, versions) = (content.store.pin().unwrap(), content.versions.clone());
    assert_eq!((pinned.number(), pinned.mark()), (5, &5_u64.to_le_bytes()[..]));
    assert_eq!(pinned.pages().map(|(page, _)| page).collect::<Vec<_>>(), versions.keys().copied().collect::<Vec<_>>());
    assert!(content.store.pin().is_err(), "one at a time");
    let mut copied = 0;
    for _ in 0..12 {
        content.go_on();
        assert_copied(&pinned, copied, &versions);
        copied += pinned.file_bytes() / 16;
        pinned.passed(copied);
        assert_sound(&content.store);
    }
    let kept = content.store.ledger.lock().pinned_bytes();
    drop(pinned);
    assert!(kept > 0 && content.store.ledger.lock().pinned_bytes() == 0);
    assert_sound(&content.store);
    assert!(content.store.pin().is_ok());
}

#[test]
fn what_was_copied_is_free_for_others() {
    let backed = |is_copied: bool| {
        let mut content = Content::new();
        (0..5).for_each(|_| content.go_on());
        let pinned = content.store.pin().unwrap();
        if is_copied {
            pinned.passed(pinned.file_bytes());
        }
        (0..30).for_each(|_| content.go_on());
        content.backed_bytes()
    };
    assert!(backed(true) < backed(false), "{} {}", backed(true), backed(false));
}

#[test]
fn a_restored_store_has_what_was_copied() {
    let mut content = Content::new();
    (0..7).for_each(|_| content.go_on());
    let pinned = content.store.pin().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(4));
    let restored = RestoredStore::begin(disk.clone()).unwrap();
    let blocks = pinned.blocks_in(&(0..u64::MAX));
    let each = |block: CopiedBlock, bytes: &[u8]| restored.write(bytes, block.address.offset_bytes());
    pinned.read_blocks(&blocks, each).unwrap();
    let identity = RestoredIdentity {
        uuid: *b"another identity",
        created_millis: pinned.superblock().created_millis,
        extent_bytes: pinned.superblock().extent_bytes,
        checkpoint: pinned.number(),
        file_bytes: pinned.file_bytes(),
    };
    restored.finish(identity, pinned.mark(), pinned.pages()).unwrap();
    let opened = PageStore::open(disk, &SimulatedClock::new(1_000), small_options()).unwrap();
    assert_eq!(opened.recovered(), Some(&RecoveredCheckpoint { number: 7, mark: 7_u64.to_le_bytes().to_vec() }));
    assert_eq!(opened.superblock().uuid, *b"another identity");
    assert_durable(&opened, &content.versions);
    assert_sound(&opened);
    let mut content = Content { store: Arc::new(opened), ..content };
    (0..5).for_each(|_| content.go_on());
}
