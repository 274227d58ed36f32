//! Interleavings: steps of sessions in the order in which they happen, each with what came of it.
//!
//! A case has `documents` (what the collection holds, with an index on `a`; carried over) and `steps`. A step is a line: the
//! session's letter, a verb, values. A session is in a transaction from `begin` to `commit` or `abort`; otherwise each of its
//! steps is by itself. Verbs: `begin`, `commit`, `abort`, `find FILTER`, `count FILTER`, `insert DOCUMENT`, `update FILTER
//! CHANGE`, `updates FILTER CHANGE` (many), `delete FILTER`, `create NAME`, `drop`, `index KEY`.
//!
//! While a step runs the simulated clock goes on, and a step has 50 ms of it. The outcome repeats the steps; errors come with their labels.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use platform::{Clock, SystemClock};
use script_test::{Case, Suite};

use crate::small_server::SmallServer;
use crate::{is_ok, printed, values};

#[test]
fn interleavings() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts/transactions");
    let count = Suite::new(folder).carry_over("documents").run(|case| Sessions::new(case).outcome(case));
    assert!(count >= 25, "{count} cases");
}

/// A session of the script.
#[derive(Default)]
struct Session {
    txn_number: i64,
    /// Between its beginning and its end; the first statement says that it begins.
    open: Option<Open>,
}

struct Open {
    is_announced: bool,
}

struct Sessions {
    server: SmallServer,
    sessions: BTreeMap<char, Session>,
}

impl Sessions {
    fn new(case: &Case) -> Self {
        let mut server = SmallServer::new();
        let index = doc! { "key": { "a": 1 }, "name": "a_1" };
        server.send(&doc! { "createIndexes": "c", "indexes": [index], "$db": "test" }).unwrap();
        let documents = values(case.text("documents").unwrap_or(""));
        if !documents.is_empty() {
            server.send(&doc! { "insert": "c", "documents": documents, "$db": "test" }).unwrap();
        }
        Self { server, sessions: BTreeMap::new() }
    }

    fn outcome(mut self, case: &Case) -> String {
        let lines: Vec<String> = case.text("steps").unwrap().lines().map(|step| self.step(step)).collect();
        self.server.check();
        lines.join("\n")
    }

    /// Does a step and says what came of it.
    fn step(&mut self, step: &str) -> String {
        // Told when the test fails.
        println!("{step}");
        let mut words = step.splitn(3, ' ');
        let (name, verb) = (words.next().unwrap().chars().next().unwrap(), words.next().unwrap());
        let rest = values(words.next().unwrap_or(""));
        let session = self.sessions.entry(name).or_default();
        if verb == "begin" {
            session.txn_number += 1;
            session.open = Some(Open { is_announced: false });
            return step.to_owned();
        }
        let mut command = command_of(verb, &rest);
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![name as u8; 16] };
        command.insert("lsid", doc! { "id": id });
        if let Some(open) = &mut session.open {
            command.insert("txnNumber", session.txn_number);
            command.insert("autocommit", false);
            if !open.is_announced {
                command.insert("startTransaction", true);
                command.insert("readConcern", doc! { "level": "snapshot" });
                open.is_announced = true;
            }
        }
        if matches!(verb, "commit" | "abort") {
            // Also of one that has ended: it may be asked for again.
            command.insert("txnNumber", session.txn_number);
            command.insert("autocommit", false);
            session.open = None;
        } else {
            command.insert("maxTimeMS", 50);
        }
        command.insert("$db", if matches!(verb, "commit" | "abort") { "admin" } else { "test" });
        format!("{step} -> {}", came_of_it(&self.send(&command)))
    }

    /// Runs the command while the clock goes on: who waits for somebody else waits by it.
    fn send(&mut self, command: &Document) -> Document {
        let (clock, is_over) = (self.server.clock.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    SystemClock::new().sleep(Duration::from_millis(10));
                    clock.advance(Duration::from_millis(10));
                }
            });
            let reply = self.server.send(command);
            is_over.store(true, Ordering::Release);
            reply.unwrap()
        })
    }
}

fn command_of(verb: &str, rest: &[Bson]) -> Document {
    let value = |position: usize| rest.get(position).cloned().unwrap_or_else(|| Bson::Document(doc! {}));
    match verb {
        "find" => doc! { "find": "c", "filter": value(0), "sort": { "_id": 1 } },
        "count" => doc! { "aggregate": "c", "pipeline": [{ "$match": value(0) }, { "$count": "n" }], "cursor": {} },
        "insert" => doc! { "insert": "c", "documents": [value(0)] },
        "update" => doc! { "update": "c", "updates": [{ "q": value(0), "u": value(1) }] },
        "updates" => doc! { "update": "c", "updates": [{ "q": value(0), "u": value(1), "multi": true }] },
        "delete" => doc! { "delete": "c", "deletes": [{ "q": value(0), "limit": 0 }] },
        "create" => doc! { "create": value(0) },
        "drop" => doc! { "drop": "c" },
        "index" => doc! { "createIndexes": "c", "indexes": [{ "key": value(0), "name": "new" }] },
        "commit" => doc! { "commitTransaction": 1 },
        "abort" => doc! { "abortTransaction": 1 },
        other => panic!("no verb {other}"),
    }
}

fn came_of_it(reply: &Document) -> String {
    if !is_ok(reply) {
        let labels: Vec<&str> = reply.get_array("errorLabels").into_iter().flatten().filter_map(Bson::as_str).collect();
        return format!("{} {}", reply.get_str("codeName").unwrap(), labels.join(" ")).trim_end().to_owned();
    }
    if let Ok(errors) = reply.get_array("writeErrors") {
        let codes: Vec<String> =
            errors.iter().map(|error| error.as_document().unwrap().get("code").unwrap().to_string()).collect();
        return format!("write error {}", codes.join(", "));
    }
    if let Ok(cursor) = reply.get_document("cursor") {
        let found: Vec<String> =
            cursor.get_array("firstBatch").unwrap().iter().map(|found| printed(found.as_document().unwrap())).collect();
        return if found.is_empty() { "nothing".to_owned() } else { found.join(" ") };
    }
    match (reply.get("n"), reply.get("nModified")) {
        (Some(n), Some(modified)) => format!("{n} found, {modified} changed"),
        (Some(n), None) => format!("{n}"),
        _ => "ok".to_owned(),
    }
}
