//! Which operations are slow or otherwise worth a record: the settings of `profile`, and what they say of an operation.
//!
//! Set by `profile`; asked by [`crate::handlers::diagnostics::finished_operation`] at the end of each command. Levels and filters are a database's own and last until the
//! server stops; the threshold and the sample rate are the server's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use parking_lot::RwLock;
use query_language::filter::{Filter, FilterOptions};

use crate::request::error::Result;

/// Milliseconds from which on an operation is slow, unless told otherwise.
const SLOW_MILLIS: i64 = 100;

/// Of `watches`: a database is profiled.
const PROFILED: u8 = 1;
/// Of `watches`: operations are traced.
const TRACED: u8 = 2;

/// What is profiled in a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing.
    #[default]
    Off,
    /// Slow operations, or those that the filter lets through.
    Slow,
    /// All of them, or those that the filter lets through.
    All,
}

/// Says by the record of an operation whether it is of interest.
#[derive(Debug)]
pub(crate) struct ProfileFilter {
    pub(crate) source: RawDocumentBuf,
    filter: Filter,
}

/// The settings of a database.
#[derive(Debug, Clone, Default)]
pub(crate) struct DatabaseProfile {
    pub(crate) level: Level,
    pub(crate) filter: Option<Arc<ProfileFilter>>,
}

/// What is to be done about an operation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// A line is written to the diagnostics log.
    pub(crate) logs: bool,
    /// A document is written to `system.profile`.
    pub(crate) profiles: bool,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Profiler {
    databases: RwLock<HashMap<String, DatabaseProfile>>,
    /// Whether any database has a level or a filter, and whether operations are traced: one look tells that there is neither.
    watches: AtomicU8,
    slow_millis: AtomicI64,
    sample_rate_bits: AtomicU64,
    samples: AtomicU64,
}

impl Default for Profiler {
    fn default() -> Self {
        Self {
            databases: RwLock::default(),
            watches: AtomicU8::new(0),
            slow_millis: AtomicI64::new(SLOW_MILLIS),
            sample_rate_bits: AtomicU64::new(1f64.to_bits()),
            samples: AtomicU64::new(0),
        }
    }
}

impl Level {
    /// As the command has it.
    pub(crate) fn number(self) -> i32 {
        self as i32
    }

    pub(crate) fn numbered(number: i64) -> Option<Level> {
        [Level::Off, Level::Slow, Level::All].into_iter().find(|level| i64::from(level.number()) == number)
    }
}

impl ProfileFilter {
    pub(crate) fn parse(source: &RawDocument) -> Result<ProfileFilter> {
        Ok(ProfileFilter { source: source.to_owned(), filter: Filter::parse(source, &FilterOptions::default())? })
    }
}

impl Profiler {
    /// With nothing profiled; whether operations are traced never changes.
    pub(crate) fn new(traces: bool) -> Self {
        Self { watches: AtomicU8::new(if traces { TRACED } else { 0 }), ..Self::default() }
    }

    pub(crate) fn of_database(&self, database: &str) -> DatabaseProfile {
        self.databases.read().get(database).cloned().unwrap_or_default()
    }

    /// Whether operations on a database are recorded.
    pub(crate) fn is_on(&self, database: &str) -> bool {
        self.of_database(database).level != Level::Off
    }

    pub(crate) fn set_database(&self, database: &str, profile: DatabaseProfile) {
        let mut databases = self.databases.write();
        if profile.level == Level::Off && profile.filter.is_none() {
            databases.remove(database);
        } else {
            databases.insert(database.to_owned(), profile);
        }
        match databases.is_empty() {
            true => self.watches.fetch_and(!PROFILED, Ordering::Relaxed),
            false => self.watches.fetch_or(PROFILED, Ordering::Relaxed),
        };
    }

    pub(crate) fn slow_millis(&self) -> i64 {
        self.slow_millis.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slow_millis(&self, millis: i64) {
        self.slow_millis.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate_bits.load(Ordering::Relaxed))
    }

    pub(crate) fn set_sample_rate(&self, rate: f64) {
        self.sample_rate_bits.store(rate.to_bits(), Ordering::Relaxed);
    }

    fn is_slow(&self, elapsed: Duration) -> bool {
        elapsed.as_millis() as i64 >= self.slow_millis()
    }

    /// Whether there may be a record for `system.profile` of anything; cheap.
    pub(crate) fn may_profile(&self) -> bool {
        self.watches.load(Ordering::Relaxed) & PROFILED != 0
    }

    /// Whether there may be anything to be done about an operation; cheap.
    pub(crate) fn may_record(&self, elapsed: Duration) -> bool {
        self.watches.load(Ordering::Relaxed) != 0 || self.is_slow(elapsed)
    }

    /// The same without those that are only traced.
    pub(crate) fn may_keep_record(&self, elapsed: Duration) -> bool {
        self.may_profile() || self.is_slow(elapsed)
    }

    /// What is to be done about an operation with this record. A filter takes the place of threshold and sample rate.
    pub(crate) fn judge(&self, database: &str, elapsed: Duration, record: &RawDocument) -> Verdict {
        let DatabaseProfile { level, filter } = self.of_database(database);
        let of_interest = match &filter {
            Some(filter) => filter.filter.matches(record).unwrap_or(false),
            None => self.is_slow(elapsed) && self.is_in_sample(),
        };
        let profiles = match level {
            Level::Off => false,
            Level::Slow => of_interest,
            Level::All => of_interest || filter.is_none(),
        };
        Verdict { logs: of_interest, profiles }
    }

    /// Takes the share of operations that the rate says, spread evenly: multiples of the golden ratio.
    fn is_in_sample(&self) -> bool {
        let sample = self.samples.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        (sample as f64) < self.sample_rate() * u64::MAX as f64 || self.sample_rate() >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn verdict(logs: bool, profiles: bool) -> Verdict {
        Verdict { logs, profiles }
    }

    #[test]
    fn level_threshold_and_filter_decide() {
        let profiler = Profiler::default();
        let (slow, fast) = (Duration::from_millis(100), Duration::from_millis(99));
        let record = rawdoc! {"op": "query"};
        assert!(profiler.may_record(slow) && !profiler.may_record(fast));
        assert_eq!(profiler.judge("d", slow, &record), verdict(true, false));
        let set = |level, filter| profiler.set_database("d", DatabaseProfile { level, filter });
        set(Level::Slow, None);
        assert!(profiler.may_record(fast));
        assert_eq!(profiler.judge("d", slow, &record), verdict(true, true));
        assert_eq!(profiler.judge("d", fast, &record), verdict(false, false));
        assert_eq!(profiler.judge("e", slow, &record), verdict(true, false));
        set(Level::All, None);
        assert_eq!(profiler.judge("d", fast, &record), verdict(false, true));
        set(Level::All, Some(Arc::new(ProfileFilter::parse(&rawdoc! {"op": "insert"}).unwrap())));
        assert_eq!(profiler.judge("d", slow, &record), verdict(false, false));
        assert_eq!(profiler.judge("d", fast, &rawdoc! {"op": "insert"}), verdict(true, true));
        set(Level::Off, None);
        assert!(!profiler.may_record(fast));
    }

    #[test]
    fn a_sample_has_its_share() {
        let profiler = Profiler::default();
        profiler.set_sample_rate(0.25);
        let sampled = (0..1000).filter(|_| profiler.is_in_sample()).count();
        assert!((240..=260).contains(&sampled), "{sampled}");
        profiler.set_sample_rate(0.0);
        assert!((0..1000).all(|_| !profiler.is_in_sample()));
    }
}
