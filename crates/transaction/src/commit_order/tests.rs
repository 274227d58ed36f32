//! The order of becoming visible and of being confirmed, with positions that are made up.

use std::time::Duration;

use oplog::OplogPosition;
use storage_engine::Timestamp;

use super::{CommitOrder, Leadership};
use crate::TransactionError;
use crate::tests::fixture::Fixture;

/// Commit `number` is logged: at that second, in ten bytes behind those before it.
fn register<'a>(order: &'a CommitOrder, base: (Timestamp, OplogPosition), number: u64) -> super::InFlight<'a> {
    let mut in_flight = order.prepare();
    let position = OplogPosition(base.1.0 + (number - 1) * 10);
    in_flight.register(Timestamp(base.0.0 + number), position);
    in_flight
}

fn end(base: (Timestamp, OplogPosition), number: u64) -> OplogPosition {
    OplogPosition(base.1.0 + number * 10)
}

#[test]
fn what_is_visible_is_confirmed_in_order_and_in_both_orders_of_events() {
    let fixture = Fixture::new();
    let order = &fixture.store.commits;
    let base = order.visible_end();
    order.begin_confirming(base.1);
    let readable = || fixture.store.engine().readable().0 - base.0.0;
    let [one, two, three] = [1, 2, 3].map(|number| register(order, base, number));
    two.complete(end(base, 2), None);
    order.confirm(end(base, 2));
    assert_eq!(readable(), 0, "the first is not applied");
    one.complete(end(base, 1), None);
    assert_eq!(readable(), 2, "both were confirmed before they were visible");
    three.complete(end(base, 3), None);
    assert_eq!((order.visible_end().0.0 - base.0.0, readable()), (3, 2));
    assert_eq!(order.confirmed_end(), (Timestamp(base.0.0 + 2), end(base, 2)));
    // Half of its entry.
    order.confirm(OplogPosition(end(base, 3).0 - 1));
    assert_eq!(readable(), 2);
    order.confirm(end(base, 3));
    order.confirm(end(base, 1));
    assert_eq!(readable(), 3);
    assert!(order.is_confirmed(end(base, 3)) && !order.is_confirmed(end(base, 4)));
}

#[test]
fn without_a_shared_log_everything_visible_is_confirmed() {
    let fixture = Fixture::new();
    let order = &fixture.store.commits;
    let base = order.visible_end();
    register(order, base, 1).complete(end(base, 1), None);
    order.confirm(end(base, 1));
    assert!(!order.is_confirming() && order.is_confirmed(end(base, 99)));
    assert_eq!(order.confirmed_end(), order.visible_end());
    assert_eq!(fixture.store.engine().readable(), order.visible_end().0);
    assert!(order.wait_confirmed(end(base, 99), Duration::MAX).unwrap());
}

#[test]
fn who_waits_is_told_when_the_term_is_lost() {
    let fixture = Fixture::new();
    let order = &fixture.store.commits;
    let base = order.visible_end();
    order.begin_confirming(base.1);
    register(order, base, 1).complete(end(base, 1), None);
    register(order, base, 2).complete(end(base, 2), None);
    std::thread::scope(|scope| {
        let wait = |number| scope.spawn(move || order.wait_confirmed(end(base, number), Duration::from_secs(600)));
        let (first, second) = (wait(1), wait(2));
        order.confirm(end(base, 1));
        assert!(first.join().unwrap().unwrap());
        order.set_leadership(Leadership::Stalled);
        assert!(matches!(order.check_leading(), Err(TransactionError::LogUnreachable)));
        assert!(!order.wait_confirmed(end(base, 2), Duration::ZERO).unwrap(), "it may still come");
        order.set_leadership(Leadership::Held);
        assert!(order.check_leading().is_ok());
        order.set_leadership(Leadership::Lost);
        assert!(matches!(second.join().unwrap(), Err(TransactionError::TermLost)));
    });
    // What is confirmed is, whoever leads.
    assert!(order.wait_confirmed(end(base, 1), Duration::ZERO).unwrap());
    order.set_leadership(Leadership::Held);
    assert!(matches!(order.check_leading(), Err(TransactionError::TermLost)), "for good");
}
