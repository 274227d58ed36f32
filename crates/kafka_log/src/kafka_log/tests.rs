//! The log in Kafka on real brokers, beside the log in memory. Run by `cargo xtask test --with kafka`, which starts the brokers and names them in
//! `PLIMSOLL_KAFKA`; each test has topics of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use platform::{SeededRandom, SystemClock, SystemRandom};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use shared_log::{MemoryLog, Refused, STORED_BYTES_MAX, Ticket};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// A place of its own: `replication` as many as there are brokers, up to three.
fn new_place(name: &str) -> KafkaPlace {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let brokers = std::env::var("PLIMSOLL_KAFKA").expect("PLIMSOLL_KAFKA names the brokers");
    let replication = brokers.split(',').count().min(3);
    let (number, random) = (NUMBER.fetch_add(1, Ordering::Relaxed), SystemRandom.next_u64());
    format!("kafka://{brokers}/{name}-{number}-{random:x}?replication={replication}").parse().unwrap()
}

fn open(place: &KafkaPlace) -> Result<KafkaLog> {
    KafkaLog::open(place, Arc::new(SystemClock::new()), &SystemRandom)
}

fn created(name: &str) -> (KafkaPlace, KafkaLog) {
    let place = new_place(name);
    KafkaLog::create(&place, &SystemClock::new()).unwrap();
    let log = open(&place).unwrap();
    (place, log)
}

fn send(log: &dyn SharedLog, bytes: &[u8]) -> std::result::Result<Offset, Refused> {
    log.begin_append(&[Sending { ticket: Ticket(7), bytes: bytes.into() }]);
    let mut outcomes = log.outcomes(PATIENCE);
    assert_eq!((outcomes.len(), outcomes[0].ticket), (1, Ticket(7)));
    outcomes.remove(0).result
}

/// Everything from `from` up to `end`.
fn read_up_to(log: &dyn SharedLog, from: Offset, end: Offset) -> Vec<StoredRecord> {
    let (clock, mut found) = (SystemClock::new(), Vec::<StoredRecord>::new());
    loop {
        let next = found.last().map_or(from, |record| record.offset.following());
        if next >= end {
            return found;
        }
        assert!(clock.monotonic() < PATIENCE, "read only up to {next}");
        match log.read(next, 1 << 20, Duration::from_millis(50)) {
            Err(error) if error.is_passing() => {}
            records => found.extend(records.unwrap()),
        }
    }
}

/// What a read that waits comes to in the end.
fn settled(log: &dyn SharedLog, from: Offset) -> Result<Vec<StoredRecord>> {
    let clock = SystemClock::new();
    loop {
        match log.read(from, 1 << 20, Duration::from_millis(50)) {
            Err(error) if error.is_passing() && clock.monotonic() < PATIENCE => {}
            outcome => return outcome,
        }
    }
}

#[test]
#[ignore = "needs brokers"]
fn a_log_is_made_once_and_known_by_its_topics_id() {
    let place = new_place("made");
    assert!(matches!(open(&place).err(), Some(SharedLogError::Absent)));
    let clock = SystemClock::new();
    let identity = KafkaLog::create(&place, &clock).unwrap();
    assert!(matches!(KafkaLog::create(&place, &clock), Err(SharedLogError::Exists)));
    let log = open(&place).unwrap();
    assert_eq!(log.identity().unwrap(), identity);
    assert_ne!(created("other").1.identity().unwrap(), identity);
    assert_eq!(log.check().unwrap(), [""; 0]);
    assert_eq!(log.bounds().unwrap(), Bounds { first: Offset(0), end: Offset(0) });
    assert_eq!(settled(&log, Offset(0)).unwrap(), []);
}

#[test]
#[ignore = "needs brokers"]
fn it_does_what_the_log_in_memory_does() {
    let random = SeededRandom::new(7);
    let (place, log) = created("model");
    let handles = [log, open(&place).unwrap()];
    let model = MemoryLog::new(7).connect();
    for number in 0..200_u64 {
        let log = &handles[random.below(2) as usize];
        match random.below(20) {
            0..12 => {
                let bytes = vec![number as u8; 1 + random.below(3_000) as usize];
                assert_eq!(send(log, &bytes).unwrap(), send(&model, &bytes).unwrap());
            }
            12..16 => {
                let Bounds { first, end } = model.bounds().unwrap();
                let from = Offset(first.0 + random.below(end.0 - first.0 + 1));
                assert_eq!(read_up_to(log, from, end), read_up_to(&model, from, end), "at {number}");
            }
            16 => assert_eq!(settled(log, model.bounds().unwrap().end).unwrap(), []),
            17 => assert_eq!(log.bounds().unwrap(), model.bounds().unwrap()),
            _ => {
                let Bounds { first, end } = model.bounds().unwrap();
                let offset = Offset(first.0 + random.below(end.0 - first.0 + 1));
                assert_eq!(log.trim_before(offset).unwrap(), model.trim_before(offset).unwrap());
            }
        }
    }
    let Bounds { first, end } = model.bounds().unwrap();
    for log in &handles {
        let behind = Offset(end.0 + 5);
        assert!(matches!(log.trim_before(behind), Err(SharedLogError::Shorter { .. })));
        let read = settled(log, behind);
        assert!(
            matches!(read, Err(SharedLogError::Shorter { offset, end: found }) if (offset, found) == (behind, end))
        );
        if first > Offset(0) {
            let read = settled(log, Offset(first.0 - 1));
            assert!(matches!(read, Err(SharedLogError::Trimmed { first: found, .. }) if found == first));
        }
        assert_eq!(read_up_to(log, first, end), read_up_to(&model, first, end), "it goes on after each refusal");
    }
}

#[test]
#[ignore = "needs brokers"]
fn each_of_many_records_on_their_way_is_answered_with_its_own_place() {
    let (_, log) = created("batch");
    let bytes = |number: u64| -> Arc<[u8]> { format!("record {number}").into_bytes().into() };
    let batch: Vec<_> = (0..200).map(|number| Sending { ticket: Ticket(number), bytes: bytes(number) }).collect();
    log.begin_append(&batch);
    let mut outcomes = Vec::new();
    let clock = SystemClock::new();
    while outcomes.len() < batch.len() && clock.monotonic() < PATIENCE {
        for outcome in log.outcomes(Duration::from_secs(1)) {
            match outcome.result {
                Ok(_) => outcomes.push(outcome),
                // A topic that was just made has no leader for a moment.
                Err(_) => log.begin_append(&batch[outcome.ticket.0 as usize..][..1]),
            }
        }
    }
    let offsets: BTreeSet<_> = outcomes.iter().map(|outcome| *outcome.result.as_ref().unwrap()).collect();
    assert_eq!(offsets.len(), 200);
    let found = read_up_to(&log, Offset(0), log.bounds().unwrap().end);
    for outcome in outcomes {
        assert_eq!(found[outcome.result.unwrap().0 as usize].bytes, bytes(outcome.ticket.0));
    }
}

#[test]
#[ignore = "needs brokers"]
fn who_asks_for_other_places_in_quick_succession_gets_them() {
    let (place, log) = created("places");
    for number in 0..20_u8 {
        send(&log, &[number]).unwrap();
    }
    for round in 0..3 {
        // Each begins with a client that has read nothing yet, and ends with one that has just been told a place.
        let reader = open(&place).unwrap();
        for step in 0..8_u64 {
            let from = Offset((step * 7 + round) % 20);
            let found = reader.read(from, 1, Duration::ZERO).unwrap();
            assert!(found.iter().all(|record| *record.bytes == [record.offset.0 as u8]));
        }
        let found = reader.read(Offset(11), 1, PATIENCE).unwrap();
        assert_eq!((found[0].offset, &*found[0].bytes), (Offset(11), &[11][..]));
        reader.read(Offset(3), 1, Duration::ZERO).unwrap();
    }
}

/// A member that begins again reads from an earlier place while others append.
#[test]
#[ignore = "needs brokers"]
fn reading_again_from_the_beginning_takes_a_moment_while_others_append() {
    let (place, log) = created("again");
    let (reader, clock) = (open(&place).unwrap(), SystemClock::new());
    let (is_over, mut longest) = (std::sync::atomic::AtomicBool::new(false), Duration::ZERO);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = send(&log, &[1; 2_000]);
                clock.sleep(Duration::from_millis(5));
            }
        });
        for _ in 0..6 {
            let begin = clock.monotonic();
            let end = reader.bounds().unwrap().end;
            read_up_to(&reader, Offset(0), end);
            longest = longest.max(clock.monotonic() - begin);
            eprintln!("{:?}", clock.monotonic() - begin);
            clock.sleep(Duration::from_millis(500));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(longest < Duration::from_secs(3), "{longest:?}");
}

#[test]
#[ignore = "needs brokers"]
fn the_largest_record_goes_in_and_a_larger_one_is_refused() {
    let (_, log) = created("large");
    let largest: Vec<u8> = (0..STORED_BYTES_MAX).map(|number| (number * number) as u8).collect();
    assert_eq!(send(&log, &largest).unwrap(), Offset(0));
    let too_large = send(&log, &vec![1; STORED_BYTES_MAX + 1]);
    assert!(matches!(too_large, Err(Refused::NotAppended(SharedLogError::TooLarge { .. }))));
    for number in 1..12 {
        assert_eq!(send(&log, &largest).unwrap(), Offset(number));
    }
    let found = read_up_to(&log, Offset(0), Offset(12));
    assert!(found.iter().all(|record| *record.bytes == *largest));
    assert_eq!(log.read(Offset(0), 1, Duration::from_secs(5)).unwrap().len(), 1, "one, however little is asked for");
}

#[test]
#[ignore = "needs brokers"]
fn of_each_member_the_last_notice_stays() {
    let (place, log) = created("notices");
    assert_eq!(log.notices().unwrap(), Vec::<Vec<u8>>::new());
    for number in 0..20_u8 {
        log.post(1, &[1, number]).unwrap();
        log.post(2, &[2, number]).unwrap();
    }
    let clock = SystemClock::new();
    let wait_for = |log: &KafkaLog, expected: &[Vec<u8>]| {
        while log.notices().unwrap() != expected {
            assert!(clock.monotonic() < PATIENCE, "{:?}", log.notices());
            clock.sleep(Duration::from_millis(10));
        }
    };
    wait_for(&log, &[vec![1, 19], vec![2, 19]]);
    let other = open(&place).unwrap();
    wait_for(&other, &[vec![1, 19], vec![2, 19]]);
    other.withdraw(1).unwrap();
    // A delivery needs somebody who polls.
    other.outcomes(Duration::from_millis(100));
    wait_for(&log, &[vec![2, 19]]);
}

/// The end is never found, and what was there is.
#[test]
#[ignore = "needs brokers"]
fn notices_are_read_though_others_write_some_all_the_time() {
    let (place, log) = created("restless");
    log.post(1, b"first").unwrap();
    while log.notices().unwrap() != [b"first"] {
        log.outcomes(Duration::from_millis(10));
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                log.post(2, b"again").unwrap();
                SystemClock::new().sleep(Duration::from_millis(2));
            }
        });
        let found: Vec<_> = (0..5).map(|_| open(&place).and_then(|log| log.notices())).collect();
        is_over.store(true, Ordering::Relaxed);
        for notices in found {
            assert_eq!(notices.unwrap()[0], b"first");
        }
    });
}

/// Transactions of others leave marks that nobody is given, at the end of the log, too.
#[test]
#[ignore = "needs brokers"]
fn marks_of_other_peoples_transactions_are_records_without_bytes() {
    let (place, log) = created("marks");
    assert_eq!(send(&log, b"first").unwrap(), Offset(0));
    let mut stranger = reaching(&place).unwrap();
    stranger.set("transactional.id", &place.topic);
    let stranger: BaseProducer = stranger.create().unwrap();
    stranger.init_transactions(PATIENCE).unwrap();
    stranger.begin_transaction().unwrap();
    stranger.send(BaseRecord::<(), str>::to(&place.topic).payload("stranger")).unwrap();
    stranger.commit_transaction(PATIENCE).unwrap();
    let clock = SystemClock::new();
    // The broker writes the mark when it has answered.
    while log.bounds().unwrap().end < Offset(3) {
        assert!(clock.monotonic() < PATIENCE);
    }
    let found = read_up_to(&log, Offset(0), Offset(3));
    let bytes: Vec<&[u8]> = found.iter().map(|record| &*record.bytes).collect();
    assert_eq!(bytes, [&b"first"[..], b"stranger", b""]);
    assert_eq!(send(&log, b"last").unwrap(), Offset(3));
    let other = open(&place).unwrap();
    let found = read_up_to(&other, Offset(1), Offset(4));
    assert_eq!(found.iter().map(|record| record.bytes.len()).collect::<Vec<_>>(), [8, 0, 4]);
}

#[test]
#[ignore = "needs brokers"]
fn what_a_topic_does_not_promise_is_told() {
    let place = new_place("careless");
    let (clock, context) = (SystemClock::new(), Context::default());
    let client = rdkafka::admin::AdminClient::<Context>::from_config_and_context;
    let client = client(&reaching(&place).unwrap(), context).unwrap();
    for name in [&place.topic, &place.notices_topic()] {
        let topic = rdkafka::admin::NewTopic::new(name, 2, rdkafka::admin::TopicReplication::Fixed(1));
        let mut made = Box::pin(client.create_topics([&topic], &rdkafka::admin::AdminOptions::new()));
        while futures_util::FutureExt::now_or_never(made.as_mut()).is_none() {
            clock.sleep(LOOK_EVERY);
        }
    }
    let place = KafkaPlace { replication: 3, ..place };
    let log = loop {
        match open(&place) {
            Ok(log) => break log,
            Err(_) => assert!(clock.monotonic() < PATIENCE),
        }
    };
    let complaints = log.check().unwrap().join("\n");
    for told in ["2 partitions", "on 1 of the brokers", "retention.ms", "min.insync.replicas"] {
        assert!(complaints.contains(told), "{told}: {complaints}");
    }
}

/// The place of `place`'s topic as another listener of the brokers has it.
fn by(listener: &str, place: &KafkaPlace) -> KafkaPlace {
    let told = std::env::var(listener).expect("tests/kafka/brokers.py names its listeners");
    let (addresses, options) = told.split_once('?').unwrap();
    format!("kafka://{addresses}/{}?{options}&replication={}", place.topic, place.replication).parse().unwrap()
}

fn reaches_with_its_password_only(listener: &str) {
    let (place, log) = created("login");
    let known = by(listener, &place);
    let same = open(&known).unwrap();
    assert_eq!(same.identity().unwrap(), log.identity().unwrap());
    assert_eq!(send(&same, b"one").unwrap(), Offset(0));
    assert_eq!(read_up_to(&log, Offset(0), Offset(1)), read_up_to(&same, Offset(0), Offset(1)));
    let wrong = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut wrong.as_file(), b"another").unwrap();
    let mut stranger = known.clone();
    stranger.login.as_mut().unwrap().password_file = wrong.path().to_owned();
    let refused = open(&stranger).err().unwrap().to_string();
    assert!(refused.contains("uthentication failed"), "{refused}");
    stranger.login.as_mut().unwrap().password_file = "/nowhere/password".into();
    assert!(open(&stranger).err().unwrap().to_string().contains("/nowhere/password"));
}

#[test]
#[ignore = "needs brokers"]
fn a_login_without_tls_needs_its_password() {
    reaches_with_its_password_only("PLIMSOLL_KAFKA_LOGIN");
}

#[test]
#[ignore = "needs brokers"]
#[cfg(feature = "tls")]
fn a_login_by_scram_with_tls_needs_its_password_and_the_right_authority() {
    reaches_with_its_password_only("PLIMSOLL_KAFKA_SECURE");
    let mut unknown = by("PLIMSOLL_KAFKA_SECURE", &created("authority").0);
    unknown.tls = Some(crate::Tls::default());
    let refused = open(&unknown).err().unwrap().to_string();
    assert!(refused.contains("certificate"), "{refused}");
}

#[test]
#[ignore = "needs brokers"]
fn brokers_that_are_not_there_are_no_silent_end() {
    let place = new_place("away");
    let place = KafkaPlace { brokers: vec!["127.0.0.1:9".to_owned()], ..place };
    let error = open(&place).err().unwrap();
    assert!(error.is_passing() && error.to_string().contains("127.0.0.1:9"), "{error}");
}
