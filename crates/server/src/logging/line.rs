//! One line of the diagnostic log, from an event to text or JSON.

use std::fmt::{self, Write};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// An event's content.
pub(crate) struct Line {
    wall_millis: i64,
    level: Level,
    component: String,
    message: String,
    /// In the order of the event.
    fields: Vec<(&'static str, Value)>,
    thread: String,
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
        };
        event.record(&mut line);
        line
    }

    pub(crate) fn component(&self) -> &str {
        &self.component
    }

    /// As in `2026-11-21T00:45:37.123Z INFO  network: connection accepted remote=127.0.0.1:50312 connection_id=4`.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} {:5} {}: {}", self.time(), self.level, self.component, one_line(&self.message));
        for (name, value) in &self.fields {
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

    /// As in `{"t":{"$date":"..."},"s":"I","c":"NETWORK","ctx":"plimsoll","msg":"...","attr":{...}}`.
    pub(crate) fn to_json(&self) -> String {
        let severity = match self.level {
            Level::ERROR => "E",
            Level::WARN => "W",
            Level::INFO => "I",
            Level::DEBUG => "D1",
            Level::TRACE => "D2",
        };
        let mut line = json!({
            "t": { "$date": self.time() },
            "s": severity,
            "c": self.component.to_uppercase(),
            "ctx": self.thread,
            "msg": self.message,
        });
        if let (false, Some(line)) = (self.fields.is_empty(), line.as_object_mut()) {
            let fields = self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            line.insert("attr".to_owned(), Value::Object(fields.collect::<Map<_, _>>()));
        }
        line.to_string()
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
        assert_eq!(value["s"], "W");
        assert_eq!(value["c"], "NETWORK");
        assert_eq!(value["msg"], "closed\nby us");
        assert_eq!(value["attr"]["connection_id"], 4);
    }
}
