//! Document validation by the collection's `validator` option.
//!
//! Called by `document_change` for every insert and update of a collection that has one.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use query_language::filter::describe_failure;

use crate::error::{CollectionError, Result};
use crate::options::{CollectionOptions, ValidationAction, ValidationLevel};
use crate::predicate::Predicate;

/// Whether the validator has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Validation {
    /// It has.
    #[default]
    Enforce,
    /// `bypassDocumentValidation` was given.
    Bypass,
}

/// Checks a new document.
///
/// # Errors
/// `ValidationFailed`; `Query` when the validator cannot be evaluated.
pub(crate) fn check_insert(options: &CollectionOptions, document: &RawDocument, validation: Validation) -> Result<()> {
    match applicable(options, validation) {
        Some(validator) if !validator.matches(document)? => violated(options, validator, document),
        _ => Ok(()),
    }
}

/// Checks a new version of a document.
///
/// # Errors
/// As `check_insert`.
pub(crate) fn check_update(
    options: &CollectionOptions,
    old: &RawDocument,
    new: &RawDocument,
    validation: Validation,
) -> Result<()> {
    let Some(validator) = applicable(options, validation) else { return Ok(()) };
    if validator.matches(new)? {
        return Ok(());
    }
    let was_invalid = options.validation_level == Some(ValidationLevel::Moderate) && !validator.matches(old)?;
    if was_invalid { Ok(()) } else { violated(options, validator, new) }
}

fn applicable(options: &CollectionOptions, validation: Validation) -> Option<&Predicate> {
    if validation == Validation::Bypass || options.validation_level == Some(ValidationLevel::Off) {
        return None;
    }
    options.validator.as_ref()
}

fn violated(options: &CollectionOptions, validator: &Predicate, document: &RawDocument) -> Result<()> {
    let id = document::get_field(document, "_id").unwrap_or(RawBsonRef::Null);
    if options.validation_action == Some(ValidationAction::Warn) {
        tracing::warn!(document_id = ?id, "a document violates its collection's validator");
        return Ok(());
    }
    let _collation = document::collation::enter(options.collator.clone());
    let reason = describe_failure(validator.source(), document)?;
    let mut details = RawDocumentBuf::new();
    details.append(cstr!("failingDocumentId"), id);
    details.append(cstr!("details"), reason);
    Err(CollectionError::ValidationFailed { details: Box::new(details) })
}
