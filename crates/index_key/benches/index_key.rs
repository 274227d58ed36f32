//! Nanoseconds of key generation and decoding on the founding workload's documents: `cargo bench -p index_key`.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::hint::black_box;
use std::time::Instant;

use bson::{RawDocumentBuf, doc};
use index_key::{
    Direction, ExtractedFields, KeyGenerator, KeyPattern, KeyReader, KeySet, KeyValue, Sparse, append_record_id,
    decode_key, decode_number_at, encode_value, split_record_id,
};

fn measure(name: &str, per: u32, mut operation: impl FnMut()) {
    // Short rounds and many of them: on a shared machine the best one was undisturbed.
    const ROUNDS: u32 = 1_000;
    let best = (0..400)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                operation();
            }
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<52} {:>8.1} ns", best / f64::from(per));
}

fn raw(document: bson::Document) -> RawDocumentBuf {
    (&document).try_into().unwrap()
}

fn workload_document(id: i32) -> RawDocumentBuf {
    let mut document = doc! {"_id": id, "x": "x".repeat(20), "a": 7};
    for index in 0..10 {
        document.insert(format!("b{index}"), 0);
    }
    raw(document)
}

fn main() {
    let patterns: Vec<KeyPattern> = (0..10)
        .map(|index| KeyPattern::parse(&raw(doc! {"x": 1, "a": 1, "_id": 1, format!("b{index}"): 1})).unwrap())
        .collect();
    let generator = KeyGenerator::new(patterns.iter().map(|pattern| (pattern.clone(), Sparse::No)));
    let document = workload_document(654_321);
    let (mut fields, mut keys) = (ExtractedFields::new(), KeySet::new());
    generator.read(&document, &mut fields).unwrap();
    measure("read the fields of all ten indexes", 1, || generator.read(black_box(&document), &mut fields).unwrap());
    measure("compound key of 4 scalar fields", 10, || {
        for index in 0..10 {
            generator.keys(index, black_box(&document), &fields, &mut keys).unwrap();
            black_box(&keys);
        }
    });
    measure("both, per key of ten indexes", 10, || {
        generator.read(black_box(&document), &mut fields).unwrap();
        for index in 0..10 {
            generator.keys(index, &document, &fields, &mut keys).unwrap();
            black_box(&keys);
        }
    });
    let entry = keys.iter().next().unwrap();
    let (key, type_bits) = (entry.key.to_vec(), entry.value.to_vec());
    println!("compound key of {} bytes, {} of type bits", key.len(), type_bits.len());
    let pattern = &patterns[9];
    measure("decode_key to a document", 1, || {
        black_box(decode_key(pattern, black_box(&key), &type_bits).unwrap());
    });
    measure("read 4 components", 1, || {
        black_box(KeyReader::new(pattern, black_box(&key)).count());
    });
    let mut id_key = Vec::new();
    encode_value(&mut id_key, bson::RawBsonRef::Int32(654_321), Direction::Ascending);
    append_record_id(&mut id_key, 654_321);
    let id_pattern = KeyPattern::id();
    measure("decode_number_at, _id", 1, || {
        let number = decode_number_at(&id_pattern, black_box(&id_key), 0);
        black_box(matches!(number, Some(KeyValue::Int(id)) if id % 100 == 3));
    });
    measure("split_record_id", 1, || {
        black_box(split_record_id(black_box(&id_key)));
    });
    let mut out = Vec::with_capacity(64);
    for (name, value) in [
        ("int32", bson::RawBsonRef::Int32(654_321)),
        ("string of 20", bson::RawBsonRef::String("xxxxxxxxxxxxxxxxxxxx")),
        ("double", bson::RawBsonRef::Double(1234.5)),
        ("decimal", bson::RawBsonRef::Decimal128("19.99".parse().unwrap())),
    ] {
        measure(&format!("encode_value, {name}"), 1, || {
            out.clear();
            encode_value(&mut out, black_box(value), Direction::Ascending);
        });
    }
    measure("append_record_id", 1, || {
        out.clear();
        append_record_id(&mut out, black_box(654_321));
    });
    let arrays = KeyGenerator::new([(KeyPattern::parse(&raw(doc! {"a.b": 1, "c": 1})).unwrap(), Sparse::No)]);
    let array_document = raw(doc! {"a": (0..10).map(|item| doc! {"b": item}).collect::<Vec<_>>(), "c": 1});
    let mut array_fields = ExtractedFields::new();
    arrays.read(&array_document, &mut array_fields).unwrap();
    measure("multikey, per key of ten", 10, || {
        arrays.keys(0, black_box(&array_document), &array_fields, &mut keys).unwrap();
    });
}
