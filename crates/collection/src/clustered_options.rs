//! `clusteredIndex` of `create`: the index on `_id` with a name of its own, which `listIndexes` calls clustered.
//!
//! Records stay in the order of their insertion, and the index on `_id` beside them (docs/decisions/0024): what differs
//! from another collection is how it is shown, and that its documents may expire by the date in `_id`.
//! Called by `options`, which keeps it, and by the catalog, which makes the index.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use document::Number;
use index_key::Direction;

use crate::error::{CollectionError, Result};
use crate::index_specification::{ID_INDEX_NAME, IndexSpecification, show_specification};
use crate::options::wrong_type;

/// What a clustered collection says of its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteredOptions {
    /// Its name.
    pub name: String,
}

impl ClusteredOptions {
    /// Reads the option; `None` for `false`, which says nothing.
    ///
    /// # Errors
    /// `TypeMismatch`, `MissingField`, `UnknownField`; `InvalidIndexSpecificationOption` for any index but the unique one on `_id`.
    pub fn parse(value: RawBsonRef<'_>) -> Result<Option<ClusteredOptions>> {
        const FIELD: &str = "create.clusteredIndex";
        let given = match value {
            RawBsonRef::Document(given) => given,
            RawBsonRef::Boolean(false) => return Ok(None),
            RawBsonRef::Boolean(true) => {
                let message = "The 'clusteredIndex: true' form is for buckets of time series: give key and unique";
                return Err(CollectionError::InvalidIndexSpecificationOption(message.to_owned()));
            }
            _ => return Err(wrong_type(FIELD, value, "object")),
        };
        let (mut key, mut unique, mut name) = (None, None, ID_INDEX_NAME.to_owned());
        for element in document::elements(given) {
            match (element.name(), element.value()) {
                ("v" | "name", RawBsonRef::Null | RawBsonRef::Undefined) => {}
                ("v", value) => match Number::from_bson(value).and_then(Number::to_i64_exact) {
                    Some(2) => {}
                    _ => return refused("The 'v' of a clustered index must be 2".to_owned()),
                },
                ("key", RawBsonRef::Document(value)) => key = Some(value),
                ("key", value) => return Err(wrong_type("create.clusteredIndex.key", value, "object")),
                ("unique", RawBsonRef::Boolean(value)) => unique = Some(value),
                ("unique", value) => return Err(wrong_type("create.clusteredIndex.unique", value, "bool")),
                ("name", RawBsonRef::String("")) => return refused("The name of an index cannot be empty".to_owned()),
                ("name", RawBsonRef::String(value)) if value.contains('\0') || value == "*" => {
                    return refused(format!("The index name '{value}' is not valid."));
                }
                ("name", RawBsonRef::String(value)) => value.clone_into(&mut name),
                ("name", value) => return Err(wrong_type("create.clusteredIndex.name", value, "string")),
                (field, _) => return Err(CollectionError::UnknownField { owner: FIELD, field: field.to_owned() }),
            }
        }
        let key = key.ok_or(CollectionError::MissingField("create.clusteredIndex.key"))?;
        let ascends = |pattern: index_key::KeyPattern| {
            pattern.fields().iter().all(|field| field.direction == Direction::Ascending)
        };
        let is_id = index_key::KeyPattern::parse(key).is_ok_and(|pattern| pattern.is_id() && ascends(pattern));
        if !is_id {
            let shown = show_specification(key);
            return refused(format!("The clusteredIndex option is only supported for the key {{_id: 1}}, not {shown}"));
        }
        match unique {
            Some(true) => Ok(Some(ClusteredOptions { name })),
            Some(false) => refused("The clusteredIndex option requires unique: true to be specified".to_owned()),
            None => Err(CollectionError::MissingField("create.clusteredIndex.unique")),
        }
    }

    /// As `listCollections` shows it and the catalog keeps it.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("v"), 2);
        document.append(cstr!("key"), rawdoc! { "_id": 1 });
        document.append(cstr!("name"), self.name.as_str());
        document.append(cstr!("unique"), true);
        document
    }

    /// The index.
    ///
    /// # Errors
    /// None for a name that `parse` has let through.
    pub fn index(&self) -> Result<IndexSpecification> {
        let mut document = self.to_document();
        document.append(cstr!("clustered"), true);
        IndexSpecification::parse(&document)
    }
}

fn refused<T>(message: String) -> Result<T> {
    Err(CollectionError::InvalidIndexSpecificationOption(message))
}
