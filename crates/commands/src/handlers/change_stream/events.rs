//! Events: what an entry of the oplog is to a change stream.
//!
//! Called by `follower`. An entry is one event, several (a transaction), or none; after a drop or rename of what a stream is about comes `invalidate`, the
//! last. The plain form of an event is made once and shared by all streams that show it so.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Uuid, rawdoc};
use collection::{CollectionOptions, IndexSpecification, append, bson_timestamp, entry_wall, is_told, post_image};
use document::{elements, get_field};
use executor::{Interrupt, Interruption, QueryExecutor, QueryServices, Target};
use oplog::{Oplog, OplogPosition};
use platform::Clock;
use query_language::expression::Variables;
use query_language::update::diff::{Diff, Disambiguation};
use transaction::FeedEntry;

use super::options::{BeforeChange, ChangeStreamOptions, FullDocument, Scope};
use super::token::ResumeToken;
use crate::handlers::crud::query_arguments::query;
use crate::handlers::views;
use crate::request::error::{CommandError, Result};
use crate::state::queries::Queries;

/// What events are made from, beside their entries: documents as they are now, and the time.
#[derive(Clone)]
pub(super) struct EventSources {
    pub(super) services: QueryServices,
    clock: Arc<dyn Clock>,
}

impl EventSources {
    pub(super) fn new(queries: Queries<'_>, clock: Arc<dyn Clock>) -> Self {
        Self { services: queries.services(), clock }
    }
}

/// An event that has not been built yet.
pub(super) struct PendingEvent {
    entry: Arc<FeedEntry>,
    what: What,
    pub(super) token: ResumeToken,
}

enum What {
    /// The entry is about one document.
    Document,
    /// One of several in a transaction's entry.
    Part(RawDocumentBuf),
    /// A change of definitions: the type, and the fields behind it.
    Definition(&'static str, RawDocumentBuf),
    /// A view has been created; the fields.
    View(RawDocumentBuf),
    Invalidate,
}

/// The events of one entry.
pub(super) struct EntryEvents<'a> {
    sources: &'a EventSources,
    options: &'a ChangeStreamOptions,
    entry: Arc<FeedEntry>,
    events: VecDeque<PendingEvent>,
}

impl<'a> EntryEvents<'a> {
    pub(super) fn new(sources: &'a EventSources, options: &'a ChangeStreamOptions, entry: Arc<FeedEntry>) -> Self {
        EntryEvents { sources, options, entry, events: VecDeque::new() }
    }

    pub(super) fn collect(mut self) -> Result<VecDeque<PendingEvent>> {
        let entry = self.entry.clone();
        let document = entry_document(&entry.payload)?;
        match get_field(document, "op") {
            Some(RawBsonRef::String("c")) => self.take_command(document)?,
            Some(RawBsonRef::String("i")) if self.take_view(document) => {}
            Some(RawBsonRef::String("i" | "u" | "d")) => self.push(What::Document),
            _ => {}
        }
        Ok(self.events)
    }

    /// A document that defines a view is no document that is told. Whether it is one.
    fn take_view(&mut self, entry: &RawDocument) -> bool {
        let (Some(RawBsonRef::String(namespace)), Some(RawBsonRef::Document(view))) =
            (get_field(entry, "ns"), get_field(entry, "o"))
        else {
            return false;
        };
        if !views::is_definition(namespace) {
            return false;
        }
        let Some(RawBsonRef::String(name)) = get_field(view, "_id") else { return true };
        if self.options.shows_expanded_events && self.options.scope.has(name) {
            let mut description = RawDocumentBuf::new();
            let options = elements(view).filter(|option| option.name() != "_id");
            options.for_each(|option| append(&mut description, option.name(), option.value()));
            let mut event = rawdoc! { "ns": namespace_document(name), "nsType": "view" };
            event.append(cstr!("operationDescription"), description);
            self.push(What::View(event));
        }
        true
    }

    fn push(&mut self, what: What) {
        let token = ResumeToken {
            timestamp: self.entry.timestamp,
            position: self.entry.position,
            events: self.events.len() as u32 + 1,
            fragments: 0,
            is_invalidate: matches!(what, What::Invalidate),
        };
        self.events.push_back(PendingEvent { entry: self.entry.clone(), what, token });
    }

    fn take_command(&mut self, entry: &RawDocument) -> Result<()> {
        let (Some(RawBsonRef::Document(command)), Some(RawBsonRef::String(namespace))) =
            (get_field(entry, "o"), get_field(entry, "ns"))
        else {
            return Ok(());
        };
        let database = namespace.split_once('.').map_or(namespace, |(database, _)| database);
        let Some(first) = elements(command).next() else { return Ok(()) };
        let target = match first.value() {
            RawBsonRef::String(name) => name,
            _ => "",
        };
        match first.name() {
            "applyOps" => return self.take_transaction(command),
            "dropDatabase" => self.take_drop_database(database),
            "renameCollection" => self.take_rename(target, command),
            name => self.take_definition(name, database, target, (command, get_field(entry, "o2"))),
        }
        Ok(())
    }

    /// The operations of a transaction, those of its earlier entries first.
    fn take_transaction(&mut self, command: &RawDocument) -> Result<()> {
        if matches!(get_field(command, "partialTxn"), Some(RawBsonRef::Boolean(true))) {
            return Ok(());
        }
        if let Some(RawBsonRef::Array(parts)) = get_field(command, "parts") {
            for part in document::array_elements(parts) {
                let RawBsonRef::Int64(position) = part.value() else { continue };
                let mut reader = self.sources.services.store.oplog().read_from(OplogPosition(position as u64))?;
                let Some(entry) = reader.next_entry()? else { continue };
                let entry = entry_document(entry.payload)?;
                if let Some(RawBsonRef::Document(command)) = get_field(entry, "o") {
                    self.take_operations(command);
                }
            }
        }
        self.take_operations(command);
        Ok(())
    }

    fn take_operations(&mut self, command: &RawDocument) {
        let Some(RawBsonRef::Array(operations)) = get_field(command, "applyOps") else { return };
        for operation in document::array_elements(operations) {
            let RawBsonRef::Document(operation) = operation.value() else { continue };
            let Some(RawBsonRef::String(namespace)) = get_field(operation, "ns") else { continue };
            if self.options.scope.has(namespace) && is_told(operation) {
                self.push(What::Part(operation.to_owned()));
            }
        }
    }

    fn take_drop_database(&mut self, database: &str) {
        if !self.options.scope.has_database(database) {
            return;
        }
        self.push(What::Definition("dropDatabase", rawdoc! { "ns": { "db": database } }));
        if self.options.scope.is_database(database) {
            self.push(What::Invalidate);
        }
    }

    fn take_rename(&mut self, from: &str, command: &RawDocument) {
        let Some(RawBsonRef::String(to)) = get_field(command, "to") else { return };
        if !self.options.scope.has(from) && !self.options.scope.has(to) {
            return;
        }
        let mut event = rawdoc! { "ns": namespace_document(from), "to": namespace_document(to) };
        if self.options.shows_expanded_events {
            let mut description = rawdoc! { "to": namespace_document(to) };
            if let Some(target @ RawBsonRef::Binary(_)) = get_field(command, "dropTarget") {
                description.append(cstr!("dropTarget"), target);
            }
            event.append(cstr!("operationDescription"), description);
        }
        self.push(What::Definition("rename", event));
        self.invalidate_collection();
    }

    fn invalidate_collection(&mut self) {
        if matches!(self.options.scope, Scope::Collection(_)) {
            self.push(What::Invalidate);
        }
    }

    fn take_definition(
        &mut self,
        name: &str,
        database: &str,
        target: &str,
        (command, second): (&RawDocument, Option<RawBsonRef<'_>>),
    ) {
        let namespace = format!("{database}.{target}");
        if !self.options.scope.has(&namespace) {
            return;
        }
        let mut event = rawdoc! { "ns": namespace_document(&namespace) };
        if name == "drop" {
            self.push(What::Definition("drop", event));
            return self.invalidate_collection();
        }
        if !self.options.shows_expanded_events {
            return;
        }
        let Some((kind, description)) = describe(name, command, second) else { return };
        if kind == "create" {
            event.append(cstr!("nsType"), "collection");
        }
        event.append(cstr!("operationDescription"), description);
        if let ("modify", Some(RawBsonRef::Document(before))) = (kind, second) {
            event.append(cstr!("stateBeforeChange"), state_before(before));
        }
        self.push(What::Definition(kind, event));
    }
}

/// The type of an expanded event, and its `operationDescription`.
fn describe(
    name: &str,
    command: &RawDocument,
    second: Option<RawBsonRef<'_>>,
) -> Option<(&'static str, RawDocumentBuf)> {
    let indexes = |index: Option<RawBsonRef<'_>>| {
        let mut list = bson::RawArrayBuf::new();
        if let Some(RawBsonRef::Document(index)) = index {
            list.push(index.to_owned());
        }
        rawdoc! { "indexes": list }
    };
    match name {
        "create" => {
            let mut description = RawDocumentBuf::new();
            if let Ok(id_index) = IndexSpecification::id_index() {
                let options = get_field(command, "options").and_then(|options| options.as_document());
                let options = options.and_then(|options| CollectionOptions::parse(options).ok());
                let id_index = id_index.with_collator(options.and_then(|options| options.collator));
                let Ok(id_index) = id_index else { return None };
                description.append(cstr!("idIndex"), id_index.to_document());
            }
            if let Some(RawBsonRef::Document(options)) = get_field(command, "options") {
                elements(options).for_each(|option| append(&mut description, option.name(), option.value()));
            }
            Some(("create", description))
        }
        "commitIndexBuild" => Some(("createIndexes", indexes(get_field(command, "index")))),
        "dropIndexes" => Some(("dropIndexes", indexes(second))),
        "collMod" => Some(("modify", describe_modification(command, second))),
        _ => None,
    }
}

/// What a `collMod` has changed, by the names that it has there.
fn describe_modification(command: &RawDocument, before: Option<RawBsonRef<'_>>) -> RawDocumentBuf {
    let old = match before {
        Some(RawBsonRef::Document(before)) => {
            get_field(before, "collectionOptions_old").and_then(|old| old.as_document())
        }
        _ => None,
    };
    let name_of = |option: &str| match option {
        "size" => "cappedSize".to_owned(),
        "max" => "cappedMax".to_owned(),
        other => other.to_owned(),
    };
    let mut description = RawDocumentBuf::new();
    if let Some(RawBsonRef::Document(options)) = get_field(command, "options") {
        for option in elements(options) {
            let was = old.and_then(|old| document::get_element(old, option.name()));
            if was.is_none_or(|was| was.value_bytes() != option.value_bytes()) {
                append(&mut description, &name_of(option.name()), option.value());
            }
        }
        let gone = old.into_iter().flat_map(elements).filter(|option| option.name() != "uuid");
        for option in gone.filter(|option| document::get_element(options, option.name()).is_none()) {
            match option.value() {
                RawBsonRef::Document(_) => append(&mut description, option.name(), RawBsonRef::Document(&rawdoc! {})),
                _ => append(&mut description, &name_of(option.name()), RawBsonRef::Null),
            }
        }
    }
    if let Some(index) = get_field(command, "index") {
        description.append(cstr!("index"), index);
    }
    description
}

/// See `collection::Modification::state_before`.
fn state_before(before: &RawDocument) -> RawDocumentBuf {
    let mut state = RawDocumentBuf::new();
    for (logged, told) in [("collectionOptions_old", "collectionOptions"), ("indexOptions_old", "indexOptions")] {
        if let Some(value) = get_field(before, logged) {
            append(&mut state, told, value);
        }
    }
    state
}

fn namespace_document(namespace: &str) -> RawDocumentBuf {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    rawdoc! { "db": database, "coll": collection }
}

/// An event as a stream yields it.
pub(super) enum Event {
    /// As all plain streams show it.
    Shared(SharedEvent),
    Own(RawDocumentBuf),
}

impl Event {
    pub(super) fn document(&self) -> &RawDocument {
        match self {
            Event::Shared(event) => event.document(),
            Event::Own(document) => document,
        }
    }

    pub(super) fn into_document(self) -> RawDocumentBuf {
        match self {
            Event::Shared(event) => event.document().to_owned(),
            Event::Own(document) => document,
        }
    }
}

/// The plain event of an entry about one document, which is kept with the entry.
pub(super) struct SharedEvent(Arc<RawDocumentBuf>);

impl SharedEvent {
    /// Built by the first who asks, with plain options. `None`: it cannot be built, which whoever builds an own one is told.
    pub(super) fn of(
        sources: &EventSources,
        options: &ChangeStreamOptions,
        entry: &Arc<FeedEntry>,
    ) -> Option<SharedEvent> {
        let event = entry.shared.get_or_init(|| {
            let token = ResumeToken::behind_document(entry);
            let event = PendingEvent { entry: entry.clone(), what: What::Document, token };
            event.build_own(sources, options).ok().map(Arc::new)
        });
        event.clone().map(SharedEvent)
    }

    pub(super) fn document(&self) -> &RawDocument {
        &self.0
    }
}

impl PendingEvent {
    /// The event as the stream shows it.
    pub(super) fn build_own(&self, sources: &EventSources, options: &ChangeStreamOptions) -> Result<RawDocumentBuf> {
        let entry = entry_document(&self.entry.payload)?;
        let mut event = RawDocumentBuf::new();
        event.append(cstr!("_id"), self.token.document());
        let kind = self.kind(entry);
        event.append(cstr!("operationType"), kind);
        event.append(cstr!("clusterTime"), bson_timestamp(self.entry.timestamp));
        let subject = match &self.what {
            What::Part(operation) => operation,
            _ => entry,
        };
        if options.shows_expanded_events
            && let Some(uuid) = get_field(subject, "ui")
            && !matches!(self.what, What::Invalidate | What::View(_))
        {
            event.append(cstr!("collectionUUID"), uuid);
        }
        event.append(cstr!("wallTime"), entry_wall(entry));
        match &self.what {
            What::Document => write_change(sources, options, kind, entry, &mut event)?,
            What::Part(operation) => {
                for name in ["txnNumber", "lsid"] {
                    if let Some(value) = get_field(entry, name) {
                        append(&mut event, name, value);
                    }
                }
                write_change(sources, options, kind, operation, &mut event)?;
            }
            What::Definition(_, fields) | What::View(fields) => {
                elements(fields).for_each(|field| append(&mut event, field.name(), field.value()));
            }
            What::Invalidate => {}
        }
        Ok(event)
    }

    fn kind(&self, entry: &RawDocument) -> &'static str {
        match &self.what {
            What::Document => kind_of_change(entry),
            What::Part(operation) => kind_of_change(operation),
            What::Definition(kind, _) => kind,
            What::View(_) => "create",
            What::Invalidate => "invalidate",
        }
    }
}

fn kind_of_change(operation: &RawDocument) -> &'static str {
    match (get_field(operation, "op"), get_field(operation, "o")) {
        (Some(RawBsonRef::String("i")), _) => "insert",
        (Some(RawBsonRef::String("d")), _) => "delete",
        (_, Some(RawBsonRef::Document(object))) if is_delta(object) => "update",
        _ => "replace",
    }
}

fn is_delta(object: &RawDocument) -> bool {
    elements(object).next().is_some_and(|first| first.name() == "$v")
}

/// The fields of an event about one document.
fn write_change(
    sources: &EventSources,
    options: &ChangeStreamOptions,
    kind: &str,
    operation: &RawDocument,
    event: &mut RawDocumentBuf,
) -> Result<()> {
    let Some(RawBsonRef::Document(object)) = get_field(operation, "o") else {
        return Err(CommandError::named("InternalError", "an oplog entry without o"));
    };
    let key = match (kind, get_field(operation, "o2")) {
        ("update" | "replace", Some(RawBsonRef::Document(key))) => key.to_owned(),
        _ => {
            let mut key = RawDocumentBuf::new();
            if let Some(id) = get_field(object, "_id") {
                key.append(cstr!("_id"), id);
            }
            key
        }
    };
    let before = match get_field(operation, "pre") {
        Some(RawBsonRef::Document(before)) => Some(before),
        _ => None,
    };
    match kind {
        "insert" | "replace" => event.append(cstr!("fullDocument"), object.to_owned()),
        "update" => write_full_document(sources, options, (operation, object, &key, before), event)?,
        _ => {}
    }
    if let Some(RawBsonRef::String(namespace)) = get_field(operation, "ns") {
        event.append(cstr!("ns"), namespace_document(namespace));
    }
    event.append(cstr!("documentKey"), key);
    let disambiguation = if options.shows_expanded_events { Disambiguation::Told } else { Disambiguation::Left };
    if kind == "update"
        && let Some(description) = Diff::from_document(object.to_owned())?.update_description(disambiguation)?
    {
        event.append(cstr!("updateDescription"), description);
    }
    if kind != "insert" {
        write_before(options, kind, before, event)?;
    }
    Ok(())
}

fn write_before(
    options: &ChangeStreamOptions,
    kind: &str,
    before: Option<&RawDocument>,
    event: &mut RawDocumentBuf,
) -> Result<()> {
    match (options.before_change, before) {
        (BeforeChange::Off, _) => {}
        (_, Some(before)) => event.append(cstr!("fullDocumentBeforeChange"), before.to_owned()),
        (BeforeChange::WhenAvailable, None) => event.append(cstr!("fullDocumentBeforeChange"), RawBsonRef::Null),
        (BeforeChange::Required, None) => {
            let message = format!(
                "Change stream was configured to require a pre-image for all update, delete and replace events, but the pre-image was not found for event of type {kind}"
            );
            return Err(CommandError::named("NoMatchingDocument", message));
        }
    }
    Ok(())
}

type Update<'a> = (&'a RawDocument, &'a RawDocument, &'a RawDocument, Option<&'a RawDocument>);

fn write_full_document(
    sources: &EventSources,
    options: &ChangeStreamOptions,
    (operation, object, key, before): Update<'_>,
    event: &mut RawDocumentBuf,
) -> Result<()> {
    let full = match (options.full_document, before) {
        (FullDocument::Default, _) => return Ok(()),
        (FullDocument::UpdateLookup, _) => look_up(sources, operation, key)?,
        (_, Some(before)) => Some(post_image(before, object)?),
        (FullDocument::WhenAvailable, None) => None,
        (FullDocument::Required, None) => {
            let message = "Change stream was configured to require a post-image for all update events, but the post-image was not found";
            return Err(CommandError::named("NoMatchingDocument", message));
        }
    };
    match full {
        Some(full) => event.append(cstr!("fullDocument"), full),
        None => event.append(cstr!("fullDocument"), RawBsonRef::Null),
    }
    Ok(())
}

/// The document as it is now.
fn look_up(sources: &EventSources, operation: &RawDocument, key: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let Some(RawBsonRef::Binary(uuid)) = get_field(operation, "ui") else { return Ok(None) };
    let Ok(uuid) = <[u8; 16]>::try_from(uuid.bytes) else { return Ok(None) };
    let Some(collection) = sources.services.store.catalog().lookup_uuid(Uuid::from_bytes(uuid)) else {
        return Ok(None);
    };
    let Some(id) = get_field(key, "_id") else { return Ok(None) };
    let mut equality = RawDocumentBuf::new();
    equality.append(cstr!("$eq"), id);
    let filter = rawdoc! { "_id": equality };
    let now = bson::DateTime::from_millis(sources.clock.wall_millis());
    let query = query(Some(&filter), &Arc::new(Variables::new(now, None, 0)))?;
    let view = sources.services.store.read_view();
    let mut found =
        QueryExecutor::new(&sources.services, view, Target::of(&collection), Arc::new(query), &Uninterrupted)?;
    Ok(found.next(&Uninterrupted)?.map(|row| row.document.to_owned()))
}

/// A look-up by `_id` is short.
struct Uninterrupted;

impl Interrupt for Uninterrupted {
    fn check(&self) -> std::result::Result<(), Interruption> {
        Ok(())
    }
}

/// The whole entry as a document.
pub(super) fn entry_document(payload: &[u8]) -> Result<&RawDocument> {
    Ok(RawDocument::from_bytes(payload)?)
}
