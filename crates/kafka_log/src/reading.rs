//! Reading: one partition from an offset on, without a group; and where the log begins and ends.
//!
//! A client fetches ahead on its own, as much as its queue holds. What is asked for where it is not is assigned anew.
//!
//! It is told another place only when it has begun at the last one. While it stops reading at one it takes a second stop of it for a fault of its own, and ends the
//! program (librdkafka's issue 5573, mended behind its version 2.15).
//!
//! Two things that Kafka does otherwise than `SharedLog` wants, and what is done about them:
//! - *Offsets without a record*: what others write in transactions of Kafka leaves marks that take an offset and are given to nobody. Each becomes a record
//!   of no bytes here, which the rule takes for a stranger's. If it was one of ours that is missing, the rule notices (`Missed`).
//! - *Nothing to be read* is no proof that the end was reached: brokers may be away. So whoever waited in vain gets an answer only if a broker has
//!   told within `PROOF_AGE_MAX` that the log ends there. Otherwise a follower would take a broken network for a silent primary.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::Clock;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Message, TopicPartitionList};
use shared_log::{Bounds, Offset, Result, SharedLogError, StoredRecord};

use crate::client_memory::ClientMemory;
use crate::connection::{ANSWER_WITHIN, Context, PARTITION};

/// How old what a broker said of the end may be.
const PROOF_AGE_MAX: Duration = Duration::from_millis(600);
/// How long a broker may take to say it.
const PROOF_WITHIN: Duration = Duration::from_secs(2);
/// The library looks this often for questions that have waited for too long.
const LATENESS: Duration = Duration::from_secs(1);
/// How long the records that there are may take to come before it is looked whether they are any.
const ARRIVAL_WITHIN: Duration = Duration::from_secs(3);

/// Where the client reads.
#[derive(Default)]
struct Cursor {
    /// What it gives next; `None`: it is assigned nowhere.
    next: Option<Offset>,
    /// Nothing has come yet from where it was assigned last.
    is_beginning: bool,
    /// When it was last known that the log ends at `next`, or that there was something.
    proven: Duration,
    /// Since when there should be something at `next` and has not come.
    lacking: Option<Duration>,
    /// Reading anew has not found anything either, once.
    finds_nothing: bool,
    /// Nothing was given between these places, once.
    gap: Option<(Offset, Offset)>,
}

/// What a poll has brought.
enum Polled {
    Record(Offset, Arc<[u8]>),
    /// The end of what there is.
    End,
    /// The brokers do not have that place.
    NoSuchPlace,
    Nothing,
}

/// The side of a log that reads.
pub(crate) struct Records {
    consumer: BaseConsumer<Context>,
    /// For questions.
    asking: Arc<BaseProducer<Context>>,
    context: Context,
    clock: Arc<dyn Clock>,
    topic: String,
    cursor: Mutex<Cursor>,
}

/// A client that reads partitions it is told, from where it is told.
pub(crate) fn consumer(
    reaching: &ClientConfig,
    context: &Context,
    group: &str,
    memory: ClientMemory,
) -> Result<BaseConsumer<Context>> {
    let mut config = reaching.clone();
    let (queue_kilobytes, answer_bytes) = ((memory.fetched_bytes >> 10).to_string(), memory.answer_bytes().to_string());
    for (name, value) in [
        // Assigning asks for a name of a group; there is none, and nothing is stored in its name.
        ("group.id", group),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
        ("allow.auto.create.topics", "false"),
        ("enable.partition.eof", "true"),
        ("check.crcs", "true"),
        // What others begin and do not end must not hold up the log.
        ("isolation.level", "read_uncommitted"),
        ("max.poll.interval.ms", "86400000"),
        ("fetch.wait.max.ms", "250"),
        ("fetch.error.backoff.ms", "100"),
        ("fetch.queue.backoff.ms", "5"),
        ("fetch.max.bytes", &answer_bytes),
        ("max.partition.fetch.bytes", &answer_bytes),
        ("queued.min.messages", "1000"),
        ("queued.max.messages.kbytes", &queue_kilobytes),
    ] {
        config.set(name, value);
    }
    config.create_with_context(context.clone()).map_err(|error| context.unreachable(&error))
}

impl Records {
    pub(crate) fn of(
        (consumer, asking): (BaseConsumer<Context>, Arc<BaseProducer<Context>>),
        context: &Context,
        clock: Arc<dyn Clock>,
        topic: &str,
    ) -> Records {
        let (context, topic, cursor) = (context.clone(), topic.to_owned(), Mutex::default());
        Records { consumer, asking, context, clock, topic, cursor }
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<Context> {
        &self.consumer
    }

    pub(crate) fn bounds(&self) -> Result<Bounds> {
        self.bounds_within(ANSWER_WITHIN)
    }

    /// Whether a broker answers that has the records, within that or `PROOF_WITHIN`.
    pub(crate) fn answers(&self, longest: Duration) -> Result<()> {
        let patience = longest.min(PROOF_WITHIN).saturating_sub(LATENESS);
        if patience.is_zero() {
            return Err(self.context.unreachable(&"there is no time to ask"));
        }
        self.bounds_within(patience).map(|_| ())
    }

    fn bounds_within(&self, longest: Duration) -> Result<Bounds> {
        let found = self.asking.client().fetch_watermarks(&self.topic, PARTITION, longest);
        let (first, end) = found.map_err(|error| self.context.unreachable(&error))?;
        self.context.forget_trouble();
        let offset = |number: i64| u64::try_from(number).map(Offset);
        match (offset(first), offset(end)) {
            (Ok(first), Ok(end)) => Ok(Bounds { first, end }),
            _ => Err(self.context.unreachable(&"the broker does not say where the log ends")),
        }
    }

    pub(crate) fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        let mut cursor = self.cursor.lock();
        if cursor.next != Some(from) {
            self.assign(&mut cursor, from)?;
        }
        let (begin, mut found, mut bytes) = (self.clock.monotonic(), Vec::new(), 0);
        while bytes < bytes_max.max(1) {
            let left = longest.saturating_sub(self.clock.monotonic().saturating_sub(begin));
            let wait = if found.is_empty() { left } else { Duration::ZERO };
            match self.take(&mut cursor, wait) {
                Polled::Record(offset, record) => {
                    let next = cursor.next.unwrap_or(from);
                    // What was fetched for an earlier assignment.
                    if offset < next {
                        continue;
                    }
                    // Believed when it is there again.
                    if offset > next && cursor.gap != Some((next, offset)) {
                        self.assign(&mut cursor, next)?;
                        cursor.gap = Some((next, offset));
                        continue;
                    }
                    found.extend((next.0..offset.0).map(|skipped| nothing_at(Offset(skipped))));
                    bytes += record.len();
                    found.push(StoredRecord { offset, bytes: record });
                    cursor.next = Some(offset.following());
                }
                Polled::NoSuchPlace => {
                    cursor.next = None;
                    return if found.is_empty() { self.no_such_place(from) } else { Ok(found) };
                }
                Polled::End | Polled::Nothing if !found.is_empty() || wait.is_zero() => break,
                Polled::End | Polled::Nothing => {}
            }
        }
        if !found.is_empty() {
            self.context.forget_trouble();
            (cursor.proven, cursor.lacking, cursor.finds_nothing) = (self.clock.monotonic(), None, false);
            return Ok(found);
        }
        // Who does not wait does not ask whether this is the end.
        if longest.is_zero() { Ok(found) } else { self.prove_end(&mut cursor, from) }
    }

    fn assign(&self, cursor: &mut Cursor, from: Offset) -> Result<()> {
        self.await_beginning(cursor, PROOF_WITHIN)?;
        *cursor = Cursor::default();
        let number = i64::try_from(from.0).unwrap_or(i64::MAX);
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(&self.topic, PARTITION, rdkafka::Offset::Offset(number))
            .and_then(|()| self.consumer.assign(&place))
            .map_err(|error| self.context.unreachable(&error))?;
        (cursor.next, cursor.is_beginning) = (Some(from), true);
        Ok(())
    }

    /// Waits until it may be assigned anew. What comes meanwhile is read again, if anybody wants it.
    fn await_beginning(&self, cursor: &mut Cursor, longest: Duration) -> Result<()> {
        let begin = self.clock.monotonic();
        while cursor.is_beginning {
            if self.clock.monotonic().saturating_sub(begin) >= longest {
                return Err(self.context.unreachable(&"the brokers give nothing at the last place that was asked for"));
            }
            cursor.next = None;
            self.take(cursor, Duration::from_millis(100));
        }
        Ok(())
    }

    /// What comes next.
    fn take(&self, cursor: &mut Cursor, longest: Duration) -> Polled {
        let polled = self.poll(longest);
        cursor.is_beginning &= matches!(polled, Polled::Nothing);
        polled
    }

    fn poll(&self, longest: Duration) -> Polled {
        match self.consumer.poll(longest) {
            None => Polled::Nothing,
            Some(Ok(message)) => match u64::try_from(message.offset()) {
                Ok(offset) => Polled::Record(Offset(offset), message.payload().unwrap_or_default().into()),
                Err(_) => Polled::Nothing,
            },
            Some(Err(KafkaError::PartitionEOF(_))) => Polled::End,
            Some(Err(error)) => match error.rdkafka_error_code() {
                Some(
                    RDKafkaErrorCode::AutoOffsetReset
                    | RDKafkaErrorCode::OffsetOutOfRange
                    | RDKafkaErrorCode::LogTruncation,
                ) => Polled::NoSuchPlace,
                _ => {
                    tracing::debug!(target: "replication", "Kafka: {error}");
                    Polled::Nothing
                }
            },
        }
    }

    /// The brokers do not give what is at `from`: it is gone, or was never there, or they did not know for a moment.
    fn no_such_place(&self, from: Offset) -> Result<Vec<StoredRecord>> {
        let Bounds { first, end } = self.bounds_within(PROOF_WITHIN)?;
        check(from, first, end)?;
        Err(self.context.unreachable(&format!("the brokers did not find record {from}, and have records up to {end}")))
    }

    /// Nothing has come: is this the end?
    fn prove_end(&self, cursor: &mut Cursor, from: Offset) -> Result<Vec<StoredRecord>> {
        let now = self.clock.monotonic();
        if cursor.lacking.is_none() && !cursor.proven.is_zero() && now.saturating_sub(cursor.proven) < PROOF_AGE_MAX {
            return Ok(Vec::new());
        }
        let Bounds { first, end } = self.bounds_within(PROOF_WITHIN)?;
        check(from, first, end)?;
        if end == from {
            // As old as the question.
            (cursor.proven, cursor.lacking, cursor.finds_nothing) = (now, None, false);
            return Ok(Vec::new());
        }
        let since = *cursor.lacking.get_or_insert(now);
        if now.saturating_sub(since) < ARRIVAL_WITHIN {
            return Err(self.context.unreachable(&format!("records from {from} to {end} are on their way")));
        }
        self.find_nothing(cursor, from, end)
    }

    /// The log goes up to `end`, and nothing comes: perhaps there is nothing that is given to anybody. Reads anew; if that comes to the end
    /// twice, it is so. Once may be a broker that has just taken over, and does not know yet how far it may give what it has.
    fn find_nothing(&self, cursor: &mut Cursor, from: Offset, end: Offset) -> Result<Vec<StoredRecord>> {
        let is_second = cursor.finds_nothing;
        self.assign(cursor, from)?;
        let begin = self.clock.monotonic();
        while self.clock.monotonic().saturating_sub(begin) < ANSWER_WITHIN {
            match self.take(cursor, Duration::from_millis(100)) {
                Polled::End if is_second => {
                    cursor.next = Some(end);
                    return Ok((from.0..end.0).map(|skipped| nothing_at(Offset(skipped))).collect());
                }
                Polled::End => {
                    (cursor.finds_nothing, cursor.lacking) = (true, Some(self.clock.monotonic()));
                    break;
                }
                Polled::Nothing => {}
                // There is something: it is read from the beginning.
                Polled::Record(..) | Polled::NoSuchPlace => {
                    cursor.next = None;
                    break;
                }
            }
        }
        Err(self.context.unreachable(&format!("the brokers do not give what they have from record {from} on")))
    }
}

/// The end of a client stops its reading, too.
impl Drop for Records {
    fn drop(&mut self) {
        let mut cursor = std::mem::take(self.cursor.get_mut());
        // If it has not begun by then, it is not stopping any more either.
        let _ = self.await_beginning(&mut cursor, LATENESS);
    }
}

fn nothing_at(offset: Offset) -> StoredRecord {
    StoredRecord { offset, bytes: Arc::from([]) }
}

/// Whether a log of these bounds has the place `from`, or ends there.
fn check(from: Offset, first: Offset, end: Offset) -> Result<()> {
    if from < first {
        return Err(SharedLogError::Trimmed { offset: from, first });
    }
    if from > end {
        return Err(SharedLogError::Shorter { offset: from, end });
    }
    Ok(())
}
