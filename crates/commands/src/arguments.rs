//! The fields of a command document: typed access with MongoDB's errors, and the fields that every command may have.
//!
//! Used by every command. A command matches the names it knows and passes the rest to [`Arguments::generic`], which takes the
//! fields that are common to all and refuses what nobody knows. Nothing is accepted and ignored.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::{Element, Number, elements};

use crate::error::{CommandError, Result};
use crate::operation_session::StatementIds;
use crate::write_concern::WriteConcern;

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
            "$readPreference" => crate::read_preference::check(field)?,
            "lsid" => self.generic.session = Some(session_id(field.document()?)?),
            "maxTimeMS" => self.generic.max_time = max_time(field)?,
            "maxTimeMSOpOnly" => {}
            "writeConcern" => self.generic.write_concern = WriteConcern::parse(field.document()?)?,
            // Read by the dispatcher, too.
            "readConcern" => drop(field.document()?),
            // Read by the dispatcher, which has begun what they ask for.
            "txnNumber" | "startTransaction" | "autocommit" => {}
            "stmtId" | "stmtIds" => self.generic.statement_ids.parse(field)?,
            // Checked by the dispatcher.
            "apiVersion" | "apiStrict" | "apiDeprecationErrors" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    }
}

fn max_time(field: Field<'_>) -> Result<Option<Duration>> {
    let milliseconds = field.integer()?;
    match u64::try_from(milliseconds) {
        Ok(0) => Ok(None),
        Ok(milliseconds) if milliseconds <= i32::MAX as u64 => Ok(Some(Duration::from_millis(milliseconds))),
        _ => {
            Err(CommandError::bad_value(format!("{milliseconds} value for maxTimeMS is out of range [0, 2147483647]")))
        }
    }
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

    pub(crate) fn document(&self) -> Result<&'a RawDocument> {
        match self.value() {
            RawBsonRef::Document(document) => Ok(document),
            _ => Err(self.wrong_type("type 'object'")),
        }
    }

    /// A document, or nothing for null.
    pub(crate) fn optional_document(&self) -> Result<Option<&'a RawDocument>> {
        if matches!(self.value(), RawBsonRef::Null) { Ok(None) } else { self.document().map(Some) }
    }

    pub(crate) fn string(&self) -> Result<&'a str> {
        match self.value() {
            RawBsonRef::String(text) => Ok(text),
            _ => Err(self.wrong_type("type 'string'")),
        }
    }

    pub(crate) fn array(&self) -> Result<&'a bson::RawArray> {
        match self.value() {
            RawBsonRef::Array(array) => Ok(array),
            _ => Err(self.wrong_type("type 'array'")),
        }
    }

    /// The documents of an array.
    pub(crate) fn documents(&self) -> Result<Vec<&'a RawDocument>> {
        let owner = self.owner;
        document::array_elements(self.array()?)
            .map(|element| match element.value() {
                RawBsonRef::Document(document) => Ok(document),
                _ => Err(CommandError::type_mismatch(format!(
                    "BSON field '{owner}.{}.{}' is the wrong type '{}', expected type 'object'",
                    self.name(),
                    element.name(),
                    document::type_name(element.element_type)
                ))),
            })
            .collect()
    }

    /// A boolean; numbers count as in MongoDB's commands.
    pub(crate) fn boolean(&self) -> Result<bool> {
        match self.value() {
            RawBsonRef::Boolean(value) => Ok(value),
            value => match Number::from_bson(value) {
                Some(number) => Ok(!number.is_zero()),
                None => Err(self.wrong_type("types '[bool, long, int, decimal, double]'")),
            },
        }
    }

    /// A whole number of any numeric type.
    pub(crate) fn integer(&self) -> Result<i64> {
        let number =
            Number::from_bson(self.value()).ok_or_else(|| self.wrong_type("types '[long, int, decimal, double]'"))?;
        number.to_i64_truncated().ok_or_else(|| {
            CommandError::bad_value(format!("BSON field '{}.{}' is out of range", self.owner, self.name()))
        })
    }

    /// A whole number that must not be negative.
    pub(crate) fn unsigned(&self) -> Result<u64> {
        let value = self.integer()?;
        u64::try_from(value).map_err(|_| {
            CommandError::numbered(
                51024,
                format!("BSON field '{}' value must be >= 0, actual value '{value}'", self.name()),
            )
        })
    }
}
