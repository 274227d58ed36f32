//! The members' notices: a compacted topic beside that of the records, in which each member's last one stays.
//!
//! Read from its beginning once, when the log is opened, and then as notices come. Until that first reading has come to where the topic ended, nobody is told who is
//! there: a member that has not been read yet is not one that is not there. Where members write all the time, the end itself is never found.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use platform::Clock;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Message, TopicPartitionList};
use shared_log::Result;

use crate::client_memory::ClientMemory;
use crate::connection::{ANSWER_WITHIN, Context, PARTITION};
use crate::reading::consumer;

/// Notices that are taken at once: whoever asks for them has other things to do.
const TAKEN_MAX: usize = 1_000;
/// How long the first reading waits for a notice at a time.
const LOOK: Duration = Duration::from_millis(20);

/// See the module's head.
pub(crate) struct NoticeTopic {
    consumer: BaseConsumer<Context>,
    context: Context,
    /// Where it ended when it was opened.
    end: i64,
    board: Mutex<Board>,
}

struct Board {
    /// It has been read to where it ended when it was opened, or to its end.
    is_read: bool,
    notices: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl NoticeTopic {
    pub(crate) fn begin(
        reaching: &ClientConfig,
        context: &Context,
        (topic, group): (&str, &str),
        memory: ClientMemory,
    ) -> Result<NoticeTopic> {
        let mut reaching = reaching.clone();
        reaching.set("auto.offset.reset", "earliest");
        let consumer = consumer(&reaching, context, group, memory.of_notices())?;
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(topic, PARTITION, rdkafka::Offset::Beginning)
            .and_then(|()| consumer.assign(&place))
            .map_err(|error| context.unreachable(&error))?;
        let ends = consumer.fetch_watermarks(topic, PARTITION, ANSWER_WITHIN);
        let (first, end) = ends.map_err(|error| context.unreachable(&error))?;
        let board = Board { is_read: first == end, notices: BTreeMap::new() };
        Ok(NoticeTopic { consumer, context: context.clone(), end, board: Mutex::new(board) })
    }

    /// Waits until the topic has been read to its end for the first time, but not for long.
    pub(crate) fn read_first(&self, clock: &dyn Clock) {
        let (mut board, begin) = (self.board.lock(), clock.monotonic());
        while !board.is_read && clock.monotonic().saturating_sub(begin) < ANSWER_WITHIN {
            self.take(&mut board, LOOK);
        }
    }

    /// The last notice of each member, as far as they have been read.
    pub(crate) fn notices(&self) -> Result<Vec<Vec<u8>>> {
        let mut board = self.board.lock();
        for _ in 0..TAKEN_MAX {
            if !self.take(&mut board, Duration::ZERO) {
                break;
            }
        }
        if !board.is_read {
            return Err(self.context.unreachable(&"the topic of the members' notices has not been read yet"));
        }
        Ok(board.notices.values().cloned().collect())
    }

    /// Takes what comes next. `false`: nothing has.
    fn take(&self, board: &mut Board, longest: Duration) -> bool {
        match self.consumer.poll(longest) {
            Some(Ok(message)) => {
                board.is_read |= message.offset() + 1 >= self.end;
                let key = message.key().unwrap_or_default().to_vec();
                match message.payload() {
                    Some(notice) => board.notices.insert(key, notice.to_vec()),
                    None => board.notices.remove(&key),
                };
            }
            // All there are.
            Some(Err(KafkaError::PartitionEOF(_))) => board.is_read = true,
            // Brokers that are away, which others tell of.
            Some(Err(_)) => {}
            None => return false,
        }
        true
    }
}
