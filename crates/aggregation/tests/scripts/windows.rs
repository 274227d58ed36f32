//! Partitions of `$setWindowFields` that do not fit into memory give what others give, whatever is computed of them.

use bson::{Bson, DateTime, Document, RawBsonRef, RawDocumentBuf, doc};

use super::trial::{outcome, raw};

/// Documents of a partition: some 1.2 MB, which are read in many blocks.
const DOCUMENTS: i32 = 3_000;

fn documents() -> Vec<RawDocumentBuf> {
    let document = |id: i32| {
        let number = (id * 7_919) % 1_009;
        let value = match id % 11 {
            0 => Bson::Null,
            _ => Bson::Int32(number),
        };
        let text = "x".repeat(200 + id as usize % 400);
        let document = doc! { "_id": id, "p": id % 50 / 49, "t": DateTime::from_millis(i64::from(id) * 500), "n": id, "v": value, "text": text };
        raw(&document)
    };
    (0..DOCUMENTS).map(document).collect()
}

fn windowed(output: Document, sort: &str, memory: Option<usize>) -> Result<Vec<String>, String> {
    let stage = doc! { "$setWindowFields": { "partitionBy": "$p", "sortBy": { sort: 1 }, "output": output } };
    outcome(documents(), &[stage, doc! { "$unset": "text" }], None, memory)
}

fn outputs() -> Vec<(&'static str, Document)> {
    let within = |lower: Bson, upper: Bson| doc! { "documents": [lower, upper] };
    let far = within(Bson::Int32(-700), Bson::Int32(500));
    let near = within(Bson::Int32(-3), Bson::from("current"));
    let growing = within(Bson::from("unbounded"), Bson::from("current"));
    vec![
        ("n", doc! { "a": { "$sum": "$v", "window": far.clone() }, "b": { "$max": "$v", "window": near.clone() } }),
        ("n", doc! { "a": { "$avg": "$v" }, "b": { "$push": "$n", "window": near.clone() } }),
        ("n", doc! { "a": { "$sum": "$v", "window": growing.clone() }, "b": { "$first": "$text", "window": near } }),
        ("n", doc! { "a": { "$covariancePop": ["$n", "$v"], "window": far.clone() } }),
        ("n", doc! { "a": { "$rank": {} }, "b": { "$denseRank": {} }, "c": { "$documentNumber": {} } }),
        ("n", doc! { "a": { "$shift": { "output": "$v", "by": -1_000, "default": "none" } } }),
        ("n", doc! { "a": { "$locf": "$v" }, "b": { "$linearFill": "$v" } }),
        ("n", doc! { "a": { "$expMovingAvg": { "input": "$v", "N": 5 } } }),
        ("n", doc! { "a": { "$minMaxScaler": { "input": "$v" }, "window": far.clone() } }),
        (
            "n",
            doc! { "a": { "$sum": "$v", "window": { "range": [-400, 10] } }, "v": { "$min": "$v", "window": far.clone() } },
        ),
        ("t", doc! { "a": { "$derivative": { "input": "$v", "unit": "second" }, "window": far.clone() } }),
        ("t", doc! { "a": { "$integral": { "input": "$v", "unit": "second" }, "window": far } }),
        ("t", doc! { "a": { "$count": {}, "window": { "range": [-1, 1], "unit": "minute" } } }),
        ("n", doc! { "a": { "$push": "$text", "window": { "documents": [-7, 7] } }, "b": { "$locf": "$text" } }),
        ("n", doc! {}),
    ]
}

#[test]
fn a_partition_on_temporary_storage_gives_what_one_in_memory_gives() {
    // As they are counted: twice, with what a document costs beside its bytes.
    let first = |document: &RawDocumentBuf| document.get("p").unwrap() == Some(RawBsonRef::Int32(0));
    let of_documents = documents()
        .iter()
        .filter(|document| first(document))
        .map(|document| 2 * (64 + document.as_bytes().len()))
        .sum::<usize>();
    for (sort, output) in outputs() {
        let expected = windowed(output.clone(), sort, None).unwrap();
        assert_eq!(expected.len(), DOCUMENTS as usize);
        // The documents do not fit; or they do, and what is computed of them does not fit beside them.
        for memory in [1 << 20, of_documents + (100 << 10)] {
            let spilled = windowed(output.clone(), sort, Some(memory));
            assert_eq!(spilled.as_ref(), Ok(&expected), "{memory} bytes: {output}");
        }
    }
}

#[test]
fn what_is_kept_to_compute_has_to_fit() {
    let all = doc! { "a": { "$sum": "$v", "window": { "documents": [-50, 50] } } };
    let refused = windowed(all, "n", Some(40 << 10)).unwrap_err();
    assert!(refused.contains("Exceeded memory limit in $setWindowFields"), "{refused}");
}
