//! What all clients of one log have in common: how they reach the brokers, and what they heard of trouble last.
//!
//! Used by all modules of the client. librdkafka has threads of its own, one for each client and one for each broker that it speaks to.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use shared_log::{Result, SharedLogError};

use crate::appending::{Answers, Sent};
use crate::place::KafkaPlace;

/// The only partition.
pub(crate) const PARTITION: i32 = 0;
/// How long a question to the brokers may take.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A broker that the library looks for although nothing is asked of it: that of groups.
const UNUSED: &str = "GroupCoordinator";

/// What callbacks of the clients leave behind.
#[derive(Clone, Default)]
pub(crate) struct Context {
    pub(crate) answers: Arc<Answers>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Context {
    /// For what failed: with what was last heard of the brokers, as "timed out" alone says little.
    pub(crate) fn unreachable(&self, error: &dyn std::fmt::Display) -> SharedLogError {
        let error = error.to_string();
        let cause = match &*self.trouble.lock() {
            Some(trouble) if !error.contains(trouble) => format!("{error}: {trouble}"),
            _ => error,
        };
        SharedLogError::Unreachable { cause }
    }

    /// The brokers have answered: what was heard before is of the past.
    pub(crate) fn forget_trouble(&self) {
        *self.trouble.lock() = None;
    }

    /// The first of it is told; what follows is the same for each broker, again and again.
    fn note(&self, trouble: &str) {
        let trouble = trouble.trim();
        if trouble.contains(UNUSED) {
            return;
        }
        if self.trouble.lock().replace(trouble.to_owned()).is_none() {
            tracing::warn!(target: "replication", trouble, "Kafka does not answer as it should");
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, _facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                self.note(message);
            }
            _ => {}
        }
        tracing::debug!(target: "replication", "Kafka: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            // That all are away follows what was wrong with each; that an end was reached is no error.
            Some(RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::PartitionEOF) => {}
            _ => self.note(reason),
        }
        tracing::debug!(target: "replication", "Kafka: {reason}");
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, delivered: &DeliveryResult<'_>, sent: Box<Sent>) {
        self.answers.take(self, delivered, &sent);
    }
}

/// How the brokers of `place` are reached.
pub(crate) fn reaching(place: &KafkaPlace) -> Result<ClientConfig> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in [
        ("bootstrap.servers", place.brokers.join(",").as_str()),
        ("client.id", "plimsoll"),
        ("socket.nagle.disable", "true"),
        ("socket.keepalive.enable", "true"),
        ("socket.timeout.ms", "10000"),
        ("socket.connection.setup.timeout.ms", "5000"),
        ("reconnect.backoff.ms", "50"),
        ("reconnect.backoff.max.ms", "1000"),
        ("topic.metadata.refresh.fast.interval.ms", "100"),
        // When a broker dies the library asks once who leads instead, and is told of the dead one: the others miss it only later. It learns of the next one
        // by this.
        ("topic.metadata.refresh.interval.ms", "1000"),
        ("retry.backoff.ms", "100"),
    ] {
        config.set(name, value);
    }
    config.set(
        "security.protocol",
        match (&place.tls, &place.login) {
            (None, None) => "plaintext",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), None) => "ssl",
            (Some(_), Some(_)) => "sasl_ssl",
        },
    );
    if let Some(tls) = &place.tls {
        // The system's authorities, wherever it has them: OpenSSL is our own, and does not know.
        config.set("ssl.ca.location", tls.ca_file.as_deref().map_or("probe".into(), |file| file.to_string_lossy()));
        if let Some(file) = &tls.certificate_key_file {
            config.set("ssl.certificate.location", file.to_string_lossy());
            config.set("ssl.key.location", file.to_string_lossy());
        }
    }
    if let Some(login) = &place.login {
        config.set("sasl.mechanism", login.mechanism.name());
        config.set("sasl.username", &login.user);
        config.set("sasl.password", password(&login.password_file)?);
    }
    Ok(config)
}

#[allow(clippy::disallowed_methods, reason = "the operator's file, which is not in the data directory")]
fn password(file: &std::path::Path) -> Result<String> {
    let content = std::fs::read_to_string(file).map_err(|error| SharedLogError::Unreachable {
        cause: format!("the file of the password, {}: {error}", file.display()),
    })?;
    Ok(content.trim_end_matches(['\r', '\n']).to_owned())
}
