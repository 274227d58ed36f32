//! Spilling: a group fed in two halves and merged gives what it gives when fed at once.

use bson::raw::{RawBson, RawDocumentBuf};
use bson::{DateTime, doc};

use super::{ACCUMULATORS, Accumulator, AccumulatorExpression};
use crate::expression::{EvaluationContext, ParseContext, Variables};

fn argument(name: &str) -> bson::Bson {
    match name {
        "$count" => doc! {}.into(),
        "$firstN" | "$lastN" | "$minN" | "$maxN" => doc! {"n": 3, "input": "$a"}.into(),
        "$top" | "$bottom" => doc! {"sortBy": {"b": 1, "a": -1}, "output": "$a"}.into(),
        "$topN" | "$bottomN" => doc! {"n": 3, "sortBy": {"b": 1, "a": -1}, "output": "$a"}.into(),
        "$mergeObjects" => "$d".into(),
        "$accumulator" => doc! {
            "init": "function (start) { return {sum: start}; }", "initArgs": [0],
            "accumulate": "function (state, a, b) { return {sum: state.sum + a * b}; }", "accumulateArgs": ["$a", "$b"],
            "merge": "function (one, other) { return {sum: one.sum + other.sum}; }",
            "finalize": "function (state) { return state.sum; }", "lang": "js",
        }
        .into(),
        "$_internalJsReduce" => doc! {
            "eval": "function (key, values) { return Array.sum(values); }", "data": {"k": 1, "v": "$a"},
        }
        .into(),
        "$median" => doc! {"input": "$a", "method": "approximate"}.into(),
        "$percentile" => doc! {"input": "$a", "method": "approximate", "p": [0.1, 0.9]}.into(),
        "$concatArrays" | "$setUnion" => doc! {"$cond": [{"$gte": ["$b", 0]}, ["$a", "$b"], []]}.into(),
        _ => "$a".into(),
    }
}

fn feed(accumulator: &AccumulatorExpression, documents: &[RawDocumentBuf]) -> Box<dyn Accumulator> {
    let variables = Variables::new(DateTime::from_millis(0), None, 0);
    let empty = RawDocumentBuf::new();
    let mut state = accumulator.new_state(&EvaluationContext::new(&empty, &variables)).unwrap();
    for document in documents {
        accumulator.accumulate(state.as_mut(), &EvaluationContext::new(document, &variables)).unwrap();
    }
    state
}

#[test]
fn partial_states_merge_to_the_whole() {
    let documents: Vec<RawDocumentBuf> = (0..20)
        .map(|i| {
            let number =
                if i % 3 == 0 { bson::Bson::Double(f64::from(i) / 4.0) } else { bson::Bson::Int32(i * 7 % 11) };
            let d = doc! {"k": i, format!("f{}", i % 4): i};
            RawDocumentBuf::try_from(doc! {"a": number, "b": i * 5 % 7, "d": d}).unwrap()
        })
        .collect();
    for operator in ACCUMULATORS {
        let argument = RawBson::try_from(argument(operator.name)).unwrap();
        let accumulator =
            AccumulatorExpression::parse(operator.name, argument.as_raw_bson_ref(), &ParseContext::new()).unwrap();
        let whole = feed(&accumulator, &documents).finish().unwrap().into_raw_bson().unwrap();
        for split in [0, 7, 20] {
            let (head, tail) = documents.split_at(split);
            let mut merged = feed(&accumulator, &[]);
            for part in [head, tail] {
                let partial = feed(&accumulator, part).to_partial().unwrap();
                merged.merge(partial.as_raw_bson_ref()).unwrap();
            }
            let merged = merged.finish().unwrap().into_raw_bson().unwrap();
            match (&whole, &merged) {
                (RawBson::Double(whole), RawBson::Double(merged)) => {
                    assert!((whole - merged).abs() < 1e-9, "{} split at {split}", operator.name);
                }
                _ => assert_eq!(whole, merged, "{} split at {split}", operator.name),
            }
        }
    }
}
