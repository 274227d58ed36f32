//! The value an expression produces: missing, borrowed from a document, or owned.
//!
//! Used by every operator and by whoever evaluates expressions. Field paths and numbers never allocate: a scalar is
//! carried inline by `RawBsonRef`, so only strings, arrays and documents that an operator builds are `Owned`.

use bson::raw::{CStr, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use document::{Number, work};

use crate::error::Result;
use crate::growth;

/// Passing over less is no more than what an operator does in any case.
const LARGE_BYTES: usize = 512;

/// The result of evaluating an expression.
///
/// `Missing` (no such field, or `$$REMOVE`) is distinct from null: it vanishes from documents and becomes null in
/// arrays.
#[derive(Debug, Clone, Default)]
pub enum Value<'a> {
    /// No value at all.
    #[default]
    Missing,
    /// A scalar, or a value inside a document, variable or constant that outlives the evaluation.
    Borrowed(RawBsonRef<'a>),
    /// A value built by an operator.
    Owned(RawBson),
}

impl<'a> Value<'a> {
    /// The null value.
    pub const NULL: Value<'static> = Value::Borrowed(RawBsonRef::Null);

    /// The BSON value, or `None` when missing.
    pub fn get(&self) -> Option<RawBsonRef<'_>> {
        match self {
            Value::Missing => None,
            Value::Borrowed(value) => Some(*value),
            Value::Owned(value) => Some(value.as_raw_bson_ref()),
        }
    }

    /// The BSON value, null when missing.
    pub fn or_null(&self) -> RawBsonRef<'_> {
        self.get().unwrap_or(RawBsonRef::Null)
    }

    /// Whether there is no value.
    pub fn is_missing(&self) -> bool {
        matches!(self, Value::Missing)
    }

    /// Whether the value is missing, null or undefined, which most operators treat alike.
    pub fn is_nullish(&self) -> bool {
        matches!(self.get(), None | Some(RawBsonRef::Null | RawBsonRef::Undefined))
    }

    /// MongoDB's truth: everything but missing, null, undefined, false and zero.
    pub fn is_truthy(&self) -> bool {
        self.get().is_some_and(is_truthy)
    }

    /// The name of the value's BSON type as error messages show it (`missing` for none).
    pub fn type_name(&self) -> &'static str {
        self.get().map_or("missing", |value| type_name(value.element_type()))
    }

    /// The value as an array.
    pub fn as_array(&self) -> Option<&RawArray> {
        self.get().and_then(RawBsonRef::as_array)
    }

    /// The value as a document.
    pub fn as_document(&self) -> Option<&RawDocument> {
        self.get().and_then(RawBsonRef::as_document)
    }

    /// The value as a string (symbols are not strings).
    pub fn as_str(&self) -> Option<&str> {
        self.get().and_then(RawBsonRef::as_str)
    }

    /// A part of the value: borrowed as long as the whole is, copied out of a value built by an operator.
    pub fn extract(self, part: impl for<'x> FnOnce(RawBsonRef<'x>) -> Option<RawBsonRef<'x>>) -> Value<'a> {
        match &self {
            Value::Missing => Value::Missing,
            Value::Borrowed(value) => part(*value).into(),
            Value::Owned(value) => Value::from(part(value.as_raw_bson_ref())).into_owned(),
        }
    }

    /// The value detached from what it borrows; copies strings, arrays and documents.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Missing => Value::Missing,
            Value::Borrowed(value) => detach(value),
            Value::Owned(value) => Value::Owned(value),
        }
    }

    /// The same; the memory of a large copy is asked for.
    pub(crate) fn copied(self) -> Result<Value<'static>> {
        self.before_copying()?;
        Ok(self.into_owned())
    }

    /// Asks for the memory that [`Self::into_raw_bson`] takes for what is borrowed, if it is large.
    ///
    /// # Errors
    /// `ExceededMemoryLimit`.
    pub fn before_copying(&self) -> Result<()> {
        match self {
            Value::Borrowed(value) => growth::before_copying(Some(*value), 1),
            Value::Missing | Value::Owned(_) => Ok(()),
        }
    }

    /// The owned BSON value, or `None` when missing.
    pub fn into_raw_bson(self) -> Option<RawBson> {
        match self {
            Value::Missing => None,
            Value::Borrowed(value) => Some(value.into()),
            Value::Owned(value) => Some(value),
        }
    }

    /// Appends the value under `key`; a missing value appends nothing.
    pub fn append_to(&self, document: &mut RawDocumentBuf, key: &CStr) {
        if let Some(value) = self.get() {
            document.append(key, value);
        }
    }

    /// The units of work that copying the value takes.
    pub(crate) fn copied_units(&self) -> usize {
        match self.get() {
            Some(RawBsonRef::Document(document)) => work::of_bytes(document.as_bytes().len()),
            Some(RawBsonRef::Array(array)) => work::of_bytes(array.as_bytes().len()),
            Some(RawBsonRef::String(text)) => work::of_bytes(text.len()),
            _ => 1,
        }
    }

    /// The units of work that passing over the value takes, element by element, if it is large.
    #[inline]
    pub(crate) fn units_if_large(&self) -> Option<usize> {
        let (bytes, units): (usize, fn(usize) -> usize) = match self.get()? {
            RawBsonRef::Document(document) => (document.as_bytes().len(), work::of_elements),
            RawBsonRef::Array(array) => (array.as_bytes().len(), work::of_elements),
            RawBsonRef::String(text) => (text.len(), work::of_bytes),
            _ => return None,
        };
        (bytes >= LARGE_BYTES).then(|| units(bytes))
    }

    /// Pushes the value, null when missing.
    pub fn push_to(&self, array: &mut RawArrayBuf) {
        array.push(self.or_null());
    }
}

/// MongoDB's truth of a present value.
pub fn is_truthy(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(value) => value,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        other => Number::from_bson(other).is_none_or(|number| !number.is_zero()),
    }
}

/// A scalar stays inline, anything holding bytes is copied.
fn detach(value: RawBsonRef<'_>) -> Value<'static> {
    use RawBsonRef as Ref;
    match value {
        Ref::Double(value) => Value::Borrowed(Ref::Double(value)),
        Ref::Boolean(value) => Value::Borrowed(Ref::Boolean(value)),
        Ref::Null => Value::NULL,
        Ref::Int32(value) => Value::Borrowed(Ref::Int32(value)),
        Ref::Int64(value) => Value::Borrowed(Ref::Int64(value)),
        Ref::Timestamp(value) => Value::Borrowed(Ref::Timestamp(value)),
        Ref::ObjectId(value) => Value::Borrowed(Ref::ObjectId(value)),
        Ref::DateTime(value) => Value::Borrowed(Ref::DateTime(value)),
        Ref::Decimal128(value) => Value::Borrowed(Ref::Decimal128(value)),
        Ref::Undefined => Value::Borrowed(Ref::Undefined),
        Ref::MaxKey => Value::Borrowed(Ref::MaxKey),
        Ref::MinKey => Value::Borrowed(Ref::MinKey),
        other => Value::Owned(other.into()),
    }
}

/// The alias of a BSON type, as `$type` returns it and error messages show it.
pub fn type_name(element_type: ElementType) -> &'static str {
    match element_type {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MinKey => "minKey",
        ElementType::MaxKey => "maxKey",
    }
}

macro_rules! inline_values {
    ($($type:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Value::Borrowed(RawBsonRef::$variant(value))
            }
        })+
    };
}

inline_values! {
    i32 => Int32, i64 => Int64, f64 => Double, bool => Boolean, bson::DateTime => DateTime,
    bson::Decimal128 => Decimal128, bson::oid::ObjectId => ObjectId, bson::Timestamp => Timestamp,
}

impl From<Number> for Value<'_> {
    fn from(value: Number) -> Self {
        Value::Borrowed(value.to_bson_ref())
    }
}

impl<'a> From<RawBsonRef<'a>> for Value<'a> {
    fn from(value: RawBsonRef<'a>) -> Self {
        Value::Borrowed(value)
    }
}

impl<'a> From<Option<RawBsonRef<'a>>> for Value<'a> {
    fn from(value: Option<RawBsonRef<'a>>) -> Self {
        value.map_or(Value::Missing, Value::Borrowed)
    }
}

impl From<RawBson> for Value<'_> {
    fn from(value: RawBson) -> Self {
        Value::Owned(value)
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::Owned(RawBson::String(value))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Borrowed(RawBsonRef::String(value))
    }
}

impl From<RawArrayBuf> for Value<'_> {
    fn from(value: RawArrayBuf) -> Self {
        Value::Owned(RawBson::Array(value))
    }
}

impl From<RawDocumentBuf> for Value<'_> {
    fn from(value: RawDocumentBuf) -> Self {
        Value::Owned(RawBson::Document(value))
    }
}
