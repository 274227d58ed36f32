//! `testscripts/projection`: what a `projection` makes of the `documents`.
//!
//! Sections: `documents` (carried over), `projection`, `kind` (`find` when absent, `aggregate`, `addFields`), `filter`
//! (selects the documents and gives `.$` its position), and `show`: `dependencies`, or `covered` by the paths listed in
//! the section `paths`.

use bson::DateTime;
use query_language::Result;
use query_language::expression::{ParseContext, Variables};
use query_language::filter::{Filter, FilterOptions, MatchDetails};
use query_language::projection::{Projection, ProjectionKind};
use script_test::{Case, Suite, print_document};

use crate::{error_line, folder};

#[test]
fn projections() {
    let count = Suite::new(folder("projection")).carry_over("documents").run(|case| match outcome(case) {
        Ok(text) => text,
        Err(error) => error_line(&error),
    });
    assert!(count >= 80, "{count} cases");
}

fn outcome(case: &Case) -> Result<String> {
    let kind = match case.text("kind") {
        None | Some("find") => ProjectionKind::Find,
        Some("aggregate") => ProjectionKind::Aggregate,
        Some("addFields") => ProjectionKind::AddFields,
        Some(other) => panic!("{}: no kind {other}", case.place),
    };
    let projection = Projection::parse(&case.document("projection"), kind, &ParseContext::new())?;
    match case.text("show") {
        None => projected(case, &projection),
        Some("dependencies") => {
            let needed = projection.dependencies();
            let whole = needed.whole_document.then(|| "the whole document".to_owned());
            Ok(needed.paths.into_iter().chain(whole).collect::<Vec<_>>().join("\n"))
        }
        Some("covered") => {
            let paths = case.text("paths").unwrap_or_default();
            Ok(projection.is_covered_by(&paths.split_whitespace().collect::<Vec<_>>()).to_string())
        }
        Some(other) => panic!("{}: nothing to show as {other}", case.place),
    }
}

fn projected(case: &Case, projection: &Projection) -> Result<String> {
    let variables = Variables::new(DateTime::from_millis(1_700_000_000_000), None, 1);
    let filter = case.optional_document("filter");
    let filter = filter.map(|filter| Filter::parse(&filter, &FilterOptions::default())).transpose()?;
    let mut lines = Vec::new();
    for document in case.documents("documents") {
        let mut details = MatchDetails::new();
        if let Some(filter) = &filter
            && !filter.matches_with(&document, &mut details)?
        {
            continue;
        }
        lines.push(print_document(&projection.apply(&document, Some(&details), &variables)?));
    }
    Ok(lines.join("\n"))
}
