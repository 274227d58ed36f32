//! What a measurement of three kinds of series takes in a bucket, and as a document: docs/benchmarks.md.
//!
//!     cargo run -p time_series --example bytes_a_point

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use document::get_element;
use time_series::{BucketBuilder, Fields};

/// Random numbers from 0 to 1, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

type Series = fn(i64, &mut Random, &mut f64) -> (i64, Document);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kinds: [(&str, Series); 3] = [
        ("a gauge of two decimal places, every 10 s", |number, random, value| {
            *value += random.next() - 0.5;
            (number * 10_000, doc! { "value": (*value * 100.0).round() / 100.0 })
        }),
        ("two counters and a state, every second or so", |number, random, value| {
            *value += (random.next() * 200.0).floor();
            let state = if random.next() < 0.02 { "degraded" } else { "ok" };
            let millis = number * 1_000 + (random.next() * 40.0) as i64;
            (millis, doc! { "requests": *value as i64, "errors": (*value / 1_000.0) as i64, "state": state })
        }),
        ("three doubles of all digits, every second or so", |number, random, value| {
            *value += random.next() - 0.5;
            let millis = number * 1_000 + (random.next() * 40.0) as i64;
            (millis, doc! { "x": *value, "y": value.sin(), "z": random.next() })
        }),
    ];
    for (name, series) in kinds {
        let (documents, stored) = measure(series)?;
        println!("{name}: {documents:.1} bytes as a document, {stored:.1} in a bucket");
    }
    Ok(())
}

/// Bytes of a measurement as a document, and in a full bucket.
fn measure(series: Series) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let fields = Fields { time: "time".to_owned(), meta: Some("sensor".to_owned()) };
    let (mut random, mut value, mut bytes, mut builder) = (Random(1), 20.0, 0, None);
    for number in 0..1_000 {
        let (millis, values) = series(number, &mut random, &mut value);
        let measurement = with_id(number, millis, values)?;
        let builder = builder.get_or_insert_with(|| {
            BucketBuilder::new(&fields, ObjectId::from_bytes([0; 12]), get_element(&measurement, "sensor"))
        });
        if !builder.has_room(measurement.as_bytes().len()) {
            break;
        }
        bytes += measurement.as_bytes().len();
        builder.push(&measurement)?;
    }
    let Some(builder) = builder else { return Err("nothing was measured".into()) };
    let count = builder.count() as f64;
    Ok((bytes as f64 / count, builder.finish()?.as_bytes().len() as f64 / count))
}

fn with_id(number: i64, millis: i64, values: Document) -> Result<RawDocumentBuf, Box<dyn std::error::Error>> {
    let time = 1_700_000_000_000 + millis;
    let mut id = [0x5a; 12];
    id[..4].copy_from_slice(&((time / 1_000) as u32).to_be_bytes());
    // Others insert, too: of a hundred series each has every hundredth number.
    id[9..].copy_from_slice(&((number * 100) as u32).to_be_bytes()[1..]);
    let mut measurement = doc! { "_id": ObjectId::from_bytes(id), "time": Bson::DateTime(DateTime::from_millis(time)) };
    measurement.insert("sensor", doc! { "host": "web-17", "rack": 4 });
    measurement.extend(values);
    Ok(RawDocumentBuf::try_from(&measurement)?)
}
