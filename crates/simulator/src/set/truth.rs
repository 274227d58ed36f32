//! What clients of a set were told and what its readers have seen, and what follows from that.
//!
//! Fed by `client` and `readers`; it knows no store. Each write has a number. Lists are only ever added to, so whatever a reader sees of one is a beginning of all that
//! others see later, and a snapshot that has a write has all writes that were told before that one began.

use std::collections::{BTreeMap, BTreeSet};

use super::client::{Outcome, Wish};

/// Lists by their numbers, as somebody has found them.
pub(super) type Lists = BTreeMap<i32, Vec<i32>>;
type Check = Result<(), String>;

/// So few documents never fill the ring.
const RING_NEVER_FULL: usize = 10;

/// What is known of something that a write makes: a document, a collection.
#[derive(Clone, Copy, Debug, Default)]
struct Thing {
    made: Known,
    removed: Known,
    was_seen: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nobody has tried.
    #[default]
    Not,
    /// Somebody has tried, and was not told what has become of it.
    Perhaps,
    /// It has happened.
    Told,
    /// It was refused.
    Refused,
}

struct Begun {
    wish: Wish,
    /// So many had been told when it began.
    told_before: usize,
}

/// See the module's head.
pub(super) struct Truth {
    writes: BTreeMap<i32, Begun>,
    /// Appends that were told, in that order.
    told: Vec<i32>,
    /// Appends that were refused.
    refused: BTreeSet<i32>,
    /// By the life of a member that has told them.
    told_by: BTreeMap<(usize, u64), BTreeSet<i32>>,
    /// The longest of what was seen of each.
    longest: Lists,
    /// What each member has shown.
    shown: Vec<BTreeMap<i32, usize>>,
    items: BTreeMap<i32, Thing>,
    collections: BTreeMap<i32, Thing>,
    ring: BTreeMap<i32, Thing>,
}

impl Truth {
    pub(super) fn new(members: usize) -> Truth {
        Truth {
            writes: BTreeMap::new(),
            told: Vec::new(),
            refused: BTreeSet::new(),
            told_by: BTreeMap::new(),
            longest: Lists::new(),
            shown: vec![BTreeMap::new(); members],
            items: BTreeMap::new(),
            collections: BTreeMap::new(),
            ring: BTreeMap::new(),
        }
    }

    /// A client begins a write; its number.
    pub(super) fn begin(&mut self, wish: Wish) -> i32 {
        let id = self.writes.len() as i32 + 1;
        self.writes.insert(id, Begun { wish, told_before: self.told.len() });
        self.note(id, wish, Known::Perhaps);
        id
    }

    fn note(&mut self, id: i32, wish: Wish, known: Known) {
        let (things, number, is_made) = match wish {
            Wish::Insert => (&mut self.items, id, true),
            Wish::Delete { item } => (&mut self.items, item, false),
            Wish::Create => (&mut self.collections, id, true),
            Wish::Drop { number } => (&mut self.collections, number, false),
            Wish::PutInRing => (&mut self.ring, id, true),
            _ => return,
        };
        let thing = things.entry(number).or_default();
        let place = if is_made { &mut thing.made } else { &mut thing.removed };
        // Two may want to remove it; one that was told has.
        if *place != Known::Told && (is_made || known != Known::Refused) {
            *place = known;
        }
    }

    /// A client is told by a life of a member.
    pub(super) fn told(&mut self, id: i32, outcome: Outcome, by: (usize, u64)) {
        let Some(Begun { wish, .. }) = self.writes.get(&id) else { return };
        let wish = *wish;
        let known = match outcome {
            Outcome::Done => Known::Told,
            Outcome::Nothing => Known::Perhaps,
            Outcome::Refused => Known::Refused,
        };
        self.note(id, wish, known);
        match wish {
            Wish::Append { .. } | Wish::Transaction { .. } if known == Known::Told => {
                self.told.push(id);
                self.told_by.entry(by).or_default().insert(id);
            }
            Wish::Append { .. } | Wish::Transaction { .. } => drop(self.refused.insert(id)),
            _ => {}
        }
    }

    /// Items that are there unless somebody removes them.
    pub(super) fn known_items(&self) -> Vec<i32> {
        known(&self.items)
    }

    /// The same of collections.
    pub(super) fn known_collections(&self) -> Vec<i32> {
        known(&self.collections)
    }

    fn lists_of(&self, id: i32) -> Vec<i32> {
        match self.writes.get(&id).map(|begun| begun.wish) {
            Some(Wish::Append { list, .. }) => vec![list],
            Some(Wish::Transaction { lists, .. }) => lists.to_vec(),
            _ => Vec::new(),
        }
    }

    /// A life of a member shows the lists at one moment.
    pub(super) fn see_lists(&mut self, found: &Lists, (place, life): (usize, u64)) -> Check {
        self.check_one_moment(found)?;
        let all: BTreeSet<i32> = found.values().flatten().copied().collect();
        if let Some(missing) = self.told_by.get(&(place, life)).and_then(|told| told.difference(&all).next()) {
            return Err(format!("it has told of write {missing}, and does not show it"));
        }
        for (list, ids) in found {
            let longest = self.longest.entry(*list).or_default();
            let both = ids.len().min(longest.len());
            if ids[..both] != longest[..both] {
                return Err(format!("list {list} is {ids:?}, and was seen as {longest:?}"));
            }
            if ids.len() > longest.len() {
                longest.clone_from(ids);
            }
        }
        for (list, shown) in &mut self.shown[place] {
            let now = found.get(list).map_or(0, Vec::len);
            if now < *shown {
                return Err(format!("list {list} has {now} numbers, and had {shown} before"));
            }
        }
        self.shown[place] = found.iter().map(|(list, ids)| (*list, ids.len())).collect();
        Ok(())
    }

    /// Nothing is there twice or by nobody, transactions are whole, and what was told before something began is there with it.
    fn check_one_moment(&self, found: &Lists) -> Check {
        let mut places: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (list, ids) in found {
            ids.iter().for_each(|id| places.entry(*id).or_default().push(*list));
        }
        let mut told_before = 0;
        for (id, lists) in &places {
            if self.refused.contains(id) {
                return Err(format!("write {id} was refused, and is there"));
            }
            let mut wanted = self.lists_of(*id);
            wanted.sort_unstable();
            if *lists != wanted {
                return Err(format!("write {id} is in the lists {lists:?}, not in {wanted:?}"));
            }
            told_before = told_before.max(self.writes.get(id).map_or(0, |begun| begun.told_before));
        }
        match self.told[..told_before].iter().find(|id| !places.contains_key(id)) {
            Some(missing) => {
                Err(format!("write {missing} was told before another began that is there, and is missing"))
            }
            None => Ok(()),
        }
    }

    /// A member shows these items.
    pub(super) fn see_items(&mut self, found: &BTreeSet<i32>) -> Check {
        see(&mut self.items, found, "document")
    }

    /// A member shows these documents of the ring.
    pub(super) fn see_ring(&mut self, found: &BTreeSet<i32>) -> Check {
        see(&mut self.ring, found, "document of the ring")
    }

    /// All is over, and this is what all members have.
    pub(super) fn check_end(&self, lists: &Lists, items: &BTreeSet<i32>, collections: &BTreeSet<i32>) -> Check {
        self.check_one_moment(lists)?;
        let all: BTreeSet<i32> = lists.values().flatten().copied().collect();
        if let Some(missing) = self.told.iter().find(|id| !all.contains(id)) {
            return Err(format!("write {missing} was told, and is lost"));
        }
        for (list, longest) in &self.longest {
            let found = lists.get(list).map(Vec::as_slice).unwrap_or_default();
            if !found.starts_with(longest) {
                return Err(format!("list {list} was seen as {longest:?}, and is {found:?}"));
            }
        }
        check_things(&self.items, items, "document")?;
        check_things(&self.collections, collections, "collection")
    }

    /// What a ring ends with.
    pub(super) fn check_ring(&self, order: &[i32]) -> Check {
        let found: BTreeSet<i32> = order.iter().copied().collect();
        if found.len() != order.len() {
            return Err(format!("the ring has something twice: {order:?}"));
        }
        let is_known = |thing: &Thing| thing.made == Known::Told || thing.was_seen;
        let mut known = self.ring.iter().filter(|(_, thing)| is_known(thing));
        if order.len() < RING_NEVER_FULL
            && let Some((missing, _)) = known.find(|(id, _)| !found.contains(id))
        {
            return Err(format!("document {missing} of the ring is missing, and it is not full: {order:?}"));
        }
        let refused = |id: &&i32| self.ring.get(id).is_none_or(|thing| thing.made == Known::Refused);
        match order.iter().find(refused) {
            Some(id) => Err(format!("document {id} of the ring was put there by nobody")),
            None => Ok(()),
        }
    }
}

fn known(things: &BTreeMap<i32, Thing>) -> Vec<i32> {
    let is_known = |thing: &Thing| thing.made == Known::Told && thing.removed == Known::Not;
    things.iter().filter(|(_, thing)| is_known(thing)).map(|(number, _)| *number).collect()
}

fn see(things: &mut BTreeMap<i32, Thing>, found: &BTreeSet<i32>, what: &str) -> Check {
    for number in found {
        match things.get_mut(number) {
            Some(thing) if thing.made != Known::Refused => thing.was_seen = true,
            _ => return Err(format!("{what} {number} is there, which nobody made")),
        }
    }
    Ok(())
}

fn check_things(things: &BTreeMap<i32, Thing>, found: &BTreeSet<i32>, what: &str) -> Check {
    for (number, thing) in things {
        let must = (thing.made == Known::Told || thing.was_seen) && thing.removed == Known::Not;
        let must_not = thing.removed == Known::Told || thing.made == Known::Refused;
        let is_there = found.contains(number);
        if (must && !is_there) || (must_not && is_there) {
            return Err(format!("{what} {number}: {thing:?}, and it is there: {is_there}"));
        }
    }
    match found.iter().find(|number| !things.contains_key(number)) {
        Some(number) => Err(format!("{what} {number} is there, which nobody made")),
        None => Ok(()),
    }
}
