//! The figures of a moment, as rows of text. Called by `glance`.

use bson::{RawArray, RawBsonRef, RawDocument};
use flight_recorder::{figure_at, value_at};

use crate::chart::grouped;

/// What `serverStatus` said twice.
pub(super) struct Glance<'a> {
    before: &'a RawDocument,
    after: &'a RawDocument,
}

impl<'a> Glance<'a> {
    pub(super) fn new(before: &'a RawDocument, after: &'a RawDocument) -> Self {
        Self { before, after }
    }

    /// The time between, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.growth("uptimeMillis").filter(|millis| *millis > 0.0).map_or(1.0, |millis| millis / 1000.0)
    }

    fn number(&self, path: &str) -> Option<f64> {
        figure_at(self.after, path)?.number()
    }

    fn text(&self, path: &str) -> Option<&'a str> {
        value_at(self.after, path)?.as_str()
    }

    fn growth(&self, path: &str) -> Option<f64> {
        Some((self.number(path)? - figure_at(self.before, path)?.number()?).max(0.0))
    }

    fn rate(&self, path: &str) -> Option<f64> {
        Some(self.growth(path)? / self.seconds())
    }
}

/// Each with its name. What the server does not tell has no row.
pub(super) fn rows(glance: &Glance<'_>) -> Vec<(String, String)> {
    let all = [
        ("server", server(glance)),
        ("writes", writes(glance)),
        ("operations", operations(glance)),
        ("mean time", times(glance)),
        ("running", running(glance)),
        ("connections", connections(glance)),
        ("cache", cache(glance)),
        ("memory", memory(glance)),
        ("disk", disk(glance)),
        ("network", network(glance)),
        ("held back", held_back(glance)),
    ];
    let told = all.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?)));
    told.chain(warnings(glance)).collect()
}

fn server(glance: &Glance<'_>) -> Option<String> {
    let host = glance.text("host")?;
    let version = glance.text("version").unwrap_or_default();
    let set = glance.text("repl.setName").map(|name| format!(", of the set {name}")).unwrap_or_default();
    Some(format!(
        "{host}, {} {version}, up {}{set}",
        glance.text("process").unwrap_or("server"),
        length(glance.number("uptime")?)
    ))
}

fn writes(glance: &Glance<'_>) -> Option<String> {
    let accepted = glance.number("plimsoll.writes.areAccepted")?;
    if accepted > 0.0 {
        return Some("taken".to_owned());
    }
    let texts =
        ["plimsoll.writes.stoppedBecause", "plimsoll.writes.advice"].map(|path| glance.text(path).unwrap_or_default());
    Some(format!("NOT TAKEN: {}. {}", texts[0], texts[1]))
}

fn operations(glance: &Glance<'_>) -> Option<String> {
    let kinds = ["insert", "query", "update", "delete", "getmore", "command"];
    let one = |kind: &str| Some(format!("{kind} {}", grouped(glance.rate(&format!("opcounters.{kind}"))?)));
    Some(kinds.map(one).into_iter().collect::<Option<Vec<_>>>()?.join("  ") + "  a second")
}

fn times(glance: &Glance<'_>) -> Option<String> {
    let one = |kind: &str| {
        let count = glance.growth(&format!("opLatencies.{kind}.ops"))?;
        let micros = glance.growth(&format!("opLatencies.{kind}.latency"))?;
        let mean = if count > 0.0 { format!("{} ms", grouped(micros / count / 1000.0)) } else { "none".to_owned() };
        Some(format!("{kind} {mean}"))
    };
    Some(["reads", "writes", "commands"].map(one).into_iter().collect::<Option<Vec<_>>>()?.join("  "))
}

fn running(glance: &Glance<'_>) -> Option<String> {
    let part =
        |kind: &str, name: &str| Some(format!("{} {name}", grouped(glance.number(&format!("globalLock.{kind}"))?)));
    let now = [part("activeClients.readers", "reads")?, part("activeClients.writers", "writes")?].join(", ");
    Some(format!("{now}; waiting: {}", part("currentQueue.total", "")?.trim_end()))
}

fn connections(glance: &Glance<'_>) -> Option<String> {
    let (current, left) = (glance.number("connections.current")?, glance.number("connections.available")?);
    Some(format!("{} of {}", grouped(current), grouped(current + left)))
}

fn cache(glance: &Glance<'_>) -> Option<String> {
    let name = |name: &str| glance.number(&format!("wiredTiger.cache.{name}"));
    let all = name("maximum bytes configured")?;
    let (used, dirty) = (name("bytes currently in the cache")?, name("tracked dirty bytes in the cache")?);
    let share = |part: f64| part * 100.0 / all.max(1.0);
    Some(format!(
        "{} of {}, {:.0} % used, {:.0} % changed and not yet written",
        bytes(used),
        bytes(all),
        share(used),
        share(dirty)
    ))
}

fn memory(glance: &Glance<'_>) -> Option<String> {
    let resident = glance.number("mem.resident")? * 1_048_576.0;
    let budget = glance.number("plimsoll.memory.limitBytes").map(|limit| format!(", budget {}", bytes(limit)));
    Some(format!("{} resident{}", bytes(resident), budget.unwrap_or_default()))
}

fn disk(glance: &Glance<'_>) -> Option<String> {
    let rate = |path: &str| Some(format!("{}/s", bytes(glance.rate(path)?)));
    let (read, written) =
        (rate("wiredTiger.block-manager.bytes read")?, rate("wiredTiger.block-manager.bytes written")?);
    let log = rate("wiredTiger.log.log bytes written").map(|log| format!(", log {log}"));
    Some(format!("read {read}, written {written}{}", log.unwrap_or_default()))
}

fn network(glance: &Glance<'_>) -> Option<String> {
    let (received, sent) = (glance.rate("network.bytesIn")?, glance.rate("network.bytesOut")?);
    Some(format!("received {}/s, sent {}/s", bytes(received), bytes(sent)))
}

fn held_back(glance: &Glance<'_>) -> Option<String> {
    let explained = value_at(glance.after, "plimsoll.heldBack.explanations")?;
    let RawBsonRef::Array(explained) = explained else { return None };
    let texts: Vec<&str> = explained.into_iter().flatten().filter_map(|text| text.as_str()).collect();
    Some(if texts.is_empty() { "nothing".to_owned() } else { texts.join("; ") })
}

fn warnings(glance: &Glance<'_>) -> Vec<(String, String)> {
    let list = |path: &str| match value_at(glance.after, path) {
        Some(RawBsonRef::Array(list)) => documents(list),
        _ => Vec::new(),
    };
    let text = |warning: &RawDocument, name: &str| warning.get_str(name).unwrap_or_default().to_owned();
    let of_warning = |warning: &RawDocument| {
        (text(warning, "severity"), format!("{}: {}", text(warning, "what"), text(warning, "advice")))
    };
    let of_damage = |part: &RawDocument| {
        (
            "set aside".to_owned(),
            format!("{} {}: {}; {}", text(part, "what"), text(part, "ns"), text(part, "reason"), text(part, "advice")),
        )
    };
    let mut found: Vec<_> = list("plimsoll.warnings").into_iter().map(of_warning).collect();
    found.extend(list("plimsoll.setAside").into_iter().map(of_damage));
    found
}

fn documents(list: &RawArray) -> Vec<&RawDocument> {
    list.into_iter().flatten().filter_map(|item| item.as_document()).collect()
}

/// As people write sizes.
fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len() - 1).find(|power| bytes < 1024_f64.powi(*power as i32 + 1)).unwrap_or(units.len() - 1);
    let value = bytes / 1024_f64.powi(power as i32);
    if power == 0 || value >= 100.0 {
        format!("{value:.0} {}", units[power])
    } else {
        format!("{value:.1} {}", units[power])
    }
}

/// As people write times.
fn length(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
