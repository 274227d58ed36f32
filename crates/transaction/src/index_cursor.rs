//! A cursor over the entries of an index, in the order of their whole keys.
//!
//! Given out by `ReadView`, for the executor, index builds and expiry. Short keys come as they are in the tree; where a shortened one is met, its
//! group is gone through in order first (`long_keys`).

use std::sync::Arc;

use collection::{Collection, Index, RecordId, long_key};
use storage_engine::{Counted, EngineError};

use crate::error::Result;
use crate::long_keys::{Edge, LongKeys, Way};
use crate::merge_cursor::TreeCursor;
use crate::read_view::ReadView;

/// Reads the entries of an index in order, either way. Positions are given as bytes of index keys (see `index_key`'s
/// `encode_prefix` and `append_after_prefix`), without record ids. Keys are whole, however they are stored.
/// Between two seeks a cursor goes one way.
pub struct IndexCursor {
    cursor: TreeCursor,
    collection: Arc<Collection>,
    index: Arc<Index>,
    /// Length of the index key of the entry that the cursor is on, and its record id.
    position: Option<(usize, RecordId)>,
    /// The whole key of the entry that the cursor was on when it was reseated, or when it left a group of long keys.
    reseated: Option<Vec<u8>>,
    /// What the tree's order does not tell of the place that was sought.
    edge: Option<Edge>,
    /// Where the cursor is among long keys.
    long: Option<LongKeys>,
    /// Bytes that the stored keys of a group have in common.
    group_bytes: usize,
}

impl IndexCursor {
    pub(crate) fn new(cursor: TreeCursor, collection: &Arc<Collection>, index: &Arc<Index>) -> IndexCursor {
        let (collection, index) = (collection.clone(), index.clone());
        let group_bytes = long_key::KEY_BYTES_MAX;
        IndexCursor { cursor, collection, index, position: None, reseated: None, edge: None, long: None, group_bytes }
    }

    /// The index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    fn located<T>(&self, result: std::result::Result<T, EngineError>) -> Result<T> {
        Ok(result.map_err(|error| self.collection.locate(error))?)
    }

    fn leave_place(&mut self) {
        (self.edge, self.long) = (None, None);
        self.group_bytes = long_key::KEY_BYTES_MAX;
    }

    /// `next` then yields the first entry at or above `position`.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn seek(&mut self, position: &[u8]) -> Result<()> {
        self.leave_place();
        let place = long_key::group_of(position);
        if place.len() < position.len() {
            self.edge = Some(Edge::At(position.to_vec()));
        }
        let sought = self.cursor.seek(place);
        self.located(sought)
    }

    /// `previous` then yields the last entry below `position`.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn seek_before(&mut self, position: &[u8]) -> Result<()> {
        self.leave_place();
        let place = long_key::group_of(position);
        if place.len() == position.len() {
            let sought = self.cursor.seek_before(place);
            return self.located(sought);
        }
        self.edge = Some(Edge::At(position.to_vec()));
        self.seek_behind(place)
    }

    /// `previous` then yields the last entry that begins with `prefix`.
    fn seek_behind(&mut self, prefix: &[u8]) -> Result<()> {
        let sought = match long_key::after_all_with(prefix) {
            Some(after) => self.cursor.seek_before(&after),
            None => self.cursor.seek_last(),
        };
        self.located(sought)
    }

    /// As `seek` to `low`, for who wants nothing from `high` on. A range of one long key is found by its digest.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn seek_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        if low.len() > long_key::KEY_BYTES_MAX && self.is_one_key(low, high) {
            return self.seek_long_key(low, Way::Forward);
        }
        self.seek(low)
    }

    /// As `seek_before` from `high`, for who wants nothing below `low`.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn seek_range_before(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        if low.len() > long_key::KEY_BYTES_MAX && self.is_one_key(low, high) {
            return self.seek_long_key(low, Way::Backward);
        }
        self.seek_before(high)
    }

    fn is_one_key(&self, low: &[u8], high: &[u8]) -> bool {
        high.strip_prefix(low).is_some_and(|rest| rest.len() == 1) && long_key::is_whole(self.index.pattern(), low)
    }

    fn seek_long_key(&mut self, key: &[u8], way: Way) -> Result<()> {
        self.leave_place();
        let mut stored = key.to_vec();
        long_key::shorten(&mut stored);
        self.group_bytes = stored.len();
        match way {
            Way::Forward => {
                let sought = self.cursor.seek(&stored);
                self.located(sought)
            }
            Way::Backward => self.seek_behind(&stored),
        }
    }

    /// `next` then yields the first entry.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_first(&mut self) -> Result<()> {
        self.leave_place();
        let sought = self.cursor.seek_first();
        self.located(sought)
    }

    /// `previous` then yields the last entry.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_last(&mut self) -> Result<()> {
        self.leave_place();
        let sought = self.cursor.seek_last();
        self.located(sought)
    }

    /// Moves to the next entry; `false` at the end.
    ///
    /// # Errors
    /// `Engine` (also `SnapshotTooOld`); `Collection` with `CollectionDropped` or `IndexDropped`, or when the command is to stop.
    #[allow(clippy::should_implement_trait, reason = "a cursor lends its entries, which an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        self.step(Way::Forward)
    }

    /// Moves to the entry before; `false` at the beginning.
    ///
    /// # Errors
    /// As `next`.
    #[inline]
    pub fn previous(&mut self) -> Result<bool> {
        self.step(Way::Backward)
    }

    #[inline]
    fn step(&mut self, way: Way) -> Result<bool> {
        self.check_alive()?;
        if self.long.is_some() && self.step_in_group(way)? {
            return Ok(true);
        }
        loop {
            let moved = match way {
                Way::Forward => self.cursor.next(),
                Way::Backward => self.cursor.previous(),
            };
            if !self.located(moved)? {
                return Ok(false);
            }
            let (key, record_id) = RecordId::split(self.cursor.key())?;
            if long_key::is_shortened(key) {
                self.enter_group(way)?;
                if self.step_in_group(way)? {
                    return Ok(true);
                }
            } else if self.edge.as_ref().is_none_or(|edge| edge.admits(key, record_id, way)) {
                self.position = Some((key.len(), record_id));
                (self.reseated, self.edge) = (None, None);
                return Ok(true);
            }
        }
    }

    /// Reads the group of the shortened key that the tree's cursor is on.
    #[cold]
    fn enter_group(&mut self, way: Way) -> Result<()> {
        let mut long = LongKeys::new(self.cursor.key().get(..self.group_bytes).unwrap_or_default(), way);
        let edge = self.edge.take();
        long.fill(edge.as_ref(), &mut self.cursor, &self.collection)?;
        self.long = Some(long);
        Ok(())
    }

    /// `false`: the cursor is behind the group.
    #[cold]
    fn step_in_group(&mut self, way: Way) -> Result<bool> {
        let Some(mut long) = self.long.take() else { return Ok(false) };
        if long.step(&mut self.cursor, &self.collection)?
            && let Some((key, record_id, _)) = long.current()
        {
            self.position = Some((key.len(), record_id));
            self.reseated = None;
            self.long = Some(long);
            return Ok(true);
        }
        self.reseated = long.current().map(|(key, record_id, _)| entry_key(key, record_id)).or(self.reseated.take());
        // Also where the group is one key: who has sought that wants no other of its beginning.
        let beginning = long_key::group_of(long.group());
        match (way, long_key::after_all_with(beginning)) {
            (Way::Forward, Some(after)) => {
                let sought = self.cursor.seek(&after);
                self.located(sought)?;
            }
            // No key begins with the highest byte.
            (Way::Forward, None) => self.seek_behind(&[])?,
            (Way::Backward, _) => {
                let sought = self.cursor.seek_before(beginning);
                self.located(sought)?;
            }
        }
        Ok(false)
    }

    /// Passes over the entries below `high` and counts them, those of one leaf at a time; `None`: they are to be gone through one by
    /// one, from here. A cursor that has counted is not reseated.
    ///
    /// # Errors
    /// As `next`.
    pub fn count_below(&mut self, high: &[u8]) -> Result<Option<Counted>> {
        self.check_alive()?;
        if self.edge.is_some() || self.long.is_some() || high.len() > long_key::KEY_BYTES_MAX {
            return Ok(None);
        }
        let counted = self.cursor.count_below(high);
        self.located(counted)
    }

    fn check_alive(&self) -> Result<()> {
        self.collection.check_alive()?;
        Ok(self.index.check_alive()?)
    }

    /// The index key of the entry that the cursor is on, without record id.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let length = self.position.map_or(0, |(length, _)| length);
        let entry_key = match (&self.reseated, &self.long) {
            (Some(reseated), _) => reseated,
            (None, Some(long)) => long.current().map_or(&[][..], |(key, ..)| key),
            (None, None) => self.cursor.key(),
        };
        entry_key.get(..length).unwrap_or_default()
    }

    /// The record of the entry that the cursor is on; 0 before the first step.
    #[inline]
    pub fn record_id(&self) -> RecordId {
        self.position.map_or(RecordId(0), |(_, record_id)| record_id)
    }

    /// The type bits of the entry that the cursor is on: to decode the key. Not after `reseat`.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn type_bits(&mut self) -> Result<&[u8]> {
        if let Some(long) = &self.long {
            return Ok(long.current().map_or(&[], |(_, _, type_bits)| type_bits));
        }
        Ok(self.cursor.value().map_err(|error| self.collection.locate(error))?)
    }

    /// Goes on in another view, going forward after the entry that the cursor is on.
    ///
    /// # Errors
    /// `Engine`.
    pub fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.reseat_in(view, Way::Forward)
    }

    /// Goes on in another view, going backward from the entry that the cursor is on.
    ///
    /// # Errors
    /// `Engine`.
    pub fn reseat_backward(&mut self, view: &ReadView) -> Result<()> {
        self.reseat_in(view, Way::Backward)
    }

    fn reseat_in(&mut self, view: &ReadView, way: Way) -> Result<()> {
        if let Some((_, record_id)) = self.position
            && self.reseated.is_none()
        {
            self.reseated = Some(match &self.long {
                Some(_) => entry_key(self.key(), record_id),
                None => self.cursor.key().to_vec(),
            });
        }
        self.cursor = view.tree_cursor(self.index.tree());
        let Some((reseated, (length, record_id))) = self.reseated.clone().zip(self.position) else { return Ok(()) };
        self.leave_place();
        if length <= long_key::KEY_BYTES_MAX {
            let sought = match way {
                Way::Forward => self.cursor.seek_after(&reseated),
                Way::Backward => self.cursor.seek_before(&reseated),
            };
            return self.located(sought);
        }
        let key = reseated.get(..length).unwrap_or_default();
        self.edge = Some(Edge::Beyond(key.to_vec(), record_id));
        match way {
            Way::Forward => {
                let sought = self.cursor.seek(long_key::group_of(key));
                self.located(sought)
            }
            Way::Backward => self.seek_behind(long_key::group_of(key)),
        }
    }
}

/// The key of an entry whose key is whole.
fn entry_key(key: &[u8], record_id: RecordId) -> Vec<u8> {
    let mut entry_key = Vec::new();
    record_id.write_entry_key(key, &mut entry_key);
    entry_key
}
