//! Key patterns such as `{a: 1, "b.c": -1}`, with the checks of `createIndexes`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use document::collation::Collator;
use document::{DEPTH_MAX, Element, FieldPath, Number, elements, type_name};

use text_search::TextDefinition;

use crate::error::KeyError;
use crate::places::PlaceCells;
use crate::text;
use crate::wildcard::WildcardPaths;

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

/// What of a field's values is in the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// The values, in their order.
    Ordered,
    /// Their hashes (`document::index_hash`), which serve equality alone. No arrays.
    Hashed,
    /// Of a 2dsphere index: the cells of the sphere that cover them.
    Sphere,
    /// Of a 2d index: the cells of its grid that they are in.
    Plane,
    /// Of a wildcard index, before the values: their paths.
    Path,
    /// Of a wildcard index: the values at all of its paths.
    Wildcard,
    /// Of a text index: a term of the document.
    Term,
    /// Of a text index, behind the term: its score.
    Score,
}

/// One field of a key pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyField {
    /// Which values are indexed.
    pub path: FieldPath,
    /// In which order.
    pub direction: Direction,
    /// What of them.
    pub kind: FieldKind,
}

/// A parsed and checked key pattern.
#[derive(Debug, Clone)]
pub struct KeyPattern {
    fields: Box<[KeyField]>,
    document: RawDocumentBuf,
    collator: Option<Arc<Collator>>,
    wildcard: Option<Arc<WildcardPaths>>,
    places: Option<PlaceCells>,
    text: Option<Arc<TextDefinition>>,
}

/// The name of the field before the values of a wildcard index.
const PATH_FIELD: &str = "$_path";

/// The most fields a compound index may have.
const FIELDS_MAX: usize = 32;

impl FieldKind {
    /// Whether it has places instead of values.
    pub fn is_place(self) -> bool {
        matches!(self, FieldKind::Sphere | FieldKind::Plane)
    }
}

impl KeyPattern {
    /// Parses and checks a key pattern, with MongoDB's messages.
    pub fn parse(document: &RawDocument) -> Result<Self, KeyError> {
        if elements(document).count() > FIELDS_MAX {
            return Err(KeyError::TooManyFields);
        }
        if text::is_text(document) {
            let (fields, definition) = text::parse(document)?;
            let text = Some(Arc::new(definition));
            return Ok(Self {
                fields,
                document: document.to_owned(),
                collator: None,
                wildcard: None,
                places: None,
                text,
            });
        }
        if elements(document).any(|element| is_wildcard(element.name())) {
            return KeyPattern::parse_wildcard(document);
        }
        let fields = elements(document).map(parse_field).collect::<Result<Box<[_]>, _>>()?;
        if fields.is_empty() {
            return Err(KeyError::CannotCreateIndex("Index keys cannot be empty.".to_owned()));
        }
        let hashed = fields.iter().filter(|field| field.kind == FieldKind::Hashed).count();
        if hashed > 1 {
            return Err(KeyError::TooManyHashed { count: hashed });
        }
        let places = check_places(&fields)?.then(PlaceCells::default);
        Ok(Self { fields, document: document.to_owned(), collator: None, wildcard: None, places, text: None })
    }

    fn parse_wildcard(document: &RawDocument) -> Result<Self, KeyError> {
        let refuse = |message: &str| Err(KeyError::CannotCreateIndex(message.to_owned()));
        let (mut fields, mut paths) = (Vec::new(), None);
        for element in elements(document) {
            if !is_wildcard(element.name()) {
                fields.push(parse_field(element)?);
                continue;
            }
            if paths.is_some() {
                return refuse("wildcard indexes do not allow more than one wildcard field");
            }
            if element.value().as_str() == Some("hashed") {
                return refuse("A hashed index cannot be a wildcard index: '$**' has no single value");
            }
            let direction = parse_direction(element)?;
            let root = element.name().strip_suffix(".$**");
            if let Some(root) = root {
                check_path(&FieldPath::new(root))?;
            }
            fields.extend(wildcard_fields(element.name(), direction));
            paths = Some(WildcardPaths::below(root));
        }
        if fields.iter().any(|field| field.kind == FieldKind::Hashed || field.kind.is_place()) {
            return refuse("a wildcard index can only have ascending and descending fields beside the wildcard");
        }
        let (fields, wildcard) = (fields.into(), paths.map(Arc::new));
        Ok(Self { fields, document: document.to_owned(), collator: None, wildcard, places: None, text: None })
    }

    /// Of a wildcard index, with a projection: another choice of paths.
    #[must_use]
    pub fn with_paths(mut self, paths: WildcardPaths) -> Self {
        self.wildcard = Some(Arc::new(paths));
        self
    }

    /// The paths in a wildcard index; `None` for others.
    #[inline]
    pub fn wildcard(&self) -> Option<&WildcardPaths> {
        self.wildcard.as_deref()
    }

    /// Of a 2dsphere or 2d index: other cells.
    #[must_use]
    pub fn with_places(mut self, places: PlaceCells) -> Self {
        self.places = Some(places);
        self
    }

    /// The cells of a 2dsphere or 2d index; `None` for others.
    #[inline]
    pub fn places(&self) -> Option<&PlaceCells> {
        self.places.as_ref()
    }

    /// Whether one of its fields is of this kind.
    pub fn has_kind(&self, kind: FieldKind) -> bool {
        self.fields.iter().any(|field| field.kind == kind)
    }

    /// Of a text index, with all its options: as the catalog has it.
    #[must_use]
    pub fn with_text(mut self, definition: TextDefinition) -> Self {
        self.text = Some(Arc::new(definition));
        self.document = text::canonical(&self);
        self
    }

    /// What a text index is of; `None` for others.
    #[inline]
    pub fn text(&self) -> Option<&Arc<TextDefinition>> {
        self.text.as_ref()
    }

    /// Of a wildcard index: which field has the values at its paths. The one before it has the paths.
    pub fn wildcard_position(&self) -> Option<usize> {
        self.fields.iter().position(|field| field.kind == FieldKind::Wildcard)
    }

    /// Of a wildcard index: what its keys are for who looks at one path, or at none.
    pub fn at_path(&self, path: Option<&FieldPath>) -> Self {
        let mut fields = self.fields.clone();
        if let (Some(path), Some(value)) = (path, self.wildcard_position().and_then(|place| fields.get_mut(place))) {
            *value = KeyField { path: path.clone(), direction: value.direction, kind: FieldKind::Ordered };
        }
        let mut document = RawDocumentBuf::new();
        for field in &fields {
            if let Ok(name) = <&bson::raw::CStr>::try_from(field.path.as_str()) {
                document.append(name, if field.direction == Direction::Ascending { 1 } else { -1 });
            }
        }
        Self { fields, document, collator: None, wildcard: None, places: None, text: None }
    }

    /// The pattern `{_id: 1}`.
    pub fn id() -> Self {
        let fields = Box::new([KeyField {
            path: FieldPath::new("_id"),
            direction: Direction::Ascending,
            kind: FieldKind::Ordered,
        }]);
        let document = bson::rawdoc! { "_id": 1 };
        Self { fields, document, collator: None, wildcard: None, places: None, text: None }
    }

    /// The same with text in the order of a collation.
    #[must_use]
    pub fn with_collator(self, collator: Option<Arc<Collator>>) -> Self {
        Self { collator, ..self }
    }

    /// What orders its text, if that is not its bytes.
    #[inline]
    pub fn collator(&self) -> Option<&Collator> {
        self.collator.as_deref()
    }

    /// The same, to be kept.
    pub fn shared_collator(&self) -> Option<&Arc<Collator>> {
        self.collator.as_ref()
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

    /// Whether a field is hashed.
    pub fn is_hashed(&self) -> bool {
        self.fields.iter().any(|field| field.kind == FieldKind::Hashed)
    }

    /// The name an index gets when none is given, such as `a_1_b.c_-1`.
    pub fn default_name(&self) -> String {
        let parts = elements(&self.document).map(|element| {
            let value = match Number::from_view(element.view()) {
                Some(Number::Double(value)) if value.trunc() == value => format!("{value:.0}"),
                Some(Number::Double(value)) => value.to_string(),
                Some(Number::Decimal128(value)) => value.to_string(),
                Some(number) => number.integer().unwrap_or_default().to_string(),
                None => element.value().as_str().unwrap_or_default().to_owned(),
            };
            format!("{}_{value}", element.name())
        });
        parts.collect::<Vec<_>>().join("_")
    }
}

/// Patterns are equal when fields and directions are, whatever the type of the number, and whatever the collation: a
/// hint names fields. Of text indexes the fields do not tell what they are of, but for what `listIndexes` shows.
impl PartialEq for KeyPattern {
    fn eq(&self, other: &Self) -> bool {
        let may_differ = self.text.is_some() && self.document.as_bytes() != other.document.as_bytes();
        self.fields == other.fields && !may_differ
    }
}

impl Eq for KeyPattern {}

fn is_wildcard(name: &str) -> bool {
    name == "$**" || name.ends_with(".$**")
}

fn wildcard_fields(path: &str, direction: Direction) -> [KeyField; 2] {
    let before = KeyField { path: FieldPath::new(PATH_FIELD), direction: Direction::Ascending, kind: FieldKind::Path };
    [before, KeyField { path: FieldPath::new(path), direction, kind: FieldKind::Wildcard }]
}

pub(crate) fn parse_field(element: Element<'_>) -> Result<KeyField, KeyError> {
    let levels = element.name().bytes().filter(|byte| *byte == b'.').count() + 1;
    if levels > DEPTH_MAX {
        let message =
            format!("Index key paths have {DEPTH_MAX} parts at most, as documents have levels; one has {levels}.");
        return Err(KeyError::CannotCreateIndex(message));
    }
    let path = FieldPath::new(element.name());
    check_path(&path)?;
    let kind = match element.value().as_str() {
        Some("hashed") => Some(FieldKind::Hashed),
        Some("2dsphere") => Some(FieldKind::Sphere),
        Some("2d") => Some(FieldKind::Plane),
        _ => None,
    };
    if let Some(kind) = kind {
        return Ok(KeyField { path, direction: Direction::Ascending, kind });
    }
    let direction = parse_direction(element)?;
    Ok(KeyField { path, direction, kind: FieldKind::Ordered })
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
        "geoHaystack" | "2dsphere_bucket" | "columnstore" => {
            KeyError::NotImplemented(format!("index type '{plugin}' is not implemented"))
        }
        _ => KeyError::CannotCreateIndex(format!("Unknown index plugin '{plugin}'")),
    }
}

/// Whether there are fields with places, which stand beside no other kind than values.
fn check_places(fields: &[KeyField]) -> Result<bool, KeyError> {
    let count = |kind| fields.iter().filter(|field| field.kind == kind).count();
    let (spheres, planes, hashed) = (count(FieldKind::Sphere), count(FieldKind::Plane), count(FieldKind::Hashed));
    let kinds = usize::from(spheres > 0) + usize::from(planes > 0) + usize::from(hashed > 0);
    let refused = |code, reason: &str| Err(KeyError::BadPlane { code, reason: reason.to_owned() });
    match fields.first() {
        _ if kinds > 1 => {
            Err(KeyError::CannotCreateIndex("Can't use more than one index plugin for a single index.".to_owned()))
        }
        _ if planes > 1 => refused(13022, "can't have 2 geo fields"),
        Some(first) if planes == 1 && first.kind != FieldKind::Plane => refused(13023, "2d has to be first in index"),
        _ => Ok(spheres + planes > 0),
    }
}

fn check_path(path: &FieldPath) -> Result<(), KeyError> {
    let refuse = |message: &str| Err(KeyError::CannotCreateIndex(message.to_owned()));
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
