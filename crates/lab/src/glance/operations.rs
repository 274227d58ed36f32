//! The busiest collections and the longest operations, as tables of text. Called by `glance` for `plimsoll top`.

use std::cmp::Reverse;

use bson::{Bson, Document};

use crate::chart::grouped;
use crate::server_counters::whole_number;

const MICROS: f64 = 1e6;
/// Of a command so much is shown.
const COMMAND_CHARACTERS: usize = 60;

/// What one collection took between two replies of `top`.
struct Share<'a> {
    namespace: &'a str,
    seconds: f64,
    reads: f64,
    writes: f64,
}

/// The collections that most time went into, of the time between.
pub(super) fn busiest(before: &Document, after: &Document, seconds: f64, lines: usize) -> String {
    let mut shares: Vec<Share<'_>> =
        after.iter().filter_map(|(name, now)| share(name, before.get(name), now)).collect();
    shares.retain(|share| share.reads + share.writes > 0.0);
    shares.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
    if shares.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:>8}  {:>10}  {:>10}  collection\n", "busy %", "reads/s", "writes/s");
    for share in shares.iter().take(lines) {
        text += &format!(
            "{:>8.1}  {:>10}  {:>10}  {}\n",
            share.seconds * 100.0 / seconds,
            grouped(share.reads / seconds),
            grouped(share.writes / seconds),
            share.namespace
        );
    }
    text
}

fn share<'a>(namespace: &'a str, before: Option<&Bson>, now: &Bson) -> Option<Share<'a>> {
    let now = now.as_document()?;
    let before = before.and_then(Bson::as_document);
    let growth = |part: &str, figure: &str| {
        let of = |document: &Document| document.get_document(part).ok()?.get(figure).and_then(whole_number);
        of(now).unwrap_or(0).saturating_sub(before.and_then(of).unwrap_or(0)) as f64
    };
    Some(Share {
        namespace,
        seconds: growth("total", "time") / MICROS,
        reads: growth("readLock", "count"),
        writes: growth("writeLock", "count"),
    })
}

/// The operations that have been running longest.
pub(super) fn longest(current: &Document, lines: usize) -> String {
    let Ok(operations) = current.get_array("inprog") else { return String::new() };
    let is_asked = |operation: &&Document| {
        operation.get_document("command").is_ok_and(|command| !command.contains_key("currentOp"))
    };
    let mut running: Vec<&Document> = operations.iter().filter_map(Bson::as_document).filter(is_asked).collect();
    let micros = |operation: &Document| operation.get("microsecs_running").and_then(whole_number).unwrap_or(0);
    running.sort_by_key(|operation| Reverse(micros(operation)));
    if running.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:>10}  {:>12}  {:<10}  operation\n", "seconds", "opid", "kind");
    for operation in running.into_iter().take(lines) {
        let name = |field: &str| operation.get_str(field).unwrap_or_default();
        let command = operation.get_document("command").map(ToString::to_string).unwrap_or_default();
        let command: String =
            command.chars().map(|one| if one.is_control() { ' ' } else { one }).take(COMMAND_CHARACTERS).collect();
        let id = operation.get("opid").map(ToString::to_string).unwrap_or_default();
        text += &format!(
            "{:>10.2}  {id:>12}  {:<10}  {} {command}\n",
            micros(operation) as f64 / MICROS,
            name("op"),
            name("ns")
        );
    }
    text
}
