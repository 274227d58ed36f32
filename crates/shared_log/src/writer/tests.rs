//! The life of a writer, case by case; what happens by chance is in `simulation`.

use super::*;
use crate::LogIdentity;
use crate::reading::Ignored;

const LOG: LogIdentity = LogIdentity([1; 16]);

fn me() -> Leader {
    Leader { node: 1, incarnation: 11, address: "db1".to_owned() }
}

fn claiming() -> Writer {
    Writer::claim(Reading::new(LOG, Place::default()), me()).unwrap()
}

/// Appends all that is to be sent to `log`; gives the tickets with their offsets.
fn send(writer: &mut Writer, log: &mut Vec<Arc<[u8]>>) -> Vec<(Ticket, Offset)> {
    let mut sent = Vec::new();
    while let Some(sending) = writer.next_sending().unwrap() {
        sent.push((sending.ticket, Offset(log.len() as u64)));
        log.push(sending.bytes);
    }
    sent
}

fn read(writer: &mut Writer, log: &[Arc<[u8]>]) {
    while let Some(bytes) = log.get(writer.reading().next().0 as usize) {
        let offset = writer.reading().next();
        writer.read(offset, bytes).unwrap();
    }
}

fn leading(log: &mut Vec<Arc<[u8]>>) -> Writer {
    let mut writer = claiming();
    send(&mut writer, log);
    read(&mut writer, log);
    assert_eq!(*writer.role(), Role::Leading);
    writer
}

#[test]
fn answers_to_an_earlier_claim_are_told_apart() {
    let mut log = Vec::new();
    let mut former = claiming();
    let sent = send(&mut former, &mut log);
    let other = Leader { node: 2, incarnation: 5, address: String::new() };
    let claim = Record { term: 1, confirmed: 0, chain: 0, kind: RecordKind::Claim(other) }.encode().unwrap();
    former.read(Offset(0), &claim).unwrap();
    let mut writer = Writer::claim(former.into_reading(), me()).unwrap();
    assert!(writer.next_sending().unwrap().is_some());
    // The record that this answers is another one than the claim that is on its way.
    assert_eq!(writer.answered(sent[0].0, Ok(Offset(1))), None);
}

#[test]
fn nothing_is_shipped_before_the_claim_is_read() {
    let mut log = Vec::new();
    let mut writer = claiming();
    let sent = send(&mut writer, &mut log);
    assert_eq!((sent.len(), writer.wanted()), (1, None));
    // The answer is no lead yet: the record is to be judged.
    let next = writer.answered(sent[0].0, Ok(sent[0].1)).unwrap();
    assert_eq!((*writer.role() == Role::Claiming, writer.wanted()), (true, None));
    writer.read(next.offset, &next.bytes).unwrap();
    assert_eq!((*writer.role() == Role::Leading, writer.wanted()), (true, Some(0)));
}

#[test]
fn an_answer_behind_a_gap_confirms_nothing() {
    let mut log = Vec::new();
    let mut writer = leading(&mut log);
    writer.ship(b"abc", 3).unwrap();
    // Somebody else claims before the range arrives.
    let other = Leader { node: 2, incarnation: 5, address: "db2".to_owned() };
    let claim = Record { term: 2, confirmed: 0, chain: 0, kind: RecordKind::Claim(other.clone()) };
    log.push(claim.encode().unwrap());
    let sent = send(&mut writer, &mut log);
    assert_eq!(writer.answered(sent[0].0, Ok(sent[0].1)), None);
    assert!(writer.wants_to_read());
    assert_eq!(writer.confirmed(), 0);
    read(&mut writer, &log);
    assert_eq!(*writer.role(), Role::Lost { term: 2, leader: other });
    assert_eq!((writer.confirmed(), writer.wanted()), (0, None));
    assert_eq!(writer.next_sending().unwrap(), None);
}

#[test]
fn what_overtook_a_lost_range_is_sent_again_behind_it() {
    let mut log = Vec::new();
    let mut writer = leading(&mut log);
    for bytes in [b"ab", b"cd", b"ef"] {
        writer.ship(bytes, 2).unwrap();
    }
    let mut tickets = Vec::new();
    while let Some(sending) = writer.next_sending().unwrap() {
        tickets.push(sending.ticket);
        // The first never arrives.
        if tickets.len() > 1 {
            log.push(sending.bytes);
        }
    }
    for (ticket, offset) in tickets[1..].iter().zip([1, 2]) {
        let next = writer.answered(*ticket, Ok(Offset(offset))).unwrap();
        assert_eq!(writer.read(next.offset, &next.bytes).unwrap(), Effect::Ignored(Ignored::Gap));
    }
    let lost = Refused::Unknown(SharedLogError::Unreachable { cause: "no answer".to_owned() });
    assert_eq!(writer.answered(tickets[0], Err(lost)), None);
    assert_eq!((send(&mut writer, &mut log).len(), writer.confirmed()), (3, 0));
    read(&mut writer, &log);
    assert_eq!((writer.confirmed(), writer.next_sending().unwrap()), (6, None));
}

#[test]
fn no_more_is_on_its_way_than_is_allowed() {
    let mut log = Vec::new();
    let mut writer = leading(&mut log);
    for position in 0..IN_FLIGHT_MAX as u64 {
        assert_eq!(writer.wanted(), Some(position));
        writer.ship(b"x", 1).unwrap();
    }
    assert_eq!(writer.wanted(), None);
    send(&mut writer, &mut log);
    read(&mut writer, &log);
    assert_eq!(writer.wanted(), Some(IN_FLIGHT_MAX as u64));
    let too_large = writer.ship(&vec![0; RANGE_BYTES_MAX + 1], 0);
    assert!(matches!(too_large, Err(SharedLogError::TooLarge { .. })));
}

#[test]
fn it_steps_down_when_all_is_confirmed() {
    let mut log = Vec::new();
    let mut writer = leading(&mut log);
    writer.ship(b"abc", 0).unwrap();
    writer.step_down(Some(2));
    // The entry that was begun is sent to its end.
    assert_eq!(writer.wanted(), Some(3));
    writer.ship(b"d", 1).unwrap();
    assert_eq!(writer.wanted(), None);
    assert_eq!(send(&mut writer, &mut log).len(), 2);
    read(&mut writer, &log);
    assert_eq!((writer.confirmed(), writer.role()), (4, &Role::SteppingDown));
    let sent = send(&mut writer, &mut log);
    let next = writer.answered(sent[0].0, Ok(sent[0].1)).unwrap();
    writer.read(next.offset, &next.bytes).unwrap();
    assert_eq!(*writer.role(), Role::SteppedDown { successor: Some(2) });
    assert_eq!(writer.into_reading().standing().ended, Some(Some(2)));
}

#[test]
fn a_former_life_s_claim_is_not_its_own() {
    let mut log = Vec::new();
    let former = Leader { incarnation: 10, ..me() };
    let claim = Record { term: 1, confirmed: 0, chain: 0, kind: RecordKind::Claim(former.clone()) };
    log.push(claim.encode().unwrap());
    let mut writer = claiming();
    send(&mut writer, &mut log);
    read(&mut writer, &log);
    assert_eq!(*writer.role(), Role::Lost { term: 1, leader: former });
}

#[test]
fn an_address_that_is_too_long_claims_nothing() {
    let long = Leader { address: "a".repeat(301), ..me() };
    let refused = Writer::claim(Reading::new(LOG, Place::default()), long);
    assert!(matches!(refused, Err(SharedLogError::TooLarge { bytes: 301, .. })));
}

#[test]
fn heartbeats_are_sent_once_and_find_what_others_have_appended() {
    let mut log = Vec::new();
    let mut writer = leading(&mut log);
    writer.beat();
    log.push(b"somebody else's"[..].into());
    let sent = send(&mut writer, &mut log);
    assert_eq!((sent.len(), writer.wants_to_read()), (1, false));
    assert_eq!(writer.answered(sent[0].0, Ok(sent[0].1)), None);
    assert!(writer.wants_to_read());
    read(&mut writer, &log);
    assert!(!writer.wants_to_read());
}
