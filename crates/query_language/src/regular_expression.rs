//! Regular expressions in PCRE2's dialect, as MongoDB takes them: `$regex`, regular expressions as values, `$regexMatch` and
//! its kin.
//!
//! Called by `filter` and `expression`. It relies on PCRE2 (`pcre`), and on `watch` for whether the command is to stop.
//!
//! Patterns that are plain text, perhaps anchored, need no PCRE2 (`literal`). For others a search is first tried with limits
//! under which it cannot take long. One that exceeds them is begun again with a pattern that calls back while it searches:
//! slower, and it ends when the command is to stop, or at PCRE2's usual match limit.

mod literal;
mod pcre;
pub(crate) mod watch;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{ErrorKind, QueryError};
use literal::Literal;
use pcre::{Code, Search, SearchError, Spans};

pub(crate) use literal::prefix;
pub(crate) use pcre::Translation as PatternTranslation;

/// Bytes that a pattern may have.
const PATTERN_BYTES_MAX: usize = 32_764;

/// PCRE2's usual match limit.
const MATCH_LIMIT: u32 = 10_000_000;

/// Bytes of a text in which a search may be tried without asking whether the command is to stop.
const QUICK_TEXT_BYTES_MAX: usize = 16 << 10;

/// Bytes of pattern times bytes of text up to which that is so.
const QUICK_PRODUCT_MAX: usize = 1 << 26;

/// What such a search may take in all: bytes of the text where it may begin, times steps back, times bytes passed over between two
/// of these, which PCRE2 does not count.
const QUICK_WORK_MAX: usize = 1 << 32;

/// Callouts of a pattern that calls back at each of its items between two questions whether the command is to stop.
const CALLOUTS_PER_CHECK: u32 = 512;

/// Steps back of a pattern that calls back only once a position, times bytes of the pattern: what it does at one position takes a
/// second or so at most.
const SPARSE_STEPS: usize = 1 << 30;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct RegularExpression {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pattern: String,
    options: u32,
    literal: Option<Literal>,
    quick: Code,
    /// The pattern that calls back, made when the first search takes long.
    watched: OnceLock<Watched>,
}

#[derive(Debug)]
struct Watched {
    code: Code,
    match_limit: u32,
    /// Callouts between two questions whether the command is to stop.
    callouts_per_check: u32,
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
        let quick =
            Code::compile(&pattern, options, translation).map_err(|error| PatternError::Invalid(error.message))?;
        Ok(Self { inner: Arc::new(Inner { pattern, options, literal, quick, watched: OnceLock::new() }) })
    }

    /// Whether something in the text matches.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, MatchError> {
        match &self.inner.literal {
            Some(literal) => Ok(literal.is_match(text)),
            None => {
                let found = self.search(text, 0, |code, search| code.find(text, 0, search))?;
                Ok(found.is_some())
            }
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
        let length = text.len().saturating_sub(start) + 1;
        let is_short = length <= QUICK_TEXT_BYTES_MAX && self.inner.pattern.len() * length <= QUICK_PRODUCT_MAX;
        if is_short {
            let steps = QUICK_WORK_MAX / (length * length);
            let match_limit = u32::try_from(steps).unwrap_or(MATCH_LIMIT).min(MATCH_LIMIT);
            match run(&self.inner.quick, Search { match_limit, stop: None }) {
                Err(SearchError::MatchLimit) => {}
                outcome => return outcome.map_err(failed),
            }
        }
        self.watched_search(run)
    }

    fn watched_search<T>(&self, run: impl Fn(&Code, Search<'_>) -> Result<T, SearchError>) -> Result<T, MatchError> {
        let watched = self.watched()?;
        let (mut callouts, mut interruption) = (0_u32, None);
        let mut stop = || {
            callouts = callouts.wrapping_add(1);
            if callouts.is_multiple_of(watched.callouts_per_check) {
                interruption = watch::check().err();
            }
            interruption.is_some()
        };
        let search = Search { match_limit: watched.match_limit, stop: Some(&mut stop) };
        let outcome = run(&watched.code, search);
        match interruption {
            Some(interruption) => Err(MatchError::Interrupted(interruption)),
            None => outcome.map_err(failed),
        }
    }

    /// The pattern that calls back, at each of its items if PCRE2 has room for that, otherwise once at each position.
    fn watched(&self) -> Result<&Watched, MatchError> {
        let inner = &*self.inner;
        if let Some(watched) = inner.watched.get() {
            return Ok(watched);
        }
        let translation = PatternTranslation::MachineCode;
        let everywhere = Code::compile(&inner.pattern, inner.options | pcre2_sys::PCRE2_AUTO_CALLOUT, translation);
        let made = match everywhere {
            Ok(code) => Watched { code, match_limit: MATCH_LIMIT, callouts_per_check: CALLOUTS_PER_CHECK },
            Err(_) => {
                let steps = SPARSE_STEPS / inner.pattern.len().max(1);
                let match_limit = u32::try_from(steps).unwrap_or(MATCH_LIMIT).min(MATCH_LIMIT);
                let code = Code::compile(&with_callout(&inner.pattern), inner.options, translation);
                let code = code.map_err(|error| MatchError::Failed(error.number))?;
                Watched { code, match_limit, callouts_per_check: 1 }
            }
        };
        Ok(inner.watched.get_or_init(|| made))
    }
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
    let (verbs, rest) = split_verbs(pattern);
    format!("{}{rest}", verbs.replace("(*UTF8)", "(*UTF)"))
}

/// The pattern with a callout before its first item.
fn with_callout(pattern: &str) -> String {
    let (verbs, rest) = split_verbs(pattern);
    format!("{verbs}(?C1){rest}")
}

/// The verbs in capitals, such as `(*UCP)`, that a pattern begins with, and what follows.
fn split_verbs(pattern: &str) -> (&str, &str) {
    let mut end = 0;
    while let Some(rest) = pattern.get(end..).and_then(|rest| rest.strip_prefix("(*"))
        && let Some(length) = rest.find(')')
        && rest
            .bytes()
            .take(length)
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'='))
    {
        end += "(*".len() + length + 1;
    }
    pattern.split_at(end)
}

#[cfg(test)]
mod tests;
