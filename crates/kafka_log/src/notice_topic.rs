//! The members' notices: a compacted topic beside that of the records, in which each member's last one stays.
//!
//! Read from its beginning once, and then as notices come. Nothing that counts depends on it.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use platform::Clock;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Message, TopicPartitionList};
use shared_log::Result;

use crate::connection::{Context, PARTITION};
use crate::reading::consumer;

/// Notices that are taken at once: whoever asks for them has other things to do.
const TAKEN_MAX: usize = 1_000;
/// How long the first look waits.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);

/// See the module's head.
pub(crate) struct NoticeTopic {
    consumer: BaseConsumer<Context>,
    board: Mutex<Board>,
}

#[derive(Default)]
struct Board {
    has_looked: bool,
    notices: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl NoticeTopic {
    pub(crate) fn begin(
        reaching: &ClientConfig,
        context: &Context,
        (topic, group): (&str, &str),
    ) -> Result<NoticeTopic> {
        let mut reaching = reaching.clone();
        reaching.set("auto.offset.reset", "earliest");
        let consumer = consumer(&reaching, context, group)?;
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(topic, PARTITION, rdkafka::Offset::Beginning)
            .and_then(|()| consumer.assign(&place))
            .map_err(|error| context.unreachable(&error))?;
        Ok(NoticeTopic { consumer, board: Mutex::default() })
    }

    /// The last notice of each member, as far as they have been read; the first look waits for a moment.
    pub(crate) fn notices(&self, clock: &dyn Clock) -> Vec<Vec<u8>> {
        let mut board = self.board.lock();
        let begin = clock.monotonic();
        for _ in 0..TAKEN_MAX {
            let has_time = !board.has_looked && clock.monotonic().saturating_sub(begin) < FIRST_LOOK;
            match self.consumer.poll(if has_time { LOOK } else { Duration::ZERO }) {
                Some(Ok(message)) => {
                    let key = message.key().unwrap_or_default().to_vec();
                    match message.payload() {
                        Some(notice) => board.notices.insert(key, notice.to_vec()),
                        None => board.notices.remove(&key),
                    };
                }
                // All there are; or brokers that are away, which others tell of.
                Some(Err(KafkaError::PartitionEOF(_))) => board.has_looked = true,
                Some(Err(_)) => {}
                None if has_time => {}
                None => break,
            }
        }
        board.has_looked = true;
        board.notices.values().cloned().collect()
    }
}
