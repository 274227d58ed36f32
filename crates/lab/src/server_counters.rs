//! `serverStatus`: what the benchmarks know a server by, and all numbers in it by their paths. Servers differ in what they
//! report, so everything may be absent.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use mongodb::Client;

use crate::error::LabError;

/// Sections whose numbers say nothing of the work: times, and figures that grow by being asked.
const LEFT_OUT: [&str; 9] = [
    "localTime",
    "uptime",
    "uptimeMillis",
    "uptimeEstimate",
    "pid",
    "ok",
    "operationTime",
    "$clusterTime",
    "logicalSessionRecordCache",
];
/// Deeper sections are not followed.
const DEPTH_MAX: usize = 8;

/// A reply to `serverStatus`, reduced.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerStatus {
    pub(crate) pid: Option<u32>,
    pub(crate) program: Option<String>,
    pub(crate) storage_engine: Option<String>,
    /// All numbers, by their paths with dots.
    pub(crate) numbers: BTreeMap<String, f64>,
}

/// How full a server's cache is, by its own numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CacheFill {
    pub(crate) bytes: f64,
    pub(crate) used_share: f64,
    pub(crate) dirty_share: f64,
}

/// Where servers say it: the cache's size, what is used of it, what of that is not on disk.
const CACHE_NUMBERS: [[&str; 3]; 2] = [
    ["plimsoll.cache.bytes", "plimsoll.cache.usedBytes", "plimsoll.cache.dirtyBytes"],
    [
        "wiredTiger.cache.maximum bytes configured",
        "wiredTiger.cache.bytes currently in the cache",
        "wiredTiger.cache.tracked dirty bytes in the cache",
    ],
];
/// Where servers say how long a write is held back, in microseconds.
const HELD_BACK: &str = "plimsoll.heldBack.delayMicros";

impl ServerStatus {
    /// How full the cache is; nothing from a server that does not say it.
    pub(crate) fn cache(&self) -> Option<CacheFill> {
        let number = |path: &str| self.numbers.get(path).copied();
        CACHE_NUMBERS.iter().find_map(|[bytes, used, dirty]| {
            let bytes = number(bytes).filter(|bytes| *bytes > 0.0)?;
            Some(CacheFill { bytes, used_share: number(used)? / bytes, dirty_share: number(dirty)? / bytes })
        })
    }

    /// How long a write is held back, in microseconds.
    pub(crate) fn held_back_microseconds(&self) -> Option<f64> {
        self.numbers.get(HELD_BACK).copied()
    }

    /// Asks the server.
    pub(crate) async fn fetch(client: &Client) -> Result<Self, LabError> {
        let reply = client.database("admin").run_command(doc! { "serverStatus": 1 }).await;
        Ok(Self::of(&reply.map_err(LabError::command("serverStatus"))?))
    }

    fn of(reply: &Document) -> Self {
        let text = |path: &[&str]| at(reply, path).and_then(Bson::as_str).map(str::to_owned);
        let mut numbers = BTreeMap::new();
        for (name, value) in reply.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
            collect_numbers(name.clone(), value, 1, &mut numbers);
        }
        Self {
            pid: at(reply, &["pid"]).and_then(whole_number).and_then(|pid| u32::try_from(pid).ok()),
            program: text(&["process"]),
            storage_engine: text(&["storageEngine", "name"]),
            numbers,
        }
    }
}

fn collect_numbers(path: String, value: &Bson, depth: usize, into: &mut BTreeMap<String, f64>) {
    match value {
        Bson::Document(section) if depth < DEPTH_MAX => {
            for (name, value) in section {
                collect_numbers(format!("{path}.{name}"), value, depth + 1, into);
            }
        }
        Bson::Int32(number) => drop(into.insert(path, f64::from(*number))),
        Bson::Int64(number) => drop(into.insert(path, *number as f64)),
        Bson::Double(number) if number.is_finite() => drop(into.insert(path, *number)),
        _ => {}
    }
}

fn at<'a>(document: &'a Document, path: &[&str]) -> Option<&'a Bson> {
    let (last, parents) = path.split_last()?;
    let mut place = document;
    for name in parents {
        place = place.get_document(name).ok()?;
    }
    place.get(last)
}

/// A number of 0 or more of any numeric type, as servers choose types differently.
pub(crate) fn whole_number(value: &Bson) -> Option<u64> {
    match *value {
        Bson::Int32(number) => u64::try_from(number).ok(),
        Bson::Int64(number) => u64::try_from(number).ok(),
        Bson::Double(number) if (0.0..9e15).contains(&number) => Some(number as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_in_any_numeric_type() {
        let status = ServerStatus::of(&doc! {
            "pid": 77_i64, "process": "mongod", "storageEngine": { "name": "wiredTiger" }, "localTime": 5,
            "metrics": { "document": { "inserted": 5.0, "updated": 7_i32, "name": "x" } },
        });
        assert_eq!((status.pid, status.program.as_deref()), (Some(77), Some("mongod")));
        let numbers: Vec<_> = status.numbers.iter().map(|(path, number)| (path.as_str(), *number)).collect();
        assert_eq!(numbers, [("metrics.document.inserted", 5.0), ("metrics.document.updated", 7.0)]);
        let cache = doc! { "bytes": 200, "usedBytes": 100_i64, "dirtyBytes": 50.0 };
        let fill = ServerStatus::of(&doc! { "plimsoll": { "cache": cache } }).cache().unwrap();
        assert_eq!(fill, CacheFill { bytes: 200.0, used_share: 0.5, dirty_share: 0.25 });
        assert_eq!(status.cache(), None);
        assert_eq!(ServerStatus::of(&doc! { "pid": -1, "metrics": "x" }), ServerStatus::default());
    }
}
