//! `$_internalJsReduce`: what the `reduce` of a mapReduce makes of the values of a key.
//!
//! A key with one value has that as its result. Values are reduced some at a time, so that few are kept: the manual
//! says that `reduce` may be called again with what it has returned.

use bson::RawBson;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocumentBuf, cstr};
use document::{array_elements, get_field};
use javascript::Function;

use super::parse::Argument;
use super::{Accumulator, Input, value_bytes};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::{Expression, ParseContext, Value, function_of};
use crate::growth;

/// Values that are reduced to one.
const VALUES_MAX: usize = 100;

/// Reads `{eval, data}`.
pub(super) fn parse(name: &str, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Argument> {
    let RawBsonRef::Document(document) = argument else {
        return Err(QueryError::new(ErrorKind::Location(31326), format!("{name} requires an object as an argument")));
    };
    let (mut function, mut input) = (None, None);
    for element in document {
        let (field, value) = element?;
        match field.as_str() {
            "eval" => function = Some(function_of("eval", value)?),
            "data" => input = Some(Expression::parse(value, context)?),
            other => {
                let message = format!("BSON field '{name}.{other}' is an unknown field.");
                return Err(QueryError::new(ErrorKind::Location(40415), message));
            }
        }
    }
    match (function, input) {
        (Some(function), Some(input)) => Ok(Argument::Reduce { function, input }),
        _ => Err(QueryError::new(ErrorKind::Location(31245), format!("{name} requires 'eval' and 'data'"))),
    }
}

/// A state without values.
pub(super) fn make(function: &Function) -> Box<dyn Accumulator> {
    Box::new(Reduce { function: function.clone(), key: RawBson::Null, values: Vec::new(), bytes: 0 })
}

pub(super) fn to_bson(function: &Function, input: &Expression) -> Result<RawBson> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("eval"), RawBson::JavaScriptCode(function.code().to_owned()));
    document.append(cstr!("data"), input.to_bson()?);
    Ok(RawBson::Document(document))
}

#[derive(Debug)]
struct Reduce {
    function: Function,
    key: RawBson,
    values: Vec<RawBson>,
    bytes: usize,
}

impl Reduce {
    fn push(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        growth::before_copying(Some(value), 1)?;
        let value = RawBson::from(value);
        self.bytes += value_bytes(&value);
        self.values.push(value);
        if self.values.len() >= VALUES_MAX {
            let reduced = self.reduced()?;
            self.bytes = value_bytes(&reduced);
            self.values = vec![reduced];
        }
        Ok(())
    }

    /// What the values come to.
    fn reduced(&self) -> Result<RawBson> {
        if let [only] = self.values.as_slice() {
            return Ok(only.clone());
        }
        let values: RawArrayBuf = self.values.iter().map(RawBson::as_raw_bson_ref).collect();
        let arguments = [self.key.as_raw_bson_ref(), RawBsonRef::Array(&values)];
        Ok(self.function.call(RawBsonRef::Null, &arguments)?)
    }
}

impl Accumulator for Reduce {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let pair = input.into_value();
        let RawBsonRef::Document(pair) = pair.or_null() else {
            let message = "$_internalJsReduce requires the 'data' argument to be an object";
            return Err(QueryError::new(ErrorKind::Location(31251), message));
        };
        if self.values.is_empty() {
            self.key = get_field(pair, "k").unwrap_or(RawBsonRef::Null).into();
        }
        self.push(get_field(pair, "v").unwrap_or(RawBsonRef::Undefined))
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.reduced()?.into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + value_bytes(&self.key) + self.bytes
    }

    fn to_partial(&self) -> Result<RawBson> {
        let values: RawArrayBuf = self.values.iter().map(RawBson::as_raw_bson_ref).collect();
        let mut partial = RawDocumentBuf::new();
        partial.append(cstr!("k"), self.key.clone());
        partial.append(cstr!("v"), values);
        Ok(RawBson::Document(partial))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        let Some(partial) = partial.as_document() else { return Ok(()) };
        if self.values.is_empty() {
            self.key = get_field(partial, "k").unwrap_or(RawBsonRef::Null).into();
        }
        let values = get_field(partial, "v").and_then(|values| values.as_array());
        values.into_iter().flat_map(array_elements).try_for_each(|value| self.push(value.value()))
    }
}
