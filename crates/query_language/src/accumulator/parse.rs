//! One accumulator as the client wrote it: `{$sum: "$qty"}`, `{$topN: {n, sortBy, output}}`.

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::Number;
use javascript::Function;

use super::percentile::{self, Shares};
use super::reduce;
use super::registry::{self, AccumulatorOperator, Form};
use super::script::{self, Functions};
use super::{Accumulator, Input};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::sort_pattern::SortPattern;
use crate::expression::{DependencySet, EvaluationContext, Expression, ParseContext, Value};

/// A parsed accumulator with its argument expressions.
#[derive(Debug)]
pub struct AccumulatorExpression {
    operator: &'static AccumulatorOperator,
    argument: Argument,
}

#[derive(Debug)]
pub(super) enum Argument {
    None,
    Unary(Expression),
    Counted { count: Expression, input: Expression },
    Sorted { count: Option<Expression>, sort: SortPattern, output: Expression },
    Percentile { shares: Shares, input: Expression },
    Script { functions: Arc<Functions>, start: Expression, input: Expression },
    Reduce { function: Function, input: Expression },
}

impl AccumulatorExpression {
    /// Parses the value of an output field of `$group`, which must be a document of one accumulator.
    pub fn parse_field(field: &str, value: RawBsonRef<'_>, context: &ParseContext) -> Result<Self> {
        let numbered = |number, message: String| QueryError::new(ErrorKind::Location(number), message);
        let RawBsonRef::Document(document) = value else {
            return Err(numbered(40234, format!("The field '{field}' must be an accumulator object")));
        };
        let mut elements = document.iter();
        match (elements.next().transpose()?, elements.next()) {
            (Some((name, argument)), None) => Self::parse(name.as_str(), argument, context),
            _ => Err(numbered(40238, format!("The field '{field}' must specify one accumulator"))),
        }
    }

    /// Whether there is an accumulator of a name with its `$`.
    pub fn is_known(name: &str) -> bool {
        registry::find(name).is_some()
    }

    /// Parses `{name: argument}`.
    pub fn parse(name: &str, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Self> {
        let Some(operator) = registry::find(name) else {
            let message = format!("unknown group operator '{name}'");
            return Err(QueryError::new(ErrorKind::Location(15952), message));
        };
        let argument = match operator.form {
            Form::Unary(_) => {
                if matches!(argument, RawBsonRef::Array(_)) {
                    let message = format!("The {name} accumulator is a unary operator");
                    return Err(QueryError::new(ErrorKind::Location(40237), message));
                }
                Argument::Unary(Expression::parse(argument, context)?)
            }
            Form::Nullary(_) => match argument {
                RawBsonRef::Document(document) if document.is_empty() => Argument::None,
                _ => {
                    let message = format!("{name} takes no arguments, i.e. {name}:{{}}");
                    return Err(QueryError::new(ErrorKind::TypeMismatch, message));
                }
            },
            Form::Counted(_) => parse_counted(name, argument, context)?,
            Form::Sorted { counted, .. } => parse_sorted(name, argument, counted, context)?,
            Form::Percentile { is_median } => parse_percentile(name, argument, is_median, context)?,
            Form::Script => script::parse(name, argument, context)?,
            Form::Reduce => reduce::parse(name, argument, context)?,
        };
        Ok(Self { operator, argument })
    }

    /// The name with its `$`.
    pub fn name(&self) -> &'static str {
        self.operator.name
    }

    /// Whether it counts documents and nothing else: `{$sum: 1}`, `{$count: {}}`.
    pub fn counts_documents(&self) -> bool {
        match (self.operator.name, &self.argument) {
            ("$count", Argument::None) => true,
            ("$sum", Argument::Unary(expression)) => {
                matches!(expression.as_constant().map(Value::or_null), Some(RawBsonRef::Int32(1)))
            }
            _ => false,
        }
    }

    /// Takes in that so many documents came, if it does nothing but count them.
    ///
    /// # Errors
    /// As `accumulate`.
    pub fn accumulate_count(&self, state: &mut dyn Accumulator, documents: u64) -> Result<()> {
        let documents = i64::try_from(documents).unwrap_or(i64::MAX);
        match &self.argument {
            Argument::None => state.merge(RawBsonRef::Int64(documents)),
            _ => state.accumulate(Input::Value(Number::from_i64_narrowed(documents).into())),
        }
    }

    /// A state for a group. `context` evaluates `n`, which may depend on the group's `_id`.
    pub fn new_state(&self, context: &EvaluationContext<'_>) -> Result<Box<dyn Accumulator>> {
        let count = |expression: &Expression| {
            let value = expression.evaluate(context)?;
            crate::expression::positive_count(value.or_null())
        };
        Ok(match (self.operator.form, &self.argument) {
            (Form::Unary(make) | Form::Nullary(make), _) => make(),
            (Form::Counted(make), Argument::Counted { count: expression, .. }) => make(count(expression)?),
            (Form::Sorted { make, .. }, Argument::Sorted { count: expression, sort, .. }) => {
                make(expression.as_ref().map(count).transpose()?.unwrap_or(1), sort)
            }
            (_, Argument::Percentile { shares, .. }) => percentile::make(shares),
            (_, Argument::Reduce { function, .. }) => reduce::make(function),
            (_, Argument::Script { functions, start, .. }) => {
                script::make(functions, start.evaluate(context)?.or_null())?
            }
            _ => {
                let message = format!("{} has an argument of another form", self.operator.name);
                return Err(QueryError::new(ErrorKind::BadValue, message));
            }
        })
    }

    /// The expression whose value a row contributes; `None` in it: nothing is read of rows. `None`: it has no form for rows.
    pub fn row_input(&self) -> Option<Option<&Expression>> {
        match &self.argument {
            Argument::None => Some(None),
            Argument::Unary(expression)
            | Argument::Counted { input: expression, .. }
            | Argument::Script { input: expression, .. }
            | Argument::Reduce { input: expression, .. }
            | Argument::Percentile { input: expression, .. } => Some(Some(expression)),
            Argument::Sorted { .. } => None,
        }
    }

    /// Whether its state depends on the group's `_id`.
    pub fn reads_group(&self) -> bool {
        matches!(self.argument, Argument::Counted { .. } | Argument::Sorted { .. } | Argument::Script { .. })
    }

    /// Feeds a document of the group to its state.
    pub fn accumulate(&self, state: &mut dyn Accumulator, context: &EvaluationContext<'_>) -> Result<()> {
        let input = match &self.argument {
            Argument::None => Input::Value(Value::Missing),
            Argument::Unary(expression)
            | Argument::Counted { input: expression, .. }
            | Argument::Script { input: expression, .. }
            | Argument::Reduce { input: expression, .. }
            | Argument::Percentile { input: expression, .. } => {
                let value = expression.evaluate(context)?;
                // Most states keep a copy of what is borrowed.
                value.before_copying()?;
                Input::Value(value)
            }
            Argument::Sorted { sort, output, .. } => {
                let (key, value) = (sort.key(context.root())?, output.evaluate(context)?);
                value.before_copying()?;
                Input::Keyed(key, value)
            }
        };
        state.accumulate(input)
    }

    /// Adds what the arguments read. The count of `$firstN` and its kin reads the group's `_id`, not the document.
    pub fn dependencies(&self, set: &mut DependencySet) {
        match &self.argument {
            Argument::None => {}
            Argument::Unary(expression)
            | Argument::Counted { input: expression, .. }
            | Argument::Script { input: expression, .. }
            | Argument::Reduce { input: expression, .. }
            | Argument::Percentile { input: expression, .. } => expression.dependencies(set),
            Argument::Sorted { sort, output, .. } => {
                sort.parts().iter().for_each(|part| set.add_path(part.path.as_str()));
                output.dependencies(set);
            }
        }
    }

    /// The accumulator as the client could have written it, for explain.
    pub fn to_bson(&self) -> Result<RawDocumentBuf> {
        let argument = match &self.argument {
            Argument::None => RawBson::Document(RawDocumentBuf::new()),
            Argument::Unary(expression) => expression.to_bson()?,
            Argument::Counted { count, input } => {
                let mut document = RawDocumentBuf::new();
                document.append(cstr!("n"), count.to_bson()?);
                document.append(cstr!("input"), input.to_bson()?);
                RawBson::Document(document)
            }
            Argument::Sorted { count, sort, output } => {
                let mut document = RawDocumentBuf::new();
                if let Some(count) = count {
                    document.append(cstr!("n"), count.to_bson()?);
                }
                document.append(cstr!("sortBy"), sort.to_document()?);
                document.append(cstr!("output"), output.to_bson()?);
                RawBson::Document(document)
            }
            Argument::Script { functions, start, input } => functions.to_bson(start, input)?,
            Argument::Reduce { function, input } => reduce::to_bson(function, input)?,
            Argument::Percentile { shares, input } => {
                let mut document = RawDocumentBuf::new();
                document.append(cstr!("input"), input.to_bson()?);
                if !shares.is_median {
                    document.append(cstr!("p"), shares.shares.iter().copied().collect::<RawArrayBuf>());
                }
                document.append(cstr!("method"), percentile::METHOD);
                RawBson::Document(document)
            }
        };
        crate::expression::single_field(self.operator.name, argument)
    }
}

fn parse_percentile(name: &str, argument: RawBsonRef<'_>, is_median: bool, context: &ParseContext) -> Result<Argument> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("specification must be an object; found {name}: {}", show(argument));
        return Err(QueryError::new(ErrorKind::Location(if is_median { 7436100 } else { 7429703 }), message));
    };
    let (mut input, mut shares, mut has_method) = (None, is_median.then(Shares::median), false);
    for element in document {
        let (field, value) = element?;
        match field.as_str() {
            "input" => input = Some(Expression::parse(value, context)?),
            "method" => {
                Shares::check_method(value)?;
                has_method = true;
            }
            "p" if !is_median => {
                let given = Expression::parse(value, context)?;
                // What is no constant is refused as it was written.
                shares = Some(Shares::parse(given.as_constant().map_or(value, |constant| constant.or_null()))?);
            }
            other => {
                let message = format!("BSON field '{name}.{other}' is an unknown field.");
                return Err(QueryError::new(ErrorKind::Location(40415), message));
            }
        }
    }
    let missing = |field: &str| {
        let message = format!("BSON field '{name}.{field}' is missing but a required field");
        QueryError::new(ErrorKind::Location(40414), message)
    };
    let input = input.ok_or_else(|| missing("input"))?;
    let shares = shares.ok_or_else(|| missing("p"))?;
    if has_method { Ok(Argument::Percentile { shares, input }) } else { Err(missing("method")) }
}

fn parse_counted(name: &str, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Argument> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("specification must be an object; found {name}: {}", show(argument));
        return Err(QueryError::new(ErrorKind::Location(5787900), message));
    };
    let (mut count, mut input) = (None, None);
    for element in document {
        let (field, value) = element?;
        match field.as_str() {
            "n" => count = Some(Expression::parse(value, context)?),
            "input" => input = Some(Expression::parse(value, context)?),
            other => {
                let message = format!("Unknown argument for 'n' operator: {other}");
                return Err(QueryError::new(ErrorKind::Location(5787901), message));
            }
        }
    }
    let missing =
        |field: &str, number| QueryError::new(ErrorKind::Location(number), format!("Missing value for '{field}'"));
    Ok(Argument::Counted {
        count: checked_count(count.ok_or_else(|| missing("n", 5787906))?)?,
        input: input.ok_or_else(|| missing("input", 5787907))?,
    })
}

fn parse_sorted(name: &str, argument: RawBsonRef<'_>, counted: bool, context: &ParseContext) -> Result<Argument> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("specification must be an object; found {name}: {}", show(argument));
        return Err(QueryError::new(ErrorKind::Location(5788001), message));
    };
    let missing =
        |field: &str, number| QueryError::new(ErrorKind::Location(number), format!("Missing value for '{field}'"));
    check_sorted_fields(document, counted)?;
    let count = match document.get("n")? {
        Some(count) => Some(checked_count(Expression::parse(count, context)?)?),
        None if counted => return Err(missing("n", 5788003)),
        None => None,
    };
    let output = document.get("output")?.ok_or_else(|| missing("output", 5788004))?;
    let sort = match document.get("sortBy")? {
        Some(RawBsonRef::Document(sort)) => SortPattern::parse(sort)?,
        Some(other) => {
            let found = crate::expression::value::type_name(other.element_type());
            let message = format!("invalid parameter: expected an object (sortBy), found: {found}");
            return Err(QueryError::new(ErrorKind::Location(10065), message));
        }
        None => return Err(missing("sortBy", 5788005)),
    };
    Ok(Argument::Sorted { count, sort, output: Expression::parse(output, context)? })
}

fn check_sorted_fields(document: &RawDocument, counted: bool) -> Result<()> {
    for element in document {
        let (field, _) = element?;
        match field.as_str() {
            "sortBy" | "output" => {}
            "n" if counted => {}
            other => {
                let message = format!("Unknown argument to $topN/$bottomN: {other}");
                return Err(QueryError::new(ErrorKind::Location(5788002), message));
            }
        }
    }
    Ok(())
}

/// A constant count is checked when it is parsed.
fn checked_count(count: Expression) -> Result<Expression> {
    if let Some(value) = count.as_constant() {
        crate::expression::positive_count(value.or_null())?;
    }
    Ok(count)
}

fn show(value: RawBsonRef<'_>) -> String {
    crate::filter::value_text::value(value)
}
