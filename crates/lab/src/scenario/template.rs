//! Documents, filters and commands made of a shape: constants, and generators such as `{=random: {from: 0, to: 100}}`.
//!
//! A mapping with one field whose name begins with `=` is a generator, and so is a text like `=thread`. `docs/scenarios.md`
//! lists them. Templates are built once (`Builder`) and make values for many operations (`Template::make`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use bson::spec::BinarySubtype;
use bson::{Bson, DateTime, Document};

use crate::error::LabError;
use crate::random::{Random, Zipfian};

mod builder;

pub(crate) use builder::{Builder, within};

/// Makes values of one shape.
#[derive(Debug, Clone)]
pub(crate) enum Template {
    Constant(Bson),
    Document(Vec<(String, Template)>),
    Array(Vec<Template>),
    /// The number of the document of a load, or of the operation of its group.
    Number,
    Thread,
    Round,
    /// Counts up with every value made.
    Sequence(Arc<AtomicI64>),
    Integer {
        from: i64,
        span: u64,
    },
    Fraction {
        from: f64,
        span: f64,
    },
    Zipfian {
        from: i64,
        ranks: Arc<Zipfian>,
    },
    /// Near the newest value of a sequence.
    Latest {
        counter: Arc<AtomicI64>,
        ranks: Arc<Zipfian>,
    },
    Text {
        shortest: u64,
        longest: u64,
    },
    Bytes {
        shortest: u64,
        longest: u64,
    },
    Choice(Vec<Template>),
    Repeat {
        shortest: u64,
        longest: u64,
        value: Box<Template>,
    },
    Joined(Vec<Template>),
    ObjectId,
    /// The time now and this much.
    Now {
        offset_milliseconds: i64,
    },
    Converted {
        kind: NumberKind,
        value: Box<Template>,
    },
}

/// A numeric BSON type to convert to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberKind {
    Int32,
    Int64,
    Double,
    Date,
    Text,
}

/// What a value may depend on.
pub(crate) struct Moment<'r> {
    pub(crate) random: &'r mut Random,
    pub(crate) number: u64,
    pub(crate) thread: u32,
    /// Which copy of a collection is worked on.
    pub(crate) copy: u32,
    pub(crate) round: u32,
}

/// The sequences of a run, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {
    counters: BTreeMap<String, Arc<AtomicI64>>,
}

impl Sequences {
    /// The counter of a name; a new one begins at `from`.
    pub(crate) fn counter(&mut self, name: &str, from: i64) -> Arc<AtomicI64> {
        Arc::clone(self.counters.entry(name.to_owned()).or_insert_with(|| Arc::new(AtomicI64::new(from))))
    }
}

/// Letters that text is made of.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";

impl Template {
    /// Makes a value.
    pub(crate) fn make(&self, moment: &mut Moment<'_>) -> Bson {
        match self {
            Self::Constant(value) => value.clone(),
            Self::Document(_) => Bson::Document(self.make_document(moment)),
            Self::Array(values) => Bson::Array(values.iter().map(|value| value.make(moment)).collect()),
            Self::Number => integer(moment.number as i64),
            Self::Thread => integer(i64::from(moment.thread)),
            Self::Round => integer(i64::from(moment.round)),
            Self::Sequence(counter) => integer(counter.fetch_add(1, Ordering::Relaxed)),
            Self::Integer { from, span } => integer(from.wrapping_add(moment.random.below(*span) as i64)),
            Self::Fraction { from, span } => Bson::Double(from + span * moment.random.fraction()),
            Self::Zipfian { from, ranks } => integer(from.wrapping_add(ranks.scattered(moment.random) as i64)),
            Self::Latest { counter, ranks } => {
                let newest = counter.load(Ordering::Relaxed) - 1;
                integer((newest - ranks.rank(moment.random) as i64).max(0))
            }
            Self::Text { shortest, longest } => Bson::String(text(moment.random, *shortest, *longest)),
            Self::Bytes { shortest, longest } => Bson::Binary(bytes(moment.random, *shortest, *longest)),
            Self::Choice(values) => {
                let position = moment.random.below(values.len() as u64) as usize;
                values.get(position).map_or(Bson::Null, |value| value.make(moment))
            }
            Self::Repeat { shortest, longest, value } => {
                let count = shortest + moment.random.below(longest - shortest + 1);
                Bson::Array((0..count).map(|_| value.make(moment)).collect())
            }
            Self::Joined(parts) => Bson::String(parts.iter().map(|part| plain_text(&part.make(moment))).collect()),
            Self::ObjectId => Bson::ObjectId(bson::oid::ObjectId::new()),
            Self::Now { offset_milliseconds } => {
                let now = DateTime::from_system_time(SystemTime::now()).timestamp_millis();
                Bson::DateTime(DateTime::from_millis(now + offset_milliseconds))
            }
            Self::Converted { kind, value } => convert(*kind, value.make(moment)),
        }
    }

    /// Makes a document; empty from a template that makes something else, which `Builder::document` never builds.
    pub(crate) fn make_document(&self, moment: &mut Moment<'_>) -> Document {
        match self {
            Self::Document(fields) => fields.iter().map(|(name, value)| (name.clone(), value.make(moment))).collect(),
            other => match other.make(moment) {
                Bson::Document(document) => document,
                _ => Document::new(),
            },
        }
    }

    /// The value, when it is always the same.
    pub(crate) fn constant(&self) -> Option<&Bson> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }
}

/// An integer of the smallest type that holds it, as shells and drivers send it.
fn integer(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// Random letters, so many that their number lies between the two, both included.
pub(crate) fn text(random: &mut Random, shortest: u64, longest: u64) -> String {
    let length = shortest + random.below(longest - shortest + 1);
    let mut text = String::with_capacity(length as usize);
    let mut bits = 0_u64;
    for position in 0..length {
        if position % 12 == 0 {
            bits = random.next();
        }
        text.push(char::from(LETTERS.get((bits & 31) as usize).copied().unwrap_or(b' ')));
        bits >>= 5;
    }
    text
}

fn bytes(random: &mut Random, shortest: u64, longest: u64) -> bson::Binary {
    let length = (shortest + random.below(longest - shortest + 1)) as usize;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bson::Binary { subtype: BinarySubtype::Generic, bytes }
}

fn plain_text(value: &Bson) -> String {
    match value {
        Bson::String(text) => text.clone(),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Double(number) => number.to_string(),
        other => other.to_string(),
    }
}

fn convert(kind: NumberKind, value: Bson) -> Bson {
    let number = match &value {
        Bson::Int32(number) => f64::from(*number),
        Bson::Int64(number) => *number as f64,
        Bson::Double(number) => *number,
        _ => return if kind == NumberKind::Text { Bson::String(plain_text(&value)) } else { value },
    };
    match kind {
        NumberKind::Int32 => Bson::Int32(number as i32),
        NumberKind::Int64 => Bson::Int64(number as i64),
        NumberKind::Double => Bson::Double(number),
        NumberKind::Date => Bson::DateTime(DateTime::from_millis(number as i64)),
        NumberKind::Text => Bson::String(plain_text(&value)),
    }
}

#[cfg(test)]
mod tests;
