//! Which crate may depend on which: the arrows of `docs/architecture.md`, and no others.
//!
//! The table is exact. An edge that a manifest gains or loses is changed here in the same change, where a reader sees it.

use toml::Table;

use super::Complaint;
use crate::workspace::SourceFile;

/// What each crate is built on. `commands` is the widest on purpose: it is where everything meets.
const EDGES: &[(&str, &[&str])] = &[
    ("aggregation", &["document", "platform", "query_language", "time_series"]),
    ("authentication", &[]),
    ("backup", &["collection", "oplog", "platform", "storage_engine", "transaction"]),
    (
        "collection",
        &["document", "geometry", "index_key", "oplog", "platform", "query_language", "storage_engine", "text_search"],
    ),
    (
        "commands",
        &[
            "aggregation",
            "authentication",
            "backup",
            "collection",
            "document",
            "executor",
            "index_key",
            "javascript",
            "oplog",
            "planner",
            "platform",
            "query_language",
            "storage_engine",
            "text_search",
            "time_series",
            "transaction",
        ],
    ),
    ("document", &[]),
    (
        "executor",
        &[
            "collection",
            "document",
            "geometry",
            "index_key",
            "planner",
            "platform",
            "query_language",
            "storage_engine",
            "text_search",
            "transaction",
        ],
    ),
    ("flight_recorder", &[]),
    ("geometry", &["document"]),
    ("index_key", &["document", "geometry", "text_search"]),
    ("javascript", &["document"]),
    ("kafka_log", &["platform", "shared_log"]),
    ("lab", &["flight_recorder", "migration"]),
    ("migration", &[]),
    ("oplog", &["platform"]),
    (
        "planner",
        &[
            "collection",
            "document",
            "geometry",
            "index_key",
            "platform",
            "query_language",
            "text_search",
            "transaction",
        ],
    ),
    ("platform", &[]),
    // The binary's `Database` as a library for programs. `platform` for its thread and for whose a locked directory is.
    ("plimsoll", &["platform", "server"]),
    ("query_language", &["document", "geometry", "javascript", "text_search"]),
    ("replication", &["oplog", "platform", "shared_log", "transaction"]),
    ("script_test", &[]),
    (
        "server",
        &[
            "backup",
            "commands",
            "flight_recorder",
            "kafka_log",
            "oplog",
            "platform",
            "replication",
            "shared_log",
            "storage_engine",
            "transaction",
            "wire_protocol",
        ],
    ),
    ("shared_log", &["platform"]),
    (
        "simulator",
        &["collection", "index_key", "oplog", "platform", "replication", "shared_log", "storage_engine", "transaction"],
    ),
    ("storage_engine", &["platform"]),
    ("text_search", &["document"]),
    ("time_series", &["document"]),
    ("transaction", &["collection", "document", "oplog", "platform", "storage_engine"]),
    ("wire_protocol", &[]),
    ("xtask", &[]),
];

/// Tests may use these beside what their crate is built on, and any crate that it is built on.
const TEST_TOOLS: &[&str] = &["platform", "script_test"];

/// Crates whose tests look at the whole.
const TESTS_SEE_EVERYTHING: &[&str] = &["replication", "server", "xtask"];

pub(super) fn complaints(files: &[SourceFile]) -> Result<Vec<Complaint>, String> {
    let mut found = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let manifest: Table = file.text.parse().map_err(|error| format!("{}: {error}", file.path))?;
        let declared = manifest.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
        if declared != Some(name) {
            found.push(Complaint::of_file(file, format!("the crate must be named as its folder, {name}")));
        }
        match EDGES.iter().find(|(crate_name, _)| *crate_name == name) {
            Some((_, allowed)) => {
                check_edges(file, &internal(&manifest, "dependencies"), allowed, &mut found);
                check_tests(file, name, &internal(&manifest, "dev-dependencies"), allowed, &mut found);
            }
            None => {
                found.push(Complaint::of_file(file, "this crate is not in the table of edges (tidy/crate_edges.rs)"))
            }
        }
    }
    Ok(found)
}

fn check_edges(file: &SourceFile, used: &[&str], allowed: &[&str], found: &mut Vec<Complaint>) {
    for edge in used.iter().filter(|edge| !allowed.contains(edge)) {
        found.push(Complaint::of_file(file, format!("must not depend on {edge} (tidy/crate_edges.rs)")));
    }
    for edge in allowed.iter().filter(|edge| !used.contains(edge)) {
        let message = format!("no longer depends on {edge}: take the edge out of tidy/crate_edges.rs");
        found.push(Complaint::of_file(file, message));
    }
}

fn check_tests(file: &SourceFile, name: &str, used: &[&str], allowed: &[&str], found: &mut Vec<Complaint>) {
    if TESTS_SEE_EVERYTHING.contains(&name) {
        return;
    }
    for edge in used.iter().filter(|edge| !allowed.contains(edge) && !TEST_TOOLS.contains(edge)) {
        found.push(Complaint::of_file(file, format!("its tests must not depend on {edge} (tidy/crate_edges.rs)")));
    }
}

/// Our own crates among the dependencies of one kind.
fn internal<'m>(manifest: &'m Table, kind: &str) -> Vec<&'m str> {
    let dependencies = manifest.get(kind).and_then(|value| value.as_table());
    let names = dependencies.into_iter().flat_map(|table| table.keys().map(String::as_str));
    names.filter(|name| EDGES.iter().any(|(crate_name, _)| crate_name == name)).collect()
}
