//! Commands, stages and operators that the source's counters say are used: `serverStatus.metrics`. Called by `check`.

use bson::{Bson, Document, doc};
use mongodb::Client;

use super::findings::{Findings, NAMES};
use crate::catalog::{whole, whole_number};
use crate::definitions::code;
use crate::error::{CopyError, reason};

const DATABASE: &str = "plimsoll_check";
const NOT_IMPLEMENTED: i32 = 238;
/// Codes with which names that nobody knows are refused. With other codes only the arguments are.
const UNKNOWN_NAME: &[i32] = &[NOT_IMPLEMENTED, 40_324, 168, 15_952, 31_325];
const BAD_VALUE: i32 = 2;
/// Commands that members of a set and parts of a cluster send each other.
const BETWEEN_SERVERS: &[&str] = &["replSetHeartbeat", "replSetRequestVotes", "replSetUpdatePosition", "isdbgrid"];

/// Groups of `metrics.operatorCounters`, each with a command that has an operator of it.
type Trial = fn(&str) -> Document;
const OPERATORS: &[(&str, &str, Trial)] = &[
    ("expressions", "expression", |name| project(doc! { name: [] })),
    ("groupAccumulators", "accumulator", |name| group(doc! { name: 1 })),
    ("windowAccumulators", "window operator", |name| window(doc! { name: "$a" })),
];

fn aggregate(stage: Document) -> Document {
    doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} }
}

fn project(expression: Document) -> Document {
    aggregate(doc! { "$project": { "a": expression } })
}

fn group(accumulator: Document) -> Document {
    aggregate(doc! { "$group": { "_id": null, "a": accumulator } })
}

fn window(function: Document) -> Document {
    aggregate(doc! { "$setWindowFields": { "sortBy": { "a": 1 }, "output": { "b": function } } })
}

/// Tries whatever has been used.
pub(super) async fn try_all(source: &Client, trial: &Client, findings: &mut Findings) -> Result<(), CopyError> {
    let status = source.database("admin").run_command(doc! { "serverStatus": 1 }).await;
    let metrics = match &status {
        Ok(status) => status.get_document("metrics").cloned().unwrap_or_default(),
        Err(error) => {
            findings.note(format!("the source does not tell what it is used for (serverStatus): {}", reason(error)));
            return Ok(());
        }
    };
    try_commands(&metrics, trial, findings).await?;
    for name in used(metrics.get_document("aggStageCounters").ok()) {
        try_name("stage", &name, &[aggregate(doc! { &name.0: {} })], trial, findings).await?;
    }
    let counters = metrics.get_document("operatorCounters").cloned().unwrap_or_default();
    for (group, kind, command) in OPERATORS {
        for name in used(counters.get_document(group).ok()) {
            try_name(kind, &name, &[command(&name.0)], trial, findings).await?;
        }
    }
    for name in used(counters.get_document("match").ok()) {
        let of_field = doc! { "find": "c", "filter": { "a": { &name.0: 1 } } };
        let at_top = doc! { "find": "c", "filter": { &name.0: 1 } };
        try_name("query operator", &name, &[of_field, at_top], trial, findings).await?;
    }
    Ok(())
}

/// The names that a group of counters has, and how often each was used.
fn used(counters: Option<&Document>) -> Vec<(String, u64)> {
    let counters = counters.into_iter().flatten();
    counters.map(|(name, count)| (name.clone(), count_of(count))).filter(|(_, count)| *count > 0).collect()
}

fn count_of(counter: &Bson) -> u64 {
    match counter {
        Bson::Document(counter) => whole(counter, "total"),
        number => whole_number(number),
    }
}

async fn try_commands(metrics: &Document, trial: &Client, findings: &mut Findings) -> Result<(), CopyError> {
    let Ok(commands) = metrics.get_document("commands") else {
        findings.note("the source does not count commands (serverStatus.metrics.commands)".to_owned());
        return Ok(());
    };
    let known = trial.database("admin").run_command(doc! { "listCommands": 1 }).await;
    let known = known.map_err(CopyError::command("list the commands of Plimsoll"))?;
    let known = known.get_document("commands").cloned().unwrap_or_default();
    for (name, count) in used(Some(commands)) {
        let is_internal = name.starts_with(['_', '<']) || BETWEEN_SERVERS.contains(&name.as_str());
        if is_internal {
            continue;
        }
        findings.looked_at.commands += 1;
        if known.contains_key(&name) {
            continue;
        }
        // For the words with which it is refused.
        if let Err(error) = trial.database("admin").run_command(doc! { &name: 1 }).await {
            findings.refused(NAMES, format!("command {name}, used {count} times"), reason(&error));
        }
    }
    Ok(())
}

/// Tries a name in each way that it may stand for something. It is refused if every way is.
async fn try_name(
    kind: &str,
    (name, count): &(String, u64),
    ways: &[Document],
    trial: &Client,
    findings: &mut Findings,
) -> Result<(), CopyError> {
    findings.looked_at.operators += 1;
    let mut refused = None;
    for way in ways {
        match refusal(trial, way.clone()).await? {
            None => return Ok(()),
            why => refused = why,
        }
    }
    if let Some(why) = refused {
        findings.refused(NAMES, format!("{kind} {name}, used {count} times"), why);
    }
    Ok(())
}

/// With what a command is refused, if that is for a name in it.
async fn refusal(trial: &Client, command: Document) -> Result<Option<String>, CopyError> {
    let Err(error) = trial.database(DATABASE).run_command(command).await else { return Ok(None) };
    match code(&error) {
        Some(code) if UNKNOWN_NAME.contains(&code) => Ok(Some(reason(&error))),
        Some(BAD_VALUE) if reason(&error).contains("unknown ") => Ok(Some(reason(&error))),
        Some(_) => Ok(None),
        None => Err(CopyError::command("try a name")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_used_are_counted_by_number_or_by_total() {
        let counters =
            doc! { "find": { "failed": 0_i64, "total": 3_i64 }, "ping": { "total": 0 }, "$match": 2_i64, "$out": 0 };
        assert_eq!(used(Some(&counters)), [("find".to_owned(), 3), ("$match".to_owned(), 2)]);
        assert!(used(None).is_empty());
    }
}
