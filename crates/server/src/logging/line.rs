//! One line of the diagnostic log, from an event to text or JSON.

use std::fmt::{self, Write};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::STARTUP_WARNINGS;

/// The field of an event that is the number of its line, not one of its attributes.
const LOG_ID: &str = "log_id";

/// What stands for what may hold values of documents.
const REDACTED: &str = "###";
/// Fields with texts of others, as of an error, which may quote what somebody has stored.
const QUOTING: &[&str] = &["document_id", "error", "metadata", "panic", "problem", "reason"];
/// Parts of the program that know no documents: what they tell is of files, sockets and settings.
const WITHOUT_DOCUMENTS: &[&str] =
    &["access", "control", "network", "oplog", "platform", "startup_warnings", "storage", "storage_engine"];

/// An event's content.
pub(crate) struct Line {
    wall_millis: i64,
    level: Level,
    component: String,
    message: String,
    /// In the order of the event.
    fields: Vec<(&'static str, Value)>,
    thread: String,
    /// Whether it is a warning of the start.
    is_of_start: bool,
}

impl Line {
    pub(crate) fn of_event(event: &Event<'_>, wall_millis: i64) -> Self {
        let metadata = event.metadata();
        let target = metadata.target();
        let mut line = Self {
            wall_millis,
            level: *metadata.level(),
            component: target.split("::").next().unwrap_or(target).to_owned(),
            message: String::new(),
            fields: Vec::new(),
            thread: std::thread::current().name().unwrap_or("unnamed").to_owned(),
            is_of_start: target == STARTUP_WARNINGS,
        };
        event.record(&mut line);
        line
    }

    /// A warning that is no event: one that holds since then, among those of the start.
    pub(crate) fn standing_warning(since_millis: i64, message: String, pattern: &'static str) -> Self {
        Self {
            wall_millis: since_millis,
            level: Level::WARN,
            component: STARTUP_WARNINGS.to_owned(),
            message,
            fields: vec![("pattern", pattern.into())],
            thread: "flight-recorder".to_owned(),
            is_of_start: true,
        }
    }

    /// Leaves out what may hold values of documents.
    pub(crate) fn redact(&mut self) {
        let knows_none = WITHOUT_DOCUMENTS.contains(&self.component.as_str());
        for (name, value) in &mut self.fields {
            if *name == "panic" || (!knows_none && QUOTING.contains(name)) {
                *value = REDACTED.into();
            }
        }
    }

    /// Whether it is a warning of the start.
    pub(crate) fn is_of_start(&self) -> bool {
        self.is_of_start
    }

    /// While the server starts: a warning is one of the start, whoever gives it.
    pub(crate) fn comes_at_start(&mut self) {
        self.is_of_start |= self.level <= Level::WARN;
    }

    /// As in `2026-11-21T00:45:37.123Z INFO  network: connection accepted remote=127.0.0.1:50312 connection_id=4`.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} {:5} {}: {}", self.time(), self.level, self.component, one_line(&self.message));
        for (name, value) in self.attributes() {
            // Writing to a string cannot fail.
            let _ = match value {
                Value::String(value)
                    if !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"') =>
                {
                    write!(text, " {name}={value}")
                }
                other => write!(text, " {name}={other}"),
            };
        }
        text
    }

    /// In MongoDB's format, as in `{"t":{"$date":"..."},"s":"I","c":"NETWORK","id":0,"ctx":"plimsoll","msg":"...","attr":{...}}`. Lines that programs wait
    /// for have MongoDB's number, by a field `log_id` of the event; the others have 0.
    pub(crate) fn to_json(&self) -> String {
        let severity = match self.level {
            Level::ERROR => "E",
            Level::WARN => "W",
            Level::INFO => "I",
            Level::DEBUG => "D1",
            Level::TRACE => "D2",
        };
        let id = self.fields.iter().find(|(name, _)| *name == LOG_ID).map_or(Value::from(0), |(_, id)| id.clone());
        let component =
            if self.component == STARTUP_WARNINGS { "CONTROL".to_owned() } else { self.component.to_uppercase() };
        let fields = self.attributes().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let attributes = fields.collect::<Map<_, _>>();
        // In the order in which MongoDB has them, for those who read lines by eye or by pattern.
        let members = [
            Some(("t", json!({ "$date": self.time() }))),
            Some(("s", severity.into())),
            Some(("c", component.into())),
            Some(("id", id)),
            Some(("ctx", self.thread.as_str().into())),
            Some(("msg", self.message.as_str().into())),
            (!attributes.is_empty()).then_some(("attr", Value::Object(attributes))),
            self.is_of_start.then(|| ("tags", json!(["startupWarnings"]))),
        ];
        let members = members.into_iter().flatten().map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    fn attributes(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.fields.iter().filter(|(name, _)| *name != LOG_ID)
    }

    fn time(&self) -> String {
        match jiff::Timestamp::from_millisecond(self.wall_millis) {
            Ok(time) => format!("{time:.3}"),
            Err(_) => self.wall_millis.to_string(),
        }
    }

    fn insert(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name(), value));
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.insert(field, Value::String(text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.insert(field, Value::from(value));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, Value::from(value));
    }
}

/// A message from elsewhere may hold line ends, which would forge lines.
fn one_line(message: &str) -> String {
    message.replace(['\n', '\r'], "⏎")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let fields = vec![
            ("remote", "127.0.0.1:1".into()),
            ("reason", "two words\nand \"a line\"".into()),
            ("connection_id", 4.into()),
        ];
        Line {
            wall_millis: 1_795_000_000_120,
            level: Level::WARN,
            component: "network".into(),
            message: "closed\nby us".into(),
            fields,
            thread: "t".into(),
            is_of_start: false,
        }
    }

    #[test]
    fn text_is_one_line() {
        let expected = r#"2026-11-18T11:06:40.120Z WARN  network: closed⏎by us remote=127.0.0.1:1 reason="two words\nand \"a line\"" connection_id=4"#;
        assert_eq!(line().to_text(), expected);
    }

    #[test]
    fn json_has_the_usual_names() {
        let value: Value = serde_json::from_str(&line().to_json()).unwrap();
        assert_eq!(value["t"]["$date"], "2026-11-18T11:06:40.120Z");
        assert!(
            line()
                .to_json()
                .starts_with(r#"{"t":{"$date":"2026-11-18T11:06:40.120Z"},"s":"W","c":"NETWORK","id":0,"ctx":"t","#)
        );
        assert_eq!(value["s"], "W");
        assert_eq!(value["c"], "NETWORK");
        assert_eq!(value["msg"], "closed\nby us");
        assert_eq!(value["attr"]["connection_id"], 4);
        assert_eq!((&value["id"], value.get("tags")), (&json!(0), None));
    }

    #[test]
    fn texts_that_may_quote_documents_are_left_out() {
        let mut of_network = line();
        of_network.redact();
        assert_eq!(of_network.to_text(), line().to_text());
        let mut of_commands = Line { component: "transaction".into(), ..line() };
        of_commands.redact();
        assert!(of_commands.to_text().ends_with("remote=127.0.0.1:1 reason=### connection_id=4"));
        let mut panicked = Line { component: "control".into(), fields: vec![("panic", "quoted".into())], ..line() };
        panicked.redact();
        assert!(panicked.to_json().contains(REDACTED) && !panicked.to_json().contains("quoted"));
    }

    #[test]
    fn numbers_and_warnings_at_the_start_are_told_apart() {
        let mut numbered = line();
        numbered.fields = vec![(LOG_ID, 23016.into())];
        numbered.component = STARTUP_WARNINGS.to_owned();
        numbered.comes_at_start();
        let value: Value = serde_json::from_str(&numbered.to_json()).unwrap();
        assert_eq!((&value["id"], value.get("attr")), (&json!(23016), None));
        assert_eq!((&value["c"], &value["tags"]), (&json!("CONTROL"), &json!(["startupWarnings"])));
        assert!(!numbered.to_text().contains("23016"));
    }
}
