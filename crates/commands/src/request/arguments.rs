//! The fields of a command document: typed access with MongoDB's errors, and the fields that every command may have.
//!
//! Used by every command. A command matches the names it knows and passes the rest to [`Arguments::generic`], which takes the
//! fields that are common to all and refuses what nobody knows. Nothing is accepted and ignored. A field that is null or undefined is as good as
//! absent, as in MongoDB: what [`Field`] reads is `None` then, or false. Where MongoDB refuses null, the command says so ([`Field::given`]).

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::{Element, Number, elements};

use crate::request::error::{CommandError, Result};
use crate::request::statement_ids::StatementIds;
use crate::request::write_concern::WriteConcern;

/// The fields that every command may have.
#[derive(Debug, Default, Clone)]
pub(crate) struct GenericArguments {
    pub(crate) write_concern: WriteConcern,
    pub(crate) max_time: Option<Duration>,
    /// `lsid.id`, when the client sent a session.
    pub(crate) session: Option<bson::Uuid>,
    /// The numbers of a retryable write's statements.
    pub(crate) statement_ids: StatementIds,
}

/// Reads a command's fields.
pub(crate) struct Arguments<'a> {
    /// The command's name as the registry has it, for messages.
    pub(crate) command: &'static str,
    pub(crate) body: &'a RawDocument,
    pub(crate) generic: GenericArguments,
}

/// The types of a number, as messages name them.
const NUMBERS: &str = "types '[long, int, decimal, double]'";

/// A field of a command.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    /// The command, or the structure inside it, that owns the field.
    pub(crate) owner: &'a str,
    pub(crate) element: Element<'a>,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(command: &'static str, body: &'a RawDocument) -> Self {
        Self { command, body, generic: GenericArguments::default() }
    }

    /// The fields after the first, which is the command's name.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let owner = self.command;
        elements(self.body).skip(1).map(move |element| Field { owner, element })
    }

    /// The value of the field that names the command.
    pub(crate) fn target(&self) -> Option<Field<'a>> {
        elements(self.body).next().map(|element| Field { owner: self.command, element })
    }

    /// The collection that the command is about.
    pub(crate) fn collection_name(&self) -> Result<&'a str> {
        let field = self.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
        match field.element.value() {
            RawBsonRef::String(name) => Ok(name),
            _ => Err(CommandError::named(
                "InvalidNamespace",
                format!("collection name has invalid type {}", field.type_name()),
            )),
        }
    }

    /// Takes a field that any command may have, or refuses it.
    pub(crate) fn generic(&mut self, field: Field<'a>) -> Result<()> {
        match field.name() {
            "$db" | "comment" | "$clusterTime" | "mayBypassWriteBlocking" => {}
            "$readPreference" if field.is_null() => {}
            "$readPreference" => crate::request::read_preference::check(field)?,
            "lsid" => self.generic.session = field.document()?.map(session_id).transpose()?,
            "maxTimeMS" => self.generic.max_time = max_time(field)?,
            "maxTimeMSOpOnly" => {}
            "writeConcern" => {
                self.generic.write_concern =
                    field.document()?.map(WriteConcern::parse).transpose()?.unwrap_or_default();
            }
            // Read by the dispatcher, too.
            "readConcern" => drop(field.document()?),
            // Read by the dispatcher, which has begun what they ask for.
            "txnNumber" | "startTransaction" | "autocommit" => {}
            "stmtId" | "stmtIds" => self.generic.statement_ids.parse(field)?,
            // Checked by the dispatcher.
            "apiVersion" | "apiStrict" | "apiDeprecationErrors" => {}
            // What some commands have, and none here.
            "collectionUUID" | "encryptionInformation" | "isTimeseriesNamespace" | "rawData" => {
                return Err(field.not_implemented());
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    }
}

/// Reads `maxTimeMS`, of which zero is no limit.
///
/// # Errors
/// BadValue, also for null; but `aggregate` and `getMore` call a wrong type one, and `aggregate` knows a number of its own for less than zero, as in MongoDB.
pub(crate) fn max_time(field: Field<'_>) -> Result<Option<Duration>> {
    let (is_aggregate, is_get_more) = (field.owner == "aggregate", field.owner == "getMore");
    let Some(number) = Number::from_bson(field.value()) else {
        let names_type = (is_aggregate || is_get_more) && !field.is_null();
        let untyped = || CommandError::bad_value("maxTimeMS must be a number");
        return Err(if names_type { field.wrong_type(NUMBERS) } else { untyped() });
    };
    let milliseconds = number.to_i64_saturating();
    if is_aggregate && milliseconds < 0 {
        field.unsigned()?;
    }
    if !(0..=i64::from(i32::MAX)).contains(&milliseconds) {
        let message = format!("{milliseconds} value for maxTimeMS is out of range [0, 2147483647]");
        return Err(CommandError::bad_value(message));
    }
    if number.to_i64_exact().is_none() {
        return Err(CommandError::bad_value("maxTimeMS has non-integral value"));
    }
    Ok(Some(Duration::from_millis(milliseconds.unsigned_abs())).filter(|time| !time.is_zero()))
}

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
