//! Buffers on frames of their own.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::frame_arena::FrameArena;
use crate::node::SETTLING_BYTES;

struct Frames {
    arena: Arc<FrameArena>,
    free: Mutex<Vec<FrameId>>,
}

impl Frames {
    fn new(count: usize) -> Self {
        let arena = Arc::new(FrameArena::new(count).unwrap());
        Self { arena, free: Mutex::new((0..count as u32).map(FrameId).collect()) }
    }
}

impl Lender for Frames {
    fn lend(&self) -> Option<LentFrame> {
        LentFrame::take(&self.arena, self.free.lock().pop()?)
    }

    fn give_back(&self, frame: FrameId) {
        self.free.lock().push(frame);
    }
}

/// A time at which nothing is settled.
const NOW: Now = Now { epoch: 1, oldest: 0 };

fn change(key: &[u8], since: u64) -> BufferedChange<'_> {
    let is_removal = since.is_multiple_of(2);
    BufferedChange { is_removal, since, key, value: if is_removal { b"" } else { b"v" } }
}

#[test]
fn changes_come_back_by_key_and_then_by_age() {
    let (buffers, frames, page) = (ChangeBuffers::new(1 << 20), Frames::new(4), PageId(3));
    let long = [b"pre-b", &[b'x'; 300][..]].concat();
    for (key, since) in [(&b"pre-b"[..], 1), (b"pre-a", 3), (&long, 9), (b"pre-b", 4), (b"pre-c", 5), (b"pre-b", 7)] {
        assert_eq!(buffers.lock(page).push(page, change(key, since), 4, 4000, NOW, &frames), Pushed::Done);
    }
    let copied = buffers.lock(page).copy(page).unwrap();
    let order: Vec<_> = copied.encoded().by_key().iter().map(|change| (change.key[0], change.since)).collect();
    assert_eq!(order, [(b'a', 3), (b'b', 1), (b'b', 4), (b'b', 7), (b'b', 9), (b'c', 5)]);
    buffers.lock(page).forget(page, &frames);
    assert_eq!((buffers.bytes(), buffers.len(), buffers.lent_frames(), frames.free.lock().len()), (0, 0, 0, 4));
}

#[test]
fn a_page_takes_no_more_than_it_has_room_for_and_never_three_epochs() {
    let (buffers, frames, page, key) = (ChangeBuffers::new(1 << 20), Frames::new(4), PageId(9), &b"k"[..]);
    let needed = change_bytes_max(false, 1, 1, false);
    let push = |epoch, room| buffers.lock(page).push(page, change(key, 1), 0, room, Now { epoch, oldest: 0 }, &frames);
    assert_eq!(push(5, needed - 1), Pushed::NoRoom);
    assert_eq!(push(5, needed * 3), Pushed::Done);
    assert_eq!(push(6, 0), Pushed::Done);
    assert_eq!(push(7, 0), Pushed::NoRoom);
    assert_eq!(push(6, 0), Pushed::Done);
    assert_eq!(push(6, 0), Pushed::NoRoom);
    let mut unsaved = Vec::new();
    buffers.unsaved_pages(6, &mut unsaved);
    assert_eq!(unsaved, [page]);
    assert_eq!(buffers.lock(page).take_unsaved(page, 6).unwrap().encoded().by_key().len(), 1);
    assert!(buffers.lock(page).take_unsaved(page, 6).is_none());
    assert_eq!(buffers.lock(page).copy(page).unwrap().encoded().by_key().len(), 3);
}

#[test]
fn a_full_page_takes_more_once_its_changes_are_settled() {
    let (buffers, frames, page, key) = (ChangeBuffers::new(1 << 20), Frames::new(4), PageId(9), &b"k"[..]);
    let removal = BufferedChange { is_removal: true, value: b"", ..change(key, 7) };
    let push =
        |oldest| buffers.lock(page).push(page, removal, 0, 3 * SETTLING_BYTES, Now { epoch: 1, oldest }, &frames);
    assert_eq!([push(0), push(0), push(0), push(6)], [Pushed::Done, Pushed::Done, Pushed::Done, Pushed::NoRoom]);
    // Removals that leave no version need no room at all.
    for _ in 0..1000 {
        assert_eq!(push(7), Pushed::Done);
    }
    assert_eq!(buffers.lock(page).copy(page).unwrap().encoded().by_key().len(), 1003);
}

#[test]
fn what_was_saved_is_restored_and_takes_what_the_leaf_still_has_room_for() {
    let (buffers, frames, page) = (ChangeBuffers::new(1 << 20), Frames::new(4), PageId(2));
    let key = |since: u64| [b"key", &since.to_be_bytes()[..], &[b'x'; 60]].concat();
    let push = |since: u64, epoch| {
        buffers.lock(page).push(page, change(&key(since), since), 3, 2_000, Now { epoch, oldest: 0 }, &frames)
    };
    (0..10).for_each(|since| assert_eq!(push(since, 1), Pushed::Done));
    // Whoever changes it in the next epoch leaves the earlier changes to be saved.
    (10..17).for_each(|since| assert_eq!(push(since, 2), Pushed::Done));
    let saved = buffers.lock(page).take_unsaved(page, 2).unwrap();
    let since: Vec<_> = saved.encoded().iter().map(|change| change.since).collect();
    assert_eq!(since, (0..10).collect::<Vec<_>>());
    let more = (17..).take_while(|since| push(*since, 2) == Pushed::Done).count();
    buffers.lock(page).forget(page, &frames);
    assert!(!buffers.lock(page).restore(page, saved.encoded(), 300, 5, &frames), "it never had so little room");
    assert!(buffers.lock(page).restore(page, saved.encoded(), 2_000, 5, &frames));
    assert!(buffers.lock(page).take_unsaved(page, 5).is_none());
    let again = (10..).take_while(|since| push(*since, 5) == Pushed::Done).count();
    assert_eq!(again, 7 + more);
    let since: Vec<_> = buffers.lock(page).copy(page).unwrap().encoded().iter().map(|change| change.since).collect();
    assert_eq!(since, (0..10 + again as u64).collect::<Vec<_>>());
    buffers.lock(page).forget(page, &frames);
    assert_eq!((buffers.bytes(), buffers.len(), frames.free.lock().len()), (0, 0, 4));
}

#[test]
fn without_memory_a_change_is_refused_and_leaves_nothing() {
    let (buffers, frames, page) = (ChangeBuffers::new(1 << 20), Frames::new(1), PageId(1));
    let key = [b'k'; 1000];
    let push = |page: PageId| buffers.lock(page).push(page, change(&key, 1), 0, 16_000, NOW, &frames);
    let done = (0..40).take_while(|_| push(page) == Pushed::Done).count();
    // 256 blocks of 60 bytes, 1,012 bytes a change.
    assert_eq!(done, 15);
    assert_eq!(push(PageId(17)), Pushed::NoRoom);
    assert_eq!(buffers.len(), 1);
    let copied = buffers.lock(page).copy(page).unwrap();
    assert_eq!(copied.encoded().by_key().len(), done);
}

#[test]
fn leaves_that_change_alike_become_due_one_after_the_other() {
    let (buffers, frames) = (ChangeBuffers::new(64 << 20), Frames::new(64));
    let pages = || (0..100).map(PageId);
    let mut due_after = Vec::new();
    for round in 0..40 {
        // 10 bytes of 400 each.
        for page in pages() {
            let removal = BufferedChange { is_removal: true, since: round + 1, key: b"some key", value: b"" };
            assert_eq!(buffers.lock(page).push(page, removal, 0, 400, NOW, &frames), Pushed::Done);
        }
        let mut due = Vec::new();
        buffers.take_due(1_600, &mut due);
        due_after.push(due.len());
    }
    assert!(due_after[..14].iter().all(|due| *due == 0), "{due_after:?}");
    assert!(due_after[15..].iter().all(|due| *due < 15), "{due_after:?}");
    assert!(due_after.iter().sum::<usize>() > 90, "{due_after:?}");
    // Those that have been merged meanwhile are not.
    let page = PageId(1_000);
    for since in 0..40 {
        let removal = BufferedChange { is_removal: true, since: since + 1, key: b"some key", value: b"" };
        buffers.lock(page).push(page, removal, 0, 400, NOW, &frames);
    }
    buffers.lock(page).forget(page, &frames);
    let mut due = Vec::new();
    buffers.take_due(1_600, &mut due);
    assert!(due.is_empty(), "{due:?}");
}

#[test]
fn a_leaf_is_due_when_removals_have_taken_much_of_what_it_held() {
    let (buffers, frames, page) = (ChangeBuffers::new(64 << 20), Frames::new(64), PageId(3));
    // The page holds 6,000 bytes; each of these entries takes a little more than ten.
    let room = PAGE_BYTES - 6_000;
    let change = |is_removal| BufferedChange { is_removal, since: 0, key: b"some key", value: b"" };
    let push = |is_removal| buffers.lock(page).push(page, change(is_removal), 0, room, NOW, &frames);
    let is_due = || {
        let mut due = Vec::new();
        buffers.take_due(1_600, &mut due);
        !due.is_empty()
    };
    // What is removed as another comes takes nothing from it.
    for _ in 0..200 {
        assert_eq!([push(false), push(true)], [Pushed::Done, Pushed::Done]);
    }
    let removed = (1..500).find(|_| push(true) == Pushed::Done && is_due()).unwrap();
    let bytes = removed * change_bytes_max(false, 8, 0, true);
    assert!((2_000..4_000).contains(&bytes), "{bytes}");
    assert!(push(true) == Pushed::Done && !is_due(), "it was told once");
    // So it is after a restart.
    let copied = buffers.lock(page).copy(page).unwrap();
    let restored = ChangeBuffers::new(64 << 20);
    assert!(restored.lock(page).restore(page, copied.encoded(), room, 1, &frames));
    let mut due = Vec::new();
    restored.take_due(1_600, &mut due);
    assert_eq!(due, [page]);
}

#[test]
fn the_fullest_come_first() {
    let (buffers, frames) = (ChangeBuffers::new(64 << 20), Frames::new(64));
    for page in (0..100).map(PageId) {
        for since in 0..=page.0 {
            buffers.lock(page).push(page, change(b"some key", since + 1), 0, 16_000, NOW, &frames);
        }
    }
    let mut pages = Vec::new();
    buffers.fullest(0.99, 2, &mut pages);
    assert!(pages.is_empty(), "there is memory enough");
    buffers.fullest(0.0, 2, &mut pages);
    // Of six or seven a shard three.
    assert!((40..60).contains(&pages.len()) && pages.iter().all(|page| page.0 >= 45), "{pages:?}");
}

/// A shard that came first does not take the memory of the others.
#[test]
fn every_shard_has_its_share_of_the_memory() {
    let (buffers, frames) = (ChangeBuffers::new(16 << 20), Frames::new(1_024));
    let key = [b'k'; 200];
    let push = |page: u64| buffers.lock(PageId(page)).push(PageId(page), change(&key, 1), 0, 16_000, NOW, &frames);
    let of_shard = |shard: u64| (0..10_000).map(move |number| number * SHARDS as u64 + shard);
    for shard in 0..SHARDS as u64 {
        let taken = of_shard(shard).take_while(|page| push(*page) == Pushed::Done).count();
        assert!((2_200..2_500).contains(&taken), "shard {shard}: {taken}");
    }
    // The last frame of each may be beyond.
    let used = buffers.bytes();
    assert!(used <= buffers.limit() + SHARDS * PAGE_BYTES && used * 100 > buffers.limit() * 95, "{used}");
}

proptest! {
    /// Whatever is settled when, and saved when: the changes are those that were pushed, without the timestamps of some that are settled.
    #[test]
    fn settled_changes_lose_only_their_timestamps(
        steps in prop::collection::vec((0_u64..3, 0_usize..90, 0_u8..12), 1..200),
    ) {
        let (buffers, frames, page) = (ChangeBuffers::new(1 << 20), Frames::new(8), PageId(5));
        let (mut epoch, mut oldest, mut pushed, mut before, mut is_saved) = (1, 0, Vec::new(), 0, true);
        let assert_same = |copied: &CopiedChanges, expected: &[(Vec<u8>, u64)], oldest: u64| {
            let found: Vec<_> = copied.encoded().iter().map(|change| (change.key.to_vec(), change.since)).collect();
            assert_eq!(found.len(), expected.len());
            for ((key, since), (expected_key, expected_since)) in found.iter().zip(expected) {
                assert_eq!(key, expected_key);
                assert!(since == expected_since || *since == 0 && *expected_since <= oldest, "{since} {expected_since}");
            }
        };
        for (number, (settle, length, what)) in steps.into_iter().enumerate() {
            let since = Timestamp::new(1_800_000_000 + number as u32 / 10, number as u32).0;
            if what == 0 && is_saved {
                epoch += 1;
                (before, is_saved) = (pushed.len(), false);
            }
            if what == 1 {
                let unsaved = buffers.lock(page).take_unsaved(page, epoch);
                prop_assert_eq!(unsaved.is_some(), !is_saved && before > 0);
                unsaved.iter().for_each(|unsaved| assert_same(unsaved, &pushed[..before], oldest));
                is_saved = true;
            }
            let key = [b"prefix", &vec![b'k'; length][..], &number.to_be_bytes()].concat();
            let now = Now { epoch, oldest };
            let done = buffers.lock(page).push(page, change(&key, since), 6, 14_000, now, &frames);
            if done == Pushed::NoRoom {
                break;
            }
            pushed.push((key[6..].to_vec(), since));
            if settle == 0 {
                oldest = since;
            }
            let copied = buffers.lock(page).copy(page).unwrap();
            assert_same(&copied, &pushed, oldest);
            let needed = |change: BufferedChange<'_>| change_bytes_max(change.is_removal, change.key.len(), change.value.len(), change.since == 0);
            let taken: usize = copied.encoded().iter().map(needed).sum();
            let room = buffers.lock(page).contents.buffer(page).map(|buffer| usize::from(buffer.room));
            prop_assert_eq!(room, Some(14_000 - taken));
        }
        buffers.lock(page).forget(page, &frames);
        prop_assert_eq!((buffers.bytes(), buffers.len(), frames.free.lock().len()), (0, 0, 8));
    }
}

#[test]
fn whatever_touches_a_buffer_ends_its_merge() {
    let (buffers, frames, page, other) = (ChangeBuffers::new(1 << 20), Frames::new(4), PageId(3), PageId(3 + 16));
    let push = |page| buffers.lock(page).push(page, change(b"pre-a", 1), 4, 4000, NOW, &frames);
    let begin = || buffers.lock(page).begin_merge(page);
    assert!(begin().is_none(), "it has no changes");
    push(page);
    push(other);
    let (copied, mark) = begin().unwrap();
    assert_eq!(copied.encoded().iter().count(), 1);
    assert!(begin().is_none(), "it is being merged");
    push(other);
    assert!(buffers.lock(page).end_merge(page, mark));
    assert!(!buffers.lock(page).end_merge(page, mark));
    // Outdated, and begun anew by another thread before the first one looks.
    let (_, outdated) = begin().unwrap();
    push(page);
    let (copied, mark) = begin().unwrap();
    assert_eq!(copied.encoded().iter().count(), 2);
    assert!(!buffers.lock(page).end_merge(page, outdated), "the mark stands for another copy");
    assert!(buffers.lock(page).end_merge(page, mark));
    let (_, mark) = begin().unwrap();
    buffers.lock(page).forget(page, &frames);
    assert!(!buffers.lock(page).end_merge(page, mark));
    assert_eq!(buffers.lock(other).copy(other).unwrap().encoded().iter().count(), 2);
}
