//! Changes of definitions as they are logged: made by `transaction`, applied by the catalog both when they happen and
//! when they are replayed.
//!
//! In the oplog they are `op: "c"` entries with the shapes of MongoDB's commands. They name collections by UUID, so that
//! replaying a run of them onto any state from within the run ends in the same state.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Uuid};

use super::stored::{document_field, string_field, uuid_field, uuid_value};
use crate::error::{CollectionError, Result};
use crate::index_specification::{IndexSpecification, parse_expiry};
use crate::namespace::Namespace;
use crate::oplog_entry::{append, encode_command};
use crate::options::CollectionOptions;

/// A change of definitions.
#[derive(Clone, Debug)]
pub enum CatalogChange {
    /// A collection comes into being, with its `_id` index.
    Create {
        /// Its name.
        namespace: Namespace,
        /// Its identity.
        uuid: Uuid,
        /// Its options.
        options: CollectionOptions,
    },
    /// A collection goes, with its records and indexes.
    Drop {
        /// Its name.
        namespace: Namespace,
        /// Its identity.
        uuid: Uuid,
    },
    /// All collections of a database have been dropped. Changes nothing more; it is there for whoever follows the oplog.
    DropDatabase {
        /// Its name.
        database: String,
    },
    /// A collection gets another name.
    Rename {
        /// Its name until now.
        from: Namespace,
        /// Its name from now on.
        to: Namespace,
        /// Its identity.
        uuid: Uuid,
        /// The collection that had the new name and goes.
        drop_target: Option<Uuid>,
    },
    /// An index is being built. After a crash the build goes on.
    StartIndexBuild(IndexChange),
    /// An index is ready. Replay builds it from the records.
    CommitIndexBuild(IndexChange),
    /// An index will not be built after all.
    AbortIndexBuild(IndexChange),
    /// An index goes.
    DropIndex(IndexChange),
    /// Options of a collection or of one of its indexes change (`collMod`).
    Modify {
        /// The collection's name.
        namespace: Namespace,
        /// Its identity.
        uuid: Uuid,
        /// What changes.
        modification: Modification,
        /// What it was before, for those who follow the oplog: `{collectionOptions_old: {uuid, ...}, indexOptions_old: {...}}`. Not read back.
        before: Option<RawDocumentBuf>,
    },
}

/// A change of one index.
#[derive(Clone, Debug)]
pub struct IndexChange {
    /// The collection's name.
    pub namespace: Namespace,
    /// Its identity.
    pub uuid: Uuid,
    /// The index.
    pub specification: IndexSpecification,
}

/// What `collMod` can change; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Modification {
    /// All options of the collection, as they shall be.
    pub options: Option<CollectionOptions>,
    /// The index to change.
    pub index: Option<IndexModification>,
    /// The version of the list of indexes that the caller has looked at. Not logged.
    pub as_of: Option<u64>,
}

/// What `collMod` can change in an index; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct IndexModification {
    /// Its name.
    pub name: String,
    /// Whether the planner leaves it alone.
    pub hidden: Option<bool>,
    /// When its documents expire.
    pub expire_after_seconds: Option<i64>,
    /// Whether writers may give no document a key that another one has.
    pub prepare_unique: Option<bool>,
    /// It is unique from now on.
    pub unique: bool,
}

impl CatalogChange {
    /// The collection that it is about.
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            CatalogChange::Create { uuid, .. }
            | CatalogChange::Drop { uuid, .. }
            | CatalogChange::Rename { uuid, .. }
            | CatalogChange::Modify { uuid, .. } => Some(*uuid),
            CatalogChange::StartIndexBuild(change)
            | CatalogChange::CommitIndexBuild(change)
            | CatalogChange::AbortIndexBuild(change)
            | CatalogChange::DropIndex(change) => Some(change.uuid),
            CatalogChange::DropDatabase { .. } => None,
        }
    }

    /// The payload for the oplog.
    pub fn encode(&self, wall_millis: i64) -> Vec<u8> {
        let namespace = match self {
            CatalogChange::Create { namespace, .. }
            | CatalogChange::Drop { namespace, .. }
            | CatalogChange::Rename { from: namespace, .. }
            | CatalogChange::Modify { namespace, .. } => namespace,
            CatalogChange::StartIndexBuild(change)
            | CatalogChange::CommitIndexBuild(change)
            | CatalogChange::AbortIndexBuild(change)
            | CatalogChange::DropIndex(change) => &change.namespace,
            CatalogChange::DropDatabase { database } => {
                let mut command = RawDocumentBuf::new();
                command.append(cstr!("dropDatabase"), 1);
                return encode_command(database, None, &command, None, wall_millis);
            }
        };
        let (command, second) = self.command();
        encode_command(namespace.database(), self.uuid(), &command, second.as_deref(), wall_millis)
    }

    fn command(&self) -> (RawDocumentBuf, Option<RawDocumentBuf>) {
        let mut command = RawDocumentBuf::new();
        match self {
            CatalogChange::Create { namespace, options, .. } => {
                command.append(cstr!("create"), namespace.collection());
                command.append(cstr!("options"), options.to_document());
            }
            CatalogChange::Drop { namespace, .. } => command.append(cstr!("drop"), namespace.collection()),
            CatalogChange::DropDatabase { .. } => command.append(cstr!("dropDatabase"), 1),
            CatalogChange::Rename { from, to, drop_target, .. } => {
                command.append(cstr!("renameCollection"), from.as_str());
                command.append(cstr!("to"), to.as_str());
                command.append(cstr!("stayTemp"), false);
                match drop_target {
                    Some(uuid) => command.append(cstr!("dropTarget"), uuid_value(&uuid.bytes())),
                    None => command.append(cstr!("dropTarget"), false),
                }
            }
            CatalogChange::StartIndexBuild(change) => return (change.build_command("startIndexBuild"), None),
            CatalogChange::CommitIndexBuild(change) => return (change.build_command("commitIndexBuild"), None),
            CatalogChange::AbortIndexBuild(change) => return (change.build_command("abortIndexBuild"), None),
            CatalogChange::DropIndex(change) => {
                command.append(cstr!("dropIndexes"), change.namespace.collection());
                command.append(cstr!("index"), change.specification.name.as_str());
                return (command, Some(change.specification.to_document()));
            }
            CatalogChange::Modify { namespace, modification, before, .. } => {
                command.append(cstr!("collMod"), namespace.collection());
                modification.append_to(&mut command);
                return (command, before.clone());
            }
        }
        (command, None)
    }

    /// Reads a command entry of the oplog.
    ///
    /// # Errors
    /// `Damaged` for a command that this build does not write.
    pub fn decode(
        database: &str,
        uuid: Option<Uuid>,
        command: &RawDocument,
        second: Option<&RawDocument>,
    ) -> Result<CatalogChange> {
        let Some(first) = document::elements(command).next() else {
            return Err(CollectionError::Damaged("an oplog command without a name".to_owned()));
        };
        if first.name() == "dropDatabase" {
            return Ok(CatalogChange::DropDatabase { database: database.to_owned() });
        }
        let name = string_field(command, first.name())?;
        let uuid = uuid.ok_or_else(|| CollectionError::Damaged("an oplog command without a UUID".to_owned()))?;
        if first.name() == "renameCollection" {
            return decode_rename(name, uuid, command);
        }
        let namespace = Namespace::new(database, name)?;
        let build = |namespace| {
            let specification = IndexSpecification::parse(document_field(command, "index")?)?;
            Ok::<_, CollectionError>(IndexChange { namespace, uuid, specification })
        };
        Ok(match first.name() {
            "create" => {
                let options = CollectionOptions::parse(document_field(command, "options")?)?;
                CatalogChange::Create { namespace, uuid, options }
            }
            "drop" => CatalogChange::Drop { namespace, uuid },
            "startIndexBuild" => CatalogChange::StartIndexBuild(build(namespace)?),
            "commitIndexBuild" => CatalogChange::CommitIndexBuild(build(namespace)?),
            "abortIndexBuild" => CatalogChange::AbortIndexBuild(build(namespace)?),
            "dropIndexes" => {
                let second = second.ok_or_else(|| CollectionError::Damaged("dropIndexes without o2".to_owned()))?;
                let specification = IndexSpecification::parse(second)?;
                CatalogChange::DropIndex(IndexChange { namespace, uuid, specification })
            }
            "collMod" => {
                CatalogChange::Modify { namespace, uuid, modification: Modification::read(command)?, before: None }
            }
            other => return Err(CollectionError::Damaged(format!("unknown oplog command '{other}'"))),
        })
    }
}

fn decode_rename(from: &str, uuid: Uuid, command: &RawDocument) -> Result<CatalogChange> {
    let drop_target = match document::get_field(command, "dropTarget") {
        Some(RawBsonRef::Binary(_)) => Some(uuid_field(command, "dropTarget")?),
        _ => None,
    };
    let to = Namespace::parse(string_field(command, "to")?)?;
    Ok(CatalogChange::Rename { from: Namespace::parse(from)?, to, uuid, drop_target })
}

impl IndexChange {
    fn build_command(&self, name: &str) -> RawDocumentBuf {
        let mut command = RawDocumentBuf::new();
        let key = match name {
            "startIndexBuild" => cstr!("startIndexBuild"),
            "commitIndexBuild" => cstr!("commitIndexBuild"),
            _ => cstr!("abortIndexBuild"),
        };
        command.append(key, self.namespace.collection());
        command.append(cstr!("index"), self.specification.to_document());
        command
    }
}

impl Modification {
    /// What it changes of a collection as that is now, for `CatalogChange::Modify`.
    pub fn state_before(
        &self,
        uuid: Uuid,
        options: &CollectionOptions,
        indexes: &[&IndexSpecification],
    ) -> RawDocumentBuf {
        let mut of_collection = RawDocumentBuf::new();
        of_collection.append(cstr!("uuid"), uuid_value(&uuid.bytes()));
        let options = options.to_document();
        document::elements(&options).for_each(|option| append(&mut of_collection, option.name(), option.value()));
        let mut before = RawDocumentBuf::new();
        before.append(cstr!("collectionOptions_old"), of_collection);
        let changed = self.index.as_ref();
        let index = changed.and_then(|changed| indexes.iter().find(|index| index.name == changed.name));
        if let (Some(changed), Some(index)) = (changed, index) {
            let mut of_index = RawDocumentBuf::new();
            if let (Some(_), Some(seconds)) = (changed.expire_after_seconds, index.expire_after_seconds) {
                of_index.append(cstr!("expireAfterSeconds"), seconds);
            }
            if changed.hidden.is_some() {
                of_index.append(cstr!("hidden"), index.hidden);
            }
            if changed.prepare_unique.is_some() {
                of_index.append(cstr!("prepareUnique"), index.prepare_unique);
            }
            if changed.unique {
                of_index.append(cstr!("unique"), index.unique);
            }
            before.append(cstr!("indexOptions_old"), of_index);
        }
        before
    }

    fn append_to(&self, command: &mut RawDocumentBuf) {
        if let Some(options) = &self.options {
            command.append(cstr!("options"), options.to_document());
        }
        if let Some(index) = &self.index {
            let mut document = RawDocumentBuf::new();
            document.append(cstr!("name"), index.name.as_str());
            for (flag, name) in [
                (index.hidden, cstr!("hidden")),
                (index.prepare_unique, cstr!("prepareUnique")),
                (index.unique.then_some(true), cstr!("unique")),
            ] {
                if let Some(flag) = flag {
                    document.append(name, flag);
                }
            }
            if let Some(seconds) = index.expire_after_seconds {
                document.append(cstr!("expireAfterSeconds"), seconds);
            }
            command.append(cstr!("index"), document);
        }
    }

    fn read(command: &RawDocument) -> Result<Modification> {
        let mut modification = Modification::default();
        if document::get_element(command, "options").is_some() {
            modification.options = Some(CollectionOptions::parse(document_field(command, "options")?)?);
        }
        if document::get_element(command, "index").is_some() {
            let document = document_field(command, "index")?;
            modification.index = Some(IndexModification {
                name: string_field(document, "name")?.to_owned(),
                hidden: flag(document, "hidden"),
                prepare_unique: flag(document, "prepareUnique"),
                unique: flag(document, "unique").unwrap_or_default(),
                expire_after_seconds: match document::get_field(document, "expireAfterSeconds") {
                    Some(seconds) => Some(parse_expiry(seconds)?),
                    None => None,
                },
            });
        }
        Ok(modification)
    }
}

fn flag(document: &RawDocument, name: &str) -> Option<bool> {
    match document::get_field(document, name) {
        Some(RawBsonRef::Boolean(flag)) => Some(flag),
        _ => None,
    }
}
