//! One field of a command: typed access with MongoDB's errors.
//!
//! Used by `arguments` and by all that reads a structure inside a command. A field that is null or undefined is as good
//! as absent, as in MongoDB: what [`Field`] reads is `None` then, or false. Where MongoDB refuses null, the command
//! says so ([`Field::given`]).

use bson::{RawBsonRef, RawDocument};
use document::{Element, Number, elements};

use crate::request::error::{CommandError, Result};

/// The types of a number, as messages name them.
pub(crate) const NUMBERS: &str = "types '[long, int, decimal, double]'";

/// A field of a command.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    /// The command, or the structure inside it, that owns the field.
    pub(crate) owner: &'a str,
    pub(crate) element: Element<'a>,
}

/// The identity in `lsid`.
pub(crate) fn session_id(lsid: &RawDocument) -> Result<bson::Uuid> {
    match document::get_field(lsid, "id") {
        Some(RawBsonRef::Binary(binary)) if binary.bytes.len() == 16 => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(binary.bytes);
            Ok(bson::Uuid::from_bytes(bytes))
        }
        _ => Err(CommandError::type_mismatch("BSON field 'OperationSessionInfo.lsid.id' must be a UUID")),
    }
}

impl<'a> Field<'a> {
    /// A field of a structure inside a command.
    pub(crate) fn of(owner: &'a str, element: Element<'a>) -> Self {
        Self { owner, element }
    }

    pub(crate) fn name(&self) -> &'a str {
        self.element.name()
    }

    /// MongoDB's name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        document::type_name(self.element.element_type)
    }

    /// The error for a field that nobody knows.
    pub(crate) fn unknown(&self) -> CommandError {
        CommandError::numbered(40415, format!("BSON field '{}.{}' is an unknown field.", self.owner, self.name()))
    }

    /// The error for a field that MongoDB knows and we do not have.
    pub(crate) fn not_implemented(&self) -> CommandError {
        CommandError::not_implemented(format!("field '{}.{}'", self.owner, self.name()))
    }

    /// Refuses a field that MongoDB knows and we do not have, unless it says nothing.
    pub(crate) fn refuse_unless_null(&self) -> Result<()> {
        if self.is_null() { Ok(()) } else { Err(self.not_implemented()) }
    }

    /// The error for a value of a wrong type.
    pub(crate) fn wrong_type(&self, expected: &str) -> CommandError {
        CommandError::type_mismatch(format!(
            "BSON field '{}.{}' is the wrong type '{}', expected {expected}",
            self.owner,
            self.name(),
            self.type_name()
        ))
    }

    pub(crate) fn value(&self) -> RawBsonRef<'a> {
        self.element.value()
    }

    /// Whether the value is null or undefined, which says as much as the field's absence.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value(), RawBsonRef::Null | RawBsonRef::Undefined)
    }

    /// The field, where MongoDB takes no null for its absence.
    pub(crate) fn given(self, expected: &str) -> Result<Self> {
        if self.is_null() { Err(self.wrong_type(expected)) } else { Ok(self) }
    }

    /// What one of the readers below finds, where there must be something.
    pub(crate) fn required<T>(&self, read: impl FnOnce(&Self) -> Result<Option<T>>) -> Result<T> {
        required(read(self)?, &format!("{}.{}", self.owner, self.name()))
    }

    /// What `read` makes of the value; nothing of null.
    fn unless_null<T>(&self, read: impl FnOnce(RawBsonRef<'a>) -> Result<T>) -> Result<Option<T>> {
        if self.is_null() { Ok(None) } else { read(self.value()).map(Some) }
    }

    pub(crate) fn document(&self) -> Result<Option<&'a RawDocument>> {
        self.unless_null(|value| match value {
            RawBsonRef::Document(document) => Ok(document),
            _ => Err(self.wrong_type("type 'object'")),
        })
    }

    /// The fields of a document.
    pub(crate) fn fields_of(&self, owner: &'a str) -> Result<impl Iterator<Item = Field<'a>> + use<'a>> {
        Ok(self.document()?.into_iter().flat_map(elements).map(move |element| Field { owner, element }))
    }

    pub(crate) fn string(&self) -> Result<Option<&'a str>> {
        self.unless_null(|value| match value {
            RawBsonRef::String(text) => Ok(text),
            _ => Err(self.wrong_type("type 'string'")),
        })
    }

    pub(crate) fn array(&self) -> Result<Option<&'a bson::RawArray>> {
        self.unless_null(|value| match value {
            RawBsonRef::Array(array) => Ok(array),
            _ => Err(self.wrong_type("type 'array'")),
        })
    }

    /// The documents of an array.
    pub(crate) fn documents(&self) -> Result<Option<Vec<&'a RawDocument>>> {
        let owner = self.owner;
        let Some(array) = self.array()? else { return Ok(None) };
        let documents = document::array_elements(array).map(|element| match element.value() {
            RawBsonRef::Document(document) => Ok(document),
            _ => Err(CommandError::type_mismatch(format!(
                "BSON field '{owner}.{}.{}' is the wrong type '{}', expected type 'object'",
                self.name(),
                element.name(),
                document::type_name(element.element_type)
            ))),
        });
        documents.collect::<Result<_>>().map(Some)
    }

    /// A boolean that is false when it is null; numbers count as in MongoDB's commands.
    pub(crate) fn boolean(&self) -> Result<bool> {
        self.boolean_or(false)
    }

    /// A boolean that is `default` when it is null.
    pub(crate) fn boolean_or(&self, default: bool) -> Result<bool> {
        Ok(self.optional_boolean()?.unwrap_or(default))
    }

    /// A boolean, or nothing for null.
    pub(crate) fn optional_boolean(&self) -> Result<Option<bool>> {
        self.unless_null(|value| match (value, Number::from_bson(value)) {
            (RawBsonRef::Boolean(value), _) => Ok(value),
            (_, Some(number)) => Ok(!number.is_zero()),
            _ => Err(self.wrong_type("types '[bool, long, int, decimal, double]'")),
        })
    }

    /// A whole number of any numeric type; fractions are cut off, and what is beyond int64 is its end.
    pub(crate) fn integer(&self) -> Result<Option<i64>> {
        self.unless_null(|value| {
            Number::from_bson(value).map(Number::to_i64_saturating).ok_or_else(|| self.wrong_type(NUMBERS))
        })
    }

    /// A whole number that must not be negative.
    pub(crate) fn unsigned(&self) -> Result<Option<u64>> {
        let Some(value) = self.integer()? else { return Ok(None) };
        u64::try_from(value).map(Some).map_err(|_| {
            CommandError::numbered(
                51024,
                format!("BSON field '{}' value must be >= 0, actual value '{value}'", self.name()),
            )
        })
    }
}

/// A field that must be there.
pub(crate) fn required<T>(value: Option<T>, field: &str) -> Result<T> {
    let missing = || CommandError::numbered(40414, format!("BSON field '{field}' is missing but a required field"));
    value.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn field(document: &RawDocument) -> Field<'_> {
        Field::of("test", elements(document).next().unwrap())
    }

    #[test]
    fn null_and_undefined_say_nothing() {
        let undefined = RawDocumentBuf::from_bytes(b"\x08\0\0\0\x06a\0\0".to_vec()).unwrap();
        for document in [rawdoc! {"a": bson::RawBson::Null}, undefined] {
            let field = field(&document);
            assert!(field.is_null() && field.document().unwrap().is_none() && field.array().unwrap().is_none());
            assert!(field.documents().unwrap().is_none() && field.string().unwrap().is_none());
            assert!(field.integer().unwrap().is_none() && field.unsigned().unwrap().is_none());
            assert!(!field.boolean().unwrap() && field.boolean_or(true).unwrap());
            assert_eq!(field.given("type 'object'").err().unwrap().code, 14);
            assert!(field.refuse_unless_null().is_ok());
        }
        assert_eq!(required::<i32>(None, "test.a").unwrap_err().code, 40414);
    }

    #[test]
    fn numbers_are_cut_off_and_kept_in_range() {
        let integer = |document: RawDocumentBuf| field(&document).integer().unwrap();
        assert_eq!(integer(rawdoc! {"a": 1.9}), Some(1));
        assert_eq!(integer(rawdoc! {"a": -1.9}), Some(-1));
        assert_eq!(integer(rawdoc! {"a": 1e300}), Some(i64::MAX));
        assert_eq!(integer(rawdoc! {"a": f64::NAN}), Some(0));
        assert_eq!(field(&rawdoc! {"a": "1"}).integer().unwrap_err().code, 14);
        assert_eq!(field(&rawdoc! {"a": -1}).unsigned().unwrap_err().code, 51024);
    }
}
