//! What is damaged or missing of a backup is found by its name; nothing is restored of it that could be taken for whole.

use super::fixture::*;
use crate::*;

#[test]
fn each_damaged_and_each_missing_file_is_named() {
    let fixture = Fixture::new();
    (0..60).for_each(|_| fixture.go_on());
    let manifest = fixture.back_up(&options());
    let names: Vec<String> = manifest.names().collect();
    assert!(
        ["/pages/", "/index/", "/table/", "/oplog/", "/rings/"]
            .iter()
            .all(|part| names.iter().any(|name| name.contains(part)))
    );
    for name in names {
        let whole = fixture.objects.get(&name).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 16;
        let of = || RestoreOptions { backup: Some(manifest.id.clone()), ..restore_options(Target::Newest) };
        for bytes in [Some(&damaged[..]), Some(&whole[..whole.len() - 1]), None] {
            match bytes {
                Some(bytes) => fixture.objects.put(&name, bytes).unwrap(),
                None => fixture.objects.delete(&name).unwrap(),
            }
            let error = fixture.restore(&of()).unwrap_err();
            assert!(matches!(error, BackupError::Damaged { .. } | BackupError::Missing(_)), "{error:?}");
            assert!(error.to_string().contains(&name), "{error} does not name {name}");
            let error = read_back(&*fixture.objects, &manifest.id, None, &|| false).unwrap_err();
            assert!(matches!(error, BackupError::Damaged { .. } | BackupError::Missing(_)), "{error:?}");
            assert!(error.to_string().contains(&name), "{error} does not name {name}");
        }
        fixture.objects.put(&name, &whole).unwrap();
    }
    fixture.restore(&restore_options(Target::Newest)).unwrap();
    assert!(read_back(&*fixture.objects, &manifest.id, None, &|| false).unwrap());
    assert!(!read_back(&*fixture.objects, &manifest.id, None, &|| true).unwrap());
}

/// It is neither damaged nor whole: listed with the reason, not built upon, and nothing is pruned beside it.
#[test]
fn a_backup_of_a_newer_format_is_listed_and_left_alone() {
    let fixture = Fixture::new();
    (0..20).for_each(|_| fixture.go_on());
    let manifest = fixture.back_up(&options());
    let name = format!("backups/{}/manifest", manifest.id);
    let content = br#"{"version": 7, "of": "whatever there will be"}"#;
    fixture
        .objects
        .put(&name, &crate::object::pack(&name, content, false, None, &platform::SeededRandom::new(1)).unwrap())
        .unwrap();
    let (whole, others) = crate::list(&*fixture.objects).unwrap();
    assert!(whole.is_empty());
    assert!(others[0].1.contains("format version 7; this build reads 1"), "{others:?}");
    let rules = KeepRules { newest: 1, days: None };
    assert!(crate::prune(&*fixture.objects, rules, 0).unwrap_err().to_string().contains("format version 7"));
    let of = RestoreOptions { backup: Some(manifest.id), ..restore_options(Target::Newest) };
    assert!(matches!(fixture.restore(&of), Err(BackupError::UnsupportedVersion { version: 7, .. })));
    // The next one is whole by itself.
    fixture.go_on();
    let next = fixture.back_up(&options());
    fixture.restore(&RestoreOptions { backup: Some(next.id), ..restore_options(Target::Newest) }).unwrap();
}
