//! What can be computed over windows.

mod fill;
mod moving_average;
mod rank;
mod scaled;
mod slope;

use std::sync::Arc;

use bson::raw::{CStr, RawBson, RawDocumentBuf, cstr};
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{DependencySet, Expression};

use super::Partition;
use super::gathered::Gathered;
use super::results::Results;
use super::window::Window;
use crate::error::Result;
use crate::stage::stage_document;

pub(super) use moving_average::Smoothing;
pub(super) use rank::Ranking;
pub(super) use scaled::Scale;
pub(super) use slope::TimeScale;

/// A window function with its arguments.
#[derive(Debug)]
pub(super) enum Function {
    /// An accumulator over a window; with its name and argument as they are shown.
    Gathered {
        gathered: Gathered,
        window: Window,
        shown: RawDocumentBuf,
    },
    Ranking(Ranking),
    /// The value of the document so many places on.
    Shift {
        output: Expression,
        by: i64,
        default: RawBson,
    },
    /// The last value that was there.
    CarriedForward(Expression),
    /// Between the values that are there, along the position.
    Interpolated(Expression),
    MovingAverage {
        input: Expression,
        smoothing: Smoothing,
    },
    /// By how much the value rises along a window, a unit of the position.
    Derivative {
        input: Expression,
        scale: Option<Arc<TimeScale>>,
        window: Window,
    },
    /// Where a number lies between the least and the greatest of its window.
    Scaled {
        input: Expression,
        scale: Scale,
        window: Window,
    },
    /// The area below the value.
    Integral {
        input: Expression,
        scale: Option<Arc<TimeScale>>,
        window: Window,
    },
}

/// One result for each document; `None` where the field is missing.
type Numbers = Vec<Option<RawBson>>;

impl Function {
    pub(super) fn evaluate(&self, partition: &mut Partition, sort: Option<&SortPattern>) -> Result<Results> {
        match self {
            Function::Gathered { gathered, window, .. } => {
                let ranges = window.ranges(partition, sort)?;
                partition.hold(ranges.len() * size_of::<std::ops::Range<usize>>())?;
                gathered.over(partition, &ranges)
            }
            Function::Shift { output, by, default } => shift(partition, output, *by, default),
            Function::CarriedForward(expression) => fill::carry_forward(partition, expression),
            Function::Ranking(ranking) => ranking.evaluate(partition, sort).map(Results::of),
            Function::Interpolated(expression) => fill::interpolate(partition, expression, sort).map(Results::of),
            Function::MovingAverage { input, smoothing } => {
                moving_average::evaluate(partition, input, *smoothing).map(Results::of)
            }
            Function::Derivative { input, scale, window } => {
                slope::derivative(partition, sort, input, scale.as_deref(), window).map(Results::of)
            }
            Function::Scaled { input, scale, window } => {
                scaled::evaluate(partition, sort, input, *scale, window).map(Results::of)
            }
            Function::Integral { input, scale, window } => {
                slope::integral(partition, sort, input, scale.as_deref(), window).map(Results::of)
            }
        }
    }

    pub(super) fn dependencies(&self, set: &mut DependencySet) {
        match self {
            Function::Gathered { gathered, .. } => gathered.dependencies(set),
            Function::Ranking(_) => {}
            Function::Shift { output: expression, .. }
            | Function::CarriedForward(expression)
            | Function::Interpolated(expression)
            | Function::MovingAverage { input: expression, .. }
            | Function::Derivative { input: expression, .. }
            | Function::Scaled { input: expression, .. }
            | Function::Integral { input: expression, .. } => expression.dependencies(set),
        }
    }

    /// The function as the client could have written it, for explain.
    pub(super) fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(match self {
            Function::Gathered { window, shown, .. } => with_window(shown.clone(), window),
            Function::Ranking(ranking) => stage_document(ranking.name(), RawDocumentBuf::new()),
            Function::Shift { output, by, default } => {
                let mut inner = stage_document(cstr!("output"), output.to_bson()?);
                inner.append(cstr!("by"), *by);
                inner.append(cstr!("default"), default.clone());
                stage_document(cstr!("$shift"), inner)
            }
            Function::CarriedForward(expression) => stage_document(cstr!("$locf"), expression.to_bson()?),
            Function::Interpolated(expression) => stage_document(cstr!("$linearFill"), expression.to_bson()?),
            Function::MovingAverage { input, smoothing } => {
                let mut inner = stage_document(cstr!("input"), input.to_bson()?);
                smoothing.append_to(&mut inner);
                stage_document(cstr!("$expMovingAvg"), inner)
            }
            Function::Scaled { input, scale, window } => {
                let mut inner = stage_document(cstr!("input"), input.to_bson()?);
                inner.append(cstr!("min"), scale.min.to_bson());
                inner.append(cstr!("max"), scale.max.to_bson());
                with_window(stage_document(cstr!("$minMaxScaler"), inner), window)
            }
            Function::Derivative { input, scale, window } => {
                sloped(cstr!("$derivative"), input, scale.as_deref(), window)?
            }
            Function::Integral { input, scale, window } => sloped(cstr!("$integral"), input, scale.as_deref(), window)?,
        })
    }
}

fn sloped(name: &CStr, input: &Expression, scale: Option<&TimeScale>, window: &Window) -> Result<RawDocumentBuf> {
    let mut inner = stage_document(cstr!("input"), input.to_bson()?);
    if let Some(scale) = scale {
        inner.append(cstr!("unit"), scale.name.as_str());
    }
    Ok(with_window(stage_document(name, inner), window))
}

fn with_window(mut function: RawDocumentBuf, window: &Window) -> RawDocumentBuf {
    if let Some(window) = window.to_bson() {
        function.append(cstr!("window"), window);
    }
    function
}

fn shift(partition: &mut Partition, output: &Expression, by: i64, default: &RawBson) -> Result<Results> {
    let mut results = Results::new();
    for number in 0..partition.len() {
        let other = (number as i64).checked_add(by).and_then(|other| usize::try_from(other).ok());
        let result = match other.filter(|other| *other < partition.len()) {
            // A value that is missing is there as null.
            Some(other) => partition.value(output, other)?.unwrap_or(RawBson::Null),
            None => default.clone(),
        };
        results.push(partition, Some(result))?;
    }
    Ok(results)
}
