//! The fields of a command document, and those among them that every command may have.
//!
//! Used by every command. A command matches the names it knows and passes the rest to [`Arguments::generic`], which takes the
//! fields that are common to all and refuses what nobody knows. Nothing is accepted and ignored.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::{Number, elements};

use crate::request::error::{CommandError, Result};
use crate::request::field::NUMBERS;
pub(crate) use crate::request::field::{Field, required, session_id};
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

    /// The command's `maxTimeMS`, for a command that parses what may take long. What is wrong with it is told when its turn comes.
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        let field = self.fields().find(|field| field.name() == "maxTimeMS")?;
        max_time(field).ok().flatten()
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
