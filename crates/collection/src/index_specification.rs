//! What an index is defined by: its name, key pattern and options; which of them are supported, and by name which not.
//!
//! Called by the `createIndexes` command (through `transaction`) and by the catalog when it loads or replays. The document
//! kept in the catalog, logged, and shown by `listIndexes` is the one `to_document` makes.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::Number;
use document::collation::Collator;
use index_key::{Direction, FieldKind, KeyError, KeyPattern, WildcardPaths};

use crate::error::{CollectionError, Result};
use crate::options::{parse_collation, wrong_type};
use crate::predicate::Predicate;

mod place_options;
mod text_options;

use place_options::PlaceOptions;

/// The name of the index on `_id` that every collection has.
pub const ID_INDEX_NAME: &str = "_id_";

/// Options that are true or false.
const FLAGS: [&str; 6] = ["unique", "prepareUnique", "sparse", "hidden", "background", "dropDups"];

/// Options that MongoDB knows and Plimsoll does not.
const NOT_IMPLEMENTED: [&str; 2] = ["storageEngine", "bucketSize"];

/// The definition of an index.
#[derive(Clone, Debug)]
pub struct IndexSpecification {
    /// Its name, unique in the collection.
    pub name: String,
    /// The key pattern as given, e.g. `{a: 1, b: -1}`.
    pub key: RawDocumentBuf,
    /// The parsed key pattern, with the collation of its text.
    pub pattern: KeyPattern,
    /// Whether something was said of its collation: otherwise it is that of the collection.
    has_own_collation: bool,
    /// At most one document per key.
    pub unique: bool,
    /// No document gets a key that another one has; there may be such from before.
    pub prepare_unique: bool,
    /// Documents that have none of the fields are not in the index.
    pub sparse: bool,
    /// The planner does not use it.
    pub hidden: bool,
    /// Whether it was asked to be built in the background, as every index is; `None` when nothing was said of it.
    pub background: Option<bool>,
    /// Only documents that match are in the index.
    pub partial_filter: Option<Predicate>,
    /// Documents whose date is older than this are deleted in the background.
    pub expire_after_seconds: Option<i64>,
    /// Of a wildcard index: which paths are in it.
    pub wildcard_projection: Option<RawDocumentBuf>,
    /// Of a 2dsphere or 2d index.
    places: PlaceOptions,
    /// It is the index on `_id` of a clustered collection.
    pub clustered: bool,
}

impl IndexSpecification {
    /// The index on `_id`.
    ///
    /// # Errors
    /// None that can happen: the pattern is a constant.
    pub fn id_index() -> Result<IndexSpecification> {
        IndexSpecification::parse(&bson::rawdoc! { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX_NAME })
    }

    /// Reads one element of `createIndexes.indexes`, or the document made by `to_document`.
    ///
    /// # Errors
    /// MongoDB's for bad specifications (`CannotCreateIndex`, `FailedToParse`, `TypeMismatch`, `BadValue`), `NotImplemented`
    /// naming an option or index type that MongoDB knows and Plimsoll does not, `InvalidIndexSpecificationOption` for unknown ones.
    pub fn parse(document: &RawDocument) -> Result<IndexSpecification> {
        let key = match document.get("key").map_err(CollectionError::damaged("index specification"))? {
            Some(RawBsonRef::Document(key)) => key.to_owned(),
            Some(other) => return Err(wrong_type("createIndexes.indexes.key", other, "object")),
            None => return Err(required("key")),
        };
        let mut specification = IndexSpecification {
            name: String::new(),
            pattern: KeyPattern::parse(&key)?,
            key,
            has_own_collation: false,
            unique: false,
            prepare_unique: false,
            sparse: false,
            hidden: false,
            background: None,
            partial_filter: None,
            expire_after_seconds: None,
            wildcard_projection: None,
            places: PlaceOptions::default(),
            clustered: false,
        };
        for element in document::elements(document) {
            specification.set(element.name(), element.value()).map_err(|error| in_specification(error, document))?;
        }
        specification.choose_paths()?;
        specification.pattern = specification.places.applied_to(specification.pattern.clone())?;
        specification.choose_texts()?;
        if let Some(collator) = specification.pattern.shared_collator().cloned() {
            // The filter may have come before it.
            specification = specification.with_collator(Some(collator))?;
        }
        specification.check(document).map_err(|error| in_specification(error, document))?;
        if specification.is_id_index() && !specification.clustered {
            // Whatever name it was asked for by.
            ID_INDEX_NAME.clone_into(&mut specification.name);
        }
        Ok(specification)
    }

    /// The same with its text in the order of a collation.
    ///
    /// # Errors
    /// `CannotCreateIndex`, `NotImplemented` for kinds of indexes that have none.
    pub fn with_collator(mut self, collator: Option<Arc<Collator>>) -> Result<IndexSpecification> {
        if collator.is_some() && self.pattern.is_hashed() {
            let message = "Hashed indexes support the simple collation alone: give it to the index";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if collator.is_some() && self.pattern.text().is_some() {
            let message = "Text indexes support the simple collation alone: give it to the index";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if collator.is_some() && self.pattern.wildcard().is_some() {
            let message = "wildcard indexes with a collation are not implemented: give the index the simple one";
            return Err(CollectionError::NotImplemented(message.to_owned()));
        }
        if collator.is_some() && self.pattern.has_kind(FieldKind::Plane) {
            let message = "Index type '2d' does not support collation: give the index the simple one";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if let Some(partial) = &self.partial_filter {
            self.partial_filter = Some(partial.with_collator(collator.clone())?);
        }
        self.pattern = self.pattern.with_collator(collator);
        Ok(self)
    }

    /// What a new index of a collection is: with the collection's collation, unless it was given one.
    ///
    /// # Errors
    /// `BadValue` for an index on `_id` with another collation than the collection's.
    pub fn of_collection(&self, default: Option<&Arc<Collator>>) -> Result<IndexSpecification> {
        if !self.has_own_collation {
            return self.clone().with_collator(default.cloned());
        }
        if self.is_id_index() && self.pattern.shared_collator() != default {
            let message = "The _id index must have the same collation as the collection";
            return Err(CollectionError::BadValue(message.to_owned()));
        }
        Ok(self.clone())
    }

    /// In the place of a stored definition that does not parse: what of it can be told. A key of a unique one must be refused, whatever it is.
    pub(crate) fn placeholder(stored: &RawDocument) -> Result<IndexSpecification> {
        let name = match document::get_field(stored, "name") {
            Some(RawBsonRef::String(name)) => name,
            _ => "unreadable",
        };
        let key = match document::get_field(stored, "key") {
            Some(RawBsonRef::Document(key)) if KeyPattern::parse(key).is_ok() => key.to_owned(),
            _ => bson::rawdoc! { "unreadable": 1 },
        };
        let unique = matches!(document::get_field(stored, "unique"), Some(RawBsonRef::Boolean(true)));
        IndexSpecification::parse(&bson::rawdoc! { "v": 2, "key": key, "name": name, "unique": unique })
    }

    /// As `parse`, of the options that are known: others are left out (`createIndexes.ignoreUnknownIndexOptions`).
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn parse_known(document: &RawDocument) -> Result<IndexSpecification> {
        let mut scratch = IndexSpecification::id_index()?;
        let mut known = Vec::with_capacity(document.as_bytes().len());
        known.extend_from_slice(&[0; 4]);
        for element in document::elements(document) {
            let set = scratch.set(element.name(), element.value());
            if !matches!(set, Err(CollectionError::InvalidIndexSpecificationOption(_))) {
                document::append_element_bytes(&mut known, element);
            }
        }
        known.push(0);
        let length = (known.len() as i32).to_le_bytes();
        known.splice(..4, length);
        let known = RawDocumentBuf::from_bytes(known).map_err(CollectionError::damaged("index specification"))?;
        IndexSpecification::parse(&known)
    }

    fn set(&mut self, option: &str, value: RawBsonRef<'_>) -> Result<()> {
        match option {
            "key" | "ns" => {}
            _ if is_null(value) && may_be_null(option) => {}
            "wildcardProjection" if is_null(value) => {}
            _ if PlaceOptions::NAMES.contains(&option) => self.places.set(option, value, &self.pattern)?,
            _ if text_options::NAMES.contains(&option) => self.set_text_option(option, value)?,
            "name" => self.name = parse_name(value)?,
            "v" => check_version(value)?,
            "unique" => self.unique = parse_flag(option, value)?,
            "prepareUnique" => self.prepare_unique = parse_flag(option, value)?,
            "sparse" => self.sparse = parse_flag(option, value)?,
            "hidden" => self.hidden = parse_flag(option, value)?,
            // Every build lets other operations go on, as MongoDB's have since 4.2, where this option has no effect, and is kept.
            "background" => self.background = Some(parse_flag(option, value)?),
            // Removed from MongoDB in 3.0, which ignores it.
            "dropDups" => drop(parse_flag(option, value)?),
            "expireAfterSeconds" => self.expire_after_seconds = Some(parse_expiry(value)?),
            "partialFilterExpression" => match value {
                RawBsonRef::Document(filter) => self.partial_filter = Some(Predicate::parse_partial(filter, None)?),
                _ => return Err(wrong_type("partialFilterExpression", value, "object")),
            },
            "wildcardProjection" => match value {
                RawBsonRef::Document(projection) => self.wildcard_projection = Some(projection.to_owned()),
                _ => return Err(wrong_type(option, value, "object")),
            },
            "collation" => {
                let collator = parse_collation(option, value)?;
                (self.pattern, self.has_own_collation) = (self.pattern.clone().with_collator(collator), true);
            }
            "storageEngine" if matches!(value, RawBsonRef::Document(given) if given.is_empty()) => {}
            "clustered" if is_null(value) => {}
            "clustered" => self.clustered = parse_flag(option, value)?,
            _ if NOT_IMPLEMENTED.contains(&option) => {
                return Err(CollectionError::NotImplemented(format!("index option '{option}' is not implemented")));
            }
            _ => {
                let message = format!("The field '{option}' is not valid for an index specification");
                return Err(CollectionError::InvalidIndexSpecificationOption(message));
            }
        }
        Ok(())
    }

    /// Of a wildcard index: by its projection. What has a field of its own in a compound one is not below the wildcard.
    fn choose_paths(&mut self) -> Result<()> {
        self.apply_projection()?;
        let Some(paths) = self.pattern.wildcard() else { return Ok(()) };
        let mut others = self.pattern.fields().iter().filter(|field| field.kind == FieldKind::Ordered);
        match others.find(|field| paths.leads(field.path.as_str())) {
            None => Ok(()),
            Some(field) => Err(CollectionError::CannotCreateIndex(format!(
                "a compound wildcard index cannot have '{}' as a field and below its wildcard: exclude it by 'wildcardProjection'",
                field.path.as_str()
            ))),
        }
    }

    fn apply_projection(&mut self) -> Result<()> {
        let Some(projection) = &self.wildcard_projection else { return Ok(()) };
        if self.pattern.wildcard().is_none() {
            let message = "The field 'wildcardProjection' is only allowed in a wildcard index";
            return Err(CollectionError::BadValue(message.to_owned()));
        }
        if !document::elements(&self.key).any(|field| field.name() == "$**") {
            let message = "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}";
            return Err(CollectionError::FailedToParse(message.to_owned()));
        }
        let paths = WildcardPaths::parse(projection)?;
        self.pattern = self.pattern.clone().with_paths(paths);
        Ok(())
    }

    fn check_wildcard(&self) -> Result<()> {
        let refused = [(self.sparse, "sparse"), (self.expire_after_seconds.is_some(), "expireAfterSeconds")];
        match refused.iter().find(|(is_given, _)| *is_given && self.pattern.wildcard().is_some()) {
            None => Ok(()),
            Some((_, option)) => Err(CollectionError::CannotCreateIndex(format!(
                "Index type 'wildcard' does not support the {option} option"
            ))),
        }
    }

    fn check(&self, document: &RawDocument) -> Result<()> {
        self.check_wildcard()?;
        if self.name.is_empty() {
            return Err(required("name"));
        }
        if self.partial_filter.is_some() && self.sparse {
            let message = "cannot mix \"partialFilterExpression\" and \"sparse\" options";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if self.unique || self.prepare_unique {
            self.check_may_be_unique()?;
        }
        if (self.pattern.is_hashed() || self.pattern.places().is_some()) && self.expire_after_seconds.is_some() {
            let message = "TTL indexes need the dates themselves, of which a hashed index has none, nor one of places";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if self.expire_after_seconds.is_some() && document::elements(&self.key).count() > 1 {
            let message = "TTL indexes are single-field indexes, compound indexes do not support TTL";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if self.is_id_index() {
            return self.check_id_index(document);
        }
        if self.clustered {
            let message = "The 'clustered' option is only for the index on _id of a clustered collection";
            return Err(CollectionError::InvalidIndexSpecificationOption(message.to_owned()));
        }
        self.check_other_name()
    }

    fn check_id_index(&self, document: &RawDocument) -> Result<()> {
        if self.pattern.fields().iter().any(|field| field.direction == Direction::Descending) {
            let message = format!(
                "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
                show_specification(&self.key)
            );
            return Err(CollectionError::BadValue(message));
        }
        for element in document::elements(document).filter(|element| !is_null(element.value())) {
            let is_of_clustered = self.clustered && matches!(element.name(), "unique" | "expireAfterSeconds");
            if !matches!(element.name(), "key" | "name" | "ns" | "v" | "collation" | "clustered") && !is_of_clustered {
                let message = format!("The field '{}' is not valid for an _id index specification", element.name());
                return Err(CollectionError::InvalidIndexSpecificationOption(message));
            }
        }
        Ok(())
    }

    fn check_other_name(&self) -> Result<()> {
        if self.name == ID_INDEX_NAME {
            let message = "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}";
            return Err(CollectionError::BadValue(message.to_owned()));
        }
        if self.name == "*" {
            return Err(CollectionError::BadValue("The index name '*' is not valid.".to_owned()));
        }
        Ok(())
    }

    /// Whether this is the index on `_id`, which every collection has and none can drop.
    pub fn is_id_index(&self) -> bool {
        self.pattern.is_id()
    }

    /// Whether at most one document has a key: declared so, or the index on `_id`.
    pub fn is_unique(&self) -> bool {
        self.unique || self.is_id_index()
    }

    /// Whether writers may not give a document a key that another one has.
    pub fn enforces_uniqueness(&self) -> bool {
        self.prepare_unique || self.is_unique()
    }

    /// Refuses what no index of this kind can promise.
    ///
    /// # Errors
    /// As `parse`.
    pub fn check_may_be_unique(&self) -> Result<()> {
        if self.pattern.is_hashed() {
            return Err(KeyError::UniqueHashed.into());
        }
        if self.pattern.wildcard().is_some() {
            let message = "Index type 'wildcard' does not support the unique option";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        if self.pattern.text().is_some() {
            let message = "Index type 'text' does not support the unique option";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()));
        }
        Ok(())
    }

    /// The specification as `listIndexes` shows it.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("v"), 2);
        document.append(cstr!("key"), &*self.key);
        document.append(cstr!("name"), self.name.as_str());
        for (flag, name) in [
            (self.unique, cstr!("unique")),
            (self.prepare_unique, cstr!("prepareUnique")),
            (self.sparse, cstr!("sparse")),
            (self.hidden, cstr!("hidden")),
            (self.clustered, cstr!("clustered")),
        ] {
            if flag {
                document.append(name, true);
            }
        }
        if let Some(background) = self.background {
            document.append(cstr!("background"), background);
        }
        if let Some(partial) = &self.partial_filter {
            document.append(cstr!("partialFilterExpression"), partial.source());
        }
        if let Some(collator) = self.pattern.collator() {
            document.append(cstr!("collation"), collator.definition());
        }
        match self.expire_after_seconds.map(i32::try_from) {
            Some(Ok(seconds)) => document.append(cstr!("expireAfterSeconds"), seconds),
            Some(Err(_)) => document.append(cstr!("expireAfterSeconds"), self.expire_after_seconds.unwrap_or_default()),
            None => {}
        }
        if let Some(projection) = &self.wildcard_projection {
            document.append(cstr!("wildcardProjection"), &**projection);
        }
        self.places.append(&self.pattern, &mut document);
        if let Some(definition) = self.pattern.text() {
            definition.append_options(&mut document);
        }
        document
    }

    /// How this new specification relates to an index that exists.
    ///
    /// # Errors
    /// `IndexOptionsConflict` and `IndexKeySpecsConflict` when one of the two cannot be had beside the other.
    pub fn compare_with(&self, existing: &IndexSpecification) -> Result<Relation> {
        let same_key = self.key.as_bytes() == existing.key.as_bytes() || self.pattern == existing.pattern;
        let same_name = self.name == existing.name;
        // What tells indexes of one key pattern apart, so that they may stand side by side.
        let is_equivalent = same_key
            && self.pattern.collator() == existing.pattern.collator()
            && same_partial_filter(self.partial_filter.as_ref(), existing.partial_filter.as_ref())
            && self.pattern.wildcard() == existing.pattern.wildcard()
            && self.unique == existing.unique
            && self.sparse == existing.sparse;
        let same_options = self.expire_after_seconds == existing.expire_after_seconds
            && self.places == existing.places
            && self.pattern.text() == existing.pattern.text();
        match (same_name, is_equivalent) {
            (true, true) if same_options => Ok(Relation::Same),
            (true, true) => Err(CollectionError::IndexOptionsConflict(format!(
                "An equivalent index already exists with the same name but different options. Requested index: {}, \
                 existing index: {}",
                show_specification(&self.to_document()),
                show_specification(&existing.to_document())
            ))),
            (true, false) => Err(CollectionError::IndexKeySpecsConflict(format!(
                "An existing index has the same name as the requested index. When index names are not specified, they \
                 are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {}, \
                 existing index: {}",
                show_specification(&self.to_document()),
                show_specification(&existing.to_document())
            ))),
            // The same keys for the same documents under two names would be the same index twice.
            (false, true) if same_options => Err(CollectionError::IndexOptionsConflict(format!(
                "Index already exists with a different name: {}",
                existing.name
            ))),
            (false, true) => Err(CollectionError::IndexOptionsConflict(format!(
                "An equivalent index already exists with a different name and options. Requested index: {}, existing \
                 index: {}",
                show_specification(&self.to_document()),
                show_specification(&existing.to_document())
            ))),
            (false, false) if self.pattern.text().is_some() && existing.pattern.text().is_some() => {
                let message = "only one text index per collection allowed, found existing text index";
                Err(CollectionError::CannotCreateIndex(format!("{message} \"{}\"", existing.name)))
            }
            (false, false) => Ok(Relation::Different),
        }
    }
}

/// Whether two filters ask the same, however they are written: `{a: 1}` and `{a: {$eq: 1.0}}`.
fn same_partial_filter(left: Option<&Predicate>, right: Option<&Predicate>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            let (left, right) = (left.filter().to_document(), right.filter().to_document());
            document::compare_documents(&left, &right) == Ordering::Equal
        }
        (left, right) => left.is_none() && right.is_none(),
    }
}

/// See `IndexSpecification::compare_with`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They can exist side by side.
    Different,
    /// They are the same index: nothing is to be done.
    Same,
}

/// The refusal of an option with the specification that has it.
fn in_specification(error: CollectionError, document: &RawDocument) -> CollectionError {
    match error {
        CollectionError::InvalidIndexSpecificationOption(message) => CollectionError::InvalidIndexSpecificationOption(
            format!("{message}. Specification: {}", show_specification(document)),
        ),
        other => other,
    }
}

/// A document as people write it.
pub fn show_specification(document: &RawDocument) -> String {
    query_language::expression::show_value(RawBsonRef::Document(document))
}

fn required(field: &str) -> CollectionError {
    CollectionError::FailedToParse(format!(
        "Error in specification: The '{field}' field is a required property of an index specification"
    ))
}

fn parse_name(value: RawBsonRef<'_>) -> Result<String> {
    match value {
        RawBsonRef::String("") => Err(CollectionError::CannotCreateIndex("index name cannot be empty".to_owned())),
        RawBsonRef::String(name) if name.contains('\0') => {
            Err(CollectionError::CannotCreateIndex("index name cannot contain NUL bytes".to_owned()))
        }
        RawBsonRef::String(name) => Ok(name.to_owned()),
        _ => Err(wrong_type("createIndexes.indexes.name", value, "string")),
    }
}

fn is_null(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Null | RawBsonRef::Undefined)
}

fn parse_flag(option: &str, value: RawBsonRef<'_>) -> Result<bool> {
    match (value, Number::from_bson(value)) {
        (RawBsonRef::Boolean(given), _) => Ok(given),
        (_, Some(number)) => Ok(!number.is_zero()),
        _ => Err(wrong_type(option, value, "bool")),
    }
}

/// Null says nothing of such an option; MongoDB takes none where more than a flag is wanted.
fn may_be_null(option: &str) -> bool {
    FLAGS.contains(&option)
        || NOT_IMPLEMENTED.contains(&option)
        || PlaceOptions::NAMES.contains(&option)
        || text_options::NAMES.contains(&option)
}

fn check_version(value: RawBsonRef<'_>) -> Result<()> {
    match Number::from_bson(value).and_then(|number| number.to_i64_exact()) {
        Some(2) => Ok(()),
        Some(1) => Err(CollectionError::NotImplemented("index version v:1 is not implemented".to_owned())),
        Some(other) => Err(CollectionError::CannotCreateIndex(format!(
            "Invalid index specification; cannot create an index with v={other}"
        ))),
        None => Err(wrong_type("v", value, "number")),
    }
}

/// Reads `expireAfterSeconds`, also for `collMod`.
///
/// # Errors
/// `CannotCreateIndex` when it is no number or out of range.
pub fn parse_expiry(value: RawBsonRef<'_>) -> Result<i64> {
    let Some(number) = Number::from_bson(value) else {
        let message = format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'",
            crate::options::type_name(value)
        );
        return Err(CollectionError::CannotCreateIndex(message));
    };
    match number.to_i64_truncated() {
        Some(seconds) if (0..=i64::from(i32::MAX)).contains(&seconds) => Ok(seconds),
        _ => {
            let message = "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number than the one given";
            Err(CollectionError::CannotCreateIndex(message.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests;
