//! A client of a set, as a driver is one: it has a session, sends one write at a time to whoever leads, and tries it again until it is told what has become of it.
//!
//! Called by `world`; what a write does is in `writes`. It never goes back to the primary of an earlier term, as drivers do not.

use bson::Uuid;
use oplog::OplogPosition;
use platform::{Random, SeededRandom};
use replication::Standpoint;
use transaction::{Leadership, TransactionError};

use super::machine::Running;
use super::mistakes::Mistake;
use super::world::World;
use crate::errors::{Kind, kind};

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Add the write's number to a list.
    Append { list: i32, padding: usize },
    /// Add it to two lists in a transaction.
    Transaction { lists: [i32; 2], padding: usize },
    /// Insert a document of this number.
    Insert,
    /// Change one.
    Change { item: i32 },
    /// Delete one.
    Delete { item: i32 },
    /// Insert a document into the capped collection.
    PutInRing,
    /// Create an index, or drop it if it is there.
    Index { number: u8 },
    /// Create a collection of this number.
    Create,
    /// Drop one.
    Drop { number: i32 },
    /// Rename one, and back.
    Rename { number: i32 },
}

impl Wish {
    /// Whether nobody knows what has become of it when its reply is lost: it is not tried again then.
    pub(super) fn is_definition(self) -> bool {
        matches!(self, Wish::Index { .. } | Wish::Create | Wish::Drop { .. } | Wish::Rename { .. })
    }
}

/// A write that a client has begun and does not know the end of.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Its number, which no other has.
    pub(super) id: i32,
    pub(super) wish: Wish,
    reply: Option<Reply>,
    tries: u32,
}

impl Write {
    /// Whether it was sent before.
    pub(super) fn is_retried(&self) -> bool {
        self.tries > 0
    }
}

/// A reply that waits in a server until it may be given.
#[derive(Clone, Debug)]
struct Reply {
    place: usize,
    life: u64,
    end: OplogPosition,
    outcome: Outcome,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// There was nothing to change. A primary that does not know yet that its term is over may say so, too.
    Nothing,
    /// It was refused, and has not happened.
    Refused,
}

/// See the module's head.
pub(super) struct Client {
    pub(super) session: Uuid,
    /// The number of its newest retryable write or transaction.
    pub(super) txn_number: i64,
    /// What the newest one was, once it is told.
    pub(super) told: Option<(Wish, Outcome)>,
    /// The newest term of which it has heard.
    term: u64,
    pub(super) write: Option<Write>,
}

impl Client {
    pub(super) fn new(random: &SeededRandom) -> Client {
        let mut id = [0; 16];
        random.fill(&mut id);
        Client { session: Uuid::from_bytes(id), txn_number: 0, told: None, term: 0, write: None }
    }
}

impl World {
    /// A client begins a write, sends it, or looks for its reply.
    pub(super) fn client_turn(&self) {
        let chosen = self.random.below(self.clients.len() as u64) as usize;
        // It is at work, and something else happens meanwhile.
        let Some(mut client) = self.clients[chosen].lock().take() else { return };
        if client.write.is_none() {
            client.told = None;
            client.txn_number += 1;
            client.write = Some(self.begin_write());
        }
        self.go_on(&mut client);
        *self.clients[chosen].lock() = Some(client);
    }

    fn begin_write(&self) -> Write {
        let wish = self.wish();
        let id = self.truth.lock().begin(wish);
        self.say(format_args!("write {id} begins: {wish:?}"));
        Write { id, wish, reply: None, tries: 0 }
    }

    /// Sends a client's write, or looks whether its reply has come.
    pub(super) fn go_on(&self, client: &mut Client) {
        let Some(mut write) = client.write.take() else { return };
        let told = match write.reply.take() {
            None => self.send(client, &mut write),
            Some(reply) => self.await_reply(client, &mut write, reply),
        };
        match told {
            None => client.write = Some(write),
            Some(outcome) => client.told = outcome.map(|outcome| (write.wish, outcome)),
        }
    }

    /// `Some`: it is over; the outcome, if it is known.
    fn await_reply(&self, client: &mut Client, write: &mut Write, reply: Reply) -> Option<Option<Outcome>> {
        let running = self.machines[reply.place].running().filter(|running| running.life == reply.life);
        let is_confirmed = running.as_ref().is_some_and(|running| running.store.is_confirmed(reply.end));
        if is_confirmed {
            return Some(Some(self.tell(write, &reply)));
        }
        let is_alive = running.is_some_and(|running| running.store.leadership() != Leadership::Lost);
        // A client may give up waiting at any moment.
        if is_alive && !self.chance(0.02) {
            write.reply = Some(reply);
            return None;
        }
        self.try_again(client, write)
    }

    /// Nobody knows what has become of it.
    fn try_again(&self, _client: &mut Client, write: &mut Write) -> Option<Option<Outcome>> {
        write.tries += 1;
        write.wish.is_definition().then_some(None)
    }

    fn tell(&self, write: &Write, reply: &Reply) -> Outcome {
        self.say(format_args!("write {} of member {} is told: {:?}", write.id, reply.place, reply.outcome));
        self.summary.lock().commits += 1;
        self.truth.lock().told(write.id, reply.outcome, (reply.place, reply.life));
        reply.outcome
    }

    /// Whom a client takes for the primary, or anybody.
    fn choose_member(&self, client: &mut Client) -> Option<(usize, std::sync::Arc<Running>)> {
        let place = self.any_place();
        let running = self.machines[place].idle().filter(|running| running.serves())?;
        let standpoint = running.member.try_lock()?.standpoint();
        match standpoint {
            Standpoint::Leads { term } if term >= client.term => {
                client.term = term;
                Some((place, running))
            }
            Standpoint::Follows { .. } if self.chance(0.02) => Some((place, running)),
            _ => None,
        }
    }

    fn send(&self, client: &mut Client, write: &mut Write) -> Option<Option<Outcome>> {
        let (place, running) = self.choose_member(client)?;
        self.say(format_args!("write {} to member {place}, try {}", write.id, write.tries + 1));
        let done = self.machines[place].busily(|| self.execute(&running, client, write));
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(error) if is_refusal(&error) => {
                self.say(format_args!("  refused: {error}"));
                Outcome::Refused
            }
            Err(error) => {
                if !is_conflict(&error) {
                    self.judge_error(place, &running, &error);
                }
                return self.try_again(client, write);
            }
        };
        if self.machines[place].disk.is_down() {
            return self.try_again(client, write);
        }
        // As the dispatcher: every reply waits for what the command may have seen.
        let end = running.store.to_be_confirmed().filter(|_| self.mistake != Some(Mistake::TellsTooEarly));
        let reply = Reply { place, life: running.life, end: end.unwrap_or_default(), outcome };
        if end.is_none() {
            return Some(Some(self.tell(write, &reply)));
        }
        write.reply = Some(reply);
        None
    }
}

/// What is told to the client: it has not happened, and will not.
fn is_refusal(error: &TransactionError) -> bool {
    use collection::CollectionError::*;
    if matches!(kind(error), Kind::Disk | Kind::DiskFull | Kind::Corrupt) {
        return false;
    }
    matches!(
        error,
        TransactionError::Collection(
            DuplicateKey(_)
                | KeyTooLong { .. }
                | IndexKey(_)
                | CollectionDropped { .. }
                | IndexDropped { .. }
                | IndexBuildAborted(_)
                | IndexAlreadyExists { .. }
                | NamespaceExists { .. }
                | NamespaceNotFound(_)
        )
    )
}

/// Somebody else was in the way: drivers try again.
fn is_conflict(error: &TransactionError) -> bool {
    matches!(
        error,
        TransactionError::WriteConflict
            | TransactionError::LockTimeout(_)
            | TransactionError::SnapshotUnavailable(_)
            | TransactionError::NoSuchTransaction(_)
    )
}
