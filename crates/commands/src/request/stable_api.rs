//! The stable API: `apiVersion`, `apiStrict` and `apiDeprecationErrors`, by which a client holds itself to what every later server of that version
//! of the API has, too.
//!
//! Read with the session's fields and checked by `dispatcher` before a command runs. There is one version, "1". What is in it is what MongoDB's
//! manual says: these commands, without the fields and stages listed below. Nothing in it is deprecated.

use bson::{RawBsonRef, RawDocument};
use document::{array_elements, elements, get_field};

use crate::request::declaration::{Declaration, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::field::Field;

/// Fields of commands of version 1 that are not in it.
const FIELDS: &[(&str, &[&str])] = &[
    ("aggregate", &["explain"]),
    ("create", &["autoIndexId", "capped", "indexOptionDefaults", "max", "size", "storageEngine"]),
    ("find", &["awaitData", "max", "min", "noCursorTimeout", "oplogReplay", "returnKey", "showRecordId", "tailable"]),
];

/// Fields of an index's specification that are not in it.
const INDEX_FIELDS: &[&str] = &["background", "bucketSize", "sparse", "storageEngine"];

/// Kinds of indexes that are not in it.
const INDEX_KINDS: &[&str] = &["geoHaystack", "text"];

/// Stages that are not in it.
const STAGES: &[&str] = &[
    "$currentOp",
    "$indexStats",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$score",
    "$search",
    "$searchMeta",
    "$vectorSearch",
];

/// Fields of `$collStats` that are not in it: all but `count`.
const COLL_STATS_FIELDS: &[&str] = &["latencyStats", "queryExecStats", "storageStats"];

/// Which command has a name.
pub(crate) type Known = fn(&str) -> Option<&'static Declaration>;

/// What a command says of the API.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ApiParameters {
    has_version: bool,
    is_strict: bool,
    has_deprecation_errors: bool,
}

impl ApiParameters {
    /// Takes one of the three fields.
    pub(crate) fn take(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        let wrong = |expected: &str| {
            let found = document::type_name(value.element_type());
            CommandError::type_mismatch(format!(
                "BSON field '{name}' is the wrong type '{found}', expected type '{expected}'"
            ))
        };
        let boolean = || if let RawBsonRef::Boolean(value) = value { Ok(value) } else { Err(wrong("bool")) };
        match name {
            _ if matches!(value, RawBsonRef::Null | RawBsonRef::Undefined) => {}
            "apiVersion" => {
                let RawBsonRef::String(version) = value else { return Err(wrong("string")) };
                if version != "1" {
                    let message = format!("API version must be \"1\", not \"{version}\"");
                    return Err(CommandError::named("APIVersionError", message));
                }
                self.has_version = true;
            }
            "apiStrict" => self.is_strict = boolean()?,
            "apiDeprecationErrors" => self.has_deprecation_errors = boolean()?,
            _ => {}
        }
        Ok(())
    }

    /// Refuses parameters that need the version, and what is not in the version when the client wants nothing else.
    pub(crate) fn check(&self, command: &Declaration, body: &RawDocument, known: Known) -> Result<()> {
        if !self.has_version && (self.is_strict || self.has_deprecation_errors) {
            let message = "apiStrict and apiDeprecationErrors need apiVersion beside them";
            return Err(CommandError::numbered(4_886_600, message));
        }
        if self.is_strict { check_strictly(command, body, known) } else { Ok(()) }
    }
}

fn not_in_version(what: impl std::fmt::Display) -> CommandError {
    CommandError::named("APIStrictError", format!("apiStrict is true, and {what} is not in API Version 1"))
}

fn check_strictly(declared: &Declaration, body: &RawDocument, known: Known) -> Result<()> {
    let command = declared.name;
    if declared.stable_api != StableApi::Version1 {
        return Err(not_in_version(format!("the command {command}")));
    }
    if let Some((_, refused)) = FIELDS.iter().find(|(name, _)| *name == command) {
        check_fields(command, body, refused)?;
    }
    match command {
        "aggregate" => check_pipeline(get_field(body, "pipeline")),
        "create" => check_pipeline(get_field(body, "pipeline")),
        "createIndexes" => check_indexes(body),
        "explain" => check_explained(body, known),
        _ => Ok(()),
    }
}

/// Fields that are not in the version, unless they say no.
fn check_fields(owner: &str, source: &RawDocument, refused: &[&str]) -> Result<()> {
    for element in elements(source) {
        let field = Field::of(owner, element);
        let says_no = matches!(field.value(), RawBsonRef::Boolean(false) | RawBsonRef::Null | RawBsonRef::Undefined);
        if refused.contains(&field.name()) && !says_no {
            return Err(not_in_version(format!("the field '{owner}.{}'", field.name())));
        }
    }
    Ok(())
}

/// The command that is explained; its name may be another of its names.
fn check_explained(body: &RawDocument, known: Known) -> Result<()> {
    let Some(RawBsonRef::Document(inner)) = elements(body).next().map(|element| element.value()) else { return Ok(()) };
    let Some(first) = elements(inner).next() else { return Ok(()) };
    match known(first.name()) {
        Some(explained) => check_strictly(explained, inner, known),
        None => Err(not_in_version(format!("the command {}", first.name()))),
    }
}

fn check_indexes(body: &RawDocument) -> Result<()> {
    let Some(RawBsonRef::Array(indexes)) = get_field(body, "indexes") else { return Ok(()) };
    for index in array_elements(indexes) {
        let RawBsonRef::Document(index) = index.value() else { continue };
        check_fields("createIndexes.indexes", index, INDEX_FIELDS)?;
        let Some(RawBsonRef::Document(key)) = get_field(index, "key") else { continue };
        let kind = elements(key).filter_map(|part| part.value().as_str()).find(|kind| INDEX_KINDS.contains(kind));
        if let Some(kind) = kind {
            return Err(not_in_version(format!("an index of the kind '{kind}'")));
        }
    }
    Ok(())
}

/// A pipeline, and those in it: whatever is an array of documents that are one stage each.
fn check_pipeline(pipeline: Option<RawBsonRef<'_>>) -> Result<()> {
    let Some(RawBsonRef::Array(stages)) = pipeline else { return Ok(()) };
    for stage in array_elements(stages) {
        let RawBsonRef::Document(stage) = stage.value() else { continue };
        let Some(stage) = elements(stage).next() else { continue };
        let (name, body) = (stage.name(), stage.value());
        if STAGES.contains(&name) {
            return Err(not_in_version(format!("the stage '{name}'")));
        }
        let RawBsonRef::Document(body) = body else { continue };
        match name {
            "$collStats" => check_fields(name, body, COLL_STATS_FIELDS)?,
            "$lookup" | "$unionWith" => check_pipeline(get_field(body, "pipeline"))?,
            "$facet" => elements(body).try_for_each(|facet| check_pipeline(Some(facet.value())))?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::request::declaration::Needs;

    fn declared(name: &str) -> Option<&'static Declaration> {
        static DECLARED: [Declaration; 7] = [
            of("find", StableApi::Version1),
            of("aggregate", StableApi::Version1),
            of("create", StableApi::Version1),
            of("createIndexes", StableApi::Version1),
            of("explain", StableApi::Version1),
            Declaration { aliases: &["findandmodify"], ..of("findAndModify", StableApi::Version1) },
            of("distinct", StableApi::NoVersion),
        ];
        DECLARED.iter().find(|command| command.has_name(name))
    }

    const fn of(name: &'static str, stable_api: StableApi) -> Declaration {
        Declaration { stable_api, ..Declaration::new(name, "", Needs::Data, &[]) }
    }

    fn refused(command: &str, body: RawDocumentBuf) -> Option<i32> {
        let strict = ApiParameters { has_version: true, is_strict: true, has_deprecation_errors: false };
        strict.check(declared(command).unwrap(), &body, declared).err().map(|error| error.code)
    }

    #[test]
    fn strict_clients_get_what_is_in_the_version() {
        let lookup = |stage: RawDocumentBuf| rawdoc! { "$lookup": { "from": "b", "as": "b", "pipeline": [stage] } };
        for (command, body) in [
            ("find", rawdoc! { "find": "c", "filter": { "tailable": true }, "tailable": false }),
            ("aggregate", rawdoc! { "aggregate": "c", "pipeline": [{ "$collStats": { "count": {} } }] }),
            ("aggregate", rawdoc! { "aggregate": "c", "pipeline": [lookup(rawdoc! { "$match": {} })] }),
            ("create", rawdoc! { "create": "c", "capped": false }),
            ("createIndexes", rawdoc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] }),
            ("explain", rawdoc! { "explain": { "findandmodify": "c" } }),
        ] {
            assert_eq!(refused(command, body), None, "{command}");
        }
        for (command, body) in [
            ("distinct", rawdoc! { "distinct": "c" }),
            ("find", rawdoc! { "find": "c", "tailable": true }),
            ("aggregate", rawdoc! { "aggregate": "c", "pipeline": [], "explain": true }),
            ("aggregate", rawdoc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }] }),
            ("aggregate", rawdoc! { "aggregate": "c", "pipeline": [{ "$collStats": { "storageStats": {} } }] }),
            ("aggregate", rawdoc! { "aggregate": "c", "pipeline": [lookup(rawdoc! { "$indexStats": {} })] }),
            ("aggregate", rawdoc! { "aggregate": "c", "pipeline": [{ "$facet": { "a": [{ "$indexStats": {} }] } }] }),
            ("create", rawdoc! { "create": "c", "capped": true, "size": 1 }),
            ("createIndexes", rawdoc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "sparse": true }] }),
            ("createIndexes", rawdoc! { "createIndexes": "c", "indexes": [{ "key": { "a": "text" } }] }),
            ("explain", rawdoc! { "explain": { "distinct": "c" } }),
        ] {
            assert_eq!(refused(command, body), Some(323), "{command}");
        }
    }
}
