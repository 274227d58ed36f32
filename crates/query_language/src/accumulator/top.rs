//! `$top`, `$bottom`, `$topN`, `$bottomN`: the outputs of the first or last documents in a sort order.

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};

use super::{Accumulator, Input, partial_elements, value_bytes};
use crate::error::Result;
use crate::expression::Value;
use crate::expression::sort_pattern::{SortKey, SortPattern};

#[derive(Debug)]
struct Top {
    count: usize,
    pattern: SortPattern,
    from_end: bool,
    single: bool,
    /// At most `count` documents in sort order.
    entries: Vec<(SortKey, RawBson)>,
    bytes: usize,
}

impl Top {
    fn make(count: usize, pattern: &SortPattern, from_end: bool, single: bool) -> Box<dyn Accumulator> {
        Box::new(Top { count, pattern: pattern.clone(), from_end, single, entries: Vec::new(), bytes: 0 })
    }

    fn insert(&mut self, key: SortKey, output: RawBson) {
        let position = self.entries.partition_point(|(known, _)| self.pattern.compare(known, &key).is_le());
        let full = self.entries.len() == self.count;
        if full && position == if self.from_end { 0 } else { self.count } {
            return;
        }
        self.bytes += entry_bytes(&key, &output);
        self.entries.insert(position, (key, output));
        if self.entries.len() > self.count {
            let dropped = if self.from_end { Some(self.entries.remove(0)) } else { self.entries.pop() };
            self.bytes -= dropped.map_or(0, |(key, output)| entry_bytes(&key, &output));
        }
    }
}

fn entry_bytes(key: &[RawBson], output: &RawBson) -> usize {
    key.iter().map(value_bytes).sum::<usize>() + value_bytes(output)
}

pub(super) fn make_top(count: usize, pattern: &SortPattern) -> Box<dyn Accumulator> {
    Top::make(count, pattern, false, true)
}

pub(super) fn make_top_n(count: usize, pattern: &SortPattern) -> Box<dyn Accumulator> {
    Top::make(count, pattern, false, false)
}

pub(super) fn make_bottom(count: usize, pattern: &SortPattern) -> Box<dyn Accumulator> {
    Top::make(count, pattern, true, true)
}

pub(super) fn make_bottom_n(count: usize, pattern: &SortPattern) -> Box<dyn Accumulator> {
    Top::make(count, pattern, true, false)
}

impl Accumulator for Top {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if let Input::Keyed(key, output) = input {
            self.insert(key, output.into_raw_bson().unwrap_or(RawBson::Null));
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        match self.single {
            true => Ok(self.entries.first().map_or(Value::NULL, |(_, output)| Value::Owned(output.clone()))),
            false => {
                Ok(self.entries.iter().map(|(_, output)| output.as_raw_bson_ref()).collect::<RawArrayBuf>().into())
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    fn to_partial(&self) -> Result<RawBson> {
        let entry = |(key, output): &(SortKey, RawBson)| {
            key.iter().chain([output]).map(RawBson::as_raw_bson_ref).collect::<RawArrayBuf>()
        };
        Ok(RawBson::Array(self.entries.iter().map(entry).collect()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        for entry in partial_elements(partial) {
            let mut key: SortKey = partial_elements(entry).map(RawBson::from).collect();
            if let Some(output) = key.pop() {
                self.insert(key, output);
            }
        }
        Ok(())
    }
}
