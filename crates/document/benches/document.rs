//! Nanoseconds of the hot operations on one document of the founding workload: `cargo bench -p document`.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::hash::{DefaultHasher, Hasher};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

use bson::{RawBsonRef, RawDocumentBuf, doc};
use document::{
    FieldPath, LeafArrays, Limits, compare_documents, compare_values, elements, get_path, hash_value,
    validate_document, walk_path,
};

fn measure(name: &str, mut operation: impl FnMut()) {
    // Short rounds and many of them: on a shared machine the best one was undisturbed.
    const ROUNDS: u32 = 2_000;
    let best = (0..400)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                operation();
            }
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<44} {best:>8.1} ns");
}

/// `{_id, x: 20 characters, a, b0..b9}`: the documents of the founding workload, about 150 bytes.
fn workload_document(id: i32) -> RawDocumentBuf {
    let mut document = doc! {"_id": id, "x": "x".repeat(20), "a": 7};
    for index in 0..10 {
        document.insert(format!("b{index}"), 0);
    }
    document.insert("note", "fills the document to 190 bytes");
    (&document).try_into().unwrap()
}

fn main() {
    let document = workload_document(123_456);
    let other = workload_document(123_457);
    println!("document of {} bytes", document.as_bytes().len());
    measure("iterate: bson, elements", || {
        black_box(document.iter_elements().filter_map(Result::ok).count());
    });
    measure("iterate: bson, values", || {
        black_box(document.iter().filter(|element| element.is_ok()).count());
    });
    measure("iterate: ours, elements", || {
        black_box(elements(black_box(&document)).map(|element| element.name_bytes().len()).sum::<usize>());
    });
    measure("iterate: ours, values", || {
        black_box(elements(black_box(&document)).filter(|element| element.value() == RawBsonRef::Null).count());
    });
    measure("validate", || validate_document(black_box(document.as_bytes()), &Limits::USER).unwrap());
    measure("compare two documents, differing in _id", || {
        black_box(compare_documents(black_box(&document), black_box(&other)));
    });
    let (int, double) = (RawBsonRef::Int32(5), RawBsonRef::Double(5.5));
    let decimal = RawBsonRef::Decimal128("5.4999".parse().unwrap());
    measure("compare int32 with int32", || {
        black_box(compare_values(black_box(int), black_box(int)));
    });
    measure("compare int32 with double", || {
        black_box(compare_values(black_box(int), black_box(double)));
    });
    measure("compare double with decimal", || {
        black_box(compare_values(black_box(double), black_box(decimal)));
    });
    let text = (RawBsonRef::String("xxxxxxxxxxxxxxxxxxxx"), RawBsonRef::String("xxxxxxxxxxxxxxxxxxxy"));
    measure("compare strings of 20 characters", || {
        black_box(compare_values(black_box(text.0), black_box(text.1)));
    });
    let path = FieldPath::new("b9");
    measure("get_path of the 13th field", || {
        black_box(get_path(black_box(&document), &path));
    });
    measure("walk_path of the 13th field", || {
        let _ = walk_path(black_box(&document), &path, LeafArrays::Expand, |item| {
            black_box(item.value());
            ControlFlow::<()>::Continue(())
        });
    });
    measure("hash the whole document", || {
        let mut hasher = DefaultHasher::new();
        hash_value(RawBsonRef::Document(black_box(&document)), &mut hasher);
        black_box(hasher.finish());
    });
    let arrays: RawDocumentBuf = (&doc! {"a": [[1, 2], [3, 4], [5, 6]]}).try_into().unwrap();
    measure("borrow an array value", || {
        black_box(elements(black_box(&arrays)).next().map(|element| element.value()));
    });
}
