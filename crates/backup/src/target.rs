//! Up to which moment is restored.
//!
//! Called by `restore`. A moment is a place between two entries of the oplog.

use bson::{Bson, RawDocument};
use oplog::OplogEntry;
use platform::Timestamp;

use crate::error::{BackupError, Result};
use crate::manifest::Manifest;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// As far as backup and archive go.
    Newest,
    /// What was committed before this second (since 1970) began.
    Before(u32),
    /// What was committed up to this timestamp, it included.
    Through(Timestamp),
    /// Up to the first operation behind the backup whose line has this in it (see [`line_of`]).
    BeforeOperation(String),
}

impl Target {
    /// A time as RFC 3339 has it.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn of_time(text: &str) -> Result<Target> {
        let refused = |error: &dyn std::fmt::Display| {
            BackupError::Unreachable(format!("{text} is no time as 2026-11-29T12:00:00Z: {error}"))
        };
        let moment: jiff::Timestamp = text.parse().map_err(|error: jiff::Error| refused(&error))?;
        Ok(Target::Before(u32::try_from(moment.as_second()).map_err(|error| refused(&error))?))
    }

    /// A timestamp as `T:I`.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn of_timestamp(text: &str) -> Result<Target> {
        let refused = || BackupError::Unreachable(format!("{text} is no timestamp as 1764417600:1"));
        let (seconds, increment) = text.split_once(':').ok_or_else(refused)?;
        let (seconds, increment) = (seconds.parse().map_err(|_| refused())?, increment.parse().map_err(|_| refused())?);
        Ok(Target::Through(Timestamp::new(seconds, increment)))
    }

    /// Whether a backup ends before it.
    pub(crate) fn admits(&self, backup: &Manifest) -> bool {
        let last = backup.last_timestamp();
        match self {
            Target::Newest | Target::BeforeOperation(_) => true,
            Target::Before(seconds) => last.seconds() < *seconds,
            Target::Through(timestamp) => last <= *timestamp,
        }
    }

    /// Whether nothing behind an entry of this timestamp can be before it.
    pub(crate) fn is_reached(&self, timestamp: Timestamp) -> bool {
        matches!(self, Target::Through(last) if timestamp >= *last)
    }

    /// Whether the entry is behind it.
    pub(crate) fn ends_before(&self, entry: &OplogEntry<'_>) -> bool {
        match self {
            Target::Newest => false,
            Target::Before(seconds) => entry.timestamp.seconds() >= *seconds,
            Target::Through(timestamp) => entry.timestamp > *timestamp,
            Target::BeforeOperation(pattern) => line_of(entry).contains(pattern.as_str()),
        }
    }
}

/// An entry as one line: its timestamp, `op`, `ns`, and the entry as extended JSON.
pub(crate) fn line_of(entry: &OplogEntry<'_>) -> String {
    let timestamp = format!("{}:{}", entry.timestamp.seconds(), entry.timestamp.increment());
    let document = RawDocument::from_bytes(entry.payload).ok().and_then(|raw| bson::Document::try_from(raw).ok());
    let Some(document) = document else { return timestamp };
    let text = |name: &str| document.get_str(name).unwrap_or_default().to_owned();
    let (op, ns) = (text("op"), text("ns"));
    let mut line = format!("{timestamp} {op} {ns} ");
    write_json(&Bson::Document(document), &mut line);
    line
}

/// As relaxed extended JSON, with the fields in their order. Documents that are stored are bounded in depth.
fn write_json(value: &Bson, line: &mut String) {
    let separate = |line: &mut String, number: usize| line.push_str(if number > 0 { "," } else { "" });
    match value {
        Bson::Document(document) => {
            line.push('{');
            for (number, (name, value)) in document.iter().enumerate() {
                separate(line, number);
                line.push_str(&serde_json::Value::from(name.as_str()).to_string());
                line.push(':');
                write_json(value, line);
            }
            line.push('}');
        }
        Bson::Array(values) => {
            line.push('[');
            for (number, value) in values.iter().enumerate() {
                separate(line, number);
                write_json(value, line);
            }
            line.push(']');
        }
        other => line.push_str(&other.clone().into_relaxed_extjson().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use oplog::OplogPosition;

    use super::*;

    #[test]
    fn targets_are_read_and_end_where_they_say() {
        let payload =
            bson::serialize_to_vec(&doc! {"op": "c", "ns": "shop.$cmd", "o": {"drop": "orders", "a": [1, "\""]}})
                .unwrap();
        let at = |seconds, increment| OplogEntry {
            position: OplogPosition(0),
            end: OplogPosition(0),
            timestamp: Timestamp::new(seconds, increment),
            payload: &payload,
        };
        let time = Target::of_time("1970-01-01T00:01:40Z").unwrap();
        assert_eq!(time, Target::Before(100));
        assert!(!time.ends_before(&at(99, 7)) && time.ends_before(&at(100, 1)));
        let timestamp = Target::of_timestamp("100:2").unwrap();
        assert!(!timestamp.ends_before(&at(100, 2)) && timestamp.ends_before(&at(100, 3)));
        assert_eq!(
            line_of(&at(100, 3)),
            r#"100:3 c shop.$cmd {"op":"c","ns":"shop.$cmd","o":{"drop":"orders","a":[1,"\""]}}"#
        );
        assert!(Target::BeforeOperation(r#""drop":"orders""#.to_owned()).ends_before(&at(1, 1)));
        assert!(!Target::BeforeOperation("dropDatabase".to_owned()).ends_before(&at(1, 1)));
        assert!(Target::of_time("noon").is_err() && Target::of_timestamp("100").is_err());
    }
}
