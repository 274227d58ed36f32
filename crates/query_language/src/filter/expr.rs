//! `$expr`: an aggregation expression that must be true of the document.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::evaluate::Outcome;
use super::parse::Parser;
use super::{Expressions, FilterNode};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::{EvaluationContext, Expression, ParseContext, Variables};
use crate::rows::Row;

/// An expression and the variables it was parsed with.
#[derive(Debug, Clone)]
pub struct ExprFilter {
    expression: Arc<Expression>,
    variables: Arc<Variables>,
}

impl ExprFilter {
    /// The expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    pub(crate) fn accepts(&self, document: &[u8]) -> Outcome {
        let document = RawDocument::from_bytes(document).map_err(|error| Box::new(QueryError::from(error)))?;
        let context = EvaluationContext::new(document, &self.variables);
        self.expression.evaluate(&context).map(|value| value.is_truthy()).map_err(Box::new)
    }
}

impl ExprFilter {
    /// The same of a row.
    pub(crate) fn accepts_row(&self, row: Row<'_>) -> Outcome {
        let context = EvaluationContext::of_row(row, &self.variables);
        self.expression.evaluate(&context).map(|value| value.is_truthy()).map_err(Box::new)
    }
}

/// What is said where there is no document to evaluate against.
pub(crate) fn not_allowed() -> QueryError {
    QueryError::new(ErrorKind::QueryFeatureNotAllowed, "$expr is not allowed in this context")
}

/// `{$expr: expression}`.
pub(crate) fn parse(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<FilterNode> {
    if parser.options.expressions == Expressions::Refused {
        return Err(not_allowed());
    }
    let variables = Arc::clone(&parser.options.variables);
    let expression = Expression::parse(value, &ParseContext::for_variables(&variables))?;
    Ok(FilterNode::Expr(ExprFilter { expression: Arc::new(expression), variables }))
}
