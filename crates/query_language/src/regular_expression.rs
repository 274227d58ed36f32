//! Regular expressions in PCRE2's dialect, as MongoDB takes them: `$regex`, regular expressions as values, `$regexMatch` and
//! its kin.
//!
//! Called by `filter` and `expression`. It relies on PCRE2 (`pcre`), and on `watch` for whether the command is to stop.
//!
//! Patterns that are plain text, perhaps anchored, need no PCRE2 (`literal`). For others a search is first tried with limits
//! under which it cannot take long: of a short text without any question, of a longer one with a pattern that calls back at
//! each position of the text, to ask whether the command is to stop. A search that exceeds these limits, or could take long
//! before PCRE2 counts anything, is made with a pattern that calls back at its items (`callouts`): slower, and it ends when the
//! command is to stop, or at PCRE2's usual match limit.

mod callouts;
mod literal;
mod pcre;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{ErrorKind, QueryError};
use crate::watch;
use literal::Literal;
use pcre::{Code, Search, SearchError, Spans};

pub(crate) use literal::prefix;
pub(crate) use pcre::Translation as PatternTranslation;

/// Bytes that a pattern may have.
const PATTERN_BYTES_MAX: usize = 32_764;

/// PCRE2's usual match limit.
const MATCH_LIMIT: u32 = 10_000_000;

/// Bytes of a text in which a search may be tried without asking whether the command is to stop.
const SHORT_TEXT_BYTES_MAX: usize = 8 << 10;

/// What a first try may do before it asks or gives up: bytes of the text where it may begin, times steps back, times the work between
/// two of these, which PCRE2 does not count.
const TRY_WORK_MAX: usize = 1 << 30;

/// The work between two of PCRE2's counts up to which there is a first try at all.
const UNCOUNTED_WORK_MAX: usize = 1 << 26;

/// Bytes of a pattern whose repetition takes as long as passing over one byte of the text.
const REPEATED_BYTES_PER_WORK: usize = 16;

/// Positions between two questions of a first try in a longer text.
const POSITIONS_PER_CHECK: usize = 64;

/// Callouts between two questions of a pattern that calls back at its items.
const ITEMS_PER_CHECK: usize = 512;

/// The same times bytes of the text, each of which an item may pass over.
const ITEM_BYTES_PER_CHECK: usize = 1 << 26;

/// Items between two callouts, of patterns in which PCRE2 has no room to call back at each, until it has.
const SPACINGS: [usize; 6] = [2, 8, 32, 128, 1024, usize::MAX];

/// Steps back of a pattern that cannot call back at its items, times bytes of the pattern or the text: what it does at one
/// position takes a fraction of a second.
const SPARSE_STEPS: usize = 1 << 28;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct RegularExpression {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pattern: String,
    options: u32,
    /// Whether machine code is made of it.
    translation: PatternTranslation,
    literal: Option<Literal>,
    /// Calls back nowhere.
    plain: Code,
    /// Calls back at each position; made when the first longer text is searched.
    at_positions: OnceLock<Code>,
    /// Calls back at its items, or some of them; made when the first search exceeds its limits.
    at_items: OnceLock<Option<Code>>,
}

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// It has more than `PATTERN_BYTES_MAX` bytes.
    TooLong,
    /// It has a null byte.
    NullByte,
    /// An option is none of `imsxu`.
    Option(char),
    /// PCRE2's text.
    Invalid(String),
}

/// Why a search came to no end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MatchError {
    /// The command is to stop.
    Interrupted(QueryError),
    /// PCRE2's number.
    Failed(i32),
}

impl RegularExpression {
    /// Compiles a pattern with options among `imsxu`.
    pub(crate) fn new(pattern: &str, options: &str, translation: PatternTranslation) -> Result<Self, PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        if pattern.contains('\0') {
            return Err(PatternError::NullByte);
        }
        let literal = Literal::of(pattern, options);
        let options = pcre_options(options)?;
        let pattern = current_verb(pattern);
        let translation = if is_translated_right(&pattern) { translation } else { PatternTranslation::None };
        let plain =
            Code::compile(&pattern, options, translation).map_err(|error| PatternError::Invalid(error.message))?;
        let (at_positions, at_items) = (OnceLock::new(), OnceLock::new());
        Ok(Self { inner: Arc::new(Inner { pattern, options, translation, literal, plain, at_positions, at_items }) })
    }

    /// Whether something in a stored text matches; nothing does in what is no UTF-8.
    pub(crate) fn is_match_in(&self, text: &[u8]) -> Result<bool, MatchError> {
        match &self.inner.literal {
            Some(literal) => Ok(literal.is_match(text)),
            None => std::str::from_utf8(text).map_or(Ok(false), |text| self.is_match(text)),
        }
    }

    /// Whether something in the text matches.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, MatchError> {
        match &self.inner.literal {
            Some(literal) => Ok(literal.is_match(text.as_bytes())),
            None => Ok(self.search(text, 0, |code, search| code.find(text, 0, search))?.is_some()),
        }
    }

    /// The first match from byte `start` on, with its groups: where each is, if it took part; the first is the whole match.
    pub(crate) fn captures(&self, text: &str, start: usize) -> Result<Vec<Option<Range<usize>>>, MatchError> {
        self.search(text, start, |code, search| -> Result<Spans, SearchError> { code.captures(text, start, search) })
    }

    fn search<T>(
        &self,
        text: &str,
        start: usize,
        run: impl Fn(&Code, Search<'_>) -> Result<T, SearchError>,
    ) -> Result<T, MatchError> {
        let inner = &*self.inner;
        let length = text.len().saturating_sub(start) + 1;
        let uncounted = inner.uncounted_work(length);
        let tried = if uncounted > UNCOUNTED_WORK_MAX {
            Err(MatchError::Failed(pcre2_sys::PCRE2_ERROR_MATCHLIMIT))
        } else if length <= SHORT_TEXT_BYTES_MAX {
            let match_limit = limit(TRY_WORK_MAX / (length * uncounted));
            run(&inner.plain, Search { match_limit, stop: None }).map_err(failed)
        } else {
            let match_limit = limit(TRY_WORK_MAX / (POSITIONS_PER_CHECK * uncounted));
            watched_search(inner.at_positions()?, match_limit, POSITIONS_PER_CHECK, &run)
        };
        match tried {
            Err(MatchError::Failed(pcre2_sys::PCRE2_ERROR_MATCHLIMIT)) => match inner.at_items() {
                Some(code) => {
                    let callouts_per_check = (ITEM_BYTES_PER_CHECK / length).clamp(1, ITEMS_PER_CHECK);
                    watched_search(code, MATCH_LIMIT, callouts_per_check, &run)
                }
                None => {
                    let match_limit = limit(SPARSE_STEPS / inner.pattern.len().max(length));
                    watched_search(inner.at_positions()?, match_limit, 1, &run)
                }
            },
            outcome => outcome,
        }
    }
}

impl Inner {
    /// How much PCRE2 may do in a text between two of its counts, which it makes where it goes back or leaves a group, and not each time
    /// that a group is repeated.
    fn uncounted_work(&self, length: usize) -> usize {
        let repeats = [")*", ")+", "){", "(?R", "(?P>", "(?&", "\\g"].iter().any(|sign| self.pattern.contains(sign))
            || self.options & pcre2_sys::PCRE2_EXTENDED != 0
            || (1..10).any(|group| self.pattern.contains(&format!("(?{group}")));
        let times = if repeats { self.pattern.len() / REPEATED_BYTES_PER_WORK } else { 1 };
        length.saturating_mul(times.max(1)).max(self.pattern.len())
    }

    fn at_positions(&self) -> Result<&Code, MatchError> {
        if let Some(code) = self.at_positions.get() {
            return Ok(code);
        }
        let code = Code::compile(&callouts::at_start(&self.pattern), self.options, self.translation);
        let code = code.map_err(|error| MatchError::Failed(error.number))?;
        Ok(self.at_positions.get_or_init(|| code))
    }

    fn at_items(&self) -> Option<&Code> {
        let at_each = self.options | pcre2_sys::PCRE2_AUTO_CALLOUT;
        let made = || {
            let at_each = Code::compile(&self.pattern, at_each, self.translation).ok();
            at_each.or_else(|| SPACINGS.iter().find_map(|spacing| self.spaced(*spacing)))
        };
        self.at_items.get_or_init(made).as_ref()
    }

    fn spaced(&self, spacing: usize) -> Option<Code> {
        if self.options & pcre2_sys::PCRE2_EXTENDED != 0 {
            return None;
        }
        Code::compile(&callouts::spaced(&self.pattern, spacing)?, self.options, self.translation).ok()
    }
}

/// A search with a pattern that calls back, which asks at every so many callouts whether the command is to stop.
fn watched_search<T>(
    code: &Code,
    match_limit: u32,
    callouts_per_check: usize,
    run: &impl Fn(&Code, Search<'_>) -> Result<T, SearchError>,
) -> Result<T, MatchError> {
    let (mut callouts, mut interruption) = (0_usize, None);
    let mut stop = || {
        callouts += 1;
        if callouts.is_multiple_of(callouts_per_check) {
            interruption = watch::check().err();
        }
        interruption.is_some()
    };
    let outcome = run(code, Search { match_limit, stop: Some(&mut stop) });
    match interruption {
        Some(interruption) => Err(MatchError::Interrupted(interruption)),
        None => outcome.map_err(failed),
    }
}

/// Whether PCRE2's machine code finds the same as its interpreter. It does not for texts of varying length that are to stand before a
/// position, as `(?<=a?$)`.
fn is_translated_right(pattern: &str) -> bool {
    !["(?<=", "(?<!", "lb:", "lookbehind:"].iter().any(|beginning| pattern.contains(beginning))
}

/// A match limit of PCRE2, which is no higher than usual and lets something be found.
fn limit(steps: usize) -> u32 {
    u32::try_from(steps).unwrap_or(MATCH_LIMIT).clamp(1, MATCH_LIMIT)
}

fn failed(error: SearchError) -> MatchError {
    MatchError::Failed(match error {
        SearchError::MatchLimit => pcre2_sys::PCRE2_ERROR_MATCHLIMIT,
        SearchError::Stopped => pcre2_sys::PCRE2_ERROR_CALLOUT,
        SearchError::Other(number) => number,
    })
}

impl MatchError {
    /// The error for the client; `operator` is what searched.
    pub(crate) fn into_query_error(self, operator: &str) -> QueryError {
        match self {
            MatchError::Interrupted(error) => error,
            MatchError::Failed(number) => {
                let reason = pcre::message(number);
                let message = format!(
                    "Error occurred while executing the regular expression in {operator}. Result code: {number} ({reason})"
                );
                QueryError::new(ErrorKind::Location(51156), message)
            }
        }
    }
}

/// PCRE2's options for MongoDB's letters. `u` asks for what is so anyway: patterns and texts are UTF-8.
fn pcre_options(letters: &str) -> Result<u32, PatternError> {
    letters.chars().try_fold(0, |options, letter| {
        Ok(options
            | match letter {
                'i' => pcre2_sys::PCRE2_CASELESS,
                'm' => pcre2_sys::PCRE2_MULTILINE,
                's' => pcre2_sys::PCRE2_DOTALL,
                'x' => pcre2_sys::PCRE2_EXTENDED,
                'u' => 0,
                other => return Err(PatternError::Option(other)),
            })
    })
}

/// The pattern with the verb `(*UTF8)` of PCRE before version 2, which many still write, as PCRE2 names it.
fn current_verb(pattern: &str) -> String {
    let (verbs, rest) = callouts::split_verbs(pattern);
    format!("{}{rest}", verbs.replace("(*UTF8)", "(*UTF)"))
}

#[cfg(test)]
mod tests;
