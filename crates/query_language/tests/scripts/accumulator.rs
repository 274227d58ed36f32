//! `testscripts/accumulator`: what an `accumulator` gives over `documents` (carried over), in their order.

use bson::RawDocumentBuf;
use query_language::Result;
use query_language::accumulator::AccumulatorExpression;
use query_language::expression::{EvaluationContext, ParseContext};
use script_test::{Case, Suite, print_value};

use crate::expression::variables;
use crate::{error_line, folder};

#[test]
fn accumulators() {
    let count = Suite::new(folder("accumulator")).carry_over("documents").run(|case| match outcome(case) {
        Ok(text) => text,
        Err(error) => error_line(&error),
    });
    assert!(count >= 40, "{count} cases");
}

fn outcome(case: &Case) -> Result<String> {
    let variables = variables(case)?;
    let value = case.value("accumulator");
    let context = ParseContext::for_variables(&variables);
    let accumulator = AccumulatorExpression::parse_field("result", value.as_raw_bson_ref(), &context)?;
    let group = RawDocumentBuf::new();
    let mut state = accumulator.new_state(&EvaluationContext::new(&group, &variables))?;
    for document in case.documents("documents") {
        accumulator.accumulate(state.as_mut(), &EvaluationContext::new(&document, &variables))?;
    }
    Ok(print_value(state.finish()?.or_null()))
}
