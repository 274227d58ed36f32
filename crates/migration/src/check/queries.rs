//! Queries that the source has answered: from `system.profile`, and from the slow queries in log files. Each kind is tried
//! once. Called by `check`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;

use bson::{Bson, Document, doc};
use mongodb::Client;

use super::findings::{Findings, QUERIES};
use crate::definitions::code;
use crate::error::{CopyError, reason};
use crate::selection::Selection;

/// Kinds that are kept.
const KINDS_MAX: usize = 10_000;
/// How much of a query is shown.
const SHOWN_BYTES: usize = 300;
/// Commands that are tried. The others are counted by name.
const TRIED: &[&str] =
    &["find", "aggregate", "count", "distinct", "findAndModify", "findandmodify", "mapReduce", "update", "delete"];
/// Fields that belong to the moment, not to the query.
const OF_THE_MOMENT: &[&str] = &[
    "lsid",
    "$clusterTime",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "readConcern",
    "writeConcern",
    "$db",
    "$readPreference",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "needsMerge",
    "fromMongos",
    "fromRouter",
    "shardVersion",
    "databaseVersion",
    "mayBypassWriteBlocking",
    "clientOperationKey",
    "$client",
    "$configTime",
    "$topologyTime",
    "$audit",
    "stmtId",
    "stmtIds",
];

/// One kind of query, as it was seen first.
struct Kind {
    database: String,
    command: Document,
    seen: u64,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Queries {
    kinds: BTreeMap<String, Kind>,
    passed_over: u64,
}

impl Queries {
    /// Takes the queries of a database's profile.
    pub(super) async fn take_profile(
        &mut self,
        source: &Client,
        database: &str,
        selection: &Selection,
        findings: &mut Findings,
    ) {
        let profile = source.database(database).collection::<Document>("system.profile");
        let read = async {
            let mut cursor = profile.find(doc! {}).await?;
            while cursor.advance().await? {
                self.take(&cursor.deserialize_current()?, "op", selection);
            }
            Ok::<(), mongodb::error::Error>(())
        };
        if let Err(error) = read.await {
            findings.note(format!("the profile of {database} cannot be read: {}", reason(&error)));
        }
    }

    /// Takes the slow queries of a log in MongoDB's JSON lines.
    pub(super) fn take_log(
        &mut self,
        path: &Path,
        selection: &Selection,
        findings: &mut Findings,
    ) -> Result<(), CopyError> {
        let failed = |error: std::io::Error| CopyError::Refusal(format!("{}: {error}", path.display()));
        let (mut lines, mut slow) = (0_u64, 0_u64);
        for line in BufReader::new(std::fs::File::open(path).map_err(failed)?).split(b'\n') {
            lines += 1;
            if let Some(query) = slow_query(&line.map_err(failed)?) {
                slow += 1;
                self.take(&query, "type", selection);
            }
        }
        findings.note(format!("{}: {slow} slow queries in {lines} lines", path.display()));
        Ok(())
    }

    /// Takes one of either: `{<kind>, ns, command, ...}`.
    fn take(&mut self, told: &Document, kind: &str, selection: &Selection) {
        let (Ok(namespace), Ok(command)) = (told.get_str("ns"), told.get_document("command")) else { return };
        let Some((database, collection)) = namespace.split_once('.') else { return };
        let has_failed = ["errCode", "errName", "exception"].iter().any(|field| told.contains_key(field));
        if has_failed || !selection.has_database(database) || !selection.has(database, collection) {
            return;
        }
        let command = command_of(collection, told.get_str(kind).unwrap_or_default(), command);
        let Some(command) = command.filter(|command| !command.contains_key("truncated")) else {
            self.passed_over += 1;
            return;
        };
        let shape = format!("{database} {}", shape(&Bson::Document(command.clone())));
        let is_full = self.kinds.len() >= KINDS_MAX;
        match self.kinds.get_mut(&shape) {
            Some(kind) => kind.seen += 1,
            None if is_full => self.passed_over += 1,
            None => {
                self.kinds.insert(shape, Kind { database: database.to_owned(), command, seen: 1 });
            }
        }
    }

    /// Runs each kind once on the empty collections. The source has answered it, so whatever fails is refused.
    pub(super) async fn try_all(self, trial: &Client, findings: &mut Findings) -> Result<(), CopyError> {
        if self.kinds.is_empty() {
            let how = "db.setProfilingLevel(1, { slowms: 0 }) on the source for an hour, or --log FILE";
            findings.note(format!("no queries were looked at: {how}"));
        }
        if self.passed_over > 0 {
            findings.note(format!("{} operations were passed over: cut short, or no queries", self.passed_over));
        }
        for Kind { database, command, seen } in self.kinds.into_values() {
            findings.looked_at.queries += 1;
            let Err(error) = trial.database(&database).run_command(command.clone()).await else { continue };
            if code(&error).is_none() {
                return Err(CopyError::command(format!("try {}", shown(&database, &command)))(error));
            }
            findings.refused(QUERIES, format!("{}, seen {seen} times", shown(&database, &command)), reason(&error));
        }
        Ok(())
    }
}

/// The attributes of a line that tells of a slow query.
fn slow_query(line: &[u8]) -> Option<Document> {
    // Into a document at once, which keeps the order of fields: the first one names the command.
    let told: Document = serde_json::from_slice(line).ok()?;
    let is_slow = told.get_str("msg").is_ok_and(|message| message == "Slow query");
    is_slow.then(|| told.get_document("attr").ok().cloned()).flatten()
}

/// The command that an operation was; `None` for one that is not tried.
fn command_of(collection: &str, kind: &str, told: &Document) -> Option<Document> {
    if kind == "update" && told.contains_key("q") {
        return Some(doc! { "update": collection, "updates": [told.clone()] });
    }
    if kind == "remove" && told.contains_key("q") {
        let mut statement = told.clone();
        statement.entry("limit").or_insert(0.into());
        return Some(doc! { "delete": collection, "deletes": [statement] });
    }
    let name = told.keys().next().filter(|name| TRIED.contains(&name.as_str()))?;
    let has_statements = match name.as_str() {
        "update" => told.contains_key("updates"),
        "delete" => told.contains_key("deletes"),
        _ => true,
    };
    has_statements
        .then(|| told.clone().into_iter().filter(|(name, _)| !OF_THE_MOMENT.contains(&name.as_str())).collect())
}

/// What two queries of one kind have in common: names and operators, and of values that these are there.
fn shape(value: &Bson) -> String {
    match value {
        Bson::Document(document) => {
            let mut text = "{".to_owned();
            for (name, value) in document {
                // Writing into a string does not fail.
                let _ = write!(text, "{name}:{},", shape(value));
            }
            text + "}"
        }
        Bson::Array(values) => {
            let mut shapes: Vec<String> = values.iter().map(shape).collect();
            // A list of stages is not a set; one of values is.
            shapes.dedup();
            format!("[{}]", shapes.join(","))
        }
        Bson::String(text) if text.starts_with('$') => text.clone(),
        _ => "?".to_owned(),
    }
}

fn shown(database: &str, command: &Document) -> String {
    let mut text = command.to_string();
    if text.len() > SHOWN_BYTES {
        let end = (0..=SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text += "...";
    }
    format!("{database}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(told: &[Document]) -> Queries {
        let mut queries = Queries::default();
        let selection = Selection::new(&["shop".to_owned()]).unwrap();
        told.iter().for_each(|told| queries.take(told, "op", &selection));
        queries
    }

    #[test]
    fn kinds_are_told_apart_by_names_and_not_by_values() {
        let find = |filter: Document| doc! { "op": "query", "ns": "shop.c", "command": { "find": "c", "filter": filter, "lsid": {} } };
        let queries = taken(&[
            find(doc! { "a": 1 }),
            find(doc! { "a": "x" }),
            find(doc! { "b": 1 }),
            find(doc! { "a": { "$in": [1, 2, 3] } }),
            find(doc! { "a": { "$in": [4] } }),
            doc! { "ns": "other.c", "command": { "find": "c" } },
            doc! { "ns": "shop.c", "command": { "find": "c" }, "errCode": 2 },
            doc! { "ns": "shop.c", "command": { "getMore": 1_i64, "collection": "c" } },
        ]);
        let seen: Vec<u64> = queries.kinds.values().map(|kind| kind.seen).collect();
        assert_eq!((seen, queries.passed_over), (vec![2, 2, 1], 1));
        assert!(queries.kinds.values().all(|kind| !kind.command.contains_key("lsid")));
    }

    #[test]
    fn writes_of_a_profile_become_commands() {
        let queries = taken(&[
            doc! { "op": "update", "ns": "shop.c", "command": { "q": { "a": 1 }, "u": { "$set": { "b": 1 } }, "multi": false } },
            doc! { "op": "remove", "ns": "shop.c", "command": { "q": { "a": 1 }, "limit": 1 } },
        ]);
        let commands: Vec<&Document> = queries.kinds.values().map(|kind| &kind.command).collect();
        assert_eq!(commands[0], &doc! { "delete": "c", "deletes": [{ "q": { "a": 1 }, "limit": 1 }] });
        assert_eq!(commands[1].get_str("update").unwrap(), "c");
    }

    #[test]
    fn slow_queries_are_read_from_a_log() {
        let line = br#"{"t":{"$date":"2026-01-01T00:00:00.000Z"},"s":"I","c":"COMMAND","id":51803,"ctx":"conn1","msg":"Slow query","attr":{"type":"command","ns":"shop.c","command":{"find":"c","filter":{"_id":{"$oid":"507f1f77bcf86cd799439011"}},"$db":"shop"},"durationMillis":120}}"#;
        let query = slow_query(line).unwrap();
        assert!(query.get_document("command").unwrap().get_document("filter").unwrap().get_object_id("_id").is_ok());
        assert!(slow_query(br#"{"msg":"Slow query of another kind"}"#).is_none());
        assert!(slow_query(b"no JSON").is_none());
    }
}
