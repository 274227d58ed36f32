//! More sessions than memory has room for: what they have written is known all the same.

use bson::{Uuid, rawdoc};
use platform::{MemoryBudget, MemoryUse};

use super::fixture::*;
use crate::sessions::ExecutedStatement;
use crate::*;

const SESSIONS: u32 = 6_000;
const BUDGET: u64 = 16 << 20;

fn id(number: u32) -> Uuid {
    let mut bytes = [7; 16];
    // Some hundred in a shard.
    bytes[15] = number as u8 % 16;
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    Uuid::from_bytes(bytes)
}

fn written(number: u32) -> Fixture {
    let mut options = options();
    options.engine.memory = MemoryBudget::new(BUDGET);
    let mut fixture = Fixture::with(options);
    let collection = fixture.collection("db.c");
    for number in 0..number {
        let session = fixture.store.sessions().refresh(id(number)).unwrap();
        session.claim(|| std::sync::Arc::new(number));
        fixture.store.begin_retryable_write(&session, 3).unwrap();
        let details = collection::StatementDetails::None;
        fixture.context.set_statement(Some(Statement { session, txn_number: 3, id: 1, details }));
        fixture.insert(&collection, rawdoc! { "_id": number as i32 }).unwrap();
        fixture.context.set_statement(None);
        if number % 500 == 0 {
            fixture.store.checkpoint_step(Urgency::Now).unwrap();
        }
    }
    fixture
}

fn executed(fixture: &Fixture, number: u32) -> Option<ExecutedStatement> {
    fixture.store.sessions().refresh(id(number)).unwrap().executed(1)
}

fn used(fixture: &Fixture) -> u64 {
    fixture.options.engine.memory.used_for(MemoryUse::Sessions)
}

#[test]
fn those_whose_record_is_stored_make_room_and_go_on_when_they_are_used() {
    let fixture = written(SESSIONS);
    let sessions = fixture.store.sessions();
    let first = id(0);
    assert!(sessions.find(first).is_none() && sessions.knows(first), "it is set aside");
    assert_eq!((sessions.count(), sessions.all().len()), (SESSIONS as usize, SESSIONS as usize));
    assert!(used(&fixture) < BUDGET / 10, "{}", used(&fixture));
    for number in 0..SESSIONS {
        let known = executed(&fixture, number);
        assert_eq!(known, Some(ExecutedStatement { id: 1, count_change: 1, details: None }), "{number}");
    }
    let session = sessions.refresh(first).unwrap();
    assert_eq!(session.owner().and_then(|owner| owner.downcast_ref()), Some(&0_u32));
    assert!(matches!(fixture.store.begin_retryable_write(&session, 2), Err(TransactionError::TransactionTooOld(_))));
    assert_eq!(sessions.count(), SESSIONS as usize);
}

#[test]
fn those_that_are_set_aside_end_by_themselves_and_are_there_again_after_a_start() {
    let mut fixture = written(SESSIONS);
    fixture.store.sessions().end(id(0)).unwrap();
    assert!(!fixture.store.sessions().knows(id(0)));
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.flush_oplog();
    fixture.crash();
    assert_eq!(fixture.store.sessions().count(), SESSIONS as usize - 1);
    assert_eq!(executed(&fixture, 0), None);
    assert!((1..SESSIONS).all(|number| executed(&fixture, number).is_some()));
    let timeout = std::time::Duration::from_secs(1800);
    fixture.clock.advance(timeout);
    executed(&fixture, 5);
    fixture.clock.advance(timeout / 2);
    let expired = fixture.store.sessions().expired(timeout);
    assert_eq!(expired.len(), SESSIONS as usize - 2, "the first had begun again, written nothing and made room");
    expired.iter().for_each(|id| drop(fixture.store.sessions().end(*id)));
    assert_eq!(fixture.store.sessions().count(), 1);
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.crash();
    assert!(executed(&fixture, 5).is_some() && executed(&fixture, 6).is_none());
    assert_eq!(fixture.store.sessions().count(), 2, "the second has just begun");
}
