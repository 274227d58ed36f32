//! The options a collection is created with: what is supported, and by name what is refused.
//!
//! Called by the `create` and `collMod` commands (through `transaction`), by implicit creation (no options), and by the
//! catalog when it loads or replays a definition. The document kept in the catalog is the one `to_document` makes.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use document::Number;
use document::collation::{self, Collator};

use crate::clustered_options::ClusteredOptions;
use crate::error::{CollectionError, Result};
use crate::index_specification::IndexSpecification;
use crate::predicate::Predicate;
use crate::time_series_options::TimeSeriesOptions;

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

/// What a capped collection may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedOptions {
    /// Bytes of documents (`size`).
    pub size: u64,
    /// Documents (`max`), if they are bounded.
    pub max: Option<u64>,
}

impl CappedOptions {
    /// Checks and rounds what a client asks for: up to a multiple of 256 bytes, and 4096 at least.
    ///
    /// # Errors
    /// `OutOfBounds`, `BadValue`.
    pub fn new(size: i64, max: Option<i64>) -> Result<CappedOptions> {
        let beyond = |bound: String| {
            Err(CollectionError::OutOfBounds(format!("BSON field 'size' value must be {bound}, actual value '{size}'")))
        };
        if size < 1 {
            return beyond(">= 1".to_owned());
        }
        if size > CAPPED_BYTES_MAX {
            return beyond(format!("<= {CAPPED_BYTES_MAX}"));
        }
        if max.is_some_and(|max| max >= 1 << 31) {
            let message = "max in a capped collection has to be < 2^31 or not set";
            return Err(CollectionError::BadValue(message.to_owned()));
        }
        let size = (size as u64).max(4096).next_multiple_of(256);
        Ok(CappedOptions { size, max: max.filter(|max| *max > 0).map(|max| max as u64) })
    }
}

/// Options of a collection.
#[derive(Clone, Debug, Default)]
pub struct CollectionOptions {
    /// The bounds of a capped collection.
    pub capped: Option<CappedOptions>,
    /// Whether the versions of documents before and after changes are kept for change streams.
    pub has_pre_images: bool,
    /// What documents must match, if anything.
    pub validator: Option<Predicate>,
    /// To which documents the validator applies; `None` when not given (then it is strict).
    pub validation_level: Option<ValidationLevel>,
    /// What a violation does; `None` when not given (then it is an error).
    pub validation_action: Option<ValidationAction>,
    /// How text is compared where a command or an index says nothing of it; `None`: by its bytes.
    pub collator: Option<Arc<Collator>>,
    /// Its index on `_id` is shown as a clustered one.
    pub clustered: Option<ClusteredOptions>,
    /// Its documents are buckets of a time-series collection.
    pub time_series: Option<TimeSeriesOptions>,
    /// Documents of a clustered collection and measurements expire so long after their date.
    pub expire_after_seconds: Option<i64>,
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
        let mut capped = CappedRequest::default();
        for element in document::elements(document) {
            match (element.name(), element.value()) {
                (name, RawBsonRef::Null | RawBsonRef::Undefined) if is_known(name) => {}
                (name, value) if capped.take(name, value)? => {}
                (name, value) => options.set(name, value)?,
            }
        }
        options.capped = capped.finish()?;
        options.check_together()?;
        if let (Some(validator), Some(collator)) = (&options.validator, &options.collator) {
            options.validator = Some(validator.with_collator(Some(collator.clone()))?);
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        match name {
            "validator" => self.validator = parse_validator(value)?,
            "validationLevel" => self.validation_level = Some(ValidationLevel::parse(value)?),
            "validationAction" => self.validation_action = Some(ValidationAction::parse(value)?),
            "collation" => self.collator = parse_collation("create.collation", value)?,
            _ if is_default(name, value) => {}
            "changeStreamPreAndPostImages" => self.has_pre_images = parse_pre_images(value)?,
            "clusteredIndex" => self.clustered = ClusteredOptions::parse(value)?,
            "timeseries" => self.time_series = Some(TimeSeriesOptions::parse(value)?),
            "expireAfterSeconds" => self.expire_after_seconds = Some(parse_expiry(value)?),
            _ if NOT_IMPLEMENTED.contains(&name) => {
                let message = format!("collection option '{name}' is not implemented");
                return Err(CollectionError::NotImplemented(message));
            }
            _ => return Err(CollectionError::UnknownField { owner: "create", field: name.to_owned() }),
        }
        Ok(())
    }

    /// Refuses options that do not go together.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub fn check_together(&self) -> Result<()> {
        let invalid = |message: String| Err(CollectionError::InvalidOptions(message));
        if self.time_series.is_some() {
            let others = [
                (self.capped.is_some(), "capped"),
                (self.clustered.is_some(), "clusteredIndex"),
                (self.validator.is_some(), "validator"),
                (self.validation_level.is_some(), "validationLevel"),
                (self.validation_action.is_some(), "validationAction"),
                (self.has_pre_images, "changeStreamPreAndPostImages"),
            ];
            if let Some((_, other)) = others.iter().find(|(is_given, _)| *is_given) {
                return invalid(format!("'timeseries' is not allowed with '{other}'"));
            }
        } else if self.clustered.is_some() && self.capped.is_some() {
            return invalid("'clusteredIndex' is not supported with 'capped'".to_owned());
        } else if self.clustered.is_none() && self.expire_after_seconds.is_some() {
            let message = "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' \
                           option is specified";
            return invalid(message.to_owned());
        }
        Ok(())
    }

    /// The index on `_id` of such a collection.
    ///
    /// # Errors
    /// None that can happen: a collation and a name have been looked at.
    pub fn id_index(&self) -> Result<IndexSpecification> {
        let index = match &self.clustered {
            Some(clustered) => clustered.index()?,
            None => IndexSpecification::id_index()?,
        };
        index.with_collator(self.collator.clone())
    }

    /// The options as `listCollections` shows them and the catalog keeps them.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        if let Some(capped) = self.capped {
            document.append(cstr!("capped"), true);
            document.append(cstr!("size"), number(capped.size));
            if let Some(max) = capped.max {
                document.append(cstr!("max"), number(max));
            }
        }
        if self.has_pre_images {
            document.append(cstr!("changeStreamPreAndPostImages"), rawdoc! { "enabled": true });
        }
        if let Some(clustered) = &self.clustered {
            document.append(cstr!("clusteredIndex"), clustered.to_document());
        }
        if let Some(seconds) = self.expire_after_seconds {
            document.append(cstr!("expireAfterSeconds"), seconds);
        }
        if let Some(time_series) = &self.time_series {
            document.append(cstr!("timeseries"), time_series.to_document());
        }
        if let Some(collator) = &self.collator {
            document.append(cstr!("collation"), collator.definition());
        }
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

/// Options that MongoDB knows and Plimsoll does not.
const NOT_IMPLEMENTED: &[&str] =
    &["autoIndexId", "encryptedFields", "storageEngine", "indexOptionDefaults", "temp", "recordPreImages"];

/// Whether there is such an option: null says no more of it than nothing would.
fn is_known(name: &str) -> bool {
    const OURS: [&str; 11] = [
        "capped",
        "size",
        "max",
        "validator",
        "validationLevel",
        "validationAction",
        "changeStreamPreAndPostImages",
        "collation",
        "clusteredIndex",
        "timeseries",
        "expireAfterSeconds",
    ];
    OURS.contains(&name) || NOT_IMPLEMENTED.contains(&name)
}

/// Options given with the value they have anyway say nothing.
fn is_default(name: &str, value: RawBsonRef<'_>) -> bool {
    match (name, value) {
        ("temp" | "recordPreImages", RawBsonRef::Boolean(given)) => !given,
        ("autoIndexId", RawBsonRef::Boolean(given)) => given,
        ("storageEngine" | "indexOptionDefaults", RawBsonRef::Document(given)) => given.is_empty(),
        _ => false,
    }
}

/// Reads a collation; `None` is the simple one.
pub(crate) fn parse_collation(field: &str, value: RawBsonRef<'_>) -> Result<Option<Arc<Collator>>> {
    match value {
        RawBsonRef::Document(given) => Ok(collation::parse(given)?),
        _ => Err(wrong_type(field, value, "object")),
    }
}

/// `capped`, `size` and `max` as they come.
#[derive(Default)]
struct CappedRequest {
    capped: bool,
    size: Option<i64>,
    max: Option<i64>,
}

impl CappedRequest {
    /// `false`: it is another option.
    fn take(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<bool> {
        match (name, value) {
            ("capped", RawBsonRef::Boolean(capped)) => self.capped = capped,
            ("capped", _) => match Number::from_bson(value) {
                Some(number) => self.capped = number.to_i64_exact() != Some(0),
                None => return Err(wrong_type("create.capped", value, "bool")),
            },
            ("size", _) => self.size = Some(whole_number("create.size", value)?),
            ("max", _) => self.max = Some(whole_number("create.max", value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(&self) -> Result<Option<CappedOptions>> {
        match (self.capped, self.size) {
            (true, Some(size)) => CappedOptions::new(size, self.max).map(Some),
            (true, None) => {
                let message = "the 'size' field is required when 'capped' is true";
                Err(CollectionError::InvalidOptions(message.to_owned()))
            }
            (false, size) if size.is_some() || self.max.is_some() => {
                let message = "the 'capped' field needs to be true when either the 'size' or 'max' fields are present";
                Err(CollectionError::InvalidOptions(message.to_owned()))
            }
            (false, _) => Ok(None),
        }
    }
}

/// Most bytes that a capped collection may be asked to hold: 1 PiB.
const CAPPED_BYTES_MAX: i64 = 1 << 50;

/// A number of any type, without its fraction.
fn whole_number(field: &str, value: RawBsonRef<'_>) -> Result<i64> {
    match value {
        RawBsonRef::Double(number) => Ok(number as i64),
        _ => Number::from_bson(value).and_then(Number::to_i64_exact).ok_or_else(|| wrong_type(field, value, "number")),
    }
}

/// As int32 when it fits, which is how shells write it.
fn number(value: u64) -> RawBson {
    match i32::try_from(value) {
        Ok(value) => RawBson::Int32(value),
        Err(_) => RawBson::Int64(value as i64),
    }
}

/// Reads `{enabled: bool}`.
///
/// # Errors
/// `TypeMismatch`, `UnknownField`, `MissingField`.
pub fn parse_pre_images(value: RawBsonRef<'_>) -> Result<bool> {
    const FIELD: &str = "changeStreamPreAndPostImages";
    let RawBsonRef::Document(given) = value else { return Err(wrong_type(FIELD, value, "object")) };
    let mut enabled = None;
    for element in document::elements(given) {
        match (element.name(), element.value()) {
            ("enabled", RawBsonRef::Null | RawBsonRef::Undefined) => {}
            ("enabled", RawBsonRef::Boolean(value)) => enabled = Some(value),
            ("enabled", value) => return Err(wrong_type("changeStreamPreAndPostImages.enabled", value, "bool")),
            (name, _) => return Err(CollectionError::UnknownField { owner: FIELD, field: name.to_owned() }),
        }
    }
    enabled.ok_or(CollectionError::MissingField("changeStreamPreAndPostImages.enabled"))
}

/// Reads `expireAfterSeconds` of a collection.
///
/// # Errors
/// `TypeMismatch`, `InvalidOptions`.
pub fn parse_expiry(value: RawBsonRef<'_>) -> Result<i64> {
    let Some(seconds) = Number::from_bson(value).and_then(Number::to_i64_truncated) else {
        return Err(wrong_type("expireAfterSeconds", value, "number"));
    };
    // As for TTL indexes; more could not be taken from a date.
    if (0..=i64::from(i32::MAX)).contains(&seconds) {
        return Ok(seconds);
    }
    let message = format!("'expireAfterSeconds' must be between 0 and {}, not {seconds}", i32::MAX);
    Err(CollectionError::InvalidOptions(message))
}

fn parse_validator(value: RawBsonRef<'_>) -> Result<Option<Predicate>> {
    let RawBsonRef::Document(filter) = value else {
        return Err(wrong_type("create.validator", value, "object"));
    };
    if filter.is_empty() { Ok(None) } else { Predicate::parse(filter, None).map(Some) }
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
        for (given, name) in [(rawdoc! { "encryptedFields": {} }, "encryptedFields")] {
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
    fn capped_sizes_are_rounded_and_survive_the_round_trip() {
        for (given, expected) in [(1, 4096), (4096, 4096), (5000, 5120), (100_000, 100_096)] {
            let options = CollectionOptions::parse(&rawdoc! { "capped": true, "size": given, "max": 7 }).unwrap();
            assert_eq!(options.capped, Some(CappedOptions { size: expected, max: Some(7) }));
            let again = CollectionOptions::parse(&options.to_document()).unwrap();
            assert_eq!(again.capped, options.capped);
        }
        assert!(CollectionOptions::parse(&rawdoc! { "capped": true }).is_err());
        assert!(CollectionOptions::parse(&rawdoc! { "size": 4096 }).is_err());
    }

    #[test]
    fn validators_survive_the_round_trip() {
        let given = rawdoc! { "validator": { "a": { "$gt": 1 } }, "validationLevel": "moderate" };
        let options = CollectionOptions::parse(&given).unwrap();
        assert_eq!(options.to_document(), given);
    }
}
