//! Every operator of the registries, on input that is large for it, ends when the command is to stop. An operator without an entry fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::raw::{RawBson, RawDocumentBuf};
use bson::{Bson, DateTime, Document, Timestamp, doc};
use document::Interruption;
use document::work::{Watch, watch};

use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::operator::{Arity, Form, Operator};
use crate::expression::{EvaluationContext, Expression, ParseContext, Variables, operators};
use crate::filter::{self, Filter, FilterOptions, Support};
use crate::update::{
    EmptyTimestamps, Multiplicity, UPDATE_OPERATORS, Update, UpdateClock, UpdateContext, UpdateOptions, UpdatePurpose,
    UpdateSource,
};

/// Wants the command to stop.
struct Stopped;

impl Watch for Stopped {
    fn interruption(&self) -> Option<Interruption> {
        Some(Interruption { name: "Interrupted", message: "operation was interrupted" })
    }
}

/// Elements, fields or conditions: more than are passed over between two questions.
const MANY: i32 = 5_000;

fn variables() -> Variables {
    Variables::new(DateTime::from_millis(0), Some(Timestamp { time: 1, increment: 1 }), 1)
}

/// Large values of each kind, at the top level.
fn large_document() -> RawDocumentBuf {
    let fields: Document = (0..MANY).map(|number| (format!("f{number}"), Bson::Int32(number))).collect();
    let documents: Vec<Bson> = (0..MANY).map(|number| doc! {"k": format!("k{number}"), "v": number}.into()).collect();
    let document = doc! {
        "_id": 1,
        "ints": (0..MANY).collect::<Vec<_>>(),
        "documents": documents,
        "fields": fields,
        "text": "a".repeat(500_000),
        "yes": true,
    };
    RawDocumentBuf::try_from(&document).unwrap()
}

fn assert_interrupted<T>(name: &str, outcome: Result<T>) {
    match outcome.map(|_| ()) {
        Err(QueryError { kind: ErrorKind::Interrupted("Interrupted"), .. }) => {}
        other => panic!("{name}: {other:?}"),
    }
}

/// As many of one value.
fn many(value: impl Into<Bson>) -> Vec<Bson> {
    vec![value.into(); MANY as usize]
}

/// What an operator with a grammar of its own is given; `None` when all it has to do is bounded.
fn special_argument(name: &str) -> Option<Bson> {
    let of_text = || doc! {"input": "$text", "regex": "a[xy]"};
    Some(match name {
        "$regexFind" | "$regexFindAll" | "$regexMatch" => of_text().into(),
        "$reduce" => doc! {"input": "$ints", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}.into(),
        "$filter" => doc! {"input": "$ints", "cond": true}.into(),
        "$map" => doc! {"input": "$ints", "in": "$$this"}.into(),
        "$sortArray" => doc! {"input": "$ints", "sortBy": -1}.into(),
        "$function" => doc! {"body": "function (x) { for (;;) {} }", "args": ["$ints"], "lang": "js"}.into(),
        "$_internalJsEmit" => doc! {"eval": "function () { for (;;) {} }", "this": "$fields"}.into(),
        "$zip" => doc! {"inputs": ["$ints", "$ints"]}.into(),
        "$getField" => doc! {"field": "x", "input": "$fields"}.into(),
        "$setField" => doc! {"field": "x", "input": "$fields", "value": 1}.into(),
        "$unsetField" => doc! {"field": "x", "input": "$fields"}.into(),
        "$let" => {
            let names = (0..MANY).map(|number| (format!("v{number}"), Bson::from("$yes")));
            doc! {"vars": names.collect::<Document>(), "in": "$$v1"}.into()
        }
        "$switch" => doc! {"branches": many(doc! {"case": "$no", "then": 1}), "default": 0}.into(),
        "$setEquals" => vec!["$ints", "$ints"].into(),
        "$and" => many("$yes").into(),
        "$or" | "$ifNull" => many("$no").into(),
        // Constants, a number, three branches, or the parts of one date.
        "$cond" | "$const" | "$createObjectId" | "$literal" | "$meta" | "$rand" | "$sigmoid" => return None,
        "$dayOfMonth" | "$dayOfWeek" | "$dayOfYear" | "$hour" | "$isoDayOfWeek" | "$isoWeek" | "$isoWeekYear"
        | "$millisecond" | "$minute" | "$month" | "$second" | "$week" | "$year" => return None,
        other => panic!("{other} has no entry"),
    })
}

/// What an operator is given.
fn argument(operator: &Operator) -> Option<Bson> {
    if let "$median" | "$percentile" = operator.name {
        let mut argument = doc! {"input": "$ints", "method": "approximate"};
        if operator.name == "$percentile" {
            argument.insert("p", vec![0.5, 0.9]);
        }
        return Some(argument.into());
    }
    match operator.form {
        Form::Eager { arity: Arity::Exactly(count) | Arity::Between(count, _), .. } => {
            Some(vec!["$text"; count].into())
        }
        Form::Eager { arity: Arity::Single, .. } => Some("$text".into()),
        Form::Eager { arity: Arity::Any, .. } => Some(vec!["$text", "$ints"].into()),
        Form::Named { fields, .. } => {
            let needed =
                fields.iter().enumerate().filter(|(position, field)| *position == 0 || field.required.is_some());
            let given = needed.map(|(_, field)| (field.name.to_owned(), Bson::from("$text")));
            Some(given.collect::<Document>().into())
        }
        Form::Lazy { .. } | Form::Special(_) => special_argument(operator.name),
        Form::Refused => None,
    }
}

#[test]
fn expressions_end() {
    let (document, variables) = (large_document(), variables());
    let mut count = 0;
    for operator in operators::all() {
        let Some(argument) = argument(operator) else { continue };
        let expression = RawBson::try_from(Bson::from(doc! {operator.name: argument})).unwrap();
        let parsed = Expression::parse(expression.as_raw_bson_ref(), &ParseContext::for_variables(&variables));
        let _watching = watch(Arc::new(Stopped));
        let outcome = parsed.unwrap().evaluate(&EvaluationContext::new(&document, &variables)).map(|_| ());
        assert_interrupted(operator.name, outcome);
        count += 1;
    }
    assert!(count > 100, "{count}");
}

/// What is large in the expression itself ends while it is parsed.
#[test]
fn parsing_expressions_ends() {
    let variables = variables();
    for (name, expression) in [
        ("array", Bson::from(many("$a"))),
        ("document", (0..MANY).map(|number| (format!("f{number}"), Bson::from("$a"))).collect::<Document>().into()),
        ("arguments", doc! {"$add": many("$a")}.into()),
        ("constants", many(doc! {"$add": [1, 2]}).into()),
        ("a constant that takes long", doc! {"$range": [0, 100_000]}.into()),
    ] {
        let expression = RawBson::try_from(expression).unwrap();
        let _watching = watch(Arc::new(Stopped));
        let context = ParseContext::for_variables(&variables);
        assert_interrupted(name, Expression::parse(expression.as_raw_bson_ref(), &context));
    }
}

/// A filter with the operator on something large; `None` when all that it has to do is bounded.
fn large_filter(name: &str) -> Option<Document> {
    let on_elements = |operand: Bson| Some(doc! {"ints": {name: operand}});
    match name {
        "$and" | "$nor" | "$or" => Some(doc! {name: many(doc! {"_id": {"$gt": if name == "$and" { 0 } else { 1 }}})}),
        "$all" => on_elements(vec![-1].into()),
        "$bitsAllClear" | "$bitsAllSet" | "$bitsAnyClear" | "$bitsAnySet" => {
            Some(doc! {"documents": {"$elemMatch": {"k": {name: 1}}}})
        }
        "$elemMatch" => on_elements(doc! {"$lt": 0}.into()),
        "$eq" | "$lt" | "$lte" => on_elements((-1).into()),
        "$gt" | "$gte" => on_elements(MANY.into()),
        "$ne" => Some(doc! {"ints": {"$ne": -1}}),
        "$in" | "$nin" => on_elements(vec![-1].into()),
        "$geoIntersects" => on_elements(doc! {"$geometry": {"type": "Point", "coordinates": [0, 0]}}.into()),
        "$geoWithin" | "$within" => on_elements(doc! {"$box": [[0, 0], [1, 1]]}.into()),
        "$geoNear" | "$near" | "$nearSphere" => on_elements(vec![0, 0].into()),
        "$maxDistance" | "$minDistance" => Some(doc! {"ints": {"$near": [0, 0], name: 1}}),
        "$jsonSchema" => Some(doc! {"$jsonSchema": {"properties": {"ints": {"items": {"minimum": 0}}}}}),
        "$mod" => on_elements(vec![MANY, MANY + 1].into()),
        "$not" => on_elements(doc! {"$lt": 0}.into()),
        "$regex" => Some(doc! {"text": {"$regex": "a[xy]"}}),
        "$type" => on_elements("string".into()),
        // They look at one place, or are many of which each is asked about by what stands around them.
        "$exists" | "$size" => Some(doc! {"$nor": many(doc! {"_id": {name: 0}})}),
        "$expr" => Some(doc! {"$expr": {"$gt": [{"$size": "$ints"}, 0]}}),
        "$alwaysFalse" | "$alwaysTrue" | "$comment" | "$options" | "$sampleRate" => None,
        // That scripts ask is tested where they are run.
        "$where" => None,
        // That its words ask is tested in `text_search`.
        "$text" => None,
        other => panic!("{other} has no entry"),
    }
}

#[test]
fn filters_end() {
    let document = large_document();
    for (name, support) in filter::OPERATORS {
        let Some(filter) = (*support == Support::Full).then(|| large_filter(name)).flatten() else { continue };
        let filter = RawDocumentBuf::try_from(&filter).unwrap();
        let parsed = Filter::parse(&filter, &FilterOptions::default().with_nearness()).unwrap();
        let _watching = watch(Arc::new(Stopped));
        assert_interrupted(name, parsed.matches(&document));
    }
}

#[test]
fn parsing_filters_ends() {
    let numbers: Vec<i32> = (0..MANY).collect();
    for filter in [
        doc! {"a": {"$in": numbers.clone()}},
        doc! {"a": {"$all": numbers.clone()}},
        doc! {"$or": many(doc! {"a": 1})},
        doc! {"a": {"$geoWithin": {"$polygon": many(vec![1, 2])}}},
        numbers.iter().map(|number| (format!("f{number}"), Bson::Int32(1))).collect(),
    ] {
        let source = RawDocumentBuf::try_from(&filter).unwrap();
        let _watching = watch(Arc::new(Stopped));
        assert_interrupted(&filter.to_string()[..20], Filter::parse(&source, &FilterOptions::default()));
    }
}

/// An update with the operator on something large, or on many fields.
fn large_update(name: &str) -> Document {
    let on_many = |operand: Bson| -> Document {
        doc! {name: (0..MANY).map(|number| (format!("fields.f{number}"), operand.clone())).collect::<Document>()}
    };
    match name {
        "$addToSet" => doc! {name: {"ints": {"$each": [-1, -2]}}},
        "$push" => doc! {name: {"ints": {"$each": [-1], "$sort": 1}}},
        "$pull" => doc! {name: {"ints": {"$gt": 5}}},
        "$pullAll" => doc! {name: {"ints": [5, 6]}},
        "$pop" => doc! {name: {"ints": 1, "text": 1}},
        "$bit" => on_many(doc! {"and": 1}.into()),
        "$currentDate" => on_many(true.into()),
        "$inc" | "$max" | "$min" | "$mul" | "$set" | "$setOnInsert" | "$unset" => on_many(1.into()),
        "$rename" => {
            let renamed =
                (0..MANY).map(|number| (format!("fields.f{number}"), Bson::from(format!("fields.r{number}"))));
            doc! {name: renamed.collect::<Document>()}
        }
        other => panic!("{other} has no entry"),
    }
}

#[derive(Debug)]
struct NoClock;

impl UpdateClock for NoClock {
    fn now(&self) -> DateTime {
        DateTime::from_millis(0)
    }

    fn next_timestamp(&self) -> Timestamp {
        Timestamp { time: 1, increment: 1 }
    }
}

#[test]
fn updates_end() {
    let (document, variables) = (large_document(), Arc::new(variables()));
    let context = UpdateContext {
        match_position: None,
        purpose: UpdatePurpose::Modify,
        clock: &NoClock,
        empty_timestamps: EmptyTimestamps::Keep,
        variables: &variables,
    };
    for operator in UPDATE_OPERATORS {
        let update = RawDocumentBuf::try_from(&large_update(operator.name)).unwrap();
        let options = UpdateOptions { multiplicity: Multiplicity::default(), variables: Arc::clone(&variables) };
        let parsed = Update::parse(UpdateSource::Document(&update), &[], &options).unwrap();
        let _watching = watch(Arc::new(Stopped));
        assert_interrupted(operator.name, parsed.apply(&document, &context));
    }
}

/// Counts how often it is asked.
#[derive(Default)]
struct Counted(AtomicU64);

impl Watch for Counted {
    fn interruption(&self) -> Option<Interruption> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Each of many conditions is a pass over a large document: who is killed in the midst does not wait for them all.
#[test]
fn many_conditions_on_a_large_document_ask_throughout() {
    const CONDITIONS: usize = 300;
    let document: Document = (0..20_000).map(|number| (format!("f{number}"), Bson::Int32(number))).collect();
    let document = RawDocumentBuf::try_from(&document).unwrap();
    let conditions: Vec<Document> = (0..CONDITIONS as i32).map(|number| doc! {format!("x{number}"): number}).collect();
    for (operator, is_match) in [("$or", false), ("$nor", true)] {
        let filter = RawDocumentBuf::try_from(&doc! {operator: conditions.clone()}).unwrap();
        let filter = Filter::parse(&filter, &FilterOptions::default()).unwrap();
        let counted = Arc::new(Counted::default());
        let _watching = watch(counted.clone());
        assert_eq!(filter.matches(&document).unwrap(), is_match);
        let asked = counted.0.load(Ordering::Relaxed) as usize;
        assert!(asked >= CONDITIONS, "{operator}: {asked}");
    }
}
