//! The document by which a client asks for a collation: its fields are checked, those that are missing come from the
//! locale.
//!
//! Source: the manual's page "Collation", with the errors that MongoDB's fields of commands have.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use icu_collator::CollatorPreferences;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};

use super::collator::{Collator, DATA_VERSION};
use super::locale::{self, Named};
use crate::compare::type_name;
use crate::element::elements;
use crate::number::Number;

/// What MongoDB shows as the version; a dump of its has it.
const MONGODB_VERSION: &str = "57.1";

/// Why there is no such collation. Each variant names MongoDB's code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollationError {
    /// BadValue (2).
    #[error("{0}")]
    BadValue(String),
    /// TypeMismatch (14).
    #[error("{0}")]
    TypeMismatch(String),
    /// Location40414: a field that must be there.
    #[error("BSON field 'collation.locale' is missing but a required field")]
    MissingLocale,
    /// Location40415: an unknown field.
    #[error("BSON field 'collation.{0}' is an unknown field.")]
    UnknownField(String),
    /// IncompatibleCollationVersion (161).
    #[error("{0}")]
    IncompatibleVersion(String),
    /// NotImplemented (238).
    #[error("{0}")]
    NotImplemented(String),
}

type Result<T> = std::result::Result<T, CollationError>;

/// The fields as they come.
#[derive(Default)]
struct Fields<'a> {
    locale: Option<&'a str>,
    strength: Option<Strength>,
    case_level: Option<bool>,
    case_first: Option<CollationCaseFirst>,
    numeric: Option<bool>,
    alternate: Option<AlternateHandling>,
    max_variable: Option<MaxVariable>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    others: usize,
}

/// Reads a collation; `None` is the simple one, which compares bytes.
///
/// # Errors
/// Those of MongoDB for fields that are unknown, missing, of a wrong type or without sense beside one another;
/// `NotImplemented` for variants of locales that we have no data of.
pub fn parse(given: &RawDocument) -> Result<Option<Arc<Collator>>> {
    let mut fields = Fields::default();
    for element in elements(given) {
        if !matches!(element.value(), RawBsonRef::Null | RawBsonRef::Undefined) {
            fields.set(element.name(), element.value())?;
        }
    }
    let name = fields.locale.ok_or(CollationError::MissingLocale)?;
    if name == "simple" {
        return match fields.others {
            0 => Ok(None),
            _ => Err(CollationError::BadValue(
                "If 'locale' is 'simple', no other field of a collation may be given".to_owned(),
            )),
        };
    }
    fields.compile(name).map(|collator| Some(Arc::new(collator)))
}

impl<'a> Fields<'a> {
    fn set(&mut self, name: &str, value: RawBsonRef<'a>) -> Result<()> {
        self.others += usize::from(!matches!(name, "locale" | "version"));
        match name {
            "locale" => self.locale = Some(text(name, value)?),
            "strength" => self.strength = Some(strength(value)?),
            "caseLevel" => self.case_level = Some(flag(name, value)?),
            "caseFirst" => {
                let known = [
                    ("upper", CollationCaseFirst::Upper),
                    ("lower", CollationCaseFirst::Lower),
                    ("off", CollationCaseFirst::False),
                ];
                self.case_first = Some(choice(name, value, &known)?);
            }
            "numericOrdering" => self.numeric = Some(flag(name, value)?),
            "alternate" => {
                let known =
                    [("non-ignorable", AlternateHandling::NonIgnorable), ("shifted", AlternateHandling::Shifted)];
                self.alternate = Some(choice(name, value, &known)?);
            }
            "maxVariable" => {
                let known = [("punct", MaxVariable::Punctuation), ("space", MaxVariable::Space)];
                self.max_variable = Some(choice(name, value, &known)?);
            }
            "normalization" => self.normalization = Some(flag(name, value)?),
            "backwards" => self.backwards = Some(flag(name, value)?),
            "version" => check_version(text(name, value)?)?,
            _ => return Err(CollationError::UnknownField(name.to_owned())),
        }
        Ok(())
    }

    fn compile(&self, name: &str) -> Result<Collator> {
        let locale = match locale::parse(name) {
            Named::Locale(locale) => locale,
            Named::Absent => {
                return Err(CollationError::NotImplemented(format!("the collation '{name}' is not implemented")));
            }
            Named::Invalid => {
                return Err(CollationError::BadValue(format!(
                    "Field 'locale' is invalid in: {{ locale: \"{name}\" }}"
                )));
            }
        };
        self.check_together()?;
        let mut preferences = CollatorPreferences::from(&locale);
        preferences.case_first = self.case_first.or_else(|| self.ignores_case().then_some(CollationCaseFirst::False));
        preferences.numeric_ordering = self.numeric.map(|is_numeric| match is_numeric {
            true => CollationNumericOrdering::True,
            false => CollationNumericOrdering::False,
        });
        let mut options = CollatorOptions::default();
        options.strength = self.strength;
        options.alternate_handling = self.alternate;
        options.max_variable = self.max_variable;
        options.case_level = self.case_level.map(|is_on| if is_on { CaseLevel::On } else { CaseLevel::Off });
        let usual = locale::is_backwards(&locale);
        let ignores_accents = self.strength == Some(Strength::Primary);
        let backwards = self.backwards.unwrap_or(usual && !ignores_accents);
        let changed = (backwards != usual).then_some(backwards);
        let mut collator = Collator::new(preferences, options, changed)
            .map_err(|error| CollationError::BadValue(format!("no collation for the locale '{name}': {error}")))?;
        let definition = self.definition(name, &collator, backwards);
        collator.set_definition(definition);
        Ok(collator)
    }

    /// Whether no level that is compared has case.
    fn ignores_case(&self) -> bool {
        self.case_level != Some(true) && self.strength.is_some_and(|strength| strength < Strength::Tertiary)
    }

    /// What makes no sense together.
    fn check_together(&self) -> Result<()> {
        if self.backwards == Some(true) && self.strength == Some(Strength::Primary) {
            let message = "'backwards' is invalid with 'strength' of 1";
            return Err(CollationError::BadValue(message.to_owned()));
        }
        let is_case_ordered = matches!(self.case_first, Some(CollationCaseFirst::Upper | CollationCaseFirst::Lower));
        if is_case_ordered && self.ignores_case() {
            let message = "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2";
            return Err(CollationError::BadValue(message.to_owned()));
        }
        Ok(())
    }

    /// All fields, with what the locale has where nothing was given.
    fn definition(&self, name: &str, collator: &Collator, backwards: bool) -> RawDocumentBuf {
        let resolved = collator.with_engine(|engine| engine.resolved_options());
        let strength = match resolved.strength {
            Strength::Primary => 1,
            Strength::Secondary => 2,
            Strength::Quaternary => 4,
            Strength::Identical => 5,
            _ => 3,
        };
        let case_first = match resolved.case_first {
            CollationCaseFirst::Upper => "upper",
            CollationCaseFirst::Lower => "lower",
            _ => "off",
        };
        let is_shifted = resolved.alternate_handling == AlternateHandling::Shifted;
        let is_space = resolved.max_variable == MaxVariable::Space;
        let mut definition = RawDocumentBuf::new();
        definition.append(cstr!("locale"), name);
        definition.append(cstr!("caseLevel"), resolved.case_level == CaseLevel::On);
        definition.append(cstr!("caseFirst"), case_first);
        definition.append(cstr!("strength"), strength);
        definition.append(cstr!("numericOrdering"), resolved.numeric == CollationNumericOrdering::True);
        definition.append(cstr!("alternate"), if is_shifted { "shifted" } else { "non-ignorable" });
        definition.append(cstr!("maxVariable"), if is_space { "space" } else { "punct" });
        definition.append(cstr!("normalization"), self.normalization.unwrap_or(false));
        definition.append(cstr!("backwards"), backwards);
        definition.append(cstr!("version"), DATA_VERSION);
        definition
    }
}

fn wrong_type(name: &str, value: RawBsonRef<'_>, expected: &str) -> CollationError {
    CollationError::TypeMismatch(format!(
        "BSON field 'collation.{name}' is the wrong type '{}', expected type '{expected}'",
        type_name(value.element_type())
    ))
}

fn text<'a>(name: &str, value: RawBsonRef<'a>) -> Result<&'a str> {
    value.as_str().ok_or_else(|| wrong_type(name, value, "string"))
}

fn flag(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong_type(name, value, "bool"))
}

fn invalid(name: &str, value: &str) -> CollationError {
    CollationError::BadValue(format!("Enumeration value '{value}' for field 'collation.{name}' is not a valid value."))
}

fn choice<T: Copy>(name: &str, value: RawBsonRef<'_>, known: &[(&str, T)]) -> Result<T> {
    let given = text(name, value)?;
    known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or_else(|| invalid(name, given))
}

fn strength(value: RawBsonRef<'_>) -> Result<Strength> {
    let number = Number::from_bson(value).ok_or_else(|| wrong_type("strength", value, "int"))?;
    match number.to_i64_exact() {
        Some(1) => Ok(Strength::Primary),
        Some(2) => Ok(Strength::Secondary),
        Some(3) => Ok(Strength::Tertiary),
        Some(4) => Ok(Strength::Quaternary),
        Some(5) => Ok(Strength::Identical),
        _ => Err(CollationError::BadValue(format!(
            "Enumeration value '{}' for field 'collation.strength' is not a valid value.",
            number.to_f64()
        ))),
    }
}

/// Another version of the data orders text in another way.
fn check_version(version: &str) -> Result<()> {
    if [DATA_VERSION, MONGODB_VERSION].contains(&version) {
        return Ok(());
    }
    Err(CollationError::IncompatibleVersion(format!(
        "Requested collation version '{version}', but the only available version is '{DATA_VERSION}'"
    )))
}

#[cfg(test)]
mod tests;
