//! A collation made ready: it compares text and makes sort keys, by ICU4X and the data that is compiled into it.

use std::cmp::Ordering;
use std::fmt;

use bson::{RawDocument, RawDocumentBuf};
use icu_collator::options::CollatorOptions;
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_provider::DataError;

use super::backwards::collator_with_direction;

/// Version of the data that orders text. Sort keys of another version are not comparable with ours, so the definition
/// of an index keeps it.
pub const DATA_VERSION: &str = "icu4x-2.4.0";

/// Compares text as one collation says.
pub struct Collator {
    engine: Engine,
    definition: RawDocumentBuf,
}

enum Engine {
    /// As the locale has it.
    Static(CollatorBorrowed<'static>),
    /// With the secondary level in the other direction.
    Changed(Box<icu_collator::Collator>),
}

impl Collator {
    /// Made by `specification`, which knows `definition`: what clients are shown.
    pub(super) fn new(
        preferences: CollatorPreferences,
        options: CollatorOptions,
        backwards: Option<bool>,
    ) -> Result<Collator, DataError> {
        let engine = match backwards {
            None => Engine::Static(CollatorBorrowed::try_new(preferences, options)?),
            Some(backwards) => Engine::Changed(Box::new(collator_with_direction(preferences, options, backwards)?)),
        };
        Ok(Collator { engine, definition: RawDocumentBuf::new() })
    }

    pub(super) fn set_definition(&mut self, definition: RawDocumentBuf) {
        self.definition = definition;
    }

    /// All options with their values, as `listIndexes` and `explain` show them.
    pub fn definition(&self) -> &RawDocument {
        &self.definition
    }

    /// Compares text.
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.with_engine(|engine| engine.compare_utf8(left, right))
    }

    /// Appends the bytes whose order is the order of text.
    pub fn append_sort_key(&self, text: &[u8], out: &mut Vec<u8>) {
        let Ok(()) = self.with_engine(|engine| engine.write_sort_key_utf8_to(text, out));
    }

    pub(super) fn with_engine<R>(&self, work: impl FnOnce(&CollatorBorrowed<'_>) -> R) -> R {
        match &self.engine {
            Engine::Static(engine) => work(engine),
            Engine::Changed(engine) => work(&engine.as_borrowed()),
        }
    }
}

impl PartialEq for Collator {
    fn eq(&self, other: &Self) -> bool {
        self.definition.as_bytes() == other.definition.as_bytes()
    }
}

impl Eq for Collator {}

impl fmt::Debug for Collator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Collator").field(&self.definition).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::DATA_VERSION;

    /// With other data, keys that are stored are in another order: then `DATA_VERSION` must change, so that indexes are
    /// rebuilt.
    #[test]
    fn the_version_is_that_of_the_data_in_the_program() {
        let lock = include_str!("../../../../Cargo.lock");
        let (_, data) = lock.split_once("name = \"icu_collator_data\"\nversion = \"").unwrap();
        let version = data.split('"').next().unwrap();
        assert_eq!(DATA_VERSION, format!("icu4x-{version}"));
    }
}
