//! `$text`: documents that have words of a search, by the text index of their collection.
//!
//! Which fields have words, and in which language, says the index: the planner *binds* the condition to it. What is
//! asked of a document is then decided on the document alone, so a writer can decide again. Source: the manual's page
//! on `$text`.

use std::sync::{Arc, PoisonError, RwLock};

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use text_search::{Language, Sensitivity, TextDefinition, TextError, TextQuery};

use super::evaluate::Outcome;
use super::parse::{Parser, bad_value};
use super::{FilterNode, Texts};
use crate::error::{ErrorKind, QueryError, Result};

/// A search as it was sent.
#[derive(Debug, Clone)]
pub struct TextFilter {
    search: Arc<str>,
    /// None: that of the index.
    language: Option<Arc<str>>,
    sensitivity: Sensitivity,
    /// Shared by all copies of the filter.
    bound: Arc<RwLock<Option<Arc<BoundText>>>>,
}

/// A search, and the texts that it is about.
#[derive(Debug)]
pub struct BoundText {
    /// What the index is of.
    pub definition: Arc<TextDefinition>,
    /// What is asked for.
    pub query: TextQuery,
}

impl TextFilter {
    /// Says which texts are searched.
    ///
    /// # Errors
    /// `BadValue` for a language that is not known; the command is to stop.
    pub fn bind(&self, definition: &Arc<TextDefinition>) -> Result<Arc<BoundText>> {
        let language = match &self.language {
            None => definition.default_language(),
            Some(name) => {
                Language::named(name).ok_or_else(|| QueryError::from(TextError::UnknownLanguage(name.to_string())))?
            }
        };
        let query = TextQuery::parse(&self.search, language, self.sensitivity)?;
        let bound = Arc::new(BoundText { definition: definition.clone(), query });
        *self.bound.write().unwrap_or_else(PoisonError::into_inner) = Some(bound.clone());
        Ok(bound)
    }

    pub(crate) fn accepts(&self, document: &[u8]) -> Outcome {
        let bound = self.bound.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(bound) = bound else { return Err(Box::new(no_index())) };
        let document = RawDocument::from_bytes(document).map_err(|error| Box::new(QueryError::from(error)))?;
        bound.query.matches(&bound.definition, document).map_err(|error| Box::new(QueryError::from(error)))
    }

    /// As the client could have written it.
    pub(crate) fn operand(&self) -> RawDocumentBuf {
        let mut operand = RawDocumentBuf::new();
        operand.append(cstr!("$search"), &*self.search);
        operand.append(cstr!("$language"), self.language.as_deref().unwrap_or_default());
        operand.append(cstr!("$caseSensitive"), self.sensitivity.case);
        operand.append(cstr!("$diacriticSensitive"), self.sensitivity.diacritics);
        operand
    }
}

/// There is nothing that says what the texts are.
pub fn no_index() -> QueryError {
    QueryError::new(ErrorKind::IndexNotFound, "text index required for $text query")
}

/// What is said where there is no document to evaluate against.
pub(crate) fn not_allowed() -> QueryError {
    QueryError::new(ErrorKind::BadValue, "$text is not allowed in this context")
}

/// `{$text: {$search: text, ...}}`.
pub(crate) fn parse(parser: &Parser<'_>, value: RawBsonRef<'_>) -> Result<FilterNode> {
    if parser.options.texts == Texts::Refused {
        return Err(not_allowed());
    }
    let RawBsonRef::Document(operand) = value else { return bad_value("$text expects an object") };
    let mut search = None;
    let mut language = None;
    let mut sensitivity = Sensitivity::default();
    for element in operand {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("$search", RawBsonRef::String(text)) => search = Some(text),
            ("$language", RawBsonRef::String("")) => {}
            ("$language", RawBsonRef::String(name)) => language = Some(known_language(name)?),
            ("$caseSensitive", RawBsonRef::Boolean(is_sensitive)) => sensitivity.case = is_sensitive,
            ("$diacriticSensitive", RawBsonRef::Boolean(is_sensitive)) => sensitivity.diacritics = is_sensitive,
            (name @ ("$search" | "$language"), other) => return wrong_type(name, other, "string"),
            (name @ ("$caseSensitive" | "$diacriticSensitive"), other) => return wrong_type(name, other, "boolean"),
            _ => return bad_value("extra fields in $text"),
        }
    }
    let Some(search) = search else {
        return Err(QueryError::new(ErrorKind::NoSuchKey, "Missing expected field \"$search\""));
    };
    let bound = Arc::default();
    Ok(FilterNode::Text(TextFilter { search: search.into(), language, sensitivity, bound }))
}

fn known_language(name: &str) -> Result<Arc<str>> {
    match Language::named(name) {
        Some(_) => Ok(name.into()),
        None => Err(TextError::UnknownLanguage(name.to_owned()).into()),
    }
}

fn wrong_type<T>(name: &str, found: RawBsonRef<'_>, expected: &str) -> Result<T> {
    let found = crate::expression::value::type_name(found.element_type());
    let message = format!("\"{name}\" had the wrong type. Expected {expected}, found {found}");
    Err(QueryError::new(ErrorKind::TypeMismatch, message))
}

/// Refuses a search where it could not be answered by an index, and a second one.
pub(crate) fn check_places(root: &FilterNode) -> Result<()> {
    let mut count = 0;
    check_node(root, &mut count, Place::Asserted)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Asserted,
    Negated,
}

fn check_node(node: &FilterNode, count: &mut usize, place: Place) -> Result<()> {
    document::work::step()?;
    match node {
        FilterNode::Text(_) if place == Place::Negated => bad_value("text expression not allowed in nor"),
        FilterNode::Text(_) => {
            *count += 1;
            if *count > 1 { bad_value("Too many text expressions") } else { Ok(()) }
        }
        FilterNode::Nor(children) => children.iter().try_for_each(|child| check_node(child, count, Place::Negated)),
        FilterNode::Not(child) => check_node(child, count, Place::Negated),
        other => other.children().iter().try_for_each(|child| check_node(child, count, place)),
    }
}

impl From<TextError> for QueryError {
    fn from(error: TextError) -> QueryError {
        let message = error.to_string();
        let kind = match error {
            TextError::Interrupted(interruption) => return interruption.into(),
            TextError::UnknownOverride(_) => ErrorKind::Location(17262),
            TextError::OverrideNoText => ErrorKind::Location(17261),
            TextError::NoMemory { .. } => ErrorKind::ExceededMemoryLimit,
            TextError::Definition(_) | TextError::UnknownLanguage(_) => ErrorKind::BadValue,
        };
        QueryError::new(kind, message)
    }
}
