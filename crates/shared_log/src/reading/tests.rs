//! The rule, case by case.

use super::*;

const LOG: LogIdentity = LogIdentity([1; 16]);

/// A log that is written and read at once.
struct Told {
    reading: Reading,
}

impl Told {
    fn new() -> Told {
        Told { reading: Reading::new(LOG, Place::default()) }
    }

    fn step(&mut self, record: Record<'_>) -> Result<Effect<'static>> {
        let offset = self.reading.next();
        let bytes: &'static [u8] = record.encode().unwrap().to_vec().leak();
        self.reading.step(offset, bytes)
    }

    /// By somebody who knows what the reader knows.
    fn say(&mut self, term: u64, kind: RecordKind<'_>) -> Effect<'static> {
        let Place { position, chain } = self.reading.whole();
        self.step(Record { term, confirmed: position, chain, kind }).unwrap()
    }

    fn claim(&mut self, term: u64, node: u64) -> Effect<'static> {
        self.say(term, RecordKind::Claim(leader(node)))
    }

    /// Of an oplog whose bytes are all alike, so that the checksum before any position is known.
    fn range(&mut self, term: u64, start: u64, length: usize, whole: usize) -> Effect<'static> {
        let bytes = vec![b'x'; length];
        let chain = Place::default().after(&vec![b'x'; start as usize]).chain;
        let kind = RecordKind::Range { start, whole, bytes: &bytes };
        self.step(Record { term, confirmed: 0, chain, kind }).unwrap()
    }

    fn places(&self) -> (u64, u64) {
        (self.reading.end().position, self.reading.whole().position)
    }
}

fn leader(node: u64) -> Leader {
    Leader { node, incarnation: 1, address: format!("db{node}:27017") }
}

fn accepted(position: u64, bytes: &'static [u8], whole: u64) -> Effect<'static> {
    Effect::Accepted { position, bytes, whole }
}

#[test]
fn ranges_of_the_term_count_once() {
    let mut told = Told::new();
    assert_eq!(told.range(0, 0, 3, 3), Effect::Ignored(Ignored::PastTerm));
    told.claim(1, 1);
    assert_eq!(told.range(1, 0, 3, 2), accepted(0, b"xxx", 2));
    assert_eq!(told.range(1, 0, 3, 2), Effect::Ignored(Ignored::Repeat));
    assert_eq!(told.range(1, 4, 3, 0), Effect::Ignored(Ignored::Gap));
    assert_eq!(told.range(1, 2, 3, 0), accepted(3, b"xx", 2));
    assert_eq!(told.range(1, 5, 1, 1), accepted(5, b"x", 6));
    assert_eq!(told.places(), (6, 6));
}

#[test]
fn a_claim_of_the_next_term_forgets_half_an_entry() {
    let mut told = Told::new();
    told.claim(1, 1);
    told.range(1, 0, 5, 3);
    assert_eq!(told.claim(1, 2), Effect::Ignored(Ignored::LateClaim));
    assert_eq!(told.claim(2, 2), Effect::Claimed { term: 2, leader: leader(2), cut_at: 3 });
    assert_eq!(told.claim(2, 3), Effect::Ignored(Ignored::LateClaim));
    assert_eq!(told.range(1, 3, 2, 2), Effect::Ignored(Ignored::PastTerm));
    assert_eq!(told.range(2, 3, 1, 1), accepted(3, b"x", 4));
    assert_eq!(told.reading.leader(), Some(&leader(2)));
}

#[test]
fn the_first_claim_says_where_the_oplog_begins() {
    let mut told = Told { reading: Reading::new(LOG, Place { position: 100, chain: 5 }) };
    assert_eq!(told.claim(1, 1), Effect::Claimed { term: 1, leader: leader(1), cut_at: 100 });
    // Whoever joins has nothing yet: he sees that he lacks what was before.
    let mut joining = Told::new();
    let first = Record { term: 1, confirmed: 100, chain: 5, kind: RecordKind::Claim(leader(1)) };
    assert_eq!(joining.step(first).unwrap(), Effect::Claimed { term: 1, leader: leader(1), cut_at: 100 });
    assert_eq!((joining.places(), joining.reading.whole().chain), ((100, 100), 5));
}

#[test]
fn a_log_that_was_made_again_goes_on_with_the_next_term() {
    let restored = || RecordKind::Restored { former: LogIdentity([9; 16]) };
    let mut told = Told::new();
    let chain = Place::default().after(&[b'x'; 100]).chain;
    let first = Record { term: 6, confirmed: 100, chain, kind: restored() };
    let effect = told.step(first.clone()).unwrap();
    assert_eq!(effect, Effect::Restored { former: LogIdentity([9; 16]), cut_at: 100 });
    assert_eq!((told.reading.term(), told.places()), (6, (100, 100)));
    // Claims of terms that the former log has had come too late, and a second record of this kind says nothing.
    assert_eq!(told.claim(6, 1), Effect::Ignored(Ignored::LateClaim));
    assert_eq!(told.step(first).unwrap(), Effect::Ignored(Ignored::LateClaim));
    assert_eq!(told.claim(7, 2), Effect::Claimed { term: 7, leader: leader(2), cut_at: 100 });
    assert_eq!(told.range(7, 100, 2, 2), accepted(100, b"xx", 102));
    let mut late = Told::new();
    late.claim(1, 1);
    let second = Record { term: 6, confirmed: 100, chain: 0, kind: restored() };
    assert_eq!(late.step(second).unwrap(), Effect::Ignored(Ignored::LateClaim));
    assert_eq!((late.reading.term(), late.places()), (1, (0, 0)));
}

#[test]
fn nothing_of_a_term_counts_after_its_step_down() {
    let mut told = Told::new();
    told.claim(1, 1);
    told.range(1, 0, 5, 3);
    let stepped_down = told.say(1, RecordKind::StepDown { successor: Some(2) });
    assert_eq!(stepped_down, Effect::Ended { successor: Some(2), cut_at: 3 });
    assert_eq!(told.reading.ended(), Some(Some(2)));
    assert_eq!(told.range(1, 3, 2, 2), Effect::Ignored(Ignored::TermEnded));
    assert_eq!(told.say(1, RecordKind::Heartbeat), Effect::Ignored(Ignored::TermEnded));
    assert_eq!(told.say(1, RecordKind::StepDown { successor: Some(3) }), Effect::Ignored(Ignored::TermEnded));
    told.claim(2, 2);
    assert_eq!((told.reading.ended(), told.say(2, RecordKind::Heartbeat)), (None, Effect::Alive));
    assert_eq!(told.say(1, RecordKind::Heartbeat), Effect::Ignored(Ignored::PastTerm));
}

#[test]
fn foreign_records_are_passed_and_damaged_ones_are_not() {
    let mut told = Told::new();
    assert_eq!(told.reading.step(Offset(0), b"hello").unwrap(), Effect::Foreign);
    let before = told.reading.clone();
    let mut bytes = Record { term: 1, confirmed: 0, chain: 0, kind: RecordKind::Heartbeat }.encode().unwrap().to_vec();
    bytes[20] ^= 1;
    let error = told.reading.step(Offset(1), &bytes).unwrap_err();
    assert!(matches!(error, SharedLogError::Damaged { offset: Offset(1), .. }), "{error}");
    assert!(!error.is_passing());
    let out_of_order = told.reading.step(Offset(2), b"hello").unwrap_err();
    assert!(matches!(out_of_order, SharedLogError::OutOfOrder { expected: Offset(1), .. }), "{out_of_order}");
    assert_eq!(told.reading, before);
}

#[test]
fn who_has_missed_something_stops() {
    let mut told = Told::new();
    told.claim(1, 1);
    told.range(1, 0, 5, 5);
    let before = told.reading.clone();
    let chain = told.reading.whole().chain;
    let told_of = |told: &mut Told, term, confirmed, chain, kind| told.step(Record { term, confirmed, chain, kind });
    for (term, confirmed, kind) in [
        (1, 6, RecordKind::Heartbeat),
        (2, 5, RecordKind::Heartbeat),
        (3, 5, RecordKind::Claim(leader(2))),
        (2, 6, RecordKind::Claim(leader(2))),
        (1, 6, RecordKind::Range { start: 9, whole: 0, bytes: b"later" }),
    ] {
        let error = told_of(&mut told, term, confirmed, chain, kind).unwrap_err();
        assert!(matches!(error, SharedLogError::Missed { own_term: 1, own_position: 5, .. }), "{error}");
    }
    for kind in [
        RecordKind::Heartbeat,
        RecordKind::Range { start: 5, whole: 0, bytes: b"x" },
        RecordKind::Range { start: 4, whole: 0, bytes: b"yx" },
    ] {
        let error = told_of(&mut told, 1, 5, chain ^ 1, kind).unwrap_err();
        assert!(matches!(error, SharedLogError::Diverged { position: 5, .. }), "{error}");
    }
    assert_eq!(told.reading, before);
    told.claim(2, 2);
    // A primary that lacks what was there before its claim.
    let early = RecordKind::Range { start: 4, whole: 0, bytes: b"x" };
    let error = told_of(&mut told, 2, 4, 0, early).unwrap_err();
    assert!(matches!(error, SharedLogError::Diverged { position: 4, .. }), "{error}");
}

#[test]
fn reading_goes_on_where_the_half_entry_begins() {
    let mut told = Told::new();
    told.claim(1, 1);
    assert_eq!(told.reading.standing().next, Offset(1));
    told.range(1, 0, 5, 3);
    told.range(1, 5, 2, 0);
    let standing = told.reading.standing();
    assert_eq!((standing.next, standing.whole.position), (Offset(1), 3));
    let mut again = Told { reading: Reading::resumed(standing) };
    assert_eq!(again.range(1, 0, 5, 3), accepted(3, b"xx", 3));
    assert_eq!(again.range(1, 5, 2, 0), accepted(5, b"xx", 3));
    assert_eq!(again.reading, told.reading);
    told.range(1, 7, 2, 1);
    assert_eq!(told.reading.standing().next, Offset(3));
    told.range(1, 9, 1, 1);
    assert_eq!((told.reading.standing().next, told.places()), (Offset(5), (10, 10)));
}
