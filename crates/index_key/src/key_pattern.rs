//! Key patterns such as `{a: 1, "b.c": -1}`, with the checks of `createIndexes`.

use bson::{RawDocument, RawDocumentBuf};
use document::{DEPTH_MAX, Element, FieldPath, Number, elements, type_name};

use crate::error::KeyError;

/// The order of one field in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    /// The other direction.
    pub fn reversed(self) -> Self {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }
}

/// One field of a key pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyField {
    /// Which values are indexed.
    pub path: FieldPath,
    /// In which order.
    pub direction: Direction,
}

/// A parsed and checked key pattern.
#[derive(Debug, Clone)]
pub struct KeyPattern {
    fields: Box<[KeyField]>,
    document: RawDocumentBuf,
}

/// The most fields a compound index may have.
const FIELDS_MAX: usize = 32;

impl KeyPattern {
    /// Parses and checks a key pattern, with MongoDB's messages.
    pub fn parse(document: &RawDocument) -> Result<Self, KeyError> {
        let fields = elements(document).take(FIELDS_MAX + 1).map(parse_field).collect::<Result<Box<[_]>, _>>()?;
        if fields.is_empty() {
            return Err(KeyError::CannotCreateIndex("Index keys cannot be empty.".to_owned()));
        }
        if fields.len() > FIELDS_MAX {
            return Err(KeyError::TooManyFields);
        }
        Ok(Self { fields, document: document.to_owned() })
    }

    /// The pattern `{_id: 1}`.
    pub fn id() -> Self {
        let fields = Box::new([KeyField { path: FieldPath::new("_id"), direction: Direction::Ascending }]);
        Self { fields, document: bson::rawdoc! { "_id": 1 } }
    }

    /// The fields, in order; at least one.
    #[inline]
    pub fn fields(&self) -> &[KeyField] {
        &self.fields
    }

    /// The pattern as it was given, for listIndexes and messages.
    pub fn document(&self) -> &RawDocument {
        &self.document
    }

    /// True for `{_id: 1}` and `{_id: -1}`, which only the `_id` index may have.
    pub fn is_id(&self) -> bool {
        let value = elements(&self.document).next().and_then(|element| Number::from_view(element.view()));
        let is_unit = value.and_then(Number::to_i64_exact).is_some_and(|value| value.abs() == 1);
        matches!(&*self.fields, [field] if field.path.as_str() == "_id") && is_unit
    }

    /// The name an index gets when none is given, such as `a_1_b.c_-1`.
    pub fn default_name(&self) -> String {
        let parts = elements(&self.document).map(|element| {
            let value = match Number::from_view(element.view()) {
                Some(Number::Double(value)) if value.trunc() == value => format!("{value:.0}"),
                Some(Number::Double(value)) => value.to_string(),
                Some(Number::Decimal128(value)) => value.to_string(),
                Some(number) => number.integer().unwrap_or_default().to_string(),
                None => String::new(),
            };
            format!("{}_{value}", element.name())
        });
        parts.collect::<Vec<_>>().join("_")
    }
}

/// Patterns are equal when fields and directions are, whatever the type of the number.
impl PartialEq for KeyPattern {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Eq for KeyPattern {}

fn parse_field(element: Element<'_>) -> Result<KeyField, KeyError> {
    let levels = element.name().bytes().filter(|byte| *byte == b'.').count() + 1;
    if levels > DEPTH_MAX {
        let message =
            format!("Index key paths have {DEPTH_MAX} parts at most, as documents have levels; one has {levels}.");
        return Err(KeyError::CannotCreateIndex(message));
    }
    let path = FieldPath::new(element.name());
    let direction = parse_direction(element)?;
    check_path(&path)?;
    Ok(KeyField { path, direction })
}

fn parse_direction(element: Element<'_>) -> Result<Direction, KeyError> {
    let refuse = |message: String| Err(KeyError::CannotCreateIndex(message));
    let Some(number) = Number::from_view(element.view()) else {
        return match element.value().as_str() {
            Some(plugin) => Err(refuse_plugin(plugin)),
            None => refuse(format!(
                "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are \
                 allowed.",
                type_name(element.element_type)
            )),
        };
    };
    match number.sign() {
        1 => Ok(Direction::Ascending),
        -1 => Ok(Direction::Descending),
        _ if number.is_nan() => refuse("Values in the index key pattern cannot be NaN.".to_owned()),
        _ => refuse("Values in the index key pattern cannot be 0.".to_owned()),
    }
}

/// Kinds of index that MongoDB has are refused by name, others as unknown.
fn refuse_plugin(plugin: &str) -> KeyError {
    match plugin {
        "text" | "2d" | "2dsphere" | "hashed" | "geoHaystack" | "2dsphere_bucket" | "columnstore" => {
            KeyError::NotImplemented(format!("index type '{plugin}' is not implemented"))
        }
        _ => KeyError::CannotCreateIndex(format!("Unknown index plugin '{plugin}'")),
    }
}

fn check_path(path: &FieldPath) -> Result<(), KeyError> {
    let refuse = |message: &str| Err(KeyError::CannotCreateIndex(message.to_owned()));
    if path.as_str() == "$**" || path.as_str().ends_with(".$**") {
        return Err(KeyError::NotImplemented("wildcard indexes ('$**') are not implemented".to_owned()));
    }
    if path.as_str().is_empty() {
        return refuse("Index keys cannot be an empty field.");
    }
    if path.has_empty_component() {
        return refuse("Index keys cannot contain an empty field.");
    }
    // The fields of a DBRef are the only ones with a dollar that may be indexed.
    let is_reference_field = |(index, name): (usize, &str)| index > 0 && matches!(name, "$id" | "$ref" | "$db");
    if path.names().enumerate().any(|(index, name)| name.starts_with('$') && !is_reference_field((index, name))) {
        return refuse("Index key contains an illegal field name: field name starts with '$'.");
    }
    Ok(())
}
