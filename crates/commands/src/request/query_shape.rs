//! Shapes of queries: what `find`, `aggregate` and `distinct` have in common that differ in values alone.
//!
//! ```text
//! {find: "c", filter: {a: 5, b: {$in: ["x", "y"]}}, limit: 3}
//! {cmdNs: {db: "d", coll: "c"}, command: "find", filter: {a: {$eq: "?number"}, b: {$in: "?array<?string>"}},
//!  limit: "?number"}
//! ```
//!
//! Settings and statistics of queries are by shape. Hints are no part of it, nor is what says how results are sent. A
//! shape's own shape is itself, so that its names can be made unreadable afterwards ([`Names`]). Source: the manual's
//! pages on query shapes and `$queryStats`; its hashes are our own.

mod stages;

use std::borrow::Cow;

use bson::raw::{CString, cstr};
use bson::spec::ElementType;
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{array_elements, elements, get_field, work};
use query_language::{QueryError, before_allocating_if_large};
use sha2::{Digest, Sha256};

use crate::request::error::Result;

/// The commands that have shapes.
const COMMANDS: [&str; 3] = ["find", "aggregate", "distinct"];

/// What stands for values of a kind.
const KINDS: [&str; 17] = [
    "?string",
    "?number",
    "?bool",
    "?null",
    "?undefined",
    "?objectId",
    "?date",
    "?timestamp",
    "?binData",
    "?regex",
    "?minKey",
    "?maxKey",
    "?dbPointer",
    "?javascript",
    "?javascriptWithScope",
    "?object",
    "[]",
];

/// How names of fields, collections and databases are shown.
#[derive(Clone, Copy)]
pub(crate) enum Names<'n> {
    AsTheyAre,
    /// By what a function makes of each.
    Made(&'n dyn Fn(&str) -> String),
}

/// The shape of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryShape(RawDocumentBuf);

impl QueryShape {
    /// The shape of a command to a database; `None` for a command that has none.
    ///
    /// # Errors
    /// There is no memory for it; the command is to stop.
    pub(crate) fn of(database: &str, body: &RawDocument) -> Result<Option<QueryShape>> {
        let Some(first) = elements(body).next() else { return Ok(None) };
        let Some(command) = COMMANDS.into_iter().find(|command| *command == first.name()) else { return Ok(None) };
        before_allocating_if_large(2 * body.as_bytes().len())?;
        let collection = first.value().as_str().unwrap_or("$cmd.aggregate");
        let mut shape = RawDocumentBuf::new();
        shape.append(cstr!("cmdNs"), bson::rawdoc! { "db": database, "coll": collection });
        shape.append(cstr!("command"), command);
        Shaping { names: Names::AsTheyAre }.fields(command, body, &mut shape)?;
        Ok(Some(QueryShape(shape)))
    }

    /// The shape as a document.
    pub(crate) fn document(&self) -> &RawDocument {
        &self.0
    }

    /// The same with other names.
    ///
    /// # Errors
    /// There is no memory for it; the command is to stop.
    pub(crate) fn with_names(&self, names: Names<'_>) -> Result<RawDocumentBuf> {
        before_allocating_if_large(4 * self.0.as_bytes().len())?;
        let shaping = Shaping { names };
        let mut shape = RawDocumentBuf::new();
        let text = |name| get_field(&self.0, name).and_then(|value| value.as_str()).unwrap_or_default();
        let mut namespace = RawDocumentBuf::new();
        if let Some(RawBsonRef::Document(known)) = get_field(&self.0, "cmdNs") {
            for part in elements(known) {
                let name = shaping.name(part.value().as_str().unwrap_or_default());
                append(&mut namespace, part.name(), RawBsonRef::String(&name));
            }
        }
        shape.append(cstr!("cmdNs"), namespace);
        shape.append(cstr!("command"), text("command"));
        shaping.fields(text("command"), &self.0, &mut shape)?;
        Ok(shape)
    }

    /// Tells shapes apart: 64 hexadecimal digits.
    pub(crate) fn hash(&self) -> String {
        hex::encode_upper(Sha256::digest(self.0.as_bytes()))
    }
}

/// Writes shapes.
struct Shaping<'n> {
    names: Names<'n>,
}

/// The command may have to stop.
fn step() -> Result<()> {
    Ok(work::step().map_err(QueryError::from)?)
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) {
    if let Ok(name) = CString::try_from(name) {
        document.append(name, value);
    }
}

fn is_operator(name: &str) -> bool {
    name.starts_with('$')
}

/// Whether a document is made of operators.
fn has_operators(document: &RawDocument) -> bool {
    elements(document).next().is_some_and(|first| is_operator(first.name()))
}

impl Shaping<'_> {
    fn name<'v>(&self, name: &'v str) -> Cow<'v, str> {
        match self.names {
            Names::AsTheyAre => Cow::Borrowed(name),
            Names::Made(made) => Cow::Owned(made(name)),
        }
    }

    /// A dotted path, each name of it by itself.
    fn path<'v>(&self, path: &'v str) -> Cow<'v, str> {
        match self.names {
            Names::AsTheyAre => Cow::Borrowed(path),
            Names::Made(made) => Cow::Owned(path.split('.').map(made).collect::<Vec<_>>().join(".")),
        }
    }

    /// The fields of a command that are part of its shape.
    fn fields(&self, command: &str, body: &RawDocument, shape: &mut RawDocumentBuf) -> Result<()> {
        for field in elements(body) {
            step()?;
            let (name, value) = (field.name(), field.value());
            match (name, value) {
                ("filter", RawBsonRef::Document(filter)) if command == "find" => {
                    append(shape, name, RawBsonRef::Document(&self.filter(filter)?));
                }
                ("query", RawBsonRef::Document(filter)) if command == "distinct" => {
                    append(shape, name, RawBsonRef::Document(&self.filter(filter)?));
                }
                ("key", RawBsonRef::String(path)) if command == "distinct" => {
                    append(shape, name, RawBsonRef::String(&self.path(path)));
                }
                ("pipeline", RawBsonRef::Array(stages)) if command == "aggregate" => {
                    append(shape, name, RawBsonRef::Array(&self.pipeline(stages)?));
                }
                ("sort", RawBsonRef::Document(sort)) => {
                    append(shape, name, RawBsonRef::Document(&self.sort(sort)?));
                }
                ("projection", RawBsonRef::Document(projection)) => {
                    append(shape, name, RawBsonRef::Document(&self.projection(projection)?));
                }
                ("let", RawBsonRef::Document(variables)) => {
                    append(shape, name, RawBsonRef::Document(&self.object(variables)?));
                }
                ("min" | "max", RawBsonRef::Document(bounds)) => {
                    append(shape, name, RawBsonRef::Document(&self.object(bounds)?));
                }
                ("skip" | "limit", value) => append(shape, name, RawBsonRef::String(&kind_of(value)?)),
                ("collation", value @ RawBsonRef::Document(_)) => append(shape, name, value),
                (
                    "singleBatch" | "returnKey" | "showRecordId" | "tailable" | "awaitData" | "oplogReplay"
                    | "allowDiskUse",
                    value @ RawBsonRef::Boolean(_),
                ) => append(shape, name, value),
                _ => {}
            }
        }
        Ok(())
    }

    /// A filter: conditions by paths, and those that stand for themselves.
    fn filter(&self, filter: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for condition in elements(filter) {
            step()?;
            let (name, value) = (condition.name(), condition.value());
            match (name, value) {
                ("$comment", _) => {}
                ("$and" | "$or" | "$nor", RawBsonRef::Array(parts)) => {
                    let parts = self.each(parts, |part| match part {
                        RawBsonRef::Document(part) => Ok(bson::RawBson::Document(self.filter(part)?)),
                        other => literal(other),
                    })?;
                    append(&mut out, name, RawBsonRef::Array(&parts));
                }
                ("$expr", value) => append(&mut out, name, self.expression(value)?.as_raw_bson_ref()),
                (operator, value) if is_operator(operator) => {
                    append(&mut out, name, self.options(value)?.as_raw_bson_ref());
                }
                (path, RawBsonRef::Document(operators)) if has_operators(operators) => {
                    append(&mut out, &self.path(path), RawBsonRef::Document(&self.operators(operators)?));
                }
                (path, value) => {
                    let operator = if let RawBsonRef::RegularExpression(_) = value { "$regex" } else { "$eq" };
                    let mut equal = RawDocumentBuf::new();
                    append(&mut equal, operator, RawBsonRef::String(&kind_of(value)?));
                    append(&mut out, &self.path(path), RawBsonRef::Document(&equal));
                }
            }
        }
        Ok(out)
    }

    /// What is asked of one value: `{$gt: 1, $not: {...}}`.
    fn operators(&self, operators: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for operator in elements(operators) {
            step()?;
            let (name, value) = (operator.name(), operator.value());
            let shown = match (name, value) {
                ("$not", RawBsonRef::Document(inner)) => bson::RawBson::Document(self.operators(inner)?),
                ("$elemMatch", RawBsonRef::Document(inner)) => {
                    let is_of_values = elements(inner).next().is_some_and(|first| {
                        is_operator(first.name()) && !["$and", "$or", "$nor", "$expr"].contains(&first.name())
                    });
                    bson::RawBson::Document(if is_of_values { self.operators(inner)? } else { self.filter(inner)? })
                }
                (_, value) => literal(value)?,
            };
            append(&mut out, name, shown.as_raw_bson_ref());
        }
        Ok(out)
    }

    /// The order is kept as it is.
    fn sort(&self, sort: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for part in elements(sort) {
            step()?;
            append(&mut out, &self.path(part.name()), part.value());
        }
        Ok(out)
    }

    /// What is shown and what is not is kept, with `true` and `false` for all that mean the same.
    fn projection(&self, projection: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for field in elements(projection) {
            step()?;
            let shown = match field.value() {
                RawBsonRef::Document(inner) if has_operators(inner) => self.projected(inner)?,
                RawBsonRef::Document(inner) => bson::RawBson::Document(self.projection(inner)?),
                value @ RawBsonRef::Boolean(_) => bson::RawBson::from(value),
                value => match document::Number::from_bson(value) {
                    Some(number) => bson::RawBson::Boolean(!number.is_zero()),
                    None => self.expression(value)?,
                },
            };
            append(&mut out, &self.path(field.name()), shown.as_raw_bson_ref());
        }
        Ok(out)
    }

    fn projected(&self, operator: &RawDocument) -> Result<bson::RawBson> {
        let Some(first) = elements(operator).next() else { return literal(RawBsonRef::Document(operator)) };
        let argument = match (first.name(), first.value()) {
            ("$elemMatch", RawBsonRef::Document(filter)) => bson::RawBson::Document(self.filter(filter)?),
            ("$slice", value) if !matches!(value, RawBsonRef::Array(_)) => literal(value)?,
            ("$meta", keyword) => bson::RawBson::from(keyword),
            _ => return self.expression(RawBsonRef::Document(operator)),
        };
        let mut out = RawDocumentBuf::new();
        append(&mut out, first.name(), argument.as_raw_bson_ref());
        Ok(bson::RawBson::Document(out))
    }

    /// An expression: paths and variables are kept, constants are not.
    fn expression(&self, value: RawBsonRef<'_>) -> Result<bson::RawBson> {
        step()?;
        Ok(match value {
            RawBsonRef::String(path) if path.starts_with('$') => bson::RawBson::String(self.reference(path)),
            RawBsonRef::Document(document) => match elements(document).next() {
                None => literal(value)?,
                Some(first) if is_operator(first.name()) => self.operation(first.name(), first.value())?,
                Some(_) => bson::RawBson::Document(self.object(document)?),
            },
            RawBsonRef::Array(array) if is_constant(array) => literal(value)?,
            RawBsonRef::Array(array) => bson::RawBson::Array(self.each(array, |part| self.expression(part))?),
            other => literal(other)?,
        })
    }

    /// `$a.b`, or `$$variable.b`.
    fn reference(&self, text: &str) -> String {
        match text.strip_prefix("$$") {
            None => format!("${}", self.path(text.get(1..).unwrap_or_default())),
            Some(variable) => match variable.split_once('.') {
                None => text.to_owned(),
                Some((variable, path)) => format!("$${variable}.{}", self.path(path)),
            },
        }
    }

    fn operation(&self, name: &str, argument: RawBsonRef<'_>) -> Result<bson::RawBson> {
        let argument = match (name, argument) {
            ("$literal" | "$const", value) => literal(value)?,
            ("$meta", keyword) => bson::RawBson::from(keyword),
            (_, RawBsonRef::Array(parts)) => bson::RawBson::Array(self.each(parts, |part| self.expression(part))?),
            (_, RawBsonRef::Document(named)) if !has_operators(named) => {
                let mut out = RawDocumentBuf::new();
                for part in elements(named) {
                    append(&mut out, part.name(), self.expression(part.value())?.as_raw_bson_ref());
                }
                bson::RawBson::Document(out)
            }
            (_, value) => self.expression(value)?,
        };
        let mut out = RawDocumentBuf::new();
        append(&mut out, name, argument.as_raw_bson_ref());
        Ok(bson::RawBson::Document(out))
    }

    /// Fields with expressions.
    fn object(&self, object: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for field in elements(object) {
            append(&mut out, &self.path(field.name()), self.expression(field.value())?.as_raw_bson_ref());
        }
        Ok(out)
    }

    /// What has names of MongoDB's own, and values.
    fn options(&self, value: RawBsonRef<'_>) -> Result<bson::RawBson> {
        let RawBsonRef::Document(options) = value else { return literal(value) };
        let mut out = RawDocumentBuf::new();
        for option in elements(options) {
            step()?;
            append(&mut out, option.name(), self.options(option.value())?.as_raw_bson_ref());
        }
        Ok(bson::RawBson::Document(out))
    }

    fn each(&self, array: &RawArray, shown: impl Fn(RawBsonRef<'_>) -> Result<bson::RawBson>) -> Result<RawArrayBuf> {
        let mut out = RawArrayBuf::new();
        for element in array_elements(array) {
            step()?;
            out.push(shown(element.value())?);
        }
        Ok(out)
    }
}

/// Whether an array of an expression has nothing to compute.
fn is_constant(array: &RawArray) -> bool {
    array_elements(array).all(|element| match element.value() {
        RawBsonRef::String(text) => !text.starts_with('$'),
        RawBsonRef::Document(_) | RawBsonRef::Array(_) => false,
        _ => true,
    })
}

fn literal(value: RawBsonRef<'_>) -> Result<bson::RawBson> {
    Ok(bson::RawBson::String(kind_of(value)?.into_owned()))
}

/// What stands for a value. It stands for itself.
fn kind_of(value: RawBsonRef<'_>) -> Result<Cow<'_, str>> {
    let kind = match value {
        RawBsonRef::String(text) if is_kind(text) => return Ok(Cow::Borrowed(text)),
        RawBsonRef::Array(array) => return kind_of_array(array).map(Cow::Owned),
        other => kind_of_type(other.element_type()),
    };
    Ok(Cow::Borrowed(kind))
}

fn is_kind(text: &str) -> bool {
    let inner = text.strip_prefix("?array<").and_then(|rest| rest.strip_suffix('>'));
    KINDS.contains(&text) || inner.is_some_and(|inner| inner.is_empty() || KINDS.contains(&inner))
}

fn kind_of_array(array: &RawArray) -> Result<String> {
    let mut common: Option<&'static str> = None;
    for element in array_elements(array) {
        step()?;
        let kind = kind_of_type(element.element_type);
        match common {
            Some(known) if known != kind => return Ok("?array<>".to_owned()),
            _ => common = Some(kind),
        }
    }
    Ok(common.map_or_else(|| "[]".to_owned(), |kind| format!("?array<{kind}>")))
}

fn kind_of_type(kind: ElementType) -> &'static str {
    match kind {
        ElementType::String | ElementType::Symbol => "?string",
        ElementType::Int32 | ElementType::Int64 | ElementType::Double | ElementType::Decimal128 => "?number",
        ElementType::Boolean => "?bool",
        ElementType::Null => "?null",
        ElementType::Undefined => "?undefined",
        ElementType::ObjectId => "?objectId",
        ElementType::DateTime => "?date",
        ElementType::Timestamp => "?timestamp",
        ElementType::Binary => "?binData",
        ElementType::RegularExpression => "?regex",
        ElementType::MinKey => "?minKey",
        ElementType::MaxKey => "?maxKey",
        ElementType::DbPointer => "?dbPointer",
        ElementType::JavaScriptCode => "?javascript",
        ElementType::JavaScriptCodeWithScope => "?javascriptWithScope",
        ElementType::EmbeddedDocument => "?object",
        ElementType::Array => "[]",
    }
}

#[cfg(test)]
mod tests;
