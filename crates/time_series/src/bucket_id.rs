//! The `_id` of a bucket says which span of time and which series it is of, so that an insert finds its bucket by it.
//!
//! Four bytes with the first second of the span, five of a hash of span and series, three that count the buckets of both.
//! Seconds before 1970 are 0, those after 2106 the last: the hash and the bucket itself tell their spans apart.

use bson::RawBsonRef;
use bson::oid::ObjectId;
use document::Element;

/// Where the buckets of a series and a span are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketPlace {
    start_millis: i64,
    span_seconds: i64,
    prefix: [u8; 9],
}

/// Buckets of one place: as many as three bytes count.
const NUMBER_MAX: u32 = (1 << 24) - 1;

impl BucketPlace {
    /// Of a measurement's time and series, where buckets span so many seconds.
    pub fn of(time_millis: i64, span_seconds: i64, meta: Option<Element<'_>>) -> BucketPlace {
        let span_millis = span_seconds.max(1).saturating_mul(1_000);
        let start_millis = time_millis.div_euclid(span_millis).saturating_mul(span_millis);
        let mut hash = Fnv::new();
        hash.add(&start_millis.to_le_bytes());
        if let Some(meta) = meta {
            hash.add(&[meta.element_type as u8]);
            hash.add(meta.value_bytes());
        }
        let mut prefix = [0; 9];
        let (seconds, series) = prefix.split_at_mut(4);
        seconds.copy_from_slice(&id_seconds(start_millis).to_be_bytes());
        series.copy_from_slice(&hash.0.to_be_bytes()[3..]);
        BucketPlace { start_millis, span_seconds: span_seconds.max(1), prefix }
    }

    /// Whether a time is in the span.
    pub fn has(&self, time_millis: i64) -> bool {
        time_millis.div_euclid(self.span_seconds.saturating_mul(1_000)).saturating_mul(self.span_seconds * 1_000)
            == self.start_millis
    }

    /// The `_id` of a bucket by its number; `None` when there are no more.
    pub fn id(&self, number: u32) -> Option<ObjectId> {
        let mut bytes = [0; 12];
        bytes[..9].copy_from_slice(&self.prefix);
        bytes[9..].copy_from_slice(&number.to_be_bytes()[1..]);
        (number <= NUMBER_MAX).then(|| ObjectId::from_bytes(bytes))
    }

    /// The first and the last `_id` that a bucket of this place may have.
    pub fn ids(&self) -> Option<(ObjectId, ObjectId)> {
        self.id(0).zip(self.id(NUMBER_MAX))
    }

    /// The number of a bucket.
    pub fn number(id: RawBsonRef<'_>) -> u32 {
        match id {
            RawBsonRef::ObjectId(id) => id.bytes()[9..].iter().fold(0, |number, byte| number << 8 | u32::from(*byte)),
            _ => 0,
        }
    }
}

/// The seconds of an `_id` for a time in milliseconds.
pub fn id_seconds(millis: i64) -> u32 {
    u32::try_from(millis.div_euclid(1_000).max(0)).unwrap_or(u32::MAX)
}

/// FNV-1a: stored, so it may never change.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
