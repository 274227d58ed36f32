//! The options of text indexes: weights, languages, the version.
//!
//! Used by `index_specification` alone. What they say is checked and kept by `text_search`.

use bson::RawBsonRef;
use document::Number;
use index_key::KeyError;
use text_search::TextDefinition;

use super::IndexSpecification;
use crate::error::{CollectionError, Result};
use crate::options::wrong_type;

/// Their names.
pub(super) const NAMES: [&str; 4] = ["weights", "default_language", "language_override", "textIndexVersion"];

impl IndexSpecification {
    /// Takes one of them.
    pub(super) fn set_text_option(&mut self, option: &str, value: RawBsonRef<'_>) -> Result<()> {
        let Some(definition) = self.pattern.text() else {
            let message = format!("The field '{option}' is only allowed in a text index");
            return Err(CollectionError::CannotCreateIndex(message));
        };
        let definition = TextDefinition::clone(definition);
        let definition = match option {
            "weights" => definition.with_weights(value),
            "default_language" => definition.with_default_language(value),
            "language_override" => definition.with_language_override(value),
            _ => {
                check_text_version(value)?;
                return Ok(());
            }
        };
        self.pattern = self.pattern.clone().with_text(definition.map_err(KeyError::from)?);
        Ok(())
    }

    /// Of a text index: its key is shown without the names of its fields, which are among the weights.
    pub(super) fn choose_texts(&mut self) -> Result<()> {
        let Some(definition) = self.pattern.text() else { return Ok(()) };
        if !definition.has_fields() {
            let message = "a text index needs a field: 'weights' has none, and the key neither";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        let definition = TextDefinition::clone(definition);
        self.pattern = self.pattern.clone().with_text(definition);
        self.key = self.pattern.document().to_owned();
        Ok(())
    }
}

fn check_text_version(value: RawBsonRef<'_>) -> Result<()> {
    match Number::from_bson(value).and_then(|number| number.to_i64_exact()) {
        Some(version) if version == i64::from(text_search::VERSION) => Ok(()),
        Some(version @ 1..=2) => {
            Err(CollectionError::NotImplemented(format!("textIndexVersion {version} is not implemented: 3 is")))
        }
        Some(version) => Err(CollectionError::CannotCreateIndex(format!("bad textIndexVersion: {version}"))),
        None => Err(wrong_type("textIndexVersion", value, "number")),
    }
}
