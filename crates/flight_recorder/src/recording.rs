//! Figures of many files, as series over time.
//!
//! Used by `plimsoll diagnose`, and by the server for what it judges while it runs.

use std::collections::BTreeMap;

use bson::RawDocument;

use crate::chunk::Chunk;
use crate::figures::{Figure, figure_at};

/// A figure over time: moments in milliseconds since 1970, and values; in order of time.
pub type Series = Vec<(i64, f64)>;

/// All figures of some time.
#[derive(Debug, Default)]
pub struct Recording {
    times: Vec<i64>,
    numbers: BTreeMap<String, Series>,
    texts: BTreeMap<String, Vec<(i64, String)>>,
}

impl Recording {
    /// Adds a chunk's moments from `from` to `to`. Chunks come in any order; a moment that is there already is left out.
    pub fn add(&mut self, chunk: Chunk, from: i64, to: i64) {
        let is_new: Vec<bool> = chunk
            .times
            .iter()
            .map(|time| (from..=to).contains(time) && self.times.binary_search(time).is_err())
            .collect();
        for column in chunk.columns {
            for ((time, value), _) in chunk.times.iter().zip(column.values).zip(&is_new).filter(|(_, is_new)| **is_new)
            {
                match value {
                    None => {}
                    Some(Figure::Text(text)) => {
                        self.texts.entry(column.path.clone()).or_default().push((*time, text));
                    }
                    Some(number) => {
                        let number = number.number().unwrap_or_default();
                        self.numbers.entry(column.path.clone()).or_default().push((*time, number));
                    }
                }
            }
        }
        let new = chunk.times.iter().zip(&is_new).filter(|(_, is_new)| **is_new).map(|(time, _)| *time);
        self.times.extend(new);
        self.times.sort_unstable();
        self.times.dedup();
    }

    /// Adds the figures at `paths` of a reply of `serverStatus`, later than all that is there, and forgets what is before `keep_from`.
    pub fn observe(&mut self, millis: i64, status: &RawDocument, paths: &[&str], keep_from: i64) {
        for path in paths {
            match figure_at(status, path) {
                None => {}
                Some(Figure::Text(text)) => self.texts.entry((*path).to_owned()).or_default().push((millis, text)),
                Some(number) => {
                    let number = number.number().unwrap_or_default();
                    self.numbers.entry((*path).to_owned()).or_default().push((millis, number));
                }
            }
        }
        self.times.push(millis);
        forget(&mut self.times, |time| *time < keep_from);
        self.numbers.values_mut().for_each(|series| forget(series, |(time, _)| *time < keep_from));
        self.texts.values_mut().for_each(|series| forget(series, |(time, _)| *time < keep_from));
    }

    /// Puts everything into the order of time. To be called when all has been added.
    pub fn sort(&mut self) {
        self.numbers.values_mut().for_each(|series| series.sort_by_key(|(time, _)| *time));
        self.texts.values_mut().for_each(|series| series.sort_by_key(|(time, _)| *time));
    }

    /// The moments.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The numbers at a path; none where there are none.
    pub fn series(&self, path: &str) -> &[(i64, f64)] {
        self.numbers.get(path).map_or(&[], Vec::as_slice)
    }

    /// The texts at a path.
    pub fn texts(&self, path: &str) -> &[(i64, String)] {
        self.texts.get(path).map_or(&[], Vec::as_slice)
    }

    /// The paths below a prefix that ends with a dot, without it.
    pub fn names_below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.numbers.range(prefix.to_owned()..).map_while(move |(path, _)| path.strip_prefix(prefix))
    }

    /// How much the figure at a path, one that only grows, grew in each second. A restart, where it begins anew, is no growth.
    pub fn rate(&self, path: &str) -> Series {
        let pairs = self.series(path).windows(2);
        let growth = |pair: &[(i64, f64)]| {
            let ((before, from), (time, to)) = (pair[0], pair[1]);
            let seconds = (time - before) as f64 / 1000.0;
            (seconds > 0.0).then(|| (time, (to - from).max(0.0) / seconds))
        };
        pairs.filter_map(growth).collect()
    }

    /// The moments of starts: the uptime is less than it was.
    pub fn starts(&self) -> Vec<i64> {
        let is_start = |pair: &[(i64, f64)]| (pair[1].1 < pair[0].1).then_some(pair[1].0);
        self.series("uptimeMillis").windows(2).filter_map(is_start).collect()
    }
}

/// Takes the old ones away, which come first.
fn forget<T>(moments: &mut Vec<T>, is_old: impl Fn(&T) -> bool) {
    let old = moments.partition_point(is_old);
    if old > 0 {
        moments.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::ChunkWriter;

    fn chunk(moments: &[(i64, i64)]) -> Chunk {
        let mut writer = ChunkWriter::default();
        for (time, value) in moments {
            writer.push(
                *time,
                &rawdoc! { "uptimeMillis": time % 5_000, "count": { "n": *value }, "why": value.to_string() },
            );
        }
        Chunk::decode(&writer.encode()).unwrap()
    }

    #[test]
    fn chunks_come_together_in_the_order_of_time_and_each_moment_once() {
        let mut recording = Recording::default();
        recording.add(chunk(&[(3_000, 30), (4_000, 50)]), 0, 10_000);
        recording.add(chunk(&[(1_000, 10), (2_000, 20), (3_000, 30)]), 1_500, 10_000);
        recording.sort();
        assert_eq!(recording.times(), [2_000, 3_000, 4_000]);
        assert_eq!(recording.series("count.n"), [(2_000, 20.0), (3_000, 30.0), (4_000, 50.0)]);
        assert_eq!(recording.rate("count.n"), [(3_000, 10.0), (4_000, 20.0)]);
        assert_eq!(recording.texts("why")[0], (2_000, "20".to_owned()));
        assert_eq!(recording.names_below("count.").collect::<Vec<_>>(), ["n"]);
    }

    #[test]
    fn a_restart_is_a_start_and_no_growth() {
        let mut recording = Recording::default();
        recording.add(chunk(&[(3_000, 100), (4_000, 110), (6_000, 2)]), 0, 10_000);
        recording.sort();
        assert_eq!(recording.starts(), [6_000]);
        assert_eq!(recording.rate("count.n"), [(4_000, 10.0), (6_000, 0.0)]);
    }
}
