//! The options a collection is created with: what is supported, and by name what is refused.
//!
//! Called by the `create` and `collMod` commands (through `transaction`), by implicit creation (no options), and by the
//! catalog when it loads or replays a definition. The document kept in the catalog is the one `to_document` makes.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::{CollectionError, Result};
use crate::predicate::Predicate;

/// What a validator does to documents that were invalid before (`validationLevel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ValidationLevel {
    /// Nothing is validated.
    Off,
    /// Inserts are, and updates of documents that were valid.
    Moderate,
    /// Every insert and update is.
    #[default]
    Strict,
}

/// What happens to an invalid document (`validationAction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ValidationAction {
    /// The write fails with DocumentValidationFailure.
    #[default]
    Error,
    /// The write goes through and a line is written to the diagnostics.
    Warn,
}

/// Options of a collection.
#[derive(Clone, Debug, Default)]
pub struct CollectionOptions {
    /// What documents must match, if anything.
    pub validator: Option<Predicate>,
    /// To which documents the validator applies; `None` when not given (then it is strict).
    pub validation_level: Option<ValidationLevel>,
    /// What a violation does; `None` when not given (then it is an error).
    pub validation_action: Option<ValidationAction>,
}

impl CollectionOptions {
    /// Reads the options of a `create` command, from which the command's own fields have been removed, or the
    /// document made by `to_document`.
    ///
    /// # Errors
    /// `NotImplemented` naming an option that MongoDB knows and Plimsoll does not; `UnknownField`; `TypeMismatch`,
    /// `BadValue`, `InvalidOptions` and `Query` for bad values.
    pub fn parse(document: &RawDocument) -> Result<CollectionOptions> {
        let mut options = CollectionOptions::default();
        for element in document::elements(document) {
            options.set(element.name(), element.value())?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        match name {
            "validator" => self.validator = parse_validator(value)?,
            "validationLevel" => self.validation_level = Some(ValidationLevel::parse(value)?),
            "validationAction" => self.validation_action = Some(ValidationAction::parse(value)?),
            _ if is_default(name, value) => {}
            "size" | "max" => {
                let message = "the 'capped' field needs to be true when either the 'size' or 'max' fields are present";
                return Err(CollectionError::InvalidOptions(message.to_owned()));
            }
            "capped"
            | "autoIndexId"
            | "collation"
            | "viewOn"
            | "pipeline"
            | "timeseries"
            | "clusteredIndex"
            | "expireAfterSeconds"
            | "changeStreamPreAndPostImages"
            | "encryptedFields"
            | "storageEngine"
            | "indexOptionDefaults"
            | "temp"
            | "recordPreImages" => {
                let message = format!("collection option '{name}' is not implemented");
                return Err(CollectionError::NotImplemented(message));
            }
            _ => return Err(CollectionError::UnknownField { owner: "create", field: name.to_owned() }),
        }
        Ok(())
    }

    /// The options as `listCollections` shows them and the catalog keeps them.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        if let Some(validator) = &self.validator {
            document.append(cstr!("validator"), validator.source());
        }
        if let Some(level) = self.validation_level {
            document.append(cstr!("validationLevel"), level.name());
        }
        if let Some(action) = self.validation_action {
            document.append(cstr!("validationAction"), action.name());
        }
        document
    }

    /// Whether creating a collection with `other` where one with `self` exists is fine.
    pub fn same_as(&self, other: &CollectionOptions) -> bool {
        self.to_document().as_bytes() == other.to_document().as_bytes()
    }
}

/// Options given with the value they have anyway say nothing.
fn is_default(name: &str, value: RawBsonRef<'_>) -> bool {
    match (name, value) {
        ("capped" | "temp" | "recordPreImages", RawBsonRef::Boolean(given)) => !given,
        ("autoIndexId", RawBsonRef::Boolean(given)) => given,
        ("storageEngine" | "indexOptionDefaults", RawBsonRef::Document(given)) => given.is_empty(),
        ("collation", RawBsonRef::Document(given)) => is_simple_collation(given),
        ("changeStreamPreAndPostImages", RawBsonRef::Document(given)) => {
            matches!(given.get("enabled"), Ok(Some(RawBsonRef::Boolean(false))))
        }
        _ => false,
    }
}

/// `{locale: "simple"}` is binary comparison, which is what there is.
pub(crate) fn is_simple_collation(collation: &RawDocument) -> bool {
    matches!(collation.get("locale"), Ok(Some(RawBsonRef::String("simple")))) && collation.iter().count() == 1
}

fn parse_validator(value: RawBsonRef<'_>) -> Result<Option<Predicate>> {
    let RawBsonRef::Document(filter) = value else {
        return Err(wrong_type("create.validator", value, "object"));
    };
    if filter.is_empty() { Ok(None) } else { Predicate::parse(filter).map(Some) }
}

impl ValidationLevel {
    fn parse(value: RawBsonRef<'_>) -> Result<ValidationLevel> {
        match value {
            RawBsonRef::String("off") => Ok(ValidationLevel::Off),
            RawBsonRef::String("moderate") => Ok(ValidationLevel::Moderate),
            RawBsonRef::String("strict") => Ok(ValidationLevel::Strict),
            _ => Err(bad_enumeration("create.validationLevel", value)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            ValidationLevel::Off => "off",
            ValidationLevel::Moderate => "moderate",
            ValidationLevel::Strict => "strict",
        }
    }
}

impl ValidationAction {
    fn parse(value: RawBsonRef<'_>) -> Result<ValidationAction> {
        match value {
            RawBsonRef::String("error") => Ok(ValidationAction::Error),
            RawBsonRef::String("warn") => Ok(ValidationAction::Warn),
            _ => Err(bad_enumeration("create.validationAction", value)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            ValidationAction::Error => "error",
            ValidationAction::Warn => "warn",
        }
    }
}

fn bad_enumeration(field: &str, value: RawBsonRef<'_>) -> CollectionError {
    match value {
        RawBsonRef::String(text) => {
            CollectionError::BadValue(format!("Enumeration value '{text}' for field '{field}' is not a valid value."))
        }
        _ => wrong_type(field, value, "string"),
    }
}

/// MongoDB's message for a field of the wrong type.
pub(crate) fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> CollectionError {
    let found = type_name(value);
    CollectionError::TypeMismatch(format!(
        "BSON field '{field}' is the wrong type '{found}', expected type '{expected}'"
    ))
}

/// The alias of a value's type as MongoDB's messages print it.
pub(crate) fn type_name(value: RawBsonRef<'_>) -> &'static str {
    match value {
        RawBsonRef::Double(_) => "double",
        RawBsonRef::String(_) => "string",
        RawBsonRef::Document(_) => "object",
        RawBsonRef::Array(_) => "array",
        RawBsonRef::Binary(_) => "binData",
        RawBsonRef::Undefined => "undefined",
        RawBsonRef::ObjectId(_) => "objectId",
        RawBsonRef::Boolean(_) => "bool",
        RawBsonRef::DateTime(_) => "date",
        RawBsonRef::Null => "null",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::DbPointer(_) => "dbPointer",
        RawBsonRef::JavaScriptCode(_) => "javascript",
        RawBsonRef::Symbol(_) => "symbol",
        RawBsonRef::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        RawBsonRef::Int32(_) => "int",
        RawBsonRef::Timestamp(_) => "timestamp",
        RawBsonRef::Int64(_) => "long",
        RawBsonRef::Decimal128(_) => "decimal",
        RawBsonRef::MinKey => "minKey",
        RawBsonRef::MaxKey => "maxKey",
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn defaults_are_accepted_and_not_kept() {
        let given = rawdoc! { "capped": false, "autoIndexId": true, "collation": { "locale": "simple" } };
        assert!(CollectionOptions::parse(&given).unwrap().to_document().is_empty());
    }

    #[test]
    fn what_is_not_implemented_is_refused_by_name() {
        for (given, name) in [
            (rawdoc! { "capped": true, "size": 4096 }, "capped"),
            (rawdoc! { "timeseries": { "timeField": "t" } }, "timeseries"),
            (rawdoc! { "viewOn": "c" }, "viewOn"),
            (rawdoc! { "collation": { "locale": "de" } }, "collation"),
        ] {
            match CollectionOptions::parse(&given) {
                Err(CollectionError::NotImplemented(message)) => assert!(message.contains(name)),
                other => panic!("{name}: {other:?}"),
            }
        }
        assert!(matches!(
            CollectionOptions::parse(&rawdoc! { "caped": true }),
            Err(CollectionError::UnknownField { .. })
        ));
    }

    #[test]
    fn validators_survive_the_round_trip() {
        let given = rawdoc! { "validator": { "a": { "$gt": 1 } }, "validationLevel": "moderate" };
        let options = CollectionOptions::parse(&given).unwrap();
        assert_eq!(options.to_document(), given);
    }
}
