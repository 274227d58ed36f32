//! A shared log in Kafka: one topic of one partition, and a compacted one beside it for notices.
//!
//! `place.rs` says where it is, `topic_settings.rs` how it must be set up; `appending.rs` and `reading.rs` are the two sides of it.

use std::sync::Arc;
use std::time::Duration;

use platform::{Clock, Random};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::Consumer;
use shared_log::{
    AppendOutcome, Bounds, LogIdentity, Offset, Result, Sending, SharedLog, SharedLogError, StoredRecord,
};

use crate::admin::Admin;
use crate::appending::Appending;
use crate::connection::{ANSWER_WITHIN, Context, reaching};
use crate::missing_for;
use crate::notice_topic::NoticeTopic;
use crate::place::KafkaPlace;
use crate::reading::{Records, consumer};

/// How long the brokers may take to tell each other of a topic that was made.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A handle on a log in Kafka.
pub struct KafkaLog {
    place: KafkaPlace,
    reaching: ClientConfig,
    context: Context,
    clock: Arc<dyn Clock>,
    records: Records,
    appending: Appending,
    notices: NoticeTopic,
}

impl KafkaLog {
    /// Makes the topics, with the settings that a log needs.
    ///
    /// # Errors
    /// `Exists`; `Unreachable`.
    pub fn create(place: &KafkaPlace, clock: &dyn Clock) -> Result<LogIdentity> {
        let context = Context::default();
        let reaching = reaching_from_here(place)?;
        // It tells what is wrong with the brokers, which the others cannot.
        let appending = Appending::begin(&reaching, &context, place)?;
        match appending.identity(&place.topic) {
            Ok(_) => return Err(SharedLogError::Exists),
            Err(SharedLogError::Absent) => {}
            Err(error) => return Err(error),
        }
        Admin::begin(&reaching, &context, clock)?.create(place)?;
        let begin = clock.monotonic();
        loop {
            match appending.identity(&place.topic) {
                Ok(identity) => return Ok(identity),
                Err(error) if clock.monotonic().saturating_sub(begin) >= KNOWN_WITHIN => return Err(error),
                Err(_) => clock.sleep(LOOK_EVERY),
            }
        }
    }

    /// Opens the log at `place`.
    ///
    /// # Errors
    /// `Absent`; `Unreachable`.
    pub fn open(place: &KafkaPlace, clock: Arc<dyn Clock>, random: &dyn Random) -> Result<KafkaLog> {
        let (context, place, group) = (Context::default(), place.clone(), group(random));
        let reaching = reaching_from_here(&place)?;
        let appending = Appending::begin(&reaching, &context, &place)?;
        // Before anything is written: where brokers make topics by themselves, writing to one would make it.
        appending.identity(&place.topic)?;
        let notices_topic = place.notices_topic();
        appending.identity(&notices_topic).map_err(|error| match error {
            SharedLogError::Absent => context.unreachable(&format!(
                "the topic {notices_topic} is not there, only {}: make both with plimsoll log create",
                place.topic
            )),
            error => error,
        })?;
        let clients = (consumer(&reaching, &context, &group, place.memory)?, appending.client());
        let records = Records::of(clients, &context, clock.clone(), &place.topic);
        let notices = NoticeTopic::begin(&reaching, &context, (&notices_topic, &group), place.memory)?;
        notices.read_first(&*clock);
        Ok(KafkaLog { place, reaching, context, clock, records, appending, notices })
    }

    fn admin(&self) -> Result<Admin<'_>> {
        Admin::begin(&self.reaching, &self.context, &*self.clock)
    }
}

impl SharedLog for KafkaLog {
    fn identity(&self) -> Result<LogIdentity> {
        self.appending.identity(&self.place.topic)
    }

    fn begin_append(&self, batch: &[Sending]) {
        self.appending.begin_append(batch);
    }

    fn outcomes(&self, longest: Duration) -> Vec<AppendOutcome> {
        self.appending.outcomes(longest, &*self.clock)
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        self.records.read(from, bytes_max, longest)
    }

    fn bounds(&self) -> Result<Bounds> {
        self.records.bounds()
    }

    fn answers(&self, longest: Duration) -> Result<()> {
        self.records.answers(longest)
    }

    fn trim_before(&self, offset: Offset) -> Result<Offset> {
        let bounds = self.bounds()?;
        if !bounds.has_before(offset)? {
            return Ok(bounds.first);
        }
        self.admin()?.delete_before(&self.place.topic, offset)?;
        Ok(self.bounds()?.first)
    }

    fn post(&self, node: u64, notice: &[u8]) -> Result<()> {
        self.appending.post(node, Some(notice))
    }

    fn notices(&self) -> Result<Vec<Vec<u8>>> {
        self.notices.notices()
    }

    fn withdraw(&self, node: u64) -> Result<()> {
        self.appending.post(node, None)
    }

    fn check(&self) -> Result<Vec<String>> {
        let topic = &self.place.topic;
        let found = self.records.consumer().fetch_metadata(Some(topic), ANSWER_WITHIN);
        let found = found.map_err(|error| self.context.unreachable(&error))?;
        let partitions = found.topics().iter().find(|found| found.name() == topic).map(|found| found.partitions());
        let replicas = partitions.unwrap_or_default().iter().map(|partition| partition.replicas().len());
        self.admin()?.complaints(&self.place, &replicas.collect::<Vec<_>>())
    }
}

/// How the brokers are reached, if this build can.
fn reaching_from_here(place: &KafkaPlace) -> Result<ClientConfig> {
    match missing_for(place) {
        Some(missing) => Err(SharedLogError::Unreachable { cause: missing.to_owned() }),
        None => reaching(place),
    }
}

/// The name of a group of one: nobody else is in it, so nobody is asked to share.
fn group(random: &dyn Random) -> String {
    format!("plimsoll-{:016x}", random.next_u64())
}

#[cfg(test)]
mod tests;
