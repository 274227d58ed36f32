//! How well each term of a document stands for it.
//!
//! A term's score is summed over the texts of a document. In one text it is `weight × frequency × share × exactness`:
//! the k-th occurrence adds half of what the one before it did, the share is 1/2 and half the term's part of all terms,
//! and a text that is the term and nothing else gets a tenth more.

use std::collections::HashMap;

use bson::RawDocument;

use crate::definition::TextDefinition;
use crate::error::{Result, TextError};
use crate::query::Sensitivity;
use crate::terms::Analyzer;

/// A document's terms with their scores.
pub type Scores = HashMap<Box<str>, f64>;

/// What a term takes in memory beside its letters.
const TERM_BYTES: usize = 96;
/// More than this is asked for.
const LARGE_BYTES: usize = 64 << 10;

/// Of one term in one text.
#[derive(Default)]
struct Occurrences {
    count: u32,
    frequency: f64,
    next: f64,
}

impl Occurrences {
    fn add(&mut self) {
        self.next = if self.count == 0 { 1.0 } else { self.next / 2.0 };
        self.count += 1;
        self.frequency += self.next;
    }
}

/// The terms of a document with their scores. `has_room` says whether so many bytes may be allocated.
///
/// # Errors
/// `UnknownOverride`, `OverrideNoText`, `NoMemory`, `Interrupted`.
pub fn scores(definition: &TextDefinition, document: &RawDocument, has_room: &dyn Fn(usize) -> bool) -> Result<Scores> {
    let mut scores = Scores::new();
    let (mut bytes, mut asked) = (0, LARGE_BYTES);
    definition.each_text(document, &mut |text, language, weight| {
        let analyzer = Analyzer::new(language, Sensitivity::default());
        let mut occurrences: HashMap<Box<str>, Occurrences> = HashMap::new();
        let mut all = 0u32;
        let mut fits = true;
        analyzer.each_term(text, |term| {
            all += 1;
            match occurrences.get_mut(term) {
                Some(known) => known.add(),
                None => {
                    bytes += term.len() + TERM_BYTES;
                    occurrences.entry(term.into()).or_default().add();
                }
            }
            if bytes > asked {
                fits = has_room(2 * bytes);
                asked = 2 * bytes;
            }
            fits
        })?;
        if !fits {
            return Err(TextError::NoMemory { bytes: 2 * bytes });
        }
        for (term, known) in occurrences {
            let share = 0.5 + 0.5 * f64::from(known.count) / f64::from(all);
            let exactness = if term.eq_ignore_ascii_case(text) { 1.1 } else { 1.0 };
            *scores.entry(term).or_default() += weight * known.frequency * share * exactness;
        }
        Ok(true)
    })?;
    Ok(scores)
}
