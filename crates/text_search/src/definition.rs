//! What a text index is of: its fields with their weights, and what language texts are in.

use bson::raw::cstr;
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Element, Number, ValueView, elements, elements_of_bytes, work};

use crate::error::{Result, TextError};
use crate::language::Language;

/// The one version of text indexes that there is here.
pub const VERSION: i32 = 3;

/// The name that stands for all fields.
const ALL_FIELDS: &str = "$**";
const WEIGHT_MAX: i64 = 99_999;

/// The texts of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct TextDefinition {
    /// By path, sorted; `$**` is all others.
    weights: Vec<(Box<str>, i32)>,
    default_language: Language,
    /// As it was given: a name or a code.
    default_language_name: Box<str>,
    language_override: Box<str>,
}

/// What is done with a text, its language and its weight; whether to go on.
type Visitor<'v> = dyn FnMut(&str, Language, f64) -> Result<bool> + 'v;

impl TextDefinition {
    /// Of fields named in the index's key, each with weight 1 and texts in English.
    ///
    /// # Errors
    /// `Definition` for a path that cannot be.
    pub fn of_fields<'f>(fields: impl IntoIterator<Item = &'f str>) -> Result<TextDefinition> {
        let mut definition = TextDefinition {
            weights: Vec::new(),
            default_language: Language::English,
            default_language_name: "english".into(),
            language_override: "language".into(),
        };
        for field in fields {
            definition.set_weight(field, 1)?;
        }
        Ok(definition)
    }

    fn set_weight(&mut self, path: &str, weight: i32) -> Result<()> {
        if path != ALL_FIELDS {
            if path.is_empty() || path.split('.').any(str::is_empty) {
                return refused("text index fields and weights cannot have empty names in their paths");
            }
            if path.split('.').any(|name| name.starts_with('$')) {
                return refused(format!("weight cannot have a path with a name that begins with '$': {path}"));
            }
        }
        match self.weights.binary_search_by(|(known, _)| (**known).cmp(path)) {
            Ok(place) => {
                if let Some((_, known)) = self.weights.get_mut(place) {
                    *known = weight;
                }
            }
            Err(place) => self.weights.insert(place, (path.into(), weight)),
        }
        Ok(())
    }

    /// With the option `weights`, which may name more fields.
    ///
    /// # Errors
    /// `Definition`.
    pub fn with_weights(mut self, weights: RawBsonRef<'_>) -> Result<TextDefinition> {
        match weights {
            RawBsonRef::String(ALL_FIELDS) => self.set_weight(ALL_FIELDS, 1)?,
            RawBsonRef::Document(weights) => {
                for element in elements(weights) {
                    let weight = Number::from_view(element.view()).and_then(Number::to_i64_exact);
                    match weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight)) {
                        Some(weight) => self.set_weight(element.name(), weight as i32)?,
                        None => {
                            let (limit, found) = (WEIGHT_MAX + 1, shown(element));
                            let message = "text index weight must be in the exclusive interval";
                            return refused(format!("{message} (0,{limit}) but found: {found}"));
                        }
                    }
                }
            }
            _ => return refused("text index option 'weights' must be an object"),
        }
        Ok(self)
    }

    /// With the option `default_language`.
    ///
    /// # Errors
    /// `Definition`.
    pub fn with_default_language(self, language: RawBsonRef<'_>) -> Result<TextDefinition> {
        let RawBsonRef::String(name) = language else {
            return refused("default_language needs a string type");
        };
        let Some(default_language) = Language::named(name) else {
            return refused(format!("default_language is not valid: \"{name}\" is no language of text indexes"));
        };
        Ok(TextDefinition { default_language, default_language_name: name.into(), ..self })
    }

    /// With the option `language_override`.
    ///
    /// # Errors
    /// `Definition`.
    pub fn with_language_override(self, field: RawBsonRef<'_>) -> Result<TextDefinition> {
        match field {
            RawBsonRef::String(field) if !field.is_empty() && !field.starts_with('$') && !field.contains('.') => {
                Ok(TextDefinition { language_override: field.into(), ..self })
            }
            RawBsonRef::String(_) => refused("language_override is not valid: it must be the name of a field"),
            _ => refused("language_override must be a string"),
        }
    }

    /// Whether it is of any field.
    pub fn has_fields(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Whether it is of all fields.
    pub fn has_all_fields(&self) -> bool {
        self.weight(ALL_FIELDS).is_some()
    }

    /// The paths that it is of; none is told where it is of all.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.weights.iter().map(|(path, _)| &**path)
    }

    /// The field in which documents say what language they are in.
    pub fn language_override(&self) -> &str {
        &self.language_override
    }

    /// The language of texts that say none.
    pub fn default_language(&self) -> Language {
        self.default_language
    }

    /// Its options as `listIndexes` shows them.
    pub fn append_options(&self, out: &mut RawDocumentBuf) {
        let mut weights = RawDocumentBuf::new();
        for (path, weight) in &self.weights {
            if let Ok(name) = <&bson::raw::CStr>::try_from(&**path) {
                weights.append(name, *weight);
            }
        }
        out.append(cstr!("weights"), weights);
        out.append(cstr!("default_language"), &*self.default_language_name);
        out.append(cstr!("language_override"), &*self.language_override);
        out.append(cstr!("textIndexVersion"), VERSION);
    }

    fn weight(&self, path: &str) -> Option<i32> {
        let place = self.weights.binary_search_by(|(known, _)| (**known).cmp(path)).ok()?;
        self.weights.get(place).map(|(_, weight)| *weight)
    }

    /// Gives each text of a document to `visit`, until it says that it is enough.
    ///
    /// # Errors
    /// `UnknownOverride`, `OverrideNoText`, `Interrupted`, and those of `visit`.
    pub(crate) fn each_text(&self, document: &RawDocument, visit: &mut Visitor<'_>) -> Result<()> {
        let all_fields = self.weight(ALL_FIELDS);
        let mut walk = Walk { definition: self, all_fields, path: String::new(), visit };
        walk.document(document.as_bytes(), self.default_language).map(drop)
    }
}

struct Walk<'d, 'v> {
    definition: &'d TextDefinition,
    all_fields: Option<i32>,
    path: String,
    visit: &'d mut Visitor<'v>,
}

/// Paths that are compared in the time of a unit of work.
const PATHS_PER_UNIT: usize = 16;

impl Walk<'_, '_> {
    /// Whether to go on behind it.
    fn document(&mut self, stored: &[u8], outer: Language) -> Result<bool> {
        work::search(stored)?;
        let override_name = self.definition.language_override.as_bytes();
        let language = match elements_of_bytes(stored).find_named(override_name) {
            Some(element) => match element.view() {
                ValueView::String(name) => named_language(name)?,
                _ => return Err(TextError::OverrideNoText),
            },
            None => outer,
        };
        let length = self.path.len();
        for element in elements_of_bytes(stored) {
            work::done(1 + self.definition.weights.len() / PATHS_PER_UNIT)?;
            if self.all_fields.is_some() && element.name_bytes() == override_name {
                continue;
            }
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(element.name());
            let goes_on = self.value(element, language)?;
            self.path.truncate(length);
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is at the path; what is in an array is there, too.
    fn value(&mut self, element: Element<'_>, language: Language) -> Result<bool> {
        match element.element_type {
            ElementType::String => {
                let weight = self.definition.weight(&self.path).or(self.all_fields);
                match (element.value(), weight) {
                    (RawBsonRef::String(text), Some(weight)) => (self.visit)(text, language, f64::from(weight)),
                    _ => Ok(true),
                }
            }
            ElementType::EmbeddedDocument if self.leads() => self.document(element.value_bytes(), language),
            ElementType::Array => {
                for item in elements_of_bytes(element.value_bytes()) {
                    work::step()?;
                    if !self.value(item, language)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    /// Whether there are texts below the path.
    fn leads(&self) -> bool {
        let is_below = |path: &str| path.strip_prefix(self.path.as_str()).is_some_and(|rest| rest.starts_with('.'));
        self.all_fields.is_some() || self.definition.paths().any(is_below)
    }
}

fn named_language(name: &[u8]) -> Result<Language> {
    let name = String::from_utf8_lossy(name);
    Language::named(&name).ok_or_else(|| TextError::UnknownOverride(name.into_owned()))
}

fn refused<T>(message: impl Into<String>) -> Result<T> {
    Err(TextError::Definition(message.into()))
}

fn shown(element: Element<'_>) -> String {
    Number::from_view(element.view()).and_then(Number::to_i64_exact).map_or_else(
        || format!("a value of type {}", document::type_name(element.element_type)),
        |number| number.to_string(),
    )
}
