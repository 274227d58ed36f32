//! The figures of some minutes, a column for each path.
//!
//! The recorder adds moments to a [`ChunkWriter`]; `block` frames and compresses its bytes. A column may begin late and have gaps.
//!
//! ```text
//! varint: version · moments · texts · columns
//! moments:  zigzag varints of milliseconds, each minus the one before
//! texts:    varint length, bytes; a text stands once
//! columns:  varint length of the path, its bytes · kind · presence: varint runs, absent and present by turns
//!           · varint length of the values, and those: zigzag varints of differences (whole numbers),
//!             varints of bits xor the bits before (numbers), varints of places among the texts
//! ```

mod bytes;
mod decode;

use std::collections::HashMap;

use bson::RawDocument;

use crate::figures::{Figure, visit_figures};
use bytes::{put_text, put_varint, zigzag};

pub use decode::DamagedChunk;

const VERSION: u64 = 1;

/// The kinds of columns, as they are written.
const WHOLE: u8 = 0;
const NUMBER: u8 = 1;
const TEXT: u8 = 2;

/// Decoded figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// Milliseconds since 1970 of each moment.
    pub times: Vec<i64>,
    /// The columns, in the order in which they came up.
    pub columns: Vec<Column>,
}

/// One figure over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its path, with dots between names.
    pub path: String,
    /// Its value at each moment, if it had one.
    pub values: Vec<Option<Figure>>,
}

/// Takes moments in. It holds them nearly as small as they are written.
#[derive(Debug, Default)]
pub struct ChunkWriter {
    moments: usize,
    times: Vec<u8>,
    last_time: i64,
    texts: Vec<String>,
    text_places: HashMap<String, u64>,
    columns: Vec<ColumnWriter>,
    /// By path, for each kind.
    column_places: HashMap<String, [Option<usize>; 3]>,
}

#[derive(Debug)]
struct ColumnWriter {
    path: String,
    kind: u8,
    /// Lengths of runs, absent first.
    runs: Vec<u64>,
    last: i64,
    values: Vec<u8>,
}

impl ColumnWriter {
    /// Adds the value of the moment that `moments` came before.
    fn push(&mut self, moments: usize, value: i64) {
        let known: u64 = self.runs.iter().sum();
        let absent = (moments as u64).saturating_sub(known);
        // The last run is one of presence: each absence comes with a presence behind it.
        match self.runs.last_mut() {
            Some(run) if absent == 0 => *run += 1,
            _ => self.runs.extend([absent, 1]),
        }
        let difference =
            if self.kind == NUMBER { (value ^ self.last) as u64 } else { zigzag(value.wrapping_sub(self.last)) };
        put_varint(&mut self.values, difference);
        self.last = value;
    }
}

impl ChunkWriter {
    /// How many moments there are.
    pub fn len(&self) -> usize {
        self.moments
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.moments == 0
    }

    /// Adds the reply of `serverStatus` at this time, in milliseconds since 1970.
    pub fn push(&mut self, millis: i64, status: &RawDocument) {
        put_varint(&mut self.times, zigzag(millis.wrapping_sub(self.last_time)));
        self.last_time = millis;
        let mut expected = 0;
        visit_figures(status, |path, figure| {
            let (kind, value) = match figure {
                Figure::Whole(number) => (WHOLE, number),
                Figure::Number(number) => (NUMBER, number.to_bits() as i64),
                Figure::Text(text) => (TEXT, self.place_of(text) as i64),
            };
            let place = self.column(path, kind, expected);
            self.columns[place].push(self.moments, value);
            expected = place + 1;
        });
        self.moments += 1;
    }

    fn place_of(&mut self, text: String) -> u64 {
        let next = self.texts.len() as u64;
        *self.text_places.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        })
    }

    /// The place of a column. Replies are alike, so it is nearly always the one behind the figure before.
    fn column(&mut self, path: &str, kind: u8, expected: usize) -> usize {
        if self.columns.get(expected).is_some_and(|column| column.kind == kind && column.path == path) {
            return expected;
        }
        let places = match self.column_places.get_mut(path) {
            Some(places) => places,
            None => self.column_places.entry(path.to_owned()).or_default(),
        };
        *places[usize::from(kind)].get_or_insert_with(|| {
            let path = path.to_owned();
            self.columns.push(ColumnWriter { path, kind, runs: Vec::new(), last: 0, values: Vec::new() });
            self.columns.len() - 1
        })
    }

    /// The chunk as it is now.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for count in [VERSION, self.moments as u64, self.texts.len() as u64, self.columns.len() as u64] {
            put_varint(&mut out, count);
        }
        out.extend_from_slice(&self.times);
        self.texts.iter().for_each(|text| put_text(&mut out, text.as_bytes()));
        for column in &self.columns {
            put_text(&mut out, column.path.as_bytes());
            out.push(column.kind);
            put_varint(&mut out, column.runs.len() as u64);
            column.runs.iter().for_each(|run| put_varint(&mut out, *run));
            put_text(&mut out, &column.values);
        }
        out
    }
}

#[cfg(test)]
mod tests;
