//! Commands as a hostile client might make them up: right in their structure, with any operator anywhere and any value as its argument.
//!
//! Made of choices, which come from a fuzzer's bytes or from a seed. Names of operators, stages and commands come from the registries, so new ones are tried without
//! being told of here. Used by the test beside it and by `fuzz/fuzz_targets/commands.rs`.

use bson::raw::cstr;
use bson::{Bson, Document, doc};

/// What the generator chooses by. Without bytes it always chooses the first.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn are_used_up(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A number below `count`, which is not 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let (number, rest) = match self.bytes {
            [first, second, rest @ ..] => (usize::from(*first) << 8 | usize::from(*second), rest),
            [last] => (usize::from(*last), &[][..]),
            [] => (0, &[][..]),
        };
        self.bytes = rest;
        number % count
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn happens(&mut self, one_in: usize) -> bool {
        self.below(one_in) == one_in - 1
    }
}

const NAMES: &[&str] =
    &["a", "b", "c", "_id", "a.b", "a.0", "b.c.a", "", "$", "a.$", "a.$[]", "a.$[x]", "x", "$a", "a.", "$db"];
const COLLECTIONS: &[&str] = &["c", "d", "e", "system.x", "ring"];
const TEXTS: &[&str] = &[
    "",
    "a",
    "$a",
    "$$ROOT",
    "$$this",
    "$$value.a",
    "$a.b",
    "2019-03-09T10:30:00Z",
    "UTC",
    "%Y-%m",
    "(a+)+$",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    "é漢",
    "1",
    "-1e400",
    "ix",
    "object",
];
/// Commands that would end or hold the server on purpose, or wait for time to pass, which it does not here.
const LEFT_OUT: &[&str] = &[
    "fsync",
    "fsyncUnlock",
    "plimsollBackup",
    "plimsollProfile",
    "shutdown",
    "waitForFailPoint",
    "configureFailPoint",
    "getMore",
    "hello",
    "isMaster",
    "logRotate",
];

/// Any value, containers up to so many levels.
pub(crate) fn value(choices: &mut Choices<'_>, levels: usize) -> Bson {
    match choices.below(if levels == 0 { 16 } else { 24 }) {
        0 => Bson::Null,
        1 => Bson::Int32(choices.one_of(&[0, 1, -1, 2, i32::MAX, i32::MIN])),
        2 => Bson::Int64(choices.one_of(&[0, 1, i64::MAX, i64::MIN, 1 << 53])),
        3 => Bson::Double(choices.one_of(&[0.0, -0.0, 1.5, f64::NAN, f64::INFINITY, 1e308, -1e-308])),
        4 => Bson::Boolean(choices.happens(2)),
        5 => {
            Bson::DateTime(bson::DateTime::from_millis(choices.one_of(&[0, -1, i64::MAX, i64::MIN, 1_700_000_000_000])))
        }
        6 => Bson::ObjectId(bson::oid::ObjectId::from_bytes([7; 12])),
        7 => Bson::RegularExpression(bson::Regex {
            pattern: text(choices).try_into().unwrap_or_else(|_| cstr!("").into()),
            options: choices.one_of(&[cstr!(""), cstr!("i"), cstr!("x"), cstr!("s")]).into(),
        }),
        8 => Bson::Timestamp(bson::Timestamp { time: choices.below(3) as u32, increment: choices.below(3) as u32 }),
        9 => Bson::MinKey,
        10 => Bson::MaxKey,
        11 => Bson::Undefined,
        12 => Bson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![0; choices.below(20)],
        }),
        13 => choices
            .one_of(&["1", "NaN", "-0", "1E+6144", "Infinity", "42.13"])
            .parse()
            .map_or(Bson::Null, Bson::Decimal128),
        14 | 15 => Bson::String(text(choices)),
        16..=19 => Bson::Array((0..choices.below(5)).map(|_| value(choices, levels - 1)).collect()),
        _ => Bson::Document(document(choices, levels - 1)),
    }
}

fn text(choices: &mut Choices<'_>) -> String {
    choices.one_of(TEXTS).to_owned()
}

fn name(choices: &mut Choices<'_>) -> String {
    choices.one_of(NAMES).to_owned()
}

/// Any document.
fn document(choices: &mut Choices<'_>, levels: usize) -> Document {
    (0..choices.below(5)).map(|_| (name(choices), value(choices, levels))).collect()
}

/// A filter, often as filters are.
fn filter(choices: &mut Choices<'_>, levels: usize) -> Document {
    let mut filter = Document::new();
    for _ in 0..choices.below(4) {
        let operator = query_language::filter::OPERATORS[choices.below(query_language::filter::OPERATORS.len())].0;
        let argument = match choices.below(6) {
            0 if levels > 0 => Bson::Array((0..choices.below(3)).map(|_| filter_of(choices, levels - 1)).collect()),
            1 if levels > 0 => filter_of(choices, levels - 1),
            2 if levels > 0 => expression(choices, levels - 1),
            _ => value(choices, levels.min(2)),
        };
        match choices.below(3) {
            0 => drop(filter.insert(operator, argument)),
            1 => drop(filter.insert(name(choices), doc! { operator: argument })),
            _ => drop(filter.insert(name(choices), argument)),
        }
    }
    filter
}

fn filter_of(choices: &mut Choices<'_>, levels: usize) -> Bson {
    Bson::Document(filter(choices, levels))
}

/// An expression of any operator.
fn expression(choices: &mut Choices<'_>, levels: usize) -> Bson {
    if levels == 0 || choices.happens(4) {
        return value(choices, levels.min(2));
    }
    let operators: Vec<_> = query_language::expression::operators::all().collect();
    let operator = operators[choices.below(operators.len())];
    let argument = match choices.below(3) {
        0 => expression(choices, levels - 1),
        1 => Bson::Array((0..choices.below(4)).map(|_| expression(choices, levels - 1)).collect()),
        _ => named_arguments(choices, levels - 1),
    };
    Bson::Document(doc! { operator.name: argument })
}

fn named_arguments(choices: &mut Choices<'_>, levels: usize) -> Bson {
    const FIELDS: &[&str] = &[
        "input",
        "in",
        "as",
        "cond",
        "if",
        "then",
        "else",
        "initialValue",
        "vars",
        "date",
        "dateString",
        "format",
        "timezone",
        "unit",
        "amount",
        "startDate",
        "endDate",
        "to",
        "onError",
        "onNull",
        "branches",
        "default",
        "case",
        "find",
        "replacement",
        "regex",
        "options",
        "chars",
        "n",
        "sortBy",
        "output",
        "field",
        "value",
        "inputs",
        "useLongestLength",
        "defaults",
        "binSize",
        "year",
    ];
    let fields = (0..choices.below(5)).map(|_| {
        let field = choices.one_of(FIELDS);
        let argument = match choices.below(4) {
            0 => Bson::Document(document(choices, levels.min(1))),
            1 => Bson::String(text(choices)),
            _ => expression(choices, levels.saturating_sub(1)),
        };
        (field.to_owned(), argument)
    });
    Bson::Document(fields.collect())
}

/// Stages, as often right as not.
fn pipeline(choices: &mut Choices<'_>, levels: usize) -> Vec<Bson> {
    (0..choices.below(5)).map(|_| Bson::Document(stage(choices, levels))).collect()
}

fn stage(choices: &mut Choices<'_>, levels: usize) -> Document {
    let inner = levels.saturating_sub(1);
    let fields = |choices: &mut Choices<'_>| -> Document {
        (0..choices.below(4)).map(|_| (name(choices), expression(choices, inner))).collect()
    };
    let accumulated = |choices: &mut Choices<'_>| -> Document {
        let accumulators = query_language::accumulator::ACCUMULATORS;
        let mut group = doc! { "_id": expression(choices, inner) };
        for _ in 0..choices.below(3) {
            let accumulator = accumulators[choices.below(accumulators.len())].name;
            group.insert(name(choices), doc! { accumulator: expression(choices, inner) });
        }
        group
    };
    match choices.below(14) {
        0 => doc! { "$match": filter(choices, inner) },
        1 => doc! { "$project": fields(choices) },
        2 => doc! { "$addFields": fields(choices) },
        3 => doc! { "$group": accumulated(choices) },
        4 => doc! { "$sort": { name(choices): choices.one_of(&[1, -1]), name(choices): 1 } },
        5 => doc! { "$unwind": format!("${}", name(choices)) },
        6 => doc! { "$replaceWith": expression(choices, inner) },
        7 if levels > 1 => {
            doc! { "$lookup": { "from": choices.one_of(COLLECTIONS), "let": fields(choices), "pipeline": pipeline(choices, inner), "as": name(choices) } }
        }
        8 if levels > 1 => doc! { "$facet": { "x": pipeline(choices, inner), "y": pipeline(choices, inner) } },
        9 => doc! { "$limit": choices.below(5) as i64 },
        10 if levels > 1 => {
            doc! { "$unionWith": { "coll": choices.one_of(COLLECTIONS), "pipeline": pipeline(choices, inner) } }
        }
        11 => doc! { "$out": choices.one_of(COLLECTIONS) },
        12 => doc! { "$sortByCount": expression(choices, inner) },
        _ => {
            let stages = aggregation::registry::STAGES;
            doc! { stages[choices.below(stages.len())].name: value(choices, inner) }
        }
    }
}

fn update(choices: &mut Choices<'_>) -> Bson {
    match choices.below(4) {
        0 => Bson::Document(document(choices, 3)),
        1 => Bson::Array(pipeline(choices, 3)),
        _ => {
            let operators = query_language::update::UPDATE_OPERATORS;
            let mut update = Document::new();
            for _ in 0..choices.below(4) {
                let operator = operators[choices.below(operators.len())].name;
                let changes: Document = (0..choices.below(3)).map(|_| (name(choices), changed(choices))).collect();
                update.insert(operator, changes);
            }
            Bson::Document(update)
        }
    }
}

fn changed(choices: &mut Choices<'_>) -> Bson {
    match choices.below(3) {
        0 => {
            let each: Vec<Bson> = (0..choices.below(3)).map(|_| value(choices, 2)).collect();
            Bson::Document(
                doc! { "$each": each, "$slice": value(choices, 0), "$sort": value(choices, 1), "$position": value(choices, 0) },
            )
        }
        _ => value(choices, 2),
    }
}

fn index(choices: &mut Choices<'_>) -> Document {
    let mut index = doc! {
        "key": { name(choices): choices.one_of(&[1, -1]), name(choices): 1 },
        "name": choices.one_of(&["x", "y", "z", "_id_"]),
    };
    match choices.below(6) {
        0 => drop(index.insert("unique", true)),
        1 => drop(index.insert("sparse", true)),
        2 => drop(index.insert("partialFilterExpression", filter(choices, 2))),
        3 => drop(index.insert("expireAfterSeconds", value(choices, 0))),
        _ => {}
    }
    index
}

/// A command of any kind.
pub(crate) fn command(choices: &mut Choices<'_>) -> Document {
    let collection = choices.one_of(COLLECTIONS);
    let mut command = match choices.below(15) {
        0 | 1 => {
            let documents: Vec<Bson> =
                (0..1 + choices.below(4)).map(|_| Bson::Document(document(choices, 4))).collect();
            doc! { "insert": collection, "documents": documents, "ordered": choices.happens(2) }
        }
        2 => {
            let projection: Document = (0..choices.below(4)).map(|_| (name(choices), expression(choices, 2))).collect();
            doc! { "find": collection, "filter": filter(choices, 4), "sort": document(choices, 0), "projection": projection, "limit": choices.below(9) as i64 }
        }
        3..=5 => doc! { "aggregate": collection, "pipeline": pipeline(choices, 5), "cursor": {} },
        6 | 7 => doc! { "update": collection, "updates": [{
            "q": filter(choices, 3), "u": update(choices), "multi": choices.happens(2), "upsert": choices.happens(2),
            "arrayFilters": [filter(choices, 2)],
        }] },
        8 => doc! { "delete": collection, "deletes": [{ "q": filter(choices, 3), "limit": choices.below(2) as i32 }] },
        9 => {
            doc! { "findAndModify": collection, "query": filter(choices, 3), "update": update(choices), "upsert": choices.happens(2), "new": true }
        }
        10 => doc! { "distinct": collection, "key": name(choices), "query": filter(choices, 3) },
        11 => doc! { "createIndexes": collection, "indexes": [index(choices)] },
        12 => {
            doc! { "create": collection, "validator": filter(choices, 2), "capped": collection == "ring", "size": 4096 }
        }
        13 => {
            let inner = self::command(&mut Choices::new(&[]));
            doc! { "explain": inner, "verbosity": choices.one_of(&["queryPlanner", "executionStats", "allPlansExecution"]) }
        }
        _ => {
            let names: Vec<&str> = commands::command_descriptions().iter().map(|known| known.name).collect();
            let name = choices.one_of(&names);
            if LEFT_OUT.contains(&name) {
                doc! { "ping": 1 }
            } else {
                doc! { name: collection }
            }
        }
    };
    if choices.happens(8) {
        // Something beside, or in the place of something.
        let names: Vec<String> = command.keys().skip(1).cloned().collect();
        let own = choices.below(names.len() + 1);
        let field = names.get(own).cloned().unwrap_or_else(|| {
            choices
                .one_of(&["let", "hint", "collation", "readConcern", "writeConcern", "comment", "skip", "batchSize"])
                .to_owned()
        });
        command.insert(field, value(choices, 3));
    }
    command
}
