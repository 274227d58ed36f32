//! The grammar of each window function.

use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocument};
use document::Number;
use query_language::accumulator::AccumulatorExpression;
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{Expression, show_value};

use super::super::functions::{Function, Ranking, Scale, Smoothing, TimeScale};
use super::super::gathered::Gathered;
use super::super::window::Window;
use super::{refuse, window};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::stage_document;

/// A function as it was written.
pub(super) struct Call<'d> {
    pub(super) name: &'d str,
    pub(super) argument: RawBsonRef<'d>,
    pub(super) window: Option<&'d RawDocument>,
    pub(super) sort: Option<&'d SortPattern>,
    pub(super) context: &'d PipelineContext,
}

/// Units of time that are always as long, in milliseconds.
const UNITS: &[(&str, f64)] = &[
    ("week", 604_800_000.0),
    ("day", 86_400_000.0),
    ("hour", 3_600_000.0),
    ("minute", 60_000.0),
    ("second", 1_000.0),
    ("millisecond", 1.0),
];

pub(super) fn parse(call: &Call<'_>) -> Result<Function> {
    match call.name {
        "$rank" => call.ranking(Ranking::Rank),
        "$denseRank" => call.ranking(Ranking::DenseRank),
        "$documentNumber" => call.ranking(Ranking::DocumentNumber),
        "$shift" => call.shift(),
        "$locf" => {
            call.without_window()?;
            Ok(Function::CarriedForward(call.expression(call.argument)?))
        }
        "$linearFill" => {
            call.without_window()?;
            call.single_sort(605001)?;
            Ok(Function::Interpolated(call.expression(call.argument)?))
        }
        "$expMovingAvg" => call.moving_average(),
        "$derivative" => {
            if call.window.is_none() {
                return Err(refuse("$derivative requires explicit window bounds"));
            }
            let (input, scale) = call.sloped()?;
            Ok(Function::Derivative { input, scale, window: call.window()? })
        }
        "$integral" => {
            let (input, scale) = call.sloped()?;
            Ok(Function::Integral { input, scale, window: call.window()? })
        }
        "$minMaxScaler" => call.scaled(),
        "$covariancePop" => call.covariance(false),
        "$covarianceSamp" => call.covariance(true),
        _ => call.accumulator(),
    }
}

impl Call<'_> {
    fn expression(&self, value: RawBsonRef<'_>) -> Result<Expression> {
        Ok(Expression::parse(value, &self.context.expressions())?)
    }

    fn window(&self) -> Result<Window> {
        self.window.map_or(Ok(Window::All), |given| window::parse(given, self.sort))
    }

    fn without_window(&self) -> Result<()> {
        match self.window {
            None => Ok(()),
            Some(_) => {
                let message = format!("'window' field is not allowed in {}", self.name);
                Err(AggregationError::numbered(5371601, message))
            }
        }
    }

    /// The function needs an order by one field.
    fn single_sort(&self, number: u32) -> Result<()> {
        if self.sort.is_some_and(|sort| sort.parts().len() == 1) {
            return Ok(());
        }
        let message =
            format!("{} must be specified with a top level sortBy expression with exactly one element", self.name);
        Err(AggregationError::numbered(number, message))
    }

    fn sorted(&self, number: u32) -> Result<()> {
        match self.sort {
            Some(_) => Ok(()),
            None => Err(AggregationError::numbered(number, format!("{} requires a sortBy", self.name))),
        }
    }

    /// The fields of an argument that is an object; those that are not named are refused.
    fn fields<'s, const N: usize>(&'s self, names: [&str; N]) -> Result<[Option<RawBsonRef<'s>>; N]> {
        let RawBsonRef::Document(document) = self.argument else {
            let shown = show_value(self.argument);
            return Err(refuse(format!("Argument to {} must be an object, but found: {shown}", self.name)));
        };
        let mut found = [None; N];
        for element in document {
            let (name, value) = element?;
            match names.iter().position(|known| *known == name.as_str()).and_then(|place| found.get_mut(place)) {
                Some(field) => *field = Some(value),
                None => return Err(refuse(format!("{} got unexpected argument: {name}", self.name))),
            }
        }
        Ok(found)
    }

    fn scaled(&self) -> Result<Function> {
        let [input, min, max] = self.fields(["input", "min", "max"])?;
        let input = self.expression(input.ok_or_else(|| self.missing("input"))?)?;
        let end = |given: Option<RawBsonRef<'_>>, default| match given {
            None => Ok(Number::Int32(default)),
            Some(value) => Number::from_bson(value)
                .filter(|number| !number.is_nan_or_infinite())
                .ok_or_else(|| refuse(format!("{} requires 'min' and 'max' to be constant numbers", self.name))),
        };
        let scale = Scale { min: end(min, 0)?, max: end(max, 1)? };
        if scale.min.compare(scale.max).is_ge() {
            return Err(refuse(format!("{} requires 'min' to be strictly less than 'max'", self.name)));
        }
        Ok(Function::Scaled { input, scale, window: self.window()? })
    }

    fn missing(&self, field: &str) -> AggregationError {
        refuse(format!("{} requires an '{field}' expression", self.name))
    }

    fn ranking(&self, ranking: Ranking) -> Result<Function> {
        if !matches!(self.argument, RawBsonRef::Document(document) if document.is_empty()) {
            let message = format!("{} must be specified with '{{}}' as the value", self.name);
            return Err(AggregationError::numbered(5371603, message));
        }
        self.without_window()?;
        match ranking {
            Ranking::DocumentNumber => self.sorted(5371602)?,
            Ranking::Rank | Ranking::DenseRank => self.single_sort(5371602)?,
        }
        Ok(Function::Ranking(ranking))
    }

    fn shift(&self) -> Result<Function> {
        self.without_window()?;
        self.sorted(5654300)?;
        let [output, by, default] = self.fields(["output", "by", "default"])?;
        let output = self.expression(output.ok_or_else(|| self.missing("output"))?)?;
        let by = by.ok_or_else(|| self.missing("by"))?;
        let Some(by) = Number::from_bson(by).and_then(|by| by.to_i64_exact()).filter(|by| i32::try_from(*by).is_ok())
        else {
            return Err(refuse(format!("$shift:by must be an integer, found: {}", show_value(by))));
        };
        let default = match default {
            None => RawBson::Null,
            Some(default) => match self.expression(default)?.as_constant() {
                Some(constant) => constant.or_null().into(),
                None => {
                    let shown = show_value(default);
                    return Err(refuse(format!("'$shift:default' must be a constant value, found: {shown}")));
                }
            },
        };
        Ok(Function::Shift { output, by, default })
    }

    fn moving_average(&self) -> Result<Function> {
        self.without_window()?;
        self.sorted(5433000)?;
        let [input, count, alpha] = self.fields(["input", "N", "alpha"])?;
        let input = self.expression(input.ok_or_else(|| self.missing("input"))?)?;
        let smoothing = match (count, alpha) {
            (Some(count), None) => {
                let number = Number::from_bson(count).and_then(|count| count.to_i64_exact()).filter(|count| *count > 0);
                let message =
                    || refuse(format!("'N' field must be a positive integer, but found: {}", show_value(count)));
                Smoothing::Documents(number.ok_or_else(message)?)
            }
            (None, Some(alpha)) => {
                let is_inside = |alpha: &Number| alpha.to_f64() > 0.0 && alpha.to_f64() < 1.0;
                let message = || {
                    let shown = show_value(alpha);
                    refuse(format!("'alpha' must be between 0 and 1 (exclusive), found: {shown}"))
                };
                Smoothing::Alpha(Number::from_bson(alpha).filter(is_inside).ok_or_else(message)?)
            }
            _ => {
                return Err(refuse(
                    "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' field or an 'alpha' field",
                ));
            }
        };
        Ok(Function::MovingAverage { input, smoothing })
    }

    fn sloped(&self) -> Result<(Expression, Option<Arc<TimeScale>>)> {
        self.single_sort(5490704)?;
        if self.sort.is_some_and(|sort| sort.parts().iter().any(|part| part.descending)) {
            let message = format!("{} requires an ascending sortBy", self.name);
            return Err(AggregationError::numbered(5490704, message));
        }
        let [input, unit] = self.fields(["input", "unit"])?;
        let input = self.expression(input.ok_or_else(|| self.missing("input"))?)?;
        let scale = match unit {
            None => None,
            Some(RawBsonRef::String(name)) => match UNITS.iter().find(|(unit, _)| *unit == name) {
                Some((name, milliseconds)) => {
                    Some(Arc::new(TimeScale { name: (*name).to_owned(), milliseconds: *milliseconds }))
                }
                None => {
                    let message = format!("unit must be 'week' or smaller, but found: {name}");
                    return Err(AggregationError::numbered(5490704, message));
                }
            },
            Some(other) => return Err(refuse(format!("'unit' must be a string, but got {}", show_value(other)))),
        };
        Ok((input, scale))
    }

    fn covariance(&self, is_sample: bool) -> Result<Function> {
        if !matches!(self.argument, RawBsonRef::Array(array) if array.into_iter().count() == 2) {
            let message = format!("{} takes an array of exactly two expressions", self.name);
            return Err(refuse(message));
        }
        let pair = self.expression(self.argument)?;
        self.gathered(Gathered::Covariance { pair, is_sample })
    }

    fn accumulator(&self) -> Result<Function> {
        if self.name == "$mergeObjects" || !AccumulatorExpression::is_known(self.name) {
            let message = format!("Unrecognized window function, {}", self.name);
            return Err(refuse(message));
        }
        let accumulator = AccumulatorExpression::parse(self.name, self.argument, &self.context.expressions())?;
        self.gathered(Gathered::Accumulator(accumulator))
    }

    fn gathered(&self, gathered: Gathered) -> Result<Function> {
        let shown = match &gathered {
            Gathered::Accumulator(accumulator) => accumulator.to_bson()?,
            Gathered::Covariance { pair, .. } => {
                stage_document(<&bson::raw::CStr>::try_from(self.name)?, pair.to_bson()?)
            }
        };
        Ok(Function::Gathered { gathered, window: self.window()?, shown })
    }
}
