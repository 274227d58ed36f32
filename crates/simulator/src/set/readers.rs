//! What readers of a set find: all at one moment, compared with what is known.
//!
//! Called by `world` at any moment, on members that lead and on those that follow, and by `ending`.

use std::collections::BTreeSet;
use std::sync::Arc;

use transaction::{ReadView, Result, Store};

use super::mistakes::Mistake;
use super::truth::Lists;
use super::world::World;
use super::writes::{ITEMS, LISTS, RING, numbers_of};
use crate::errors::{Kind, kind};

/// What somebody has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) lists: Lists,
    pub(super) items: BTreeSet<i32>,
    /// In natural order.
    pub(super) ring: Vec<i32>,
}

/// Reads what a view sees.
pub(super) fn read_all(store: &Arc<Store>, view: &ReadView) -> Result<Found> {
    let mut found = Found::default();
    for name in [LISTS, ITEMS, RING] {
        let Some(collection) = store.catalog().lookup(name) else { continue };
        let mut cursor = view.record_cursor(&collection);
        while cursor.next()?.is_some() {
            let document = cursor.document()?;
            let id = document.get_i32("_id").unwrap_or(-1);
            match name {
                LISTS => drop(found.lists.insert(id, numbers_of(document))),
                ITEMS => drop(found.items.insert(id)),
                _ => found.ring.push(id),
            }
        }
    }
    Ok(found)
}

impl World {
    /// A client reads from a member, with read concern `majority` or `local`, which are the same here.
    pub(super) fn look(&self, place: usize) {
        let machine = &self.machines[place];
        let Some(running) = machine.running().filter(|running| running.serves() && !machine.disk.is_down()) else {
            return;
        };
        let view = match self.mistake {
            Some(Mistake::ReadersSeeTheNewest) => running.store.newest_view(),
            _ => running.store.read_view(),
        };
        let found = match read_all(&running.store, &view) {
            Ok(found) => found,
            // A ring has overtaken the reader, or the disk fails.
            Err(error) if kind(&error) == Kind::PositionLost => return,
            Err(error) => return self.judge_error(place, &running, &error),
        };
        let mut truth = self.truth.lock();
        let seen = truth
            .see_lists(&found.lists, (place, running.life))
            .and_then(|()| truth.see_items(&found.items))
            .and_then(|()| truth.see_ring(&found.ring.iter().copied().collect()));
        drop(truth);
        if let Err(problem) = seen {
            self.fail(format_args!("member {place} shows what must not be: {problem}"));
        }
    }
}
