//! Which backups there are, and which are kept.
//!
//! Called by `plimsoll backup list` and `prune`. A backup's objects may be used by later ones: an object goes when no backup that
//! stays names it.

use std::collections::HashSet;

use crate::archive::{ARCHIVE, folder_of};
use crate::error::{BackupError, Result};
use crate::known_blocks::{BEGUN, INDEX, PAGES};
use crate::manifest::{BACKUPS, MANIFEST, Manifest};
use crate::object_store::ObjectStore;
use crate::oplog_object;

/// Folders in that of a backup.
const FOLDERS: &[&str] = &["oplog", "rings", "table", INDEX, PAGES];
const UNFINISHED: &str = "unfinished";
const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// The name of a backup that is not whole, and why.
pub type Incomplete = (String, String);

/// The backups that are whole as far as their manifests say, oldest first, and the others.
///
/// # Errors
/// `Io`.
pub fn list(objects: &dyn ObjectStore) -> Result<(Vec<Manifest>, Vec<Incomplete>)> {
    let (mut whole, mut others) = (Vec::new(), Vec::new());
    for id in objects.list(BACKUPS).map_err(BackupError::io(BACKUPS, "listed"))? {
        match Manifest::read(objects, &id) {
            Ok(manifest) => whole.push(manifest),
            Err(BackupError::Missing(_)) if has_begun(objects, &id)? => others.push((id, UNFINISHED.to_owned())),
            // What later backups need of one that was removed.
            Err(BackupError::Missing(_)) => {}
            Err(error) if error.is_unreadable() => others.push((id, error.to_string())),
            Err(error) => return Err(error),
        }
    }
    // Names have seconds; two of one second are told apart by when they began.
    whole.sort_by_key(|manifest| manifest.began_millis);
    Ok((whole, others))
}

fn has_begun(objects: &dyn ObjectStore, id: &str) -> Result<bool> {
    let folder = format!("{BACKUPS}/{id}");
    Ok(objects.list(&folder).map_err(BackupError::io(&folder, "listed"))?.iter().any(|name| name == BEGUN))
}

/// Which backups are kept: those for which any rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepRules {
    /// So many of the newest; at least one.
    pub newest: usize,
    /// And those that are not older than so many days.
    pub days: Option<u32>,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Backups, finished or not.
    pub backups: Vec<String>,
    /// Objects of backups and archives.
    pub objects: usize,
}

/// Removes what the rules do not keep: backups, what only they need, unfinished backups older than a day, and the archive
/// from before the oldest backup that stays.
///
/// # Errors
/// `Place`: a backup may be under way; `Damaged`: of a backup that cannot be read nobody knows what it needs; `Io`.
pub fn prune(objects: &dyn ObjectStore, rules: KeepRules, now_millis: i64) -> Result<Pruned> {
    let since = rules.days.map(|days| now_millis - i64::from(days) * DAY_MILLIS);
    let is_young = |manifest: &Manifest| since.is_some_and(|since| manifest.ended_millis >= since);
    prune_but(objects, &|newer, manifest| newer < rules.newest.max(1) || is_young(manifest), now_millis)
}

/// The same where `is_kept` says of each backup whether it stays; it is told how many are newer.
///
/// # Errors
/// As `prune`.
pub fn prune_but(
    objects: &dyn ObjectStore,
    is_kept: &dyn Fn(usize, &Manifest) -> bool,
    now_millis: i64,
) -> Result<Pruned> {
    let (whole, others) = list(objects)?;
    let mut unfinished = Vec::new();
    for (id, reason) in others {
        if reason != UNFINISHED {
            return Err(BackupError::damaged(&format!("{BACKUPS}/{id}/{MANIFEST}"), reason));
        }
        if is_young(&id, now_millis) {
            return Err(BackupError::Place(format!(
                "the backup {id} is unfinished and began less than a day ago: it may be under way, or go on. Prune when it is finished"
            )));
        }
        unfinished.push(id);
    }
    let (kept, gone): (Vec<_>, Vec<_>) =
        whole.iter().enumerate().partition(|(place, manifest)| is_kept(whole.len() - 1 - place, manifest));
    let kept: Vec<&Manifest> = kept.into_iter().map(|(_, manifest)| manifest).collect();
    let needed: HashSet<String> = kept.iter().flat_map(|manifest| manifest.names()).collect();
    let mut pruned = Pruned::default();
    // The manifest first: from then on it is unfinished.
    for (_, manifest) in gone {
        remove(objects, &format!("{}/{MANIFEST}", manifest.folder()), &mut pruned)?;
        pruned.backups.push(manifest.id.clone());
    }
    pruned.backups.extend(unfinished);
    for id in objects.list(BACKUPS).map_err(BackupError::io(BACKUPS, "listed"))? {
        prune_folder(objects, &format!("{BACKUPS}/{id}"), &needed, &mut pruned)?;
    }
    prune_archives(objects, &kept, &mut pruned)?;
    Ok(pruned)
}

/// By its name, which begins with the time; one whose name does not is none of ours.
fn is_young(id: &str, now_millis: i64) -> bool {
    let day_ago = crate::manifest::time_of(now_millis - DAY_MILLIS);
    let day_ago: String = day_ago.chars().filter(|character| !"-:".contains(*character)).collect();
    id > day_ago.as_str()
}

fn prune_folder(objects: &dyn ObjectStore, folder: &str, needed: &HashSet<String>, pruned: &mut Pruned) -> Result<()> {
    let is_whole = needed.contains(&format!("{folder}/{MANIFEST}"));
    let mut is_used = is_whole;
    for inner in FOLDERS {
        let inner = format!("{folder}/{inner}");
        for part in objects.list(&inner).map_err(BackupError::io(&inner, "listed"))? {
            let name = format!("{inner}/{part}");
            match needed.contains(&name) {
                true => is_used = true,
                false => remove(objects, &name, pruned)?,
            }
        }
    }
    if !is_whole {
        remove(objects, &format!("{folder}/{BEGUN}"), pruned)?;
    }
    if !is_used {
        // Empty folders are nothing in most stores. One that is not empty has something that is not ours.
        for inner in FOLDERS {
            let _ = objects.delete(&format!("{folder}/{inner}"));
        }
        let _ = objects.delete(folder);
    }
    Ok(())
}

fn prune_archives(objects: &dyn ObjectStore, kept: &[&Manifest], pruned: &mut Pruned) -> Result<()> {
    for store in objects.list(ARCHIVE).map_err(BackupError::io(ARCHIVE, "listed"))? {
        let of_store = kept.iter().filter(|manifest| manifest.store == store);
        // An archive without a backup may be waiting for its first.
        let Some(needed_from) = of_store.map(|manifest| manifest.oplog_end).min() else { continue };
        let folder = folder_of(&store);
        for (segment, start, end) in crate::archive::list(objects, &folder)? {
            if end <= needed_from {
                remove(objects, &format!("{folder}/{}", oplog_object::name_of(segment, start, end)), pruned)?;
            }
        }
    }
    Ok(())
}

fn remove(objects: &dyn ObjectStore, name: &str, pruned: &mut Pruned) -> Result<()> {
    pruned.objects += 1;
    objects.delete(name).map_err(BackupError::io(name, "removed"))
}
