//! Uniqueness: claiming keys and finding out whether another record has them.
//!
//! Called by `insert`, `change` and `index_build` before a change is logged. Who claims a key holds its lock until the change is applied, and
//! the check looks at what is applied, visible or not: so of two claimants the second sees the first.

use collection::{Index, IndexList, IndexState, RecordId, UniqueClaim, duplicate_key_error};
use smallvec::SmallVec;
use storage_engine::Engine;

use crate::error::Result;
use crate::lock_table::{LockGuard, LockTable, OwnedByTransaction};

/// The locks of one change's unique keys.
pub(crate) type UniqueLocks<'a> = SmallVec<[LockGuard<'a>; 2]>;

/// Reusable buffers.
#[derive(Default)]
pub(crate) struct UniqueBuffers {
    hashes: Vec<u64>,
    key: Vec<u8>,
}

/// Takes the locks of all claims, in ascending order; none when a transaction owns one.
pub(crate) fn lock_claims<'a, 'c>(
    table: &'a LockTable,
    claims: impl Iterator<Item = UniqueClaim<'c>>,
    buffers: &mut UniqueBuffers,
) -> std::result::Result<UniqueLocks<'a>, OwnedByTransaction> {
    buffers.hashes.clear();
    buffers.hashes.extend(claims.map(|claim| claim.hash));
    buffers.hashes.sort_unstable();
    buffers.hashes.dedup();
    buffers.hashes.iter().map(|hash| table.lock((0, *hash))).collect()
}

/// Checks that no other record has the claimed keys. The locks are held.
///
/// An index that is being built or rebuilt does not refuse anything yet: the key is noted, and looked at when the build ends.
///
/// # Errors
/// `DuplicateKey`; `SetAside`: the index cannot tell; `Engine`.
pub(crate) fn check_claims<'c>(
    engine: &Engine,
    namespace: &str,
    indexes: &IndexList,
    record_id: RecordId,
    claims: impl Iterator<Item = UniqueClaim<'c>>,
    buffers: &mut UniqueBuffers,
) -> Result<()> {
    for claim in claims {
        let Some(index) = indexes.all().get(claim.index) else { continue };
        index.check_usable()?;
        match is_taken(engine, index, claim.key, record_id, buffers) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) if error.is_damage() => {
                index.set_aside(namespace, &error.to_string());
                index.check_usable()?;
            }
            Err(error) => return Err(error),
        }
        match index.state() {
            IndexState::Ready => return Err(duplicate_key_error(namespace, index, claim.key, claim.value).into()),
            IndexState::Building | IndexState::Replacing => index.suspect_duplicate(claim.key, claim.value),
        }
    }
    Ok(())
}

/// Whether a record other than `own` has `key` in `index`.
///
/// # Errors
/// `Engine`.
pub(crate) fn is_taken(
    engine: &Engine,
    index: &Index,
    key: &[u8],
    own: RecordId,
    buffers: &mut UniqueBuffers,
) -> Result<bool> {
    let found = &mut buffers.key;
    if !engine.first_key_latest(index.tree(), key, found)? || !found.starts_with(key) {
        return Ok(false);
    }
    if RecordId::split(found)?.1 != own {
        return Ok(true);
    }
    // Its own entry comes first: whether another follows is seldom asked, only of an index being built.
    let mut after = found.clone();
    after.push(0);
    Ok(engine.first_key_latest(index.tree(), &after, found)? && found.starts_with(key))
}

/// Whether two records have `key` in `index`.
///
/// # Errors
/// `Engine`.
pub(crate) fn is_duplicated(engine: &Engine, index: &Index, key: &[u8], buffers: &mut UniqueBuffers) -> Result<bool> {
    if !engine.first_key_latest(index.tree(), key, &mut buffers.key)? || !buffers.key.starts_with(key) {
        return Ok(false);
    }
    let first = RecordId::split(&buffers.key)?.1;
    is_taken(engine, index, key, first, buffers)
}
