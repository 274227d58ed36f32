//! Buckets give back what was put into them, byte for byte, whichever way it was put; what is damaged is an error.

use bson::oid::ObjectId;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use document::get_element;
use proptest::prelude::*;

use super::*;

fn fields() -> Fields {
    Fields { time: "t".to_owned(), meta: Some("m".to_owned()) }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn date(millis: i64) -> Bson {
    Bson::DateTime(bson::DateTime::from_millis(millis))
}

/// A bucket that is stored and read again after each part.
fn bucket(measurements: &[RawDocumentBuf], part: usize) -> RawDocumentBuf {
    let fields = fields();
    let meta = measurements.first().and_then(|first| get_element(first, "m"));
    let mut builder = BucketBuilder::new(&fields, ObjectId::from_bytes([7; 12]), meta);
    let mut stored = RawDocumentBuf::new();
    for part in measurements.chunks(part) {
        for measurement in part {
            assert!(builder.has_room(measurement.as_bytes().len()));
            builder.push(measurement).unwrap();
        }
        stored = builder.finish().unwrap();
        builder = BucketBuilder::read(&stored, &fields).unwrap();
    }
    stored
}

fn unpacked(bucket: &RawDocument) -> Vec<Document> {
    let mut measurements = Measurements::of(bucket, &fields(), None).unwrap();
    let mut all = Vec::new();
    while let Some(measurement) = measurements.next().unwrap() {
        all.push(Document::try_from(&*measurement).unwrap());
    }
    all
}

fn value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        (-50i64..50).prop_map(Bson::Int64),
        any::<i64>().prop_map(Bson::Int64),
        (-1000i64..1000).prop_map(|hundredths| Bson::Double(hundredths as f64 / 100.0)),
        any::<f64>().prop_map(Bson::Double),
        Just(Bson::Double(-0.0)),
        any::<bool>().prop_map(Bson::Boolean),
        "[a-c]{0,3}".prop_map(Bson::String),
        any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        Just(Bson::Null),
        (0i32..9).prop_map(|number| Bson::Document(doc! { "x": number, "y": [number, "z"] })),
        any::<i64>().prop_map(date),
    ]
}

fn measurement() -> impl Strategy<Value = Document> {
    (0i64..3_600_000, proptest::collection::vec(("[abc]", value()), 0..4), any::<bool>()).prop_map(
        |(millis, values, time_first)| {
            let mut document = doc! {};
            if time_first {
                document.insert("t", date(millis));
            }
            document.insert("m", doc! { "sensor": 1 });
            document.extend(values);
            document.insert("t", date(millis));
            document
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out(measurements in proptest::collection::vec(measurement(), 1..120), part in 1usize..50) {
        let inserted: Vec<RawDocumentBuf> = measurements.iter().map(raw).collect();
        let stored = bucket(&inserted, part);
        let fields = fields();
        check(&stored, &fields).unwrap();
        prop_assert_eq!(measurement_count(&stored, &fields).unwrap(), measurements.len() as u64);
        let mut read = Measurements::of(&stored, &fields, None).unwrap();
        for measurement in &inserted {
            let next = read.next().unwrap().unwrap();
            prop_assert_eq!(next.as_bytes(), measurement.as_bytes());
        }
        prop_assert!(read.next().unwrap().is_none());
    }

    #[test]
    fn what_is_damaged_is_an_error_or_documents(
        measurements in proptest::collection::vec(measurement(), 33..60),
        at in any::<prop::sample::Index>(),
        bits in 1u8..,
    ) {
        let inserted: Vec<RawDocumentBuf> = measurements.iter().map(raw).collect();
        let stored = bucket(&inserted, 33);
        let data = document::get_field(&stored, "data").unwrap().as_document().unwrap();
        let columns = crate::measurements::columns_of(data).unwrap();
        let mut damaged = columns.to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= bits;
        if let Ok(mut rows) = crate::columns::Rows::open(&damaged, &|_| true) {
            while let Ok(true) = rows.next(|_, _, _| {}) {}
        }
    }
}

#[test]
fn doubles_and_integers_come_back_bit_for_bit() {
    let awkward =
        [0.1, 0.2, 0.30000000000000004, -0.0, 1e300, 5e-324, f64::INFINITY, f64::from_bits(0x7ff8_0000_0000_0001)];
    for values in [&awkward[..], &awkward[..2], &[21.37, 21.38, 21.36], &[]] {
        let mut out = Vec::new();
        crate::doubles::write_doubles(&mut out, values);
        let read = crate::doubles::read_doubles(&mut out.as_slice(), values.len()).unwrap();
        assert_eq!(
            values.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
            read.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        );
    }
    for values in [&[i64::MIN, i64::MAX, 0, -1, 1][..], &[5], &[], &[1, 2, 3, 4, 5, 7]] {
        let mut out = Vec::new();
        crate::integers::write_integers(&mut out, values);
        assert_eq!(crate::integers::read_integers(&mut out.as_slice(), values.len()).unwrap(), values);
    }
}

#[test]
fn a_typical_metric_takes_a_few_bytes() {
    let reading = |number: i64| {
        let wave = ((number as f64 / 50.0).sin() * 400.0).round() / 100.0;
        raw(
            &doc! { "t": date(1_700_000_000_000 + number * 1_000), "m": "sensor-17", "temp": 20.0 + wave, "load": number % 7 },
        )
    };
    let all: Vec<RawDocumentBuf> = (0..1_000).map(reading).collect();
    let stored = bucket(&all, 100);
    assert!(BucketBuilder::read(&stored, &fields()).is_ok_and(|full| !full.has_room(1)));
    assert!(stored.as_bytes().len() < 5_000, "{} bytes for 1000 measurements", stored.as_bytes().len());
}

#[test]
fn a_series_can_be_given_another_name_or_none() {
    let inserted = [raw(&doc! { "t": date(1), "m": "old", "v": 1 }), raw(&doc! { "v": 2, "m": "old", "t": date(2) })];
    let stored = bucket(&inserted, 1);
    let renamed = with_meta(&stored, Some(bson::RawBsonRef::String("new"))).unwrap();
    assert_eq!(unpacked(&renamed)[1], doc! { "v": 2, "m": "new", "t": date(2) });
    let nameless = with_meta(&renamed, None).unwrap();
    assert_eq!(unpacked(&nameless)[0], doc! { "t": date(1), "v": 1 });
    let again = with_meta(&nameless, Some(bson::RawBsonRef::Int32(3))).unwrap();
    assert_eq!(unpacked(&again)[0], doc! { "t": date(1), "m": 3, "v": 1 });
}

#[test]
fn buckets_of_another_server_are_read_or_refused_by_their_version() {
    let of_version = |version: i32| {
        raw(&doc! {
            "_id": ObjectId::from_bytes([1; 12]),
            "control": { "version": version, "min": { "t": date(1), "v": 1 }, "max": { "t": date(2), "v": 5 } },
            "meta": "a",
            "data": { "t": { "0": date(1), "1": date(2) }, "v": { "1": 5 } },
        })
    };
    assert_eq!(check(&of_version(1), &fields()).unwrap(), None);
    assert_eq!(unpacked(&of_version(1)), [doc! { "t": date(1), "m": "a" }, doc! { "t": date(2), "v": 5, "m": "a" }]);
    assert_eq!(measurement_count(&of_version(1), &fields()).unwrap(), 2);
    for version in [2, 3] {
        assert!(matches!(check(&of_version(version), &fields()), Err(BucketError::NotImplemented(_))));
    }
    let (left, removed) = BucketBuilder::retain::<BucketError>(&of_version(1), &fields(), |measurement| {
        Ok(get_element(measurement, "v").is_some())
    })
    .unwrap();
    assert_eq!((unpacked(&left.unwrap()).len(), removed), (1, 1));
}

#[test]
fn places_follow_from_time_and_series() {
    let meta = raw(&doc! { "m": "a" });
    let place = |millis: i64| BucketPlace::of(millis, 3_600, get_element(&meta, "m"));
    assert_eq!(place(0), place(3_599_999));
    assert_ne!(place(0), place(3_600_000));
    assert_ne!(place(-1), place(-3_600_001), "both have 0 seconds in their _id");
    assert!(place(5).has(3_599_999) && !place(5).has(-1));
    assert_ne!(place(0), BucketPlace::of(0, 3_600, None));
    assert_eq!(BucketPlace::number(bson::RawBsonRef::ObjectId(place(0).id(77).unwrap())), 77);
    assert!(place(0).id(1 << 24).is_none());
}

#[test]
fn buckets_are_asked_what_they_can_tell() {
    let filter = |filter: Document| {
        bucket_filter(&raw(&filter), &fields(), 3_600).map(|found| Document::try_from(&*found).unwrap().to_string())
    };
    assert_eq!(
        filter(doc! { "m.a": { "$in": [1, "x"] } }).unwrap(),
        doc! { "meta.a": { "$in": [1, "x"] } }.to_string()
    );
    assert!(filter(doc! { "t": { "$gte": date(7_200_000) } }).unwrap().contains("control.max.t"));
    assert!(filter(doc! { "v": { "$gt": 5 } }).unwrap().contains("control.max.v"));
    assert!(filter(doc! { "a.b": { "$lt": 5 } }).unwrap().contains("control.min.a.b"));
    for untold in [
        doc! { "v": "text" },
        doc! { "a.b": "text" },
        doc! { "$expr": true },
        doc! { "mx": "a" },
        doc! { "t": 5 },
        doc! { "$or": [{ "m": 1 }, { "x": "y" }] },
        doc! { "$nor": [{ "m": 1 }] },
        doc! { "v": { "$ne": 5 } },
        doc! {},
    ] {
        assert_eq!(filter(untold), None);
    }
}

#[test]
fn bounds_that_are_not_so_are_corrected() {
    let of = |min: Document, max: Document, values: Document| {
        let time = doc! { "t": date(60_001) };
        let with_time = |bounds: Document| time.clone().into_iter().chain(bounds).collect::<Document>();
        raw(&doc! {
            "_id": ObjectId::from_bytes([1; 12]),
            "control": { "version": 1, "min": with_time(min), "max": with_time(max), "count": 2 },
            "data": { "t": { "0": date(60_001), "1": date(60_001) }, "v": values },
        })
    };
    let bounds = |bucket: &RawDocument| {
        let bucket = Document::try_from(bucket).unwrap();
        let control = bucket.get_document("control").unwrap().clone();
        assert_eq!(control.get_i32("count").unwrap(), 2);
        let [min, max] = ["min", "max"].map(|name| control.get_document(name).unwrap().clone());
        assert_eq!([&min, &max].map(|bounds| bounds.get("t").cloned()), [Some(date(60_001)), Some(date(60_001))]);
        [min.get("v").cloned(), max.get("v").cloned()]
    };
    for sound in [
        of(doc! { "v": 1 }, doc! { "v": 5.0 }, doc! { "0": 1, "1": 5 }),
        of(doc! { "v": 0 }, doc! { "v": 9 }, doc! { "0": 1, "1": 5 }),
        of(doc! {}, doc! {}, doc! { "0": 1, "1": "x" }),
        of(doc! { "v": { "x": 1 } }, doc! { "v": { "x": 2 } }, doc! { "0": { "x": 1 }, "1": { "x": 2, "y": 1 } }),
    ] {
        assert_eq!(check(&sound, &fields()).unwrap(), None);
    }
    let nan = f64::NAN;
    for (min, max, values, after) in [
        // As MongoDB has them: in BSON order, of whatever type.
        (doc! { "v": 1 }, doc! { "v": "x" }, doc! { "0": 1, "1": "x" }, [None, None]),
        (doc! { "v": nan }, doc! { "v": 5 }, doc! { "0": nan, "1": 5 }, [None, None]),
        (doc! { "v": 3 }, doc! { "v": 4 }, doc! { "0": 1, "1": 5 }, [Some(1), Some(5)]),
        (doc! {}, doc! { "v": 4 }, doc! { "0": 1, "1": 5 }, [Some(1), Some(5)]),
    ] {
        let corrected = check(&of(min, max, values), &fields()).unwrap().unwrap();
        assert_eq!(bounds(&corrected), after.map(|bound| bound.map(Bson::Int32)));
        assert_eq!(check(&corrected, &fields()).unwrap(), None);
    }
    let inside = of(
        doc! { "v": { "x": 1, "y": 1 } },
        doc! { "v": { "x": "z", "y": 2 } },
        doc! { "0": { "x": 1, "y": 1 }, "1": { "x": "z", "y": 2 } },
    );
    let corrected = check(&inside, &fields()).unwrap().unwrap();
    assert_eq!(bounds(&corrected), [1, 2].map(|y| Some(Bson::Document(doc! { "y": y }))));
}
