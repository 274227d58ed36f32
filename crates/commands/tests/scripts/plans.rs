//! Plans: what `explain` says of a query. A case's name says why the plan is what it is.
//!
//! Sections: `indexes` (carried over; specifications without names), and one of `find`, `count`, `distinct` (the fields of the
//! command beside its collection) and `aggregate` (the stages, or the fields with `pipeline`). The collection has 400 documents `{_id, a: _id % 20, b: _id, c: [_id % 3, _id % 5], d: {e: _id % 7}, s: "s0"
//! to "s9", p: only in every tenth}`.
//!
//! The outcome has the winning plan, a stage a line with what it reads and checks, then `rejected` plans by their indexes,
//! what was examined, and the stages of a pipeline that are run over the results.

use std::cell::RefCell;

use bson::{Bson, Document, doc};
use script_test::{Case, Suite};

use crate::small_server::SmallServer;
use crate::{is_ok, printed, values};

const DOCUMENTS: i32 = 400;

#[test]
fn plans() {
    let server = RefCell::new(SmallServer::new());
    fill(&mut server.borrow_mut());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts/plans");
    let count = Suite::new(folder).carry_over("indexes").run(|case| outcome(&mut server.borrow_mut(), case));
    assert!(count >= 65, "{count} cases");
}

fn fill(server: &mut SmallServer) {
    let document = |number: i32| {
        let mut document = doc! {
            "_id": number, "a": number % 20, "b": number, "c": [number % 3, number % 5], "d": { "e": number % 7 },
            "s": format!("s{}", number % 10),
        };
        if number % 10 == 0 {
            document.insert("p", number);
        }
        document
    };
    let documents: Vec<Document> = (0..DOCUMENTS).map(document).collect();
    sound(server, &doc! { "insert": "c", "documents": documents, "$db": "test" });
}

/// The reply of a command that must succeed.
fn sound(server: &mut SmallServer, command: &Document) -> Document {
    let reply = server.send(command).unwrap();
    assert!(is_ok(&reply), "{command}: {reply}");
    reply
}

fn outcome(server: &mut SmallServer, case: &Case) -> String {
    sound(server, &doc! { "dropIndexes": "c", "index": "*", "$db": "test" });
    let indexes: Vec<Bson> = values(case.text("indexes").unwrap_or("")).into_iter().map(named).collect();
    if !indexes.is_empty() {
        sound(server, &doc! { "createIndexes": "c", "indexes": indexes, "$db": "test" });
    }
    let command = doc! { "explain": explained(case), "verbosity": "executionStats", "$db": "test" };
    let reply = server.send(&command).unwrap();
    if !is_ok(&reply) {
        return format!("error {}: {}", reply.get_str("codeName").unwrap(), reply.get_str("errmsg").unwrap());
    }
    shown(&reply)
}

/// The command of a case.
fn explained(case: &Case) -> Document {
    let name = ["find", "count", "distinct", "aggregate"].into_iter().find(|name| case.has(name)).unwrap();
    let mut command = doc! { name: "c" };
    for fields in values(case.text(name).unwrap()) {
        match fields {
            Bson::Array(stages) => command.extend(doc! { "pipeline": stages, "cursor": {} }),
            fields => command.extend(fields.as_document().unwrap().clone()),
        }
    }
    command
}

/// The specification with the name that drivers give.
fn named(specification: Bson) -> Bson {
    let Bson::Document(mut specification) = specification else { panic!("an index is a document") };
    if !specification.contains_key("key") {
        specification = doc! { "key": specification };
    }
    let parts: Vec<String> =
        specification.get_document("key").unwrap().iter().map(|(path, kind)| format!("{path}_{kind}")).collect();
    specification.insert("name", parts.join("_"));
    Bson::Document(specification)
}

fn shown(reply: &Document) -> String {
    let Ok(stages) = reply.get_array("stages") else { return shown_plan(reply) };
    let mut stages = stages.iter().map(|stage| stage.as_document().unwrap());
    let plan = shown_plan(stages.next().unwrap().get_document("$cursor").unwrap());
    let rest = stages.map(|stage| format!("\nthen {}", printed(stage)));
    plan + &rest.collect::<String>()
}

fn shown_plan(reply: &Document) -> String {
    let planner = reply.get_document("queryPlanner").unwrap();
    let mut lines = Vec::new();
    show_stage(planner.get_document("winningPlan").unwrap(), 0, &mut lines);
    let rejected = planner.get_array("rejectedPlans").unwrap();
    if !rejected.is_empty() {
        let mut names: Vec<String> = rejected.iter().map(|plan| stages(plan.as_document().unwrap())).collect();
        names.sort();
        lines.push(format!("rejected {}", names.join(", ")));
    }
    let statistics = reply.get_document("executionStats").unwrap();
    let number = |name: &str| statistics.get(name).map(ToString::to_string).unwrap_or_default();
    lines.push(format!(
        "examined {} keys, {} documents; returned {}",
        number("totalKeysExamined"),
        number("totalDocsExamined"),
        number("nReturned")
    ));
    lines.join("\n")
}

/// What makes a plan another plan.
const SHOWN: &[&str] = &[
    "direction",
    "indexName",
    "isMultiKey",
    "indexBounds",
    "filter",
    "sortPattern",
    "limitAmount",
    "skipAmount",
    "memLimit",
    "transformBy",
    "indexPrefix",
    "parsedTextQuery",
];

fn show_stage(stage: &Document, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let mut fields = doc! {};
    for (name, value) in stage.iter().filter(|(name, _)| SHOWN.contains(&name.as_str()) && *name != "memLimit") {
        let is_usual = matches!((name.as_str(), value), ("direction", Bson::String(forward)) if forward == "forward")
            || matches!((name.as_str(), value), ("isMultiKey", Bson::Boolean(false)));
        if !is_usual {
            fields.insert(name, value.clone());
        }
    }
    let fields = if fields.is_empty() { String::new() } else { format!(" {}", printed(&fields)) };
    lines.push(format!("{indent}{}{fields}", stage.get_str("stage").unwrap()));
    children(stage).for_each(|child| show_stage(child, depth + 1, lines));
}

fn children(stage: &Document) -> impl Iterator<Item = &Document> {
    let one = stage.get_document("inputStage").ok().into_iter();
    let several = stage.get_array("inputStages").ok().into_iter().flatten().filter_map(Bson::as_document);
    one.chain(several)
}

/// A plan's stages in one line.
fn stages(stage: &Document) -> String {
    let own = match stage.get_str("indexName") {
        Ok(index) => format!("{} {index}", stage.get_str("stage").unwrap()),
        Err(_) => stage.get_str("stage").unwrap().to_owned(),
    };
    let below: Vec<String> = children(stage).map(stages).collect();
    if below.is_empty() { own } else { format!("{own} < {}", below.join(" + ")) }
}
