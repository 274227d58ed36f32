//! `$accumulator`: functions in JavaScript make the state, take documents in, and make the result.
//!
//! Between two calls the state is BSON, so that it can be counted and spilled. Source: the manual's page on
//! `$accumulator`.

use std::sync::Arc;

use bson::RawBson;
use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use javascript::Function;

use super::parse::Argument;
use super::{Accumulator, Input, value_bytes};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::{Expression, ParseContext, Value, call_with, check_language, function_of};

/// The functions of one `$accumulator`.
#[derive(Debug)]
pub(super) struct Functions {
    init: Function,
    accumulate: Function,
    merge: Function,
    finalize: Option<Function>,
}

/// Reads the argument.
pub(super) fn parse(name: &str, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Argument> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("{name} requires an object as an argument, found: {argument:?}");
        return Err(QueryError::new(ErrorKind::Location(4544703), message));
    };
    let (mut init, mut accumulate, mut merge, mut finalize) = (None, None, None, None);
    let (mut start, mut input, mut language) = (None, None, None);
    for element in document {
        let (field, value) = element?;
        match field.as_str() {
            "init" => init = Some(function_of("init", value)?),
            "accumulate" => accumulate = Some(function_of("accumulate", value)?),
            "merge" => merge = Some(function_of("merge", value)?),
            "finalize" => finalize = Some(function_of("finalize", value)?),
            "initArgs" => start = Some(Expression::parse(value, context)?),
            "accumulateArgs" => input = Some(Expression::parse(value, context)?),
            "lang" => language = Some(value),
            other => {
                let message = format!("{name} got an unexpected field: {other}");
                return Err(QueryError::new(ErrorKind::Location(4544706), message));
            }
        }
    }
    let missing = |number, field: &str| {
        QueryError::new(ErrorKind::Location(number), format!("{name} missing required argument '{field}'"))
    };
    check_language(name, language.ok_or_else(|| missing(4544712, "lang"))?)?;
    let functions = Functions {
        init: init.ok_or_else(|| missing(4544707, "init"))?,
        accumulate: accumulate.ok_or_else(|| missing(4544708, "accumulate"))?,
        merge: merge.ok_or_else(|| missing(4544710, "merge"))?,
        finalize,
    };
    let start = match start {
        Some(start) => start,
        None => Expression::parse(RawBsonRef::Array(&bson::RawArrayBuf::new()), context)?,
    };
    let input = input.ok_or_else(|| missing(4544709, "accumulateArgs"))?;
    Ok(Argument::Script { functions: Arc::new(functions), start, input })
}

/// A state for a group, made by `init`.
pub(super) fn make(functions: &Arc<Functions>, arguments: RawBsonRef<'_>) -> Result<Box<dyn Accumulator>> {
    if !matches!(arguments, RawBsonRef::Array(_)) {
        let message = "$accumulator initArgs must evaluate to an array";
        return Err(QueryError::new(ErrorKind::Location(4544711), message));
    }
    let state = call_with(&functions.init, arguments)?;
    Ok(Box::new(Script { functions: functions.clone(), state }))
}

impl Functions {
    pub(super) fn to_bson(&self, start: &Expression, input: &Expression) -> Result<RawBson> {
        let code = |function: &Function| RawBson::JavaScriptCode(function.code().to_owned());
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("init"), code(&self.init));
        document.append(cstr!("initArgs"), start.to_bson()?);
        document.append(cstr!("accumulate"), code(&self.accumulate));
        document.append(cstr!("accumulateArgs"), input.to_bson()?);
        document.append(cstr!("merge"), code(&self.merge));
        if let Some(finalize) = &self.finalize {
            document.append(cstr!("finalize"), code(finalize));
        }
        document.append(cstr!("lang"), "js");
        Ok(RawBson::Document(document))
    }
}

#[derive(Debug)]
struct Script {
    functions: Arc<Functions>,
    state: RawBson,
}

impl Accumulator for Script {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let arguments = input.into_value();
        let RawBsonRef::Array(list) = arguments.or_null() else {
            let message = "$accumulator accumulateArgs must evaluate to an array";
            return Err(QueryError::new(ErrorKind::Location(4544715), message));
        };
        let mut all = vec![self.state.as_raw_bson_ref()];
        all.extend(document::array_elements(list).map(|element| element.value()));
        self.state = self.functions.accumulate.call(RawBsonRef::Null, &all)?;
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        let state = self.state.as_raw_bson_ref();
        Ok(match &self.functions.finalize {
            Some(finalize) => finalize.call(RawBsonRef::Null, &[state])?,
            None => self.state.clone(),
        }
        .into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + value_bytes(&self.state)
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(self.state.clone())
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        self.state = self.functions.merge.call(RawBsonRef::Null, &[self.state.as_raw_bson_ref(), partial])?;
        Ok(())
    }
}
