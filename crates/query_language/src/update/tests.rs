//! Runs the golden scripts of updates; their expectations come from MongoDB's manual.
//!
//! Sections of a case: `document` (stays in force), `update`, and optionally `filter` (for `$` and upserts),
//! `array_filters`, `multi`, `upsert`. The outcome is the new document, `no change`, or the error.

mod positional;
mod properties;

use std::cell::Cell;
use std::sync::Arc;

use bson::oid::ObjectId;
use bson::raw::{RawArray, RawBson, RawDocument, RawDocumentBuf};
use bson::{DateTime, Timestamp};
use script_test::{Case, print_document};

use super::diff::{DiffForm, apply_diff, diff};
use super::*;
use crate::filter::{Filter, MatchDetails};

/// A clock that stands still; timestamps count up.
#[derive(Debug, Default)]
pub(super) struct FixedClock {
    increment: Cell<u32>,
}

impl UpdateClock for FixedClock {
    fn now(&self) -> DateTime {
        DateTime::from_millis(1_704_067_200_000)
    }

    fn next_timestamp(&self) -> Timestamp {
        self.increment.set(self.increment.get() + 1);
        Timestamp { time: 1_704_067_200, increment: self.increment.get() }
    }
}

pub(super) fn variables() -> Arc<Variables> {
    Arc::new(Variables::new(DateTime::from_millis(1_704_067_200_000), None, 1))
}

#[test]
fn golden_scripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts/update");
    let count = script_test::Suite::new(folder).carry_over("document").run(outcome_of);
    assert!(count >= 250, "only {count} cases");
}

fn outcome_of(case: &Case) -> String {
    run(case).unwrap_or_else(|error| format!("error {:?}: {}", error.kind, error.message))
}

fn run(case: &Case) -> Result<String> {
    let variables = variables();
    let clock = FixedClock::default();
    let array_filters = match case.has("array_filters") {
        true => items(&case.value("array_filters")),
        false => Vec::new(),
    };
    let array_filters: Vec<&RawDocument> = array_filters.iter().map(|filter| &**filter).collect();
    let multiplicity = if case.has("multi") { Multiplicity::Many } else { Multiplicity::One };
    let options = UpdateOptions { multiplicity, variables: Arc::clone(&variables) };
    let source = case.value("update");
    let update = match &source {
        RawBson::Document(document) => Update::parse(UpdateSource::Document(document), &array_filters, &options)?,
        RawBson::Array(stages) => {
            let stages: &RawArray = stages;
            Update::parse(UpdateSource::Pipeline(stages), &array_filters, &options)?
        }
        other => panic!("{}: {other:?} is no update", case.place),
    };
    let filter = case.optional_document("filter").unwrap_or_default();
    let filter = Filter::parse(&filter, &FilterOptions::new(Arc::clone(&variables)))?;
    let purpose = if case.has("upsert") { UpdatePurpose::Insert } else { UpdatePurpose::Modify };
    let empty_timestamps = if case.has("keep_timestamps") { EmptyTimestamps::Keep } else { EmptyTimestamps::Replace };
    let mut context =
        UpdateContext { match_position: None, purpose, clock: &clock, empty_timestamps, variables: &variables };
    if purpose == UpdatePurpose::Insert {
        let generated = ObjectId::from_bytes([0x0f; 12]);
        return update.upsert_document(&filter.equality_fields()?, &context, generated).map(|inserted| {
            check_valid(&inserted);
            print_document(&inserted)
        });
    }
    let before = case.document("document");
    let mut details = MatchDetails::new();
    assert!(filter.matches_with(&before, &mut details)?, "{}: the filter does not match", case.place);
    context.match_position = details.array_position();
    match update.apply(&before, &context)? {
        UpdateOutcome::NoChange => Ok("no change".to_owned()),
        UpdateOutcome::Changed { document, modified } => {
            check_valid(&document);
            check_diff(&before, &document);
            assert_ne!(modified, ModifiedPaths::OfUpdate(0), "{}: a change without a path", case.place);
            Ok(print_document(&document))
        }
    }
}

fn items(array: &RawBson) -> Vec<RawDocumentBuf> {
    let RawBson::Array(array) = array else { panic!("{array:?} is no array") };
    array.into_iter().map(|item| item.unwrap().as_document().unwrap().to_owned()).collect()
}

/// Decodes everything, and checks that array items are named by their positions.
pub(super) fn check_valid(document: &RawDocument) {
    let decoded = bson::Document::try_from(document).unwrap();
    drop(decoded);
    check_positions(document.as_bytes());
}

fn check_positions(container: &[u8]) {
    for element in document::elements_of_bytes(container) {
        if element.value().as_array().is_some() {
            for (position, item) in document::elements_of_bytes(element.value_bytes()).enumerate() {
                assert_eq!(item.name(), position.to_string());
            }
        }
        if element::is_container(&element) {
            check_positions(element.value_bytes());
        }
    }
}

/// A diff makes the same change, and makes it no further the second time.
pub(super) fn check_diff(before: &RawDocument, after: &RawDocument) {
    for form in [DiffForm::Smallest, DiffForm::Paths] {
        let diff = diff(before, after, form).unwrap();
        let once = apply_diff(before, &diff).unwrap();
        assert_eq!(print_document(&once), print_document(after), "by {}", print_document(diff.as_document()));
        let twice = apply_diff(&once, &diff).unwrap();
        assert_eq!(print_document(&twice), print_document(after), "again by {}", print_document(diff.as_document()));
    }
}

/// Applies one update to one document.
pub(super) fn apply_once(update: &RawDocument, document: &RawDocument) -> Result<(UpdateOutcome, Update)> {
    let variables = variables();
    let options = UpdateOptions { multiplicity: Multiplicity::One, variables: Arc::clone(&variables) };
    let update = Update::parse(UpdateSource::Document(update), &[], &options)?;
    let clock = FixedClock::default();
    let purpose = UpdatePurpose::Modify;
    let empty_timestamps = EmptyTimestamps::Replace;
    let context =
        UpdateContext { match_position: None, purpose, clock: &clock, empty_timestamps, variables: &variables };
    update.apply(document, &context).map(|outcome| (outcome, update))
}

fn parse(text: &str) -> RawDocumentBuf {
    script_test::parse_document(text).unwrap()
}

#[test]
fn modified_paths_name_what_changed() {
    let update = parse("{$set: {a: 1, 'b.c': 2, 'd.0.e': 3}, $inc: {f: 1}}");
    let document = parse("{_id: 1, a: 1, b: {c: 1}, d: [{e: 3}], f: 1}");
    let (outcome, update) = apply_once(&update, &document).unwrap();
    let UpdateOutcome::Changed { modified, .. } = outcome else { panic!("no change") };
    for (path, expected) in
        [("a", false), ("b", true), ("b.c", true), ("b.c.x", true), ("b.d", false), ("d.e", false), ("f", true)]
    {
        assert_eq!(update.may_modify(modified, path), expected, "{path}");
        assert_eq!(update.may_modify(ModifiedPaths::Any, path), path != "b.d", "{path}");
    }
    assert_eq!(update.paths().collect::<Vec<_>>(), ["a", "b.c", "d.0.e", "f"]);
}

#[test]
fn more_paths_than_bits_share_the_last_one() {
    let fields: Vec<String> = (0..100).map(|number| format!("f{number}: 1")).collect();
    let update = parse(&format!("{{$set: {{{}}}}}", fields.join(", ")));
    let mut document = fields[..90].join(", ");
    document = format!("{{_id: 1, {document}}}");
    let (outcome, update) = apply_once(&update, &parse(&document)).unwrap();
    let UpdateOutcome::Changed { modified, .. } = outcome else { panic!("no change") };
    assert!(update.may_modify(modified, "f95"));
    assert!(update.may_modify(modified, "f80"));
    assert!(!update.may_modify(modified, "f10"));
}

#[test]
fn results_beyond_16_mib_are_refused() {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!("_id"), 1);
    document.append(bson::raw::cstr!("a"), "x".repeat(16 * 1024 * 1024 - 100));
    let error = apply_once(&parse(&format!("{{$set: {{b: '{}'}}}}", "y".repeat(200))), &document).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Location(17419));
    assert_eq!(error.message, "Resulting document after update is larger than 16777216");
    assert!(apply_once(&parse("{$set: {b: 'y'}}"), &document).is_ok());
}

#[test]
fn results_deeper_than_200_levels_are_refused() {
    let nested = |levels: usize| format!("{}1{}", "{a: ".repeat(levels), "}".repeat(levels));
    let document = parse("{_id: 1}");
    let set = |path: &str, levels| parse(&format!("{{$set: {{'{path}': {}}}}}", nested(levels)));
    assert!(apply_once(&set("b", 199), &document).is_ok());
    let error = apply_once(&set("b", 200), &document).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Overflow);
    assert!(apply_once(&set("b.c.d", 197), &document).is_ok());
    assert_eq!(apply_once(&set("b.c.d", 198), &document).unwrap_err().kind, ErrorKind::Overflow);
    let path = vec!["a"; 201].join(".");
    assert_eq!(apply_once(&set(&path, 1), &document).unwrap_err().kind, ErrorKind::Overflow);
    let renamed = parse("{$rename: {b: 'c.d.e'}}");
    let deep = parse(&format!("{{_id: 1, b: {}}}", nested(198)));
    assert_eq!(apply_once(&renamed, &deep).unwrap_err().kind, ErrorKind::Overflow);
}

#[test]
fn depth_is_counted_as_on_arrival() {
    for levels in [199, 200, 201] {
        let text = format!("{{_id: 1, b: {}1{}}}", "{a: ".repeat(levels - 1), "}".repeat(levels - 1));
        let document = parse(&text);
        let accepted = document::validate_document(document.as_bytes(), &document::Limits::USER).is_ok();
        assert_eq!(limits::check_depth(document.as_bytes()).is_ok(), accepted, "{levels} levels");
    }
}

#[test]
fn positions_far_beyond_an_array_are_refused() {
    let document = parse("{_id: 1, a: [1]}");
    let error = apply_once(&parse("{$set: {'a.1500002': 1}}"), &document).unwrap_err();
    assert_eq!(error.kind, ErrorKind::CannotBackfillArray);
    assert!(apply_once(&parse("{$set: {'a.2000': 1}}"), &document).is_ok());
    assert_eq!(apply_once(&parse("{$unset: {'a.1500002': 1}}"), &document).unwrap().0, UpdateOutcome::NoChange);
}

#[test]
fn damaged_documents_are_errors() {
    // {_id: 1, a: <string of length 100>}
    let bytes = vec![21, 0, 0, 0, 16, b'_', b'i', b'd', 0, 1, 0, 0, 0, 2, b'a', 0, 100, 0, 0, 0, 0];
    let document = RawDocumentBuf::from_bytes(bytes).unwrap();
    assert_eq!(apply_once(&parse("{$set: {b: 1}}"), &document).unwrap_err().kind, ErrorKind::InvalidBson);
}

#[test]
fn the_table_of_operators_is_sorted() {
    assert!(UPDATE_OPERATORS.is_sorted_by_key(|operator| operator.name));
    assert_eq!(UPDATE_OPERATORS.len(), 15);
}
