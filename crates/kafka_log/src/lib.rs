//! A shared log that is a topic of Kafka: how it is named, how it must be set up, and the client.
//!
//! A topic of one partition is a log as `SharedLog` wants it: its offsets grow by one, and with `acks=all` and two replicas in sync what was acknowledged stays.
//! Nothing else of Kafka is used: no groups, no transactions, no idempotent producer. The reasons: `docs/decisions/0036-kafka-is-a-shared-log.md`.
//!
//! Called by: `server`. Built on: `shared_log` (the trait), `platform` (clock, random numbers), librdkafka with the feature `client`.
//! Must not know: what the records say, who leads.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(feature = "client")]
mod admin;
#[cfg(feature = "client")]
mod appending;
mod client_memory;
#[cfg(feature = "client")]
mod connection;
#[cfg(feature = "client")]
mod kafka_log;
#[cfg(feature = "client")]
mod notice_topic;
mod place;
#[cfg(feature = "client")]
mod reading;
#[cfg(feature = "client")]
mod topic_identity;
#[cfg(any(feature = "client", test))]
mod topic_settings;

pub use client_memory::ClientMemory;
#[cfg(feature = "client")]
pub use kafka_log::KafkaLog;
pub use place::{KafkaPlace, Login, Mechanism, Tls};

/// What this build lacks to reach a place; `None`: nothing.
pub fn missing_for(place: &KafkaPlace) -> Option<&'static str> {
    let wants_tls = place.tls.is_some() || place.login.as_ref().is_some_and(|login| login.mechanism.is_scram());
    if cfg!(not(feature = "client")) {
        return Some(
            "this build has no Kafka client: build it with --features kafka, or take a program that is shipped",
        );
    }
    let lacks_tls = cfg!(not(feature = "tls")) && wants_tls;
    lacks_tls.then_some("this build's Kafka client has neither TLS nor SCRAM: build it with --features kafka-tls")
}
