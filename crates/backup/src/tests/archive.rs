//! With the archive every moment behind the backup is restored exactly.

use std::sync::Arc;

use super::fixture::*;
use crate::*;

fn archive_of(fixture: &Fixture) -> Archive {
    Archive::begin(fixture.store.clone(), fixture.objects.clone(), Arc::new(random()), None).unwrap()
}

#[test]
fn every_moment_behind_the_backup_is_restored() {
    let fixture = Fixture::new();
    (0..20).for_each(|_| fixture.go_on());
    let archive = archive_of(&fixture);
    archive.step().unwrap();
    fixture.back_up(&options());
    let mut moments = vec![(fixture.last_timestamp(), fixture.content())];
    for round in 0..40 {
        fixture.go_on();
        moments.push((fixture.last_timestamp(), fixture.content()));
        if round % 7 == 3 {
            archive.step().unwrap();
        }
        if round % 11 == 5 {
            // Nothing that is not archived goes with a checkpoint.
            fixture.checkpoint();
        }
    }
    // A server that starts again goes on where the last one ended.
    drop(archive);
    let archive = archive_of(&fixture);
    archive.step().unwrap();
    assert_eq!(archive.status().bytes_behind, 0);
    for (timestamp, content) in moments.iter().step_by(6) {
        let (restored, found) = fixture.restore(&restore_options(Target::Through(*timestamp))).unwrap();
        assert_eq!(&found, content, "{timestamp}");
        assert_eq!(restored.until_timestamp, format!("{}:{}", timestamp.seconds(), timestamp.increment()));
    }
    let second = moments[20].0.seconds();
    let before = moments.iter().rfind(|(timestamp, _)| timestamp.seconds() < second).unwrap();
    assert_eq!(fixture.restore(&restore_options(Target::Before(second))).unwrap().1, before.1);
    let newest = fixture.restore(&restore_options(Target::Newest)).unwrap();
    assert_eq!(newest.1, moments.last().unwrap().1);
    // What is behind the end is refused, and nothing is made.
    let (end, _) = moments.last().unwrap();
    let behind = Target::Through(platform::Timestamp::new(end.seconds(), end.increment() + 1));
    let told = fixture.restore(&restore_options(behind)).unwrap_err().to_string();
    assert!(told.contains(&format!("--timestamp {}:{}", end.seconds(), end.increment())), "{told}");
    let too_early = fixture.restore(&restore_options(Target::Before(1))).unwrap_err().to_string();
    assert!(too_early.contains("all backups end after"), "{too_early}");
}

/// Where nothing is written no entry says how far the archive is.
#[test]
fn a_quiet_time_is_reached_once_it_is_noted() {
    let fixture = Fixture::new();
    let archive = archive_of(&fixture);
    (0..10).for_each(|_| fixture.go_on());
    fixture.back_up(&options());
    fixture.go_on();
    archive.step().unwrap();
    let last = fixture.last_timestamp().seconds();
    let at = |seconds| fixture.restore(&restore_options(Target::Before(last + seconds)));
    fixture.clock.advance(std::time::Duration::from_secs(100));
    let told = at(50).unwrap_err().to_string();
    assert!(told.contains("is not reached") && told.contains("--timestamp"), "{told}");
    archive.step().unwrap();
    assert_eq!(at(50).unwrap().1, fixture.content());
    assert!(at(150).is_err());
    fixture.clock.advance(std::time::Duration::from_secs(20));
    archive.step().unwrap();
    assert!(at(110).is_err());
    archive.finish().unwrap();
    assert_eq!(at(110).unwrap().1, fixture.content());
}

/// What was acknowledged and is not durable yet when the server is stopped.
#[test]
fn the_end_of_an_archive_has_what_was_in_memory() {
    let fixture = Fixture::new();
    fixture.go_on();
    let archive = archive_of(&fixture);
    fixture.back_up(&options());
    fixture.insert_in_memory();
    archive.step().unwrap();
    fixture.insert_in_memory();
    assert!(archive.status().bytes_behind > 0);
    archive.finish().unwrap();
    assert_eq!(archive.status().bytes_behind, 0);
    assert_eq!(fixture.restore(&restore_options(Target::Newest)).unwrap().1, fixture.content());
}

#[test]
fn an_operation_is_left_out_by_its_text() {
    let fixture = Fixture::new();
    let archive = archive_of(&fixture);
    (0..10).for_each(|_| fixture.go_on());
    fixture.back_up(&options());
    (0..10).for_each(|_| fixture.go_on());
    let before = fixture.content();
    let orders = collection::Namespace::parse("shop.orders").unwrap();
    fixture.store.drop_collection(&orders).unwrap();
    (0..3).for_each(|_| fixture.go_on());
    archive.step().unwrap();
    let target = Target::BeforeOperation(r#""drop":"orders""#.to_owned());
    let (restored, content) = fixture.restore(&restore_options(target)).unwrap();
    assert_eq!(content, before);
    assert!(restored.left_out.unwrap().contains(" c shop.$cmd "));
    let nowhere = Target::BeforeOperation("dropDatabase".to_owned());
    assert!(matches!(fixture.restore(&restore_options(nowhere)), Err(BackupError::Unreachable(_))));
}

#[test]
fn a_gap_in_the_archive_is_told_and_another_history_is_refused() {
    let fixture = Fixture::new();
    let archive = archive_of(&fixture);
    (0..10).for_each(|_| fixture.go_on());
    fixture.back_up(&options());
    for _ in 0..3 {
        (0..30).for_each(|_| fixture.go_on());
        archive.step().unwrap();
    }
    let folder = format!("archive/{}", hex::encode(fixture.store.engine().identity()));
    let mut names = fixture.objects.list(&folder).unwrap();
    names.retain(|name| name.contains('-'));
    assert!(names.len() > 4, "{names:?}");
    let lost = &names[names.len() - 2];
    fixture.objects.delete(&format!("{folder}/{lost}")).unwrap();
    let gap = fixture.restore(&restore_options(Target::Newest)).unwrap_err().to_string();
    assert!(gap.contains("a piece of the archive") && gap.contains(&folder), "{gap}");
    // An archive that has more than the server: its directory was put back.
    let (segment, end) = ("9".repeat(15), "9".repeat(16));
    fixture.objects.put(&format!("{folder}/{segment}-{segment}-{end}"), b"").unwrap();
    let again = Archive::begin(fixture.store.clone(), fixture.objects.clone(), Arc::new(random()), None);
    assert!(matches!(again, Err(BackupError::Place(_))));
}
