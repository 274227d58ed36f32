//! Chunks come back as they went in, and damaged ones are no death.

use bson::{RawDocumentBuf, rawdoc};
use proptest::prelude::*;

use super::*;
use crate::figures::figures;

#[test]
fn what_goes_in_comes_out() {
    let mut writer = ChunkWriter::default();
    writer.push(1_000, &rawdoc! { "a": 1_i32, "why": "disk" });
    writer.push(2_000, &rawdoc! { "a": -5_i64, "b": { "c": 0.25 } });
    writer.push(2_900, &rawdoc! { "why": "disk", "b": { "c": 0.5 } });
    let chunk = Chunk::decode(&writer.encode()).unwrap();
    assert_eq!(chunk.times, [1_000, 2_000, 2_900]);
    let column = |path: &str| chunk.columns.iter().find(|column| column.path == path).unwrap().values.clone();
    assert_eq!(column("a"), [Some(Figure::Whole(1)), Some(Figure::Whole(-5)), None]);
    assert_eq!(column("b.c"), [None, Some(Figure::Number(0.25)), Some(Figure::Number(0.5))]);
    let disk = Some(Figure::Text("disk".to_owned()));
    assert_eq!(column("why"), [disk.clone(), None, disk]);
}

#[test]
fn a_later_version_is_named() {
    assert_eq!(Chunk::decode(&[9, 0, 0, 0]), Err(DamagedChunk::Version(9)));
}

/// What is taken for an hour of a server at work: 400 figures, a tenth of which move.
#[test]
fn an_hour_is_small() {
    let mut writer = ChunkWriter::default();
    for second in 0..3_600_i64 {
        let mut status = RawDocumentBuf::new();
        for figure in 0..400_i64 {
            let moves = if figure % 10 == 0 { second * 1_000 + (second * 7_919 + figure) % 311 } else { 17 };
            status.append(bson::raw::CString::try_from(format!("figure{figure}")).unwrap(), moves);
        }
        writer.push(second * 1_000, &status);
    }
    let packed = crate::encode_block(&writer.encode()).len();
    assert!(packed < 400_000, "{packed} bytes an hour");
}

fn moment() -> impl Strategy<Value = RawDocumentBuf> {
    let name = prop::sample::select(vec!["a", "b", "c", "d"]);
    let value = prop_oneof![
        any::<i64>().prop_map(bson::RawBson::Int64),
        any::<f64>().prop_filter("comparable", |number| !number.is_nan()).prop_map(bson::RawBson::Double),
        "[a-z]{0,3}".prop_map(bson::RawBson::String),
    ];
    prop::collection::btree_map(name, value, 0..4).prop_map(|fields| {
        let mut document = RawDocumentBuf::new();
        for (name, value) in fields {
            document.append(bson::raw::CString::try_from(name).unwrap(), value);
        }
        document
    })
}

proptest! {
    #[test]
    fn any_moments_come_back(moments in prop::collection::vec((any::<i64>(), moment()), 0..20)) {
        let mut writer = ChunkWriter::default();
        moments.iter().for_each(|(time, status)| writer.push(*time, status));
        let chunk = Chunk::decode(&writer.encode()).unwrap();
        prop_assert_eq!(&chunk.times, &moments.iter().map(|(time, _)| *time).collect::<Vec<_>>());
        for (place, (_, status)) in moments.iter().enumerate() {
            let mut expected = figures(status);
            expected.sort_by(|left, right| left.0.cmp(&right.0));
            let of_moment = |column: &Column| column.values[place].clone().map(|value| (column.path.clone(), value));
            let mut found: Vec<_> = chunk.columns.iter().filter_map(of_moment).collect();
            found.sort_by(|left, right| left.0.cmp(&right.0));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn damaged_bytes_are_no_death(mut bytes in prop::collection::vec(any::<u8>(), 0..200), is_ours in any::<bool>()) {
        if is_ours && !bytes.is_empty() {
            bytes[0] = 1;
        }
        let _ = Chunk::decode(&bytes);
    }
}
