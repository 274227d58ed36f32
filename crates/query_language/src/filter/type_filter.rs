//! `$type`: by number, by name, or a list of either.

use bson::RawBsonRef;
use bson::spec::ElementType;
use document::{FieldPath, ValueView};

use super::FilterNode;
use super::parse::{FieldOperand, bad_value};
use super::value_text;
use super::whole_number;
use crate::error::{ErrorKind, QueryError, Result};

/// Types by number and name, as `$type` knows them.
const TYPES: &[(ElementType, i32, &str)] = &[
    (ElementType::Double, 1, "double"),
    (ElementType::String, 2, "string"),
    (ElementType::EmbeddedDocument, 3, "object"),
    (ElementType::Array, 4, "array"),
    (ElementType::Binary, 5, "binData"),
    (ElementType::Undefined, 6, "undefined"),
    (ElementType::ObjectId, 7, "objectId"),
    (ElementType::Boolean, 8, "bool"),
    (ElementType::DateTime, 9, "date"),
    (ElementType::Null, 10, "null"),
    (ElementType::RegularExpression, 11, "regex"),
    (ElementType::DbPointer, 12, "dbPointer"),
    (ElementType::JavaScriptCode, 13, "javascript"),
    (ElementType::Symbol, 14, "symbol"),
    (ElementType::JavaScriptCodeWithScope, 15, "javascriptWithScope"),
    (ElementType::Int32, 16, "int"),
    (ElementType::Timestamp, 17, "timestamp"),
    (ElementType::Int64, 18, "long"),
    (ElementType::Decimal128, 19, "decimal"),
    (ElementType::MinKey, -1, "minKey"),
    (ElementType::MaxKey, 127, "maxKey"),
];

/// A value of one of several types.
#[derive(Debug, Clone)]
pub struct TypeFilter {
    /// Where the value is.
    pub path: FieldPath,
    /// Bit `n` stands for the nth of `TYPES`.
    set: u32,
    /// Whether `number` was asked for.
    numbers: bool,
}

impl TypeFilter {
    /// Whether a type is among those asked for.
    pub fn contains(&self, element_type: ElementType) -> bool {
        let ordinal = TYPES.iter().position(|(known, _, _)| *known == element_type);
        ordinal.is_some_and(|ordinal| self.set & (1 << ordinal) != 0)
    }

    /// The types asked for.
    pub fn types(&self) -> impl Iterator<Item = ElementType> + '_ {
        self.known().map(|(element_type, _, _)| *element_type)
    }

    /// The numbers of the types asked for, `number` being its own name.
    pub(crate) fn describe(&self) -> (bool, Vec<i32>) {
        let listed = self.known().filter(|(element_type, _, _)| !(self.numbers && is_number(*element_type)));
        (self.numbers, listed.map(|(_, code, _)| *code).collect())
    }

    fn known(&self) -> impl Iterator<Item = &'static (ElementType, i32, &'static str)> + '_ {
        TYPES.iter().enumerate().filter(|(ordinal, _)| self.set & (1 << ordinal) != 0).map(|(_, known)| known)
    }

    #[inline]
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> bool {
        value.is_some_and(|value| self.contains(value.element_type()))
    }

    fn add(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        match value {
            RawBsonRef::String("number") => {
                self.numbers = true;
                self.add_where(|element_type, _, _| is_number(element_type));
                Ok(())
            }
            RawBsonRef::String(alias) => match self.add_where(|_, _, name| name == alias) {
                true => Ok(()),
                false => bad_value(format!("Unknown type name alias: {alias}")),
            },
            RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
                let code = whole_number::parse("$type", value).ok();
                match code {
                    Some(code) if self.add_where(|_, known, _| i64::from(known) == code) => Ok(()),
                    Some(0) => bad_value("Invalid numerical type code: 0. Instead use {$exists:false}."),
                    _ => bad_value(format!("Invalid numerical type code: {}", value_text::value(value))),
                }
            }
            _ => {
                let message = "type must be represented as a number or a string";
                Err(QueryError::new(ErrorKind::TypeMismatch, message))
            }
        }
    }

    /// Adds the types that are wanted; tells whether there are any.
    fn add_where(&mut self, wanted: impl Fn(ElementType, i32, &str) -> bool) -> bool {
        let mut any = false;
        for (ordinal, (element_type, code, name)) in TYPES.iter().enumerate() {
            if wanted(*element_type, *code, name) {
                self.set |= 1 << ordinal;
                any = true;
            }
        }
        any
    }
}

/// The types of these names, of the value itself.
///
/// # Errors
/// `BadValue` for a name that no type has.
pub(crate) fn of_names(names: &[&str]) -> Result<TypeFilter> {
    let mut filter = TypeFilter { path: FieldPath::new(""), set: 0, numbers: false };
    names.iter().try_for_each(|name| filter.add(RawBsonRef::String(name)))?;
    Ok(filter)
}

fn is_number(element_type: ElementType) -> bool {
    matches!(element_type, ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128)
}

/// `{path: {$type: type or list of types}}`.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let mut filter = TypeFilter { path: operand.path.clone(), set: 0, numbers: false };
    match operand.value {
        RawBsonRef::Array(types) => {
            for each in types {
                filter.add(each?)?;
            }
        }
        single => filter.add(single)?,
    }
    if filter.set == 0 {
        let message = format!("{} must match at least one type", operand.path.as_str());
        return Err(QueryError::new(ErrorKind::FailedToParse, message));
    }
    Ok(FilterNode::Type(filter))
}
