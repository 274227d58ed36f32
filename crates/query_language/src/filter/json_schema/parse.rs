//! A schema as the client wrote it.

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::CStr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{FieldPath, Number, array_elements, elements};

use super::super::parse::{Parser, bad_value};
use super::super::regex::RegexFilter;
use super::super::type_filter::{TypeFilter, of_names};
use super::super::{FilterNode, value_text};
use super::{Bound, Check, Dependency, JsonSchema, Others, Rule, Schema};
use crate::error::{ErrorKind, QueryError, Result};
use crate::watch;

/// Keywords of the specification that MongoDB leaves out, and those of its field level encryption, which is not here.
const REFUSED: &[&str] = &["$ref", "$schema", "default", "definitions", "encrypt", "encryptMetadata", "format", "id"];

/// `{$jsonSchema: schema}`.
pub(crate) fn parse(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<FilterNode> {
    let RawBsonRef::Document(source) = value else {
        return mismatch("$jsonSchema must be an object");
    };
    let schema = schema(parser, source)?;
    let source = source.to_owned();
    Ok(FilterNode::JsonSchema(JsonSchema { schema: Arc::new(schema), source }))
}

fn schema(parser: &Parser<'_>, source: &RawDocument) -> Result<Schema> {
    let mut parsed = Schema::default();
    for element in elements(source) {
        watch::step()?;
        let (name, value) = (element.name(), element.value());
        match name {
            "title" => parsed.title = Some(text(name, value)?.to_owned()),
            "description" => parsed.description = Some(text(name, value)?.to_owned()),
            _ => parsed.rules.extend(rule(parser, source, name, value)?),
        }
    }
    let has = |keyword: &str| parsed.rules.iter().any(|rule| rule.keyword == keyword);
    if has("type") && has("bsonType") {
        return refuse("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'");
    }
    Ok(parsed)
}

/// What a keyword asks; nothing for those that belong to another one.
fn rule(parser: &Parser<'_>, source: &RawDocument, name: &str, value: RawBsonRef<'_>) -> Result<Option<Rule>> {
    let leaf = |keyword, check| {
        let mut specified = RawDocumentBuf::new();
        specified.append(<&CStr>::try_from(name)?, RawBson::from(value));
        Ok(Some(Rule { keyword, specified, check }))
    };
    let nested = |keyword, check| Ok(Some(Rule { keyword, specified: RawDocumentBuf::new(), check }));
    match name {
        "bsonType" => leaf("bsonType", Check::Type(types(name, value)?)),
        "type" => leaf("type", Check::Type(json_types(name, value)?)),
        "enum" => leaf("enum", Check::Enum(enumerated(value)?)),
        "maximum" => leaf("maximum", limit(source, name, value, Bound::Most, "exclusiveMaximum")?),
        "minimum" => leaf("minimum", limit(source, name, value, Bound::Least, "exclusiveMinimum")?),
        "exclusiveMaximum" => beside(source, name, value, "maximum"),
        "exclusiveMinimum" => beside(source, name, value, "minimum"),
        "multipleOf" => leaf("multipleOf", Check::MultipleOf(divisor(name, value)?)),
        "maxLength" => leaf("maxLength", Check::TextLength(Bound::Most, count(name, value)?)),
        "minLength" => leaf("minLength", Check::TextLength(Bound::Least, count(name, value)?)),
        "pattern" => leaf("pattern", Check::Pattern(pattern(text(name, value)?)?)),
        "required" => leaf("required", Check::Required(names(name, value)?)),
        "maxProperties" => leaf("maxProperties", Check::PropertyCount(Bound::Most, count(name, value)?)),
        "minProperties" => leaf("minProperties", Check::PropertyCount(Bound::Least, count(name, value)?)),
        "properties" => nested("properties", Check::Properties(schemas_by_name(parser, name, value)?)),
        "patternProperties" => {
            let parsed = schemas_by_name(parser, name, value)?;
            let patterns = parsed.into_iter().map(|(text, schema)| Ok((pattern(&text)?, schema)));
            nested("patternProperties", Check::PatternProperties(patterns.collect::<Result<_>>()?))
        }
        "additionalProperties" => match others(parser, name, value)? {
            None => Ok(None),
            Some(others) => {
                let (named, patterns) = named_properties(source)?;
                leaf("additionalProperties", Check::AdditionalProperties { named, patterns, others })
            }
        },
        "dependencies" => leaf("dependencies", Check::Dependencies(dependencies(parser, value)?)),
        "items" => nested("items", items(parser, value)?),
        "additionalItems" => match additional_items(parser, source, value)? {
            Some(check) => leaf("additionalItems", check),
            None => Ok(None),
        },
        "maxItems" => leaf("maxItems", Check::ItemCount(Bound::Most, count(name, value)?)),
        "minItems" => leaf("minItems", Check::ItemCount(Bound::Least, count(name, value)?)),
        "uniqueItems" => match value {
            RawBsonRef::Boolean(true) => leaf("uniqueItems", Check::UniqueItems),
            RawBsonRef::Boolean(false) => Ok(None),
            _ => mismatch("$jsonSchema keyword 'uniqueItems' must be a boolean"),
        },
        "allOf" => nested("allOf", Check::AllOf(schema_list(parser, name, value)?)),
        "anyOf" => nested("anyOf", Check::AnyOf(schema_list(parser, name, value)?)),
        "oneOf" => nested("oneOf", Check::OneOf(schema_list(parser, name, value)?)),
        "not" => {
            let inner = object(name, value)?;
            leaf("not", Check::Not(Box::new(parser.inside(|| schema(parser, inner))?)))
        }
        refused if REFUSED.contains(&refused) => {
            refuse(format!("$jsonSchema keyword '{refused}' is not currently supported"))
        }
        unknown => refuse(format!("Unknown $jsonSchema keyword: {unknown}")),
    }
}

fn types(name: &str, value: RawBsonRef<'_>) -> Result<TypeFilter> {
    let mut aliases = Vec::new();
    match value {
        RawBsonRef::String(alias) => aliases.push(alias),
        RawBsonRef::Array(list) => aliases.extend(string_list(name, list)?),
        _ => return mismatch(format!("$jsonSchema keyword '{name}' must be either a string or an array of strings")),
    }
    if aliases.is_empty() {
        return refuse(format!("$jsonSchema keyword '{name}' must name at least one type"));
    }
    of_names(&aliases)
}

/// The types of JSON by their names, which are aliases of `$type` but for one.
fn json_types(name: &str, value: RawBsonRef<'_>) -> Result<TypeFilter> {
    let listed = match value {
        RawBsonRef::Array(list) => string_list(name, list)?,
        RawBsonRef::String(alias) => vec![alias],
        _ => return mismatch(format!("$jsonSchema keyword '{name}' must be either a string or an array of strings")),
    };
    let mut aliases = Vec::with_capacity(listed.len());
    for alias in listed {
        aliases.push(match alias {
            "boolean" => "bool",
            "array" | "null" | "number" | "object" | "string" => alias,
            "integer" => return refuse("$jsonSchema type 'integer' is not currently supported."),
            other => return bad_value(format!("Unknown type name alias: {other}")),
        });
    }
    if aliases.is_empty() {
        return refuse(format!("$jsonSchema keyword '{name}' must name at least one type"));
    }
    of_names(&aliases)
}

fn enumerated(value: RawBsonRef<'_>) -> Result<Vec<RawBson>> {
    let RawBsonRef::Array(list) = value else { return mismatch("$jsonSchema keyword 'enum' must be an array") };
    let values: Vec<RawBson> = array_elements(list).map(|item| RawBson::from(item.value())).collect();
    if values.is_empty() {
        return refuse("$jsonSchema keyword 'enum' cannot be an empty array");
    }
    if super::duplicate_of(list)?.is_some() {
        return refuse("$jsonSchema keyword 'enum' array cannot contain duplicate values.");
    }
    Ok(values)
}

fn limit(
    source: &RawDocument,
    name: &str,
    value: RawBsonRef<'_>,
    bound: Bound,
    exclusive: &'static str,
) -> Result<Check> {
    let limit = number(name, value)?;
    let is_exclusive = match document::get_field(source, exclusive) {
        None => false,
        Some(RawBsonRef::Boolean(is_exclusive)) => is_exclusive,
        Some(_) => return mismatch(format!("$jsonSchema keyword '{exclusive}' must be a boolean")),
    };
    Ok(Check::Limit { limit, bound, is_exclusive })
}

/// A keyword that only says something of another one.
fn beside(source: &RawDocument, name: &str, value: RawBsonRef<'_>, other: &str) -> Result<Option<Rule>> {
    if !matches!(value, RawBsonRef::Boolean(_)) {
        return mismatch(format!("$jsonSchema keyword '{name}' must be a boolean"));
    }
    if document::get_field(source, other).is_none() {
        return refuse(format!("$jsonSchema keyword '{other}' must be a present if {name} is present"));
    }
    Ok(None)
}

fn divisor(name: &str, value: RawBsonRef<'_>) -> Result<Number> {
    let divisor = number(name, value)?;
    if divisor.sign() <= 0 || divisor.is_nan_or_infinite() {
        return refuse(format!("$jsonSchema keyword '{name}' must have a positive value"));
    }
    Ok(divisor)
}

fn number(name: &str, value: RawBsonRef<'_>) -> Result<Number> {
    match Number::from_bson(value) {
        Some(number) => Ok(number),
        None => mismatch(format!("$jsonSchema keyword '{name}' must be a number")),
    }
}

fn count(name: &str, value: RawBsonRef<'_>) -> Result<u64> {
    let number = number(name, value)?;
    match number.to_i64_exact().map(u64::try_from) {
        Some(Ok(count)) => Ok(count),
        _ => refuse(format!(
            "$jsonSchema keyword '{name}' must be a non-negative integer, found {}",
            value_text::value(value)
        )),
    }
}

fn text<'v>(name: &str, value: RawBsonRef<'v>) -> Result<&'v str> {
    match value {
        RawBsonRef::String(text) => Ok(text),
        _ => mismatch(format!("$jsonSchema keyword '{name}' must be of type string")),
    }
}

fn object<'v>(name: &str, value: RawBsonRef<'v>) -> Result<&'v RawDocument> {
    match value {
        RawBsonRef::Document(document) => Ok(document),
        _ => mismatch(format!("$jsonSchema keyword '{name}' must be an object")),
    }
}

fn pattern(text: &str) -> Result<RegexFilter> {
    RegexFilter::new(FieldPath::new(""), text, "")
}

fn string_list<'v>(name: &str, list: &'v bson::RawArray) -> Result<Vec<&'v str>> {
    let strings = array_elements(list).map(|item| match item.value() {
        RawBsonRef::String(text) => Ok(text),
        other => mismatch(format!(
            "$jsonSchema keyword '{name}' must be an array of strings, but found an element of type: {}",
            document::type_name(other.element_type())
        )),
    });
    strings.collect()
}

/// Names of properties: at least one, none twice.
fn names(keyword: &str, value: RawBsonRef<'_>) -> Result<Vec<String>> {
    let RawBsonRef::Array(list) = value else {
        return mismatch(format!("$jsonSchema keyword '{keyword}' must be an array, but found: {}", type_of(value)));
    };
    let names = string_list(keyword, list)?;
    if names.is_empty() {
        return refuse(format!("$jsonSchema keyword '{keyword}' cannot be an empty array"));
    }
    let mut seen = HashSet::new();
    if names.iter().any(|name| !seen.insert(*name)) {
        return refuse(format!("$jsonSchema keyword '{keyword}' array cannot contain duplicate values"));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn schemas_by_name(parser: &Parser<'_>, keyword: &str, value: RawBsonRef<'_>) -> Result<Vec<(String, Schema)>> {
    let mut parsed = Vec::new();
    for element in elements(object(keyword, value)?) {
        let RawBsonRef::Document(inner) = element.value() else {
            return mismatch(format!("Nested schema for $jsonSchema property '{}' must be an object", element.name()));
        };
        parsed.push((element.name().to_owned(), parser.inside(|| schema(parser, inner))?));
    }
    Ok(parsed)
}

fn schema_list(parser: &Parser<'_>, keyword: &str, value: RawBsonRef<'_>) -> Result<Vec<Schema>> {
    let RawBsonRef::Array(list) = value else {
        return mismatch(format!("$jsonSchema keyword '{keyword}' must be an array"));
    };
    let mut parsed = Vec::new();
    for item in array_elements(list) {
        let RawBsonRef::Document(inner) = item.value() else {
            return mismatch(format!(
                "$jsonSchema keyword '{keyword}' must be an array of objects, but found an element of type {}",
                type_of(item.value())
            ));
        };
        parsed.push(parser.inside(|| schema(parser, inner))?);
    }
    if parsed.is_empty() && keyword != "items" {
        return bad_value(format!("$jsonSchema keyword '{keyword}' must be a non-empty array"));
    }
    Ok(parsed)
}

fn items(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<Check> {
    match value {
        RawBsonRef::Document(each) => Ok(Check::Items(Box::new(parser.inside(|| schema(parser, each))?))),
        RawBsonRef::Array(_) => Ok(Check::ItemList(schema_list(parser, "items", value)?)),
        _ => mismatch("$jsonSchema keyword 'items' must be an array or an object"),
    }
}

/// Without `items`, or with one schema for all of them, there are none beside.
fn additional_items(parser: &Parser<'_>, source: &RawDocument, value: RawBsonRef<'_>) -> Result<Option<Check>> {
    let others = others(parser, "additionalItems", value)?;
    let items = document::get_field(source, "items").and_then(|items| items.as_array());
    let both = others.zip(items);
    Ok(both.map(|(others, items)| Check::AdditionalItems { first: array_elements(items).count(), others }))
}

/// `None`: anything may be there.
fn others(parser: &Parser<'_>, keyword: &str, value: RawBsonRef<'_>) -> Result<Option<Others>> {
    match value {
        RawBsonRef::Boolean(true) => Ok(None),
        RawBsonRef::Boolean(false) => Ok(Some(Others::Forbidden)),
        RawBsonRef::Document(inner) => Ok(Some(Others::Like(Box::new(parser.inside(|| schema(parser, inner))?)))),
        _ => mismatch(format!("$jsonSchema keyword '{keyword}' must be either an object or a boolean")),
    }
}

/// The properties that a schema names itself, beside `additionalProperties`.
fn named_properties(source: &RawDocument) -> Result<(HashSet<String>, Vec<RegexFilter>)> {
    let names = |keyword| {
        let named = document::get_field(source, keyword).and_then(|value| value.as_document());
        named.into_iter().flat_map(elements).map(|element| element.name())
    };
    let patterns = names("patternProperties").map(pattern).collect::<Result<_>>()?;
    Ok((names("properties").map(str::to_owned).collect(), patterns))
}

fn dependencies(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<Vec<(String, Dependency)>> {
    let mut parsed = Vec::new();
    for element in elements(object("dependencies", value)?) {
        let dependency = match element.value() {
            RawBsonRef::Document(inner) => Dependency::Schema(parser.inside(|| schema(parser, inner))?),
            list @ RawBsonRef::Array(_) => Dependency::Properties(names("dependencies", list)?),
            _ => {
                return mismatch(format!(
                    "Dependency for property '{}' of $jsonSchema keyword 'dependencies' must be an object or an array",
                    element.name()
                ));
            }
        };
        parsed.push((element.name().to_owned(), dependency));
    }
    Ok(parsed)
}

fn type_of(value: RawBsonRef<'_>) -> &'static str {
    document::type_name(value.element_type())
}

fn mismatch<T>(message: impl Into<String>) -> Result<T> {
    Err(QueryError::new(ErrorKind::TypeMismatch, message))
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(QueryError::new(ErrorKind::FailedToParse, message))
}
