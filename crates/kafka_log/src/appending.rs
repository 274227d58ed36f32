//! Appending: each record is a request of its own, and is answered by its delivery report.
//!
//! librdkafka tries nothing again by itself: the writer does, by the rule, and knows what it repeats. Records that arrive late, twice or in another order are
//! harmless, so there is neither an idempotent producer nor a limit of requests on their way.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::Clock;
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer};
use shared_log::{
    AppendOutcome, LogIdentity, Offset, Refused, Result, STORED_BYTES_MAX, Sending, SharedLogError, Ticket,
};

use crate::connection::{ANSWER_WITHIN, Context, PARTITION};
use crate::place::KafkaPlace;
use crate::topic_identity::topic_identity;

/// How often somebody who waits for an answer looks: the library's own wait does not end with the first.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long it takes to hear what has gone wrong already.
const HEARING: Duration = Duration::from_millis(100);
/// How long a handle that is closed waits for what is on its way.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What was sent.
pub(crate) enum Sent {
    Record(Ticket),
    /// Nobody waits for what becomes of it.
    Notice,
}

/// What became of records since somebody asked.
#[derive(Default)]
pub(crate) struct Answers {
    outcomes: Mutex<Vec<AppendOutcome>>,
}

impl Answers {
    pub(crate) fn take(&self, context: &Context, delivered: &DeliveryResult<'_>, sent: &Sent) {
        let Sent::Record(ticket) = sent else { return };
        let result = match delivered {
            Ok(message) => u64::try_from(message.offset())
                .map(Offset)
                .map_err(|_| Refused::Unknown(context.unreachable(&"the broker did not say where the record is"))),
            Err((error, _)) => Err(refused(context, error)),
        };
        if result.is_ok() {
            context.forget_trouble();
        }
        self.put(*ticket, result);
    }

    fn put(&self, ticket: Ticket, result: std::result::Result<Offset, Refused>) {
        self.outcomes.lock().push(AppendOutcome { ticket, result });
    }
}

/// Whether the record can still come to be there.
fn refused(context: &Context, error: &KafkaError) -> Refused {
    let cause = context.unreachable(error);
    match error.rdkafka_error_code() {
        // The broker looked before it wrote.
        Some(
            RDKafkaErrorCode::NotEnoughReplicas
            | RDKafkaErrorCode::NotLeaderForPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::QueueFull,
        ) => Refused::NotAppended(cause),
        _ => Refused::Unknown(cause),
    }
}

/// The side of a log that writes.
pub(crate) struct Appending {
    producer: Arc<BaseProducer<Context>>,
    context: Context,
    topic: String,
    notices_topic: String,
}

impl Appending {
    pub(crate) fn begin(reaching: &ClientConfig, context: &Context, place: &KafkaPlace) -> Result<Self> {
        let mut config = reaching.clone();
        let message_bytes = (STORED_BYTES_MAX + 50_000).to_string();
        let queue_kilobytes = (place.memory.sent_bytes >> 10).to_string();
        for (name, value) in [
            ("acks", "all"),
            ("retries", "0"),
            ("enable.idempotence", "false"),
            ("linger.ms", "0"),
            // A request for each record: none waits for others, and all sizes fit.
            ("batch.num.messages", "1"),
            ("message.max.bytes", &message_bytes),
            ("request.timeout.ms", "5000"),
            ("message.timeout.ms", "5000"),
            ("queue.buffering.max.messages", "1000"),
            ("queue.buffering.max.kbytes", &queue_kilobytes),
            // For questions about the end of the log.
            ("isolation.level", "read_uncommitted"),
        ] {
            config.set(name, value);
        }
        let producer = config.create_with_context(context.clone()).map_err(|error| context.unreachable(&error))?;
        let producer = Arc::new(producer);
        let (context, topic, notices_topic) = (context.clone(), place.topic.clone(), place.notices_topic());
        Ok(Appending { producer, context, topic, notices_topic })
    }

    /// The client itself, for questions: on the connections of one that reads, they would wait until what it waits for has come.
    pub(crate) fn client(&self) -> Arc<BaseProducer<Context>> {
        Arc::clone(&self.producer)
    }

    /// What a topic is known by. Does not make it.
    pub(crate) fn identity(&self, topic: &str) -> Result<LogIdentity> {
        let found = topic_identity(self.producer.client(), topic, ANSWER_WITHIN);
        match &found {
            Ok(_) => self.context.forget_trouble(),
            // With what has been heard of the brokers meanwhile.
            Err(SharedLogError::Unreachable { cause }) => {
                self.producer.poll(HEARING);
                return Err(self.context.unreachable(cause));
            }
            Err(_) => {}
        }
        found
    }

    pub(crate) fn begin_append(&self, batch: &[Sending]) {
        for Sending { ticket, bytes } in batch {
            let (length, bytes_max) = (bytes.len(), STORED_BYTES_MAX);
            if length > bytes_max || bytes.is_empty() {
                let refused = Refused::NotAppended(SharedLogError::TooLarge { bytes: length, bytes_max });
                self.context.answers.put(*ticket, Err(refused));
                continue;
            }
            let record = BaseRecord::<(), [u8], _>::with_opaque_to(&self.topic, Box::new(Sent::Record(*ticket)));
            if let Err((error, _)) = self.producer.send(record.partition(PARTITION).payload(bytes)) {
                self.context.answers.put(*ticket, Err(refused(&self.context, &error)));
            }
        }
    }

    pub(crate) fn outcomes(&self, longest: Duration, clock: &dyn Clock) -> Vec<AppendOutcome> {
        let begin = clock.monotonic();
        loop {
            self.producer.poll(Duration::ZERO);
            let outcomes = std::mem::take(&mut *self.context.answers.outcomes.lock());
            let left = longest.saturating_sub(clock.monotonic().saturating_sub(begin));
            if !outcomes.is_empty() || left.is_zero() {
                return outcomes;
            }
            clock.sleep(LOOK_EVERY.min(left));
        }
    }

    /// Sends a member's notice, or, without one, takes its last one down.
    pub(crate) fn post(&self, node: u64, notice: Option<&[u8]>) -> Result<()> {
        let key = notice_key(node);
        let record = BaseRecord::<str, [u8], _>::with_opaque_to(&self.notices_topic, Box::new(Sent::Notice));
        let record = record.partition(PARTITION).key(&key);
        let record = match notice {
            Some(notice) => record.payload(notice),
            None => record,
        };
        let sent = self.producer.send(record).map_err(|(error, _)| self.context.unreachable(&error));
        self.producer.poll(Duration::ZERO);
        sent
    }
}

impl Drop for Appending {
    /// What was begun is sent; what cannot be is given up. Nobody waits for an answer any more.
    fn drop(&mut self) {
        let _ = self.producer.flush(LAST_WORDS);
    }
}

/// What a member's notices are known by.
pub(crate) fn notice_key(node: u64) -> String {
    format!("{node:016x}")
}
