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
        }
        fixture.objects.put(&name, &whole).unwrap();
    }
    fixture.restore(&restore_options(Target::Newest)).unwrap();
}
