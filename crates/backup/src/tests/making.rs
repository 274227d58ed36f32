//! A backup has what was there at its end, whatever happens beside it; the next one stores what has changed.

use oplog::Oplog;
use platform::OuterKey;

use super::fixture::*;
use crate::*;

#[test]
fn what_is_restored_is_the_store_at_the_end_of_the_backup() {
    let fixture = Fixture::new();
    (0..120).for_each(|_| fixture.go_on());
    let manifest = fixture.back_up(&options());
    let (at_end, end) = (fixture.content(), fixture.last_timestamp());
    assert_eq!(manifest.last_timestamp(), end);
    (0..20).for_each(|_| fixture.go_on());
    let (restored, content) = fixture.restore(&restore_options(Target::Newest)).unwrap();
    assert_eq!(content, at_end);
    assert_eq!((restored.backup, restored.left_out), (manifest.id.clone(), None));
    assert_eq!(restored.until_timestamp, format!("{}:{}", end.seconds(), end.increment()));
    assert_eq!((restored.original_store == restored.store, restored.original_store), (false, manifest.store));
}

#[test]
fn an_empty_store_is_backed_up_too() {
    let fixture = Fixture::new();
    let is_stopped = || false;
    make(&fixture.store, &fixture.objects, &random(), &options(), &Progress::default(), &is_stopped).unwrap();
    assert_eq!(fixture.restore(&restore_options(Target::Newest)).unwrap().1, fixture.content());
}

#[test]
fn the_next_backup_stores_what_has_changed_and_both_are_restored() {
    let fixture = Fixture::new();
    (0..300).for_each(|_| fixture.go_on());
    let first = fixture.back_up(&options());
    let at_first = fixture.content();
    (0..5).for_each(|_| fixture.go_on());
    let second = fixture.back_up(&options());
    let at_second = fixture.content();
    assert_eq!(first.reused_bytes, 0);
    assert!(second.reused_bytes * 2 > second.page_bytes, "{second:#?}");
    let of = |id: &str| RestoreOptions { backup: Some(id.to_owned()), ..restore_options(Target::Newest) };
    assert_eq!(fixture.restore(&of(&first.id)).unwrap().1, at_first);
    assert_eq!(fixture.restore(&of(&second.id)).unwrap().1, at_second);
    let third = fixture.back_up(&BackupOptions { extent: Extent::Full, ..options() });
    assert_eq!(third.reused_bytes, 0);
    // The first one goes, but for what the second needs of it.
    let at_third = fixture.content();
    let rules = KeepRules { newest: 2, days: None };
    let pruned = prune(&*fixture.objects, rules, third.ended_millis).unwrap();
    assert_eq!((pruned.backups, pruned.objects > 1), (vec![first.id.clone()], true));
    assert_eq!(list(&*fixture.objects).unwrap().0.len(), 2);
    assert!(fixture.restore(&of(&first.id)).is_err());
    assert_eq!(fixture.restore(&of(&second.id)).unwrap().1, at_second);
    assert_eq!(fixture.restore(&of(&third.id)).unwrap().1, at_third);
    prune(&*fixture.objects, KeepRules { newest: 1, days: None }, third.ended_millis).unwrap();
    assert_eq!(fixture.restore(&of(&third.id)).unwrap().1, at_third);
    assert_eq!(fixture.objects.list("backups").unwrap(), [third.id]);
}

#[test]
fn encrypted_and_compressed_backups_are_restored_with_their_key_only() {
    let fixture = Fixture::new();
    (0..30).for_each(|_| fixture.go_on());
    let key = OuterKey::new([3; 32]);
    let packing = Packing { compresses_pages: true, key: Some(key.clone()) };
    let manifest = fixture.back_up(&BackupOptions { packing, ..options() });
    assert!(manifest.is_encrypted);
    let with = |key: Option<OuterKey>| RestoreOptions { key, ..restore_options(Target::Newest) };
    assert_eq!(fixture.restore(&with(Some(key))).unwrap().1, fixture.content());
    for wrong in [None, Some(OuterKey::new([4; 32]))] {
        assert!(matches!(fixture.restore(&with(wrong)), Err(BackupError::Key(_))));
    }
    // One that is not encrypted does not build upon it.
    assert_eq!(fixture.back_up(&options()).reused_bytes, 0);
}

#[test]
fn one_backup_at_a_time_and_one_that_is_stopped_gives_everything_back() {
    let fixture = Fixture::new();
    (0..30).for_each(|_| fixture.go_on());
    let copy = fixture.store.begin_copy(&|| false).unwrap();
    assert!(matches!(fixture.try_back_up(&options()), Err(BackupError::Store(_))));
    drop(copy);
    let stopped = make(&fixture.store, &fixture.objects, &random(), &options(), &Progress::default(), &|| true);
    assert!(matches!(stopped, Err(BackupError::Stopped)), "{stopped:?}");
    fixture.back_up(&options());
    let (first, end) = (fixture.store.oplog().first_position(), fixture.store.oplog().end_position());
    (0..60).for_each(|_| fixture.go_on());
    fixture.checkpoint();
    assert!(fixture.store.oplog().first_position() > first.min(end), "the oplog is given up as ever");
}
