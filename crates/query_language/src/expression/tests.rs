//! No operator panics, whatever it is given; and folding constants changes nothing.

use bson::oid::ObjectId;
use bson::raw::{RawBson, RawDocumentBuf};
use bson::{Bson, DateTime, Decimal128, Timestamp, doc};

use super::operator::Form;
use super::{EvaluationContext, Expression, ParseContext, Value, Variables, operators};

/// Values at the edges of their types.
fn values() -> Vec<Bson> {
    let decimal = |text: &str| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
    let mut values = vec![
        Bson::Null,
        Bson::Undefined,
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Boolean(true),
        Bson::Int32(0),
        Bson::Int32(-1),
        Bson::Int32(3),
        Bson::Int32(i32::MIN),
        Bson::Int32(i32::MAX),
        Bson::Int64(i64::MIN),
        Bson::Int64(i64::MAX),
        Bson::Double(0.5),
        Bson::Double(-0.0),
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Double(1e300),
        decimal("1E+6111"),
        decimal("-1.5"),
        decimal("NaN"),
        decimal("-Infinity"),
        Bson::DateTime(DateTime::from_millis(0)),
        Bson::DateTime(DateTime::from_millis(i64::MIN)),
        Bson::DateTime(DateTime::from_millis(i64::MAX)),
        Bson::DateTime(DateTime::from_millis(1_400_000_000_123)),
        Bson::Timestamp(Timestamp { time: u32::MAX, increment: 1 }),
        Bson::ObjectId(ObjectId::from_bytes([255; 12])),
        Bson::Array(vec![]),
        Bson::Array(vec![Bson::Int32(2), Bson::String("é".into()), Bson::Null]),
        Bson::Array(vec![doc! {"k": "a", "v": 1}.into(), Bson::Array(vec!["x".into(), 1.into()])]),
        Bson::Document(doc! {}),
        Bson::Document(doc! {"a": 1, "b": [1]}),
    ];
    let texts = ["", "é(", "a", "year", "millisecond", "%Y-%m", "%", "America/New_York", "+99:99", "2020-02-30", "i"];
    values.extend(texts.map(|text| Bson::String(text.to_owned())));
    values
}

fn variables() -> Variables {
    Variables::new(DateTime::from_millis(0), None, 7)
}

/// Evaluates with the arguments as fields of the document, and as literals; both must agree.
fn evaluate_both_ways(by_path: Bson, by_literal: Bson, document: &RawDocumentBuf) {
    let variables = variables();
    let context = ParseContext::for_variables(&variables);
    let evaluate = |expression: Bson| {
        let source = RawBson::try_from(expression).unwrap();
        let expression = Expression::parse(source.as_raw_bson_ref(), &context)?;
        let _ = expression.to_bson();
        let evaluated = expression.evaluate(&EvaluationContext::new(document, &variables));
        evaluated.map(Value::into_owned)
    };
    let shown = by_path.to_string();
    // Some arguments must be constant, and some mistakes are found when parsing.
    if let (Ok(dynamic), Ok(folded)) = (evaluate(by_path), evaluate(by_literal)) {
        assert!(super::order::compare(dynamic.get(), folded.get()).is_eq(), "{shown}: {dynamic:?} {folded:?}");
    }
}

#[test]
fn positional_operators_never_panic() {
    let values = values();
    for operator in operators::all() {
        if operator.name == "$rand" || !matches!(operator.form, Form::Eager { .. } | Form::Lazy { .. }) {
            continue;
        }
        for (i, first) in values.iter().enumerate() {
            for (j, second) in values.iter().enumerate() {
                let third = values.get((i * 7 + j * 13) % values.len()).unwrap();
                let document = doc! {"a": first.clone(), "b": second.clone(), "c": third.clone()};
                let document = RawDocumentBuf::try_from(document).unwrap();
                let literal = |value: &Bson| Bson::Document(doc! {"$literal": value.clone()});
                for count in 1..=3 {
                    let paths: Vec<Bson> = ["$a", "$b", "$c"].into_iter().take(count).map(Bson::from).collect();
                    let literals: Vec<Bson> = [first, second, third].into_iter().take(count).map(literal).collect();
                    if count == 1 && j > 0 || count > 1 && (i + j) % count != 0 {
                        continue;
                    }
                    evaluate_both_ways(
                        doc! {operator.name: paths}.into(),
                        doc! {operator.name: literals}.into(),
                        &document,
                    );
                }
            }
        }
    }
}

/// Names of the arguments of operators that parse themselves.
const SPECIAL_FIELDS: &[(&str, &[&str])] = &[
    ("$regexFindAll", &["input", "regex", "options"]),
    ("$getField", &["field", "input"]),
    ("$hour", &["date", "timezone"]),
    ("$week", &["date", "timezone"]),
    ("$isoWeekYear", &["date", "timezone"]),
    ("$filter", &["input", "cond", "limit"]),
    ("$reduce", &["input", "initialValue", "in"]),
    ("$map", &["input", "in"]),
];

#[test]
fn named_operators_never_panic() {
    let values = values();
    let named = operators::all().map(|operator| (operator.name, operator.named_fields()));
    let named = named.map(|(name, fields)| (name, fields.iter().map(|field| field.name).collect::<Vec<_>>()));
    let special = SPECIAL_FIELDS.iter().map(|(name, fields)| (*name, fields.to_vec()));
    let mut state = 1_usize;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for (name, fields) in named.chain(special).filter(|(_, fields)| !fields.is_empty()) {
        for _ in 0..4000 {
            let (mut paths, mut literals, mut document) = (doc! {}, doc! {}, doc! {});
            for field in &fields {
                if draw(8) == 0 {
                    continue;
                }
                let value = values.get(draw(values.len())).unwrap();
                document.insert(*field, value.clone());
                paths.insert(*field, format!("${field}"));
                literals.insert(*field, doc! {"$literal": value.clone()});
            }
            let document = RawDocumentBuf::try_from(document).unwrap();
            evaluate_both_ways(doc! {name: paths}.into(), doc! {name: literals}.into(), &document);
        }
    }
}

#[test]
fn values_do_not_grow_without_bound() {
    let double = doc! {"$reduce": {
        "input": {"$range": [0, 60]}, "initialValue": "0123456789", "in": {"$concat": ["$$value", "$$value"]},
    }};
    let wrap = doc! {"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": 1, "in": ["$$value"]}};
    let (variables, document) = (variables(), RawDocumentBuf::new());
    for (expression, message) in [(double, "past the 64MB limit"), (wrap, "maximum nested object depth")] {
        let source = RawBson::try_from(Bson::Document(expression)).unwrap();
        let expression = Expression::parse(source.as_raw_bson_ref(), &ParseContext::new()).unwrap();
        let error = expression.evaluate(&EvaluationContext::new(&document, &variables)).unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
}

/// What a command says in a few bytes is not kept as millions, which every step of a query would copy, compare and show.
#[test]
fn constants_do_not_grow_without_bound() {
    let size_of = |count: i32, times: usize| {
        let list = vec![Bson::from(doc! {"$range": [0, count]}); times];
        let source = RawBson::try_from(Bson::from(doc! {"$concatArrays": [list, "$a"]})).unwrap();
        let expression = Expression::parse(source.as_raw_bson_ref(), &ParseContext::new()).unwrap();
        bson::serialize_to_vec(&doc! {"shown": Bson::try_from(expression.to_bson().unwrap()).unwrap()}).unwrap().len()
    };
    assert!(size_of(1000, 1) > 8000, "a small one is worked out once");
    assert!(size_of(2_000_000, 1) < 1000, "a large one is left as it is");
    assert!(size_of(10_000, 50) < super::limits::CONSTANT_GROWTH_MAX + 10_000, "nor may many together");
}

/// Wants the command to stop.
struct Stopped;

impl document::work::Watch for Stopped {
    fn interruption(&self) -> Option<document::Interruption> {
        Some(document::Interruption { name: "Interrupted", message: "operation was interrupted" })
    }
}

/// What is evaluated for each element of an array may take minutes inside of one document.
#[test]
fn loops_end_when_the_command_is_to_stop() {
    let variables = variables();
    let context = ParseContext::for_variables(&variables);
    let elements = || doc! {"$range": [0, {"$add": ["$n", 1000]}]};
    for expression in [
        doc! {"$map": {"input": elements(), "in": 1}},
        doc! {"$filter": {"input": elements(), "cond": true}},
        doc! {"$reduce": {"input": elements(), "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
        // No inner loop is long.
        doc! {"$map": {"input": {"$range": [0, {"$add": ["$n", 40]}]}, "in": {"$map": {"input": {"$range": [0, 40]}, "in": 1}}}},
    ] {
        let document = RawDocumentBuf::try_from(&doc! {"n": 0}).unwrap();
        let argument = RawBson::try_from(Bson::Document(expression)).unwrap();
        let parsed = Expression::parse(argument.as_raw_bson_ref(), &context).unwrap();
        let _watching = document::work::watch(std::sync::Arc::new(Stopped));
        let outcome = parsed.evaluate(&EvaluationContext::new(&document, &variables)).map(Value::into_owned);
        assert!(outcome.is_err_and(|error| error.message == "operation was interrupted"));
    }
}
