//! The bounds of an index scan as bytes: ranges of keys to read, and checks of the fields that ranges say nothing about.
//!
//! With P the encoded values of the first fields, a range is half open, `[low, high)`, and made as `index_key::bound`
//! shows. Leading fields that are bound to single values are multiplied out; the first field after them gives the ends of the
//! ranges; what is bound behind it is checked key by key, and a scan may seek over what a check rules out.

use bson::RawBsonRef;
use document::collation::Collator;
use index_key::{Direction, KeyPattern, append_after_prefix, encode_collated_value};

use crate::interval::{Bound, Interval, IntervalList};

/// Entries whose keys are at or above `low` and below `high`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// The first position inside.
    pub low: Vec<u8>,
    /// The first position outside.
    pub high: Vec<u8>,
}

/// What the component of one field must be inside of, for the key to be yielded.
#[derive(Debug, Clone)]
pub struct FieldCheck {
    /// Which field of the key pattern.
    pub position: usize,
    /// In the order of the index; ends as those of a key that has nothing but this component.
    pub ranges: Vec<KeyRange>,
}

/// The bounds of an index scan.
#[derive(Debug, Clone)]
pub struct KeyRanges {
    /// Disjoint, in the order of the index.
    pub ranges: Vec<KeyRange>,
    /// By position.
    pub checks: Vec<FieldCheck>,
}

/// Ranges beyond which leading single values are checked instead of multiplied out.
const RANGES_MAX: usize = 4096;

impl KeyRanges {
    /// Encodes bounds, one list a field.
    pub fn new(pattern: &KeyPattern, bounds: &[IntervalList]) -> KeyRanges {
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        let mut ranges: Option<Vec<KeyRange>> = None;
        let mut checks = Vec::new();
        let collator = pattern.collator();
        for (position, (field, list)) in pattern.fields().iter().zip(bounds).enumerate() {
            let count = prefixes.len() * list.intervals().len();
            if ranges.is_some() {
                if !list.is_full() {
                    checks.push(FieldCheck {
                        position,
                        ranges: component_ranges(list, Encoding { direction: field.direction, collator }),
                    });
                }
            } else if list.is_points() && count <= RANGES_MAX {
                prefixes = extend_prefixes(&prefixes, list, Encoding { direction: field.direction, collator });
            } else if count <= RANGES_MAX {
                ranges = Some(extend_ranges(&prefixes, list, Encoding { direction: field.direction, collator }));
            } else {
                ranges = Some(prefixes.iter().map(|prefix| whole_range(prefix)).collect());
                checks.push(FieldCheck {
                    position,
                    ranges: component_ranges(list, Encoding { direction: field.direction, collator }),
                });
            }
        }
        let mut ranges = ranges.unwrap_or_else(|| prefixes.iter().map(|prefix| whole_range(prefix)).collect());
        ranges.sort();
        KeyRanges { ranges, checks }
    }

    /// One range and no checks.
    pub fn one(range: KeyRange) -> KeyRanges {
        KeyRanges { ranges: vec![range], checks: Vec::new() }
    }
}

/// How the values of one field become bytes.
#[derive(Clone, Copy)]
struct Encoding<'c> {
    direction: Direction,
    collator: Option<&'c Collator>,
}

impl Encoding<'_> {
    fn append(self, bytes: &mut Vec<u8>, value: RawBsonRef<'_>) {
        encode_collated_value(bytes, value, self.direction, self.collator);
    }
}

fn whole_range(prefix: &[u8]) -> KeyRange {
    let mut high = prefix.to_vec();
    append_after_prefix(&mut high);
    KeyRange { low: prefix.to_vec(), high }
}

fn extend_prefixes(prefixes: &[Vec<u8>], list: &IntervalList, encoding: Encoding<'_>) -> Vec<Vec<u8>> {
    let extend = |prefix: &Vec<u8>, interval: &Interval| {
        let mut extended = prefix.clone();
        encoding.append(&mut extended, interval.start.value.value());
        extended
    };
    let pairs = prefixes.iter().flat_map(|prefix| list.intervals().iter().map(move |interval| (prefix, interval)));
    pairs.map(|(prefix, interval)| extend(prefix, interval)).collect()
}

fn extend_ranges(prefixes: &[Vec<u8>], list: &IntervalList, encoding: Encoding<'_>) -> Vec<KeyRange> {
    let pairs = prefixes.iter().flat_map(|prefix| list.intervals().iter().map(move |interval| (prefix, interval)));
    pairs.map(|(prefix, interval)| key_range(prefix, interval, encoding)).collect()
}

fn component_ranges(list: &IntervalList, encoding: Encoding<'_>) -> Vec<KeyRange> {
    let mut ranges: Vec<KeyRange> =
        list.intervals().iter().map(|interval| key_range(&[], interval, encoding)).collect();
    ranges.sort();
    ranges
}

fn key_range(prefix: &[u8], interval: &Interval, encoding: Encoding<'_>) -> KeyRange {
    // In a descending field greater values come first.
    let (first, last) = match encoding.direction {
        Direction::Ascending => (&interval.start, &interval.end),
        Direction::Descending => (&interval.end, &interval.start),
    };
    KeyRange { low: position(prefix, first, End::Low, encoding), high: position(prefix, last, End::High, encoding) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    High,
}

fn position(prefix: &[u8], bound: &Bound, end: End, encoding: Encoding<'_>) -> Vec<u8> {
    let direction = encoding.direction;
    let mut bytes = prefix.to_vec();
    let is_open = matches!(bound.value.value(), RawBsonRef::MinKey | RawBsonRef::MaxKey) && bound.inclusive;
    match (is_open, end) {
        // Nothing lies beyond MinKey and MaxKey, unless this is the far end of a point at one of them.
        (true, End::Low) if first_of(direction, bound) => return bytes,
        (true, End::High) if !first_of(direction, bound) => {}
        _ => encoding.append(&mut bytes, bound.value.value()),
    }
    if (end == End::Low) != bound.inclusive {
        append_after_prefix(&mut bytes);
    }
    bytes
}

/// Whether the bound's value is the very first of the index.
fn first_of(direction: Direction, bound: &Bound) -> bool {
    let is_least = matches!(bound.value.value(), RawBsonRef::MinKey);
    is_least == (direction == Direction::Ascending)
}
