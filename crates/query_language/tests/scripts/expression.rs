//! `testscripts/expression`: what an `expression` gives for a `document`.
//!
//! Sections: `document` (carried over), `expression`, `let` (user variables) and `show`, which says what is expected: the
//! value (when absent; `missing` for none), `explain` (the expression as explain shows it), `dependencies`.

use bson::{DateTime, RawBson, Timestamp};
use query_language::Result;
use query_language::expression::{DependencySet, EvaluationContext, Expression, ParseContext, Variables};
use script_test::{Case, Suite, print_value};

use crate::{error_line, folder};

#[test]
fn expressions() {
    let count = Suite::new(folder("expression")).carry_over("document").run(|case| match outcome(case) {
        Ok(text) => text,
        Err(error) => error_line(&error),
    });
    assert!(count >= 300, "{count} cases");
}

pub(crate) fn variables(case: &Case) -> Result<Variables> {
    let time = Timestamp { time: 1_700_000_000, increment: 7 };
    let mut variables = Variables::new(DateTime::from_millis(1_700_000_000_000), Some(time), 1);
    if let Some(defined) = case.optional_document("let") {
        for (name, value) in defined.iter().flatten() {
            variables.define(name.as_str(), Some(RawBson::from(value)))?;
        }
    }
    Ok(variables)
}

fn outcome(case: &Case) -> Result<String> {
    let variables = variables(case)?;
    let source = case.value("expression");
    let expression = Expression::parse(source.as_raw_bson_ref(), &ParseContext::for_variables(&variables))?;
    match case.text("show") {
        None => {
            let document = case.optional_document("document").unwrap_or_default();
            let value = expression.evaluate(&EvaluationContext::new(&document, &variables))?;
            Ok(value.get().map_or("missing".to_owned(), print_value))
        }
        Some("explain") => Ok(print_value(expression.to_bson()?.as_raw_bson_ref())),
        Some("dependencies") => {
            let mut set = DependencySet::new();
            expression.dependencies(&mut set);
            let paths = set.paths.iter().map(|path| format!("path {path}"));
            let variables = set.variables.iter().map(|name| format!("variable {name}"));
            let whole = set.whole_document.then(|| "whole document".to_owned());
            let volatile = set.volatile.then(|| "volatile".to_owned());
            Ok(paths.chain(variables).chain(whole).chain(volatile).collect::<Vec<_>>().join("\n"))
        }
        Some(other) => panic!("{}: nothing to show as {other}", case.place),
    }
}
