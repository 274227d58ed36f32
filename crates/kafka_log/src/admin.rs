//! What is asked of the brokers now and then: making the topics, examining them, giving up old records.
//!
//! A client of its own for each question: such questions come at a start and once an hour.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use platform::Clock;
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use shared_log::{Offset, Result, SharedLogError};

use crate::connection::{ANSWER_WITHIN, Context, PARTITION};
use crate::place::KafkaPlace;
use crate::topic_settings;

/// Making a topic takes as long as the brokers take to make its files.
const MADE_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// See the module's head.
pub(crate) struct Admin<'a> {
    client: AdminClient<Context>,
    context: Context,
    clock: &'a dyn Clock,
}

impl<'a> Admin<'a> {
    pub(crate) fn begin(reaching: &ClientConfig, context: &Context, clock: &'a dyn Clock) -> Result<Admin<'a>> {
        let client = AdminClient::from_config_and_context(reaching, context.clone());
        let client = client.map_err(|error| context.unreachable(&error))?;
        Ok(Admin { client, context: context.clone(), clock })
    }

    /// Makes both topics.
    ///
    /// # Errors
    /// `Exists`: that of the records is there. `Unreachable`.
    pub(crate) fn create(&self, place: &KafkaPlace) -> Result<()> {
        let (records, notices) = (topic_settings::of_records(place), topic_settings::of_notices());
        // That of the notices first: whoever finds the log finds both.
        for (name, settings) in [(place.notices_topic(), notices), (place.topic.clone(), records)] {
            let mut topic = NewTopic::new(&name, 1, TopicReplication::Fixed(i32::from(place.replication)));
            for (setting, value) in &settings {
                topic = topic.set(setting, value);
            }
            let made = self.wait(MADE_WITHIN, |options| self.client.create_topics([&topic], options))?;
            match made.into_iter().next() {
                Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) if name != place.topic => {}
                Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => return Err(SharedLogError::Exists),
                Some(Err((name, code))) => {
                    return Err(self.context.unreachable(&format!("the topic {name} cannot be made: {code}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What is wrong with the topic of the records, on so many brokers for each partition.
    pub(crate) fn complaints(&self, place: &KafkaPlace, replicas: &[usize]) -> Result<Vec<String>> {
        let topic = ResourceSpecifier::Topic(&place.topic);
        let told = self.wait(ANSWER_WITHIN, |options| self.client.describe_configs([&topic], options))?;
        let found = match told.into_iter().next() {
            Some(Ok(found)) => found,
            Some(Err(code)) => return Err(self.context.unreachable(&code)),
            None => return Err(self.context.unreachable(&"no answer about the topic's settings")),
        };
        let value = |setting: &str| found.get(setting).and_then(|entry| entry.value.clone());
        Ok(topic_settings::complaints(place, value, replicas))
    }

    /// Has the brokers give up what is before `offset`.
    pub(crate) fn delete_before(&self, topic: &str, offset: Offset) -> Result<()> {
        let number = i64::try_from(offset.0).unwrap_or(i64::MAX);
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(topic, PARTITION, rdkafka::Offset::Offset(number))
            .map_err(|error| self.context.unreachable(&error))?;
        let deleted = self.wait(ANSWER_WITHIN, |options| self.client.delete_records(&place, options))?;
        deleted
            .elements()
            .iter()
            .try_for_each(|element| element.error())
            .map_err(|error| self.context.unreachable(&error))
    }

    /// Asks, and waits for the answer: the library has its own thread for it.
    fn wait<T, F>(&self, longest: Duration, ask: impl FnOnce(&AdminOptions) -> F) -> Result<T>
    where
        F: Future<Output = KafkaResult<T>>,
    {
        let options = AdminOptions::new().request_timeout(Some(longest)).operation_timeout(Some(longest));
        let mut answer = Box::pin(ask(&options));
        loop {
            // It ends by itself: the request has a limit.
            if let Some(answer) = answer.as_mut().now_or_never() {
                return answer.map_err(|error| self.context.unreachable(&error));
            }
            self.clock.sleep(LOOK_EVERY);
        }
    }
}
