//! How the two topics must be set up so that a log in Kafka keeps its promises, and what to say if they are not.
//!
//! Used by `admin`, which makes the topics and asks the brokers. No broker is needed here.

use shared_log::STORED_BYTES_MAX;

use crate::place::KafkaPlace;

/// What a record of ours has around it in Kafka's format, and more.
const FRAMING_BYTES: usize = 10_000;

/// A setting of the topic of records that the log's promises rest on, and why.
struct Promise {
    setting: &'static str,
    wanted: Wanted,
    why: &'static str,
}

enum Wanted {
    Is(&'static str),
    AtLeast(u64),
}

fn promises(place: &KafkaPlace) -> Vec<Promise> {
    let promise = |setting, wanted, why| Promise { setting, wanted, why };
    vec![
        promise("cleanup.policy", Wanted::Is("delete"), "otherwise records that were read go away one by one"),
        promise("retention.ms", Wanted::Is("-1"), "otherwise old records go away whether or not members need them"),
        promise("retention.bytes", Wanted::Is("-1"), "otherwise old records go away whether or not members need them"),
        promise("unclean.leader.election.enable", Wanted::Is("false"), "otherwise acknowledged records can be lost"),
        promise(
            "compression.type",
            Wanted::Is("producer"),
            "otherwise brokers pack records in ways that are not read here",
        ),
        promise(
            "min.insync.replicas",
            Wanted::AtLeast(u64::from(place.in_sync_min())),
            "otherwise a record is acknowledged that one broker can lose",
        ),
        promise(
            "max.message.bytes",
            Wanted::AtLeast((STORED_BYTES_MAX + FRAMING_BYTES) as u64),
            "otherwise large records are refused",
        ),
    ]
}

/// What the topic of records is made with.
pub(crate) fn of_records(place: &KafkaPlace) -> Vec<(&'static str, String)> {
    let promised = promises(place).into_iter().map(|promise| match promise.wanted {
        Wanted::Is(value) => (promise.setting, value.to_owned()),
        Wanted::AtLeast(least) => (promise.setting, least.to_string()),
    });
    // A record is on the brokers' disks before it is acknowledged: all may lose their power at once.
    promised.chain([("flush.messages", "1".to_owned())]).collect()
}

/// What the topic of notices is made with: of each member only the last one is kept.
#[cfg(feature = "client")]
pub(crate) fn of_notices() -> Vec<(&'static str, String)> {
    [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "16777216"),
        ("segment.ms", "3600000"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("delete.retention.ms", "60000"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// What is wrong with the topic of records. `found`: the value of a setting; `replicas`: how many brokers have each partition.
pub(crate) fn complaints(
    place: &KafkaPlace,
    found: impl Fn(&str) -> Option<String>,
    replicas: &[usize],
) -> Vec<String> {
    let topic = &place.topic;
    let mut complaints = Vec::new();
    if replicas.len() != 1 {
        complaints.push(format!(
            "the topic {topic} has {} partitions: a log is one, as there is no order between several",
            replicas.len()
        ));
    }
    let replicas = replicas.iter().copied().min().unwrap_or(0);
    if replicas < usize::from(place.replication) {
        complaints.push(format!(
            "the topic {topic} is on {replicas} of the brokers and is to be on {}: move it with kafka-reassign-partitions, or, for tests alone, say replication={replicas}",
            place.replication
        ));
    }
    for Promise { setting, wanted, why } in promises(place) {
        let value = found(setting);
        let told = value.as_deref().unwrap_or("not known");
        let (is_kept, needed) = match wanted {
            Wanted::Is(wanted) => (value.as_deref() == Some(wanted), wanted.to_owned()),
            Wanted::AtLeast(least) => {
                let is_enough =
                    value.as_deref().and_then(|value| value.parse().ok()).is_some_and(|value: u64| value >= least);
                (is_enough, format!("{least} or more"))
            }
        };
        if !is_kept {
            complaints.push(format!("{setting} of the topic {topic} is {told} and must be {needed}: {why}"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(place: &KafkaPlace, changed: &[(&str, &str)], replicas: &[usize]) -> Vec<String> {
        let made = of_records(place);
        let found = |name: &str| {
            let other = changed.iter().find(|(changed, _)| *changed == name).map(|(_, value)| (*value).to_owned());
            other.or_else(|| made.iter().find(|(set, _)| *set == name).map(|(_, value)| value.clone()))
        };
        complaints(place, found, replicas)
    }

    #[test]
    fn a_topic_as_it_is_made_gives_no_complaints() {
        for url in ["kafka://a/t", "kafka://a/t?replication=1", "kafka://a/t?replication=5"] {
            let place: KafkaPlace = url.parse().unwrap();
            assert_eq!(told(&place, &[], &[usize::from(place.replication)]), Vec::<String>::new());
        }
    }

    #[test]
    fn each_broken_promise_is_told_with_its_setting() {
        let place: KafkaPlace = "kafka://a/rs0".parse().unwrap();
        for (setting, value) in [
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "1000"),
            ("unclean.leader.election.enable", "true"),
            ("compression.type", "gzip"),
            ("min.insync.replicas", "1"),
            ("max.message.bytes", "1000000"),
            ("max.message.bytes", "much"),
        ] {
            let told = told(&place, &[(setting, value)], &[3]);
            assert!(told.len() == 1 && told[0].starts_with(setting) && told[0].contains(value), "{told:?}");
        }
        assert!(told(&place, &[], &[1])[0].contains("replication=1"));
        assert!(told(&place, &[], &[3, 3])[0].contains("2 partitions"));
        assert_eq!(complaints(&place, |_| None, &[3]).len(), promises(&place).len(), "what is not known is not kept");
    }
}
