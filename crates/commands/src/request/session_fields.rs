//! The fields of a command that are about its session: `lsid`, `txnNumber`, `autocommit` and `startTransaction`, with
//! those read beside them.
//!
//! Read by `dispatcher` before the command runs; what follows from them is `state::operation_session`.

use bson::{RawBsonRef, RawDocument, Uuid};
use document::elements;
use platform::Timestamp;

use crate::request::cluster_time;
use crate::request::declaration::{CursorUse, Declaration, SessionUse};
use crate::request::error::{CommandError, Result};
use crate::request::field::session_id;
use crate::request::read_concern::ReadConcern;
use crate::request::stable_api::ApiParameters;
use crate::request::write_concern::check_is_taken;

/// The fields, as they came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionFields {
    pub(crate) session: Option<Uuid>,
    pub(crate) txn_number: Option<i64>,
    autocommit: Option<bool>,
    starts_transaction: Option<bool>,
    has_read_concern: bool,
    has_write_concern: bool,
    pub(crate) read_concern: ReadConcern,
    pub(crate) api: ApiParameters,
    /// `$clusterTime.clusterTime`.
    pub(crate) cluster_time: Option<Timestamp>,
}

/// InvalidOptions.
pub(crate) fn invalid(message: &str) -> CommandError {
    CommandError::named("InvalidOptions", message)
}

fn not_in_transaction(message: String) -> CommandError {
    CommandError::named("OperationNotSupportedInTransaction", message)
}

impl SessionFields {
    /// Finds the fields among those of a command. A malformed `lsid` is refused when the command's fields are read.
    pub(crate) fn read(body: &RawDocument) -> Result<Self> {
        let mut fields = Self::default();
        for element in elements(body).skip(1) {
            match element.name_bytes() {
                b"lsid" | b"txnNumber" | b"autocommit" | b"startTransaction" | b"readConcern" | b"writeConcern" => {
                    fields.take(element.name(), element.value())?;
                }
                b"$clusterTime" => fields.cluster_time = cluster_time::parse(element.value())?,
                b"apiVersion" | b"apiStrict" | b"apiDeprecationErrors" => {
                    fields.api.take(element.name(), element.value())?;
                }
                _ => {}
            }
        }
        fields.check()?;
        Ok(fields)
    }

    fn take(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        match (name, value) {
            (_, RawBsonRef::Null | RawBsonRef::Undefined) => {}
            ("lsid", RawBsonRef::Document(lsid)) => self.session = session_id(lsid).ok(),
            ("txnNumber", RawBsonRef::Int64(number)) => self.txn_number = Some(number),
            ("txnNumber", other) => return Err(wrong_type(name, other, "type 'long'")),
            ("autocommit", RawBsonRef::Boolean(value)) => self.autocommit = Some(value),
            ("startTransaction", RawBsonRef::Boolean(value)) => self.starts_transaction = Some(value),
            ("autocommit" | "startTransaction", other) => return Err(wrong_type(name, other, "type 'bool'")),
            ("readConcern", RawBsonRef::Document(concern)) => {
                self.has_read_concern = !concern.is_empty();
                self.read_concern = ReadConcern::parse(concern)?;
            }
            ("writeConcern", _) => self.has_write_concern = true,
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.txn_number.is_some() && self.session.is_none() {
            return Err(invalid("Transaction number requires a session ID to also be specified"));
        }
        if self.txn_number.is_some_and(|number| number < 0) {
            return Err(invalid("Transaction number cannot be negative"));
        }
        match self.autocommit {
            Some(_) if self.txn_number.is_none() => {
                Err(invalid("'autocommit' field requires a transaction number to also be specified"))
            }
            Some(true) => Err(invalid("Specifying autocommit=true is not allowed.")),
            None if self.starts_transaction.is_some() => {
                Err(invalid("'startTransaction' field requires 'autocommit' field to also be specified"))
            }
            _ if self.starts_transaction == Some(false) => {
                Err(invalid("Specifying startTransaction=false is not allowed."))
            }
            _ => Ok(()),
        }
    }

    /// Refuses the concerns that the command does not take.
    pub(crate) fn check_concerns(&self, command: &Declaration) -> Result<()> {
        self.read_concern.check(command, self.is_in_transaction())?;
        if self.has_write_concern { check_is_taken(command) } else { Ok(()) }
    }

    /// Refuses `txnNumber` where the command does not take it.
    pub(crate) fn check_number(&self, command: &Declaration, database: &str) -> Result<()> {
        if self.is_in_transaction() {
            return self.check_in_transaction(command, database);
        }
        if command.session_use == SessionUse::RetryableWrite {
            return Ok(());
        }
        let message = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false \
             was not provided, and {} is not a retryable write command.",
            command.name
        );
        Err(CommandError::numbered(50768, message))
    }

    fn check_in_transaction(&self, command: &Declaration, database: &str) -> Result<()> {
        let ends = command.session_use == SessionUse::EndsTransaction;
        if command.session_use == SessionUse::Plain {
            return Err(not_in_transaction(format!("Cannot run '{}' in a multi-document transaction.", command.name)));
        }
        // What is for `admin` only names its collections by itself, and a cursor goes on that was begun in the transaction.
        let names_others = command.is_admin_only || command.cursor == CursorUse::GoesOn;
        if !ends && !names_others && matches!(database, "admin" | "config" | "local") {
            return Err(not_in_transaction(format!(
                "Cannot run command against the '{database}' database in a transaction."
            )));
        }
        if ends && self.starts_transaction.is_some() {
            return Err(not_in_transaction(format!("Cannot start a transaction with '{}'.", command.name)));
        }
        if self.has_write_concern && !ends {
            return Err(invalid("writeConcern is not allowed within a multi-statement transaction"));
        }
        if self.has_read_concern && self.starts_transaction.is_none() {
            return Err(invalid("Only the first command in a transaction may specify a readConcern"));
        }
        Ok(())
    }

    /// Whether the command belongs to a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.autocommit.is_some()
    }

    /// Whether it goes on with a transaction, which may own what those who run wait for.
    pub(crate) fn goes_on_with_transaction(&self) -> bool {
        self.autocommit.is_some() && self.starts_transaction.is_none()
    }

    /// Whether the command is a retryable write.
    pub(crate) fn is_retryable_write(&self) -> bool {
        self.txn_number.is_some() && self.autocommit.is_none()
    }
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> CommandError {
    let found = document::type_name(value.element_type());
    CommandError::type_mismatch(format!("BSON field '{field}' is the wrong type '{found}', expected {expected}"))
}

#[cfg(test)]
mod tests {
    use bson::{Binary, rawdoc};

    use super::*;

    fn lsid() -> bson::RawDocumentBuf {
        rawdoc! {"id": Binary::from(Uuid::from_bytes([7; 16]))}
    }

    #[test]
    fn fields_that_need_each_other_are_checked() {
        let code = |body: bson::RawDocumentBuf| SessionFields::read(&body).unwrap_err().code;
        assert_eq!(code(rawdoc! {"insert": "c", "txnNumber": 1i64}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1}), 14);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": -1i64}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "autocommit": false}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1i64, "autocommit": true}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1i64, "startTransaction": true}), 72);
        let good = rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1i64};
        let read = SessionFields::read(&good).unwrap();
        assert_eq!((read.session, read.txn_number), (Some(Uuid::from_bytes([7; 16])), Some(1)));
    }
}
