//! `testscripts/filter`: which of the `documents` a `filter` matches.
//!
//! Sections: `documents` (carried over), `filter`, `let` (variables for `$expr`) and `show`, which says what is expected:
//! the `_id`s that match (when absent), `positions` (`_id:array position`), `normalized` (the filter as explain shows it),
//! `equalities` (what an upsert takes), `paths` (what the filter reads), `failure` (why each document
//! does not match, as `errInfo` tells it).

use std::sync::Arc;

use bson::{DateTime, RawBson};
use query_language::Result;
use query_language::expression::Variables;
use query_language::filter::{Filter, FilterOptions, MatchDetails, describe_failure};
use script_test::{Case, Suite, print_document, print_value};

use crate::{error_line, folder};

#[test]
fn filters() {
    let count = Suite::new(folder("filter")).carry_over("documents").run(|case| match outcome(case) {
        Ok(text) => text,
        Err(error) => error_line(&error),
    });
    assert!(count >= 250, "{count} cases");
}

fn outcome(case: &Case) -> Result<String> {
    let filter = Filter::parse(&case.document("filter"), &options(case)?)?;
    match case.text("show") {
        None => matching(case, &filter),
        Some("positions") => positions(case, &filter),
        Some("normalized") => Ok(print_document(&filter.to_document())),
        Some("equalities") => {
            let fields = filter.equality_fields()?;
            Ok(lines(fields.iter().map(|(path, value)| format!("{path} = {}", print_value(*value)))))
        }
        Some("paths") => {
            let referenced = filter.referenced_paths();
            let whole = referenced.whole_document.then(|| "the whole document".to_owned());
            Ok(lines(referenced.paths.into_iter().chain(whole)))
        }
        Some("failure") => {
            let source = case.document("filter");
            let described = case.documents("documents").into_iter().map(|document| {
                let described = describe_failure(&source, &document)?;
                assert_eq!(described.is_empty(), filter.matches(&document)?, "{}", case.place);
                Ok(print_document(&described))
            });
            Ok(lines(described.collect::<Result<Vec<_>>>()?.into_iter()))
        }
        Some(other) => panic!("{}: nothing to show as {other}", case.place),
    }
}

fn options(case: &Case) -> Result<FilterOptions> {
    let mut variables = Variables::new(DateTime::from_millis(1_700_000_000_000), None, 1);
    if let Some(defined) = case.optional_document("let") {
        for (name, value) in defined.iter().flatten() {
            variables.define(name.as_str(), Some(RawBson::from(value)))?;
        }
    }
    Ok(FilterOptions::new(Arc::new(variables)))
}

fn matching(case: &Case, filter: &Filter) -> Result<String> {
    let mut ids = Vec::new();
    for document in case.documents("documents") {
        if filter.matches(&document)? {
            ids.push(print_value(document.get("_id").unwrap().unwrap()));
        }
    }
    Ok(if ids.is_empty() { "none".to_owned() } else { ids.join(" ") })
}

fn positions(case: &Case, filter: &Filter) -> Result<String> {
    let mut found = Vec::new();
    let mut details = MatchDetails::new();
    for document in case.documents("documents") {
        if filter.matches_with(&document, &mut details)? {
            let id = print_value(document.get("_id").unwrap().unwrap());
            found.push(format!("{id}:{}", details.array_position().map_or("-".to_owned(), |at| at.to_string())));
        }
    }
    Ok(if found.is_empty() { "none".to_owned() } else { found.join(" ") })
}

fn lines(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join("\n") }
}
