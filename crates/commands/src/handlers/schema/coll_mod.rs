//! `collMod`: changes the definition of a view, the validator of a collection, the bounds of a capped one, whether pre-images are kept, or hides an index,
//! changes when its documents expire, or makes it unique (`index_violations.rs`).

use std::cmp::Ordering;
use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::catalog::{IndexModification, Modification};
use collection::{
    CappedOptions, Collection, CollectionOptions, Index, Namespace, parse_collection_expiry, parse_expiry,
    parse_pre_images,
};
use document::compare_documents;
use query_language::expression::show_value;

use super::index_violations::check_violations;
use super::{acknowledge, check_may_validate, existing_or_series, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::needed_privileges;
use crate::handlers::time_series::{TimeSeries, index_face};
use crate::handlers::views::define::{self, ViewRequest};
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, StableApi, WithoutClient, WriteConcernUse};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        computed: Some(needed_privileges::of_view),
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "collMod",
            "Changes options of a collection or of one of its indexes.",
            Needs::Primary,
            &[on_collection(Action::CollMod)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    defining.operation().set_time_limit(arguments.time_limit())?;
    let (mut index, mut validation, mut dry_run, mut view) = (None, Vec::new(), None, ViewRequest::default());
    let mut of_documents = Vec::new();
    for field in arguments.fields() {
        match field.name() {
            "index" => index = field.document()?.map(IndexRequest::parse).transpose()?,
            "validator"
            | "validationLevel"
            | "validationAction"
            | "cappedSize"
            | "cappedMax"
            | "changeStreamPreAndPostImages" => validation.extend(Some(field).filter(|field| !field.is_null())),
            "viewOn" | "pipeline" => view.take(field)?,
            "expireAfterSeconds" | "timeseries" => of_documents.extend(Some(field).filter(|field| !field.is_null())),
            "timeseriesBucketsMayHaveMixedSchemaData" | "recordPreImages" | "clusteredIndex" => {
                field.refuse_unless_null()?;
            }
            "dryRun" => dry_run = Some(field).filter(|field| !field.is_null()),
            _ => arguments.generic(field)?,
        }
    }
    let is_dry = match dry_run {
        Some(field) if !index.as_ref().is_some_and(|index| index.unique) => return field.refuse_unless_null(),
        Some(field) => field.optional_boolean()?.unwrap_or_default(),
        None => false,
    };
    if view.is_given() {
        let has_others = index.is_some() || !validation.is_empty() || !of_documents.is_empty();
        return change_view(defining, &namespace, &view, has_others, arguments, reply);
    }
    let missing = || format!("ns does not exist: {namespace}");
    let (collection, series) = existing_or_series(defining.queries(), &namespace, missing)?;
    if validation.iter().any(|field| field.name() == "validator") {
        check_may_validate(&namespace)?;
    }
    let mut modification = Modification::default();
    if !(validation.is_empty() && of_documents.is_empty()) {
        let options = changed_options(&collection, &validation)?;
        modification.options = Some(with_expiry_and_buckets(options, &of_documents)?);
    }
    if let Some(request) = index {
        let version = collection.indexes().version();
        let found = request.find(&collection, series.as_ref())?;
        if request.unique && found.specification().prepare_unique {
            modification.as_of = Some(version);
            check_violations((defining.queries().store, defining.operation()), &collection, &found)?;
        }
        if is_dry {
            return Ok(());
        }
        request.write_change(&found, reply);
        modification.index = Some(IndexModification {
            name: found.name().to_owned(),
            hidden: request.hidden,
            expire_after_seconds: request.expire_after_seconds,
            prepare_unique: request.prepare_unique,
            unique: request.unique,
        });
    }
    // Logged also when nothing changes: followers of the oplog are told of every collMod, as in MongoDB.
    let commit = defining.queries().store.modify_collection(&collection, modification)?;
    acknowledge(defining, arguments.generic.write_concern, Some(&commit), reply)
}

/// Gives a view another definition.
fn change_view(
    defining: &Defining<'_>,
    namespace: &Namespace,
    view: &ViewRequest<'_>,
    has_other_options: bool,
    arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let invalid = |message: String| Err(CommandError::named("InvalidOptions", message));
    if has_other_options {
        return invalid(format!("option not supported on a view: {namespace}"));
    }
    if view.on.is_none() || view.pipeline.is_none() {
        return invalid("Must specify both 'viewOn' and 'pipeline' when modifying a view".to_owned());
    }
    if let Some(commit) = define::change(&defining.changing, namespace, view)? {
        return acknowledge(defining, arguments.generic.write_concern, Some(&commit), reply);
    }
    if defining.queries().store.catalog().lookup(namespace.as_str()).is_some() {
        return invalid(format!("option only supported on a view: {namespace}"));
    }
    Err(CommandError::named("NamespaceNotFound", format!("ns does not exist: {namespace}")))
}

/// The collection's options with the given fields in place of what they were.
fn changed_options(collection: &Collection, given: &[Field<'_>]) -> Result<CollectionOptions> {
    let is_common = |field: &&Field<'_>| field.name().starts_with("validat");
    let document =
        document_of(|document| given.iter().filter(is_common).for_each(|field| document.element(field.element)))?;
    let parsed = CollectionOptions::parse(&document)?;
    let mut options = collection.definition().options.clone();
    for field in given {
        match field.name() {
            // An empty validator takes the old one away.
            "changeStreamPreAndPostImages" => options.has_pre_images = parse_pre_images(field.value())?,
            "cappedSize" | "cappedMax" => options.capped = Some(changed_capped(options.capped, *field)?),
            "validator" => options.validator.clone_from(&parsed.validator),
            "validationLevel" => options.validation_level = parsed.validation_level,
            _ => options.validation_action = parsed.validation_action,
        }
    }
    Ok(options)
}

/// The options with another expiry, or longer buckets.
fn with_expiry_and_buckets(mut options: CollectionOptions, given: &[Field<'_>]) -> Result<CollectionOptions> {
    for field in given {
        match (field.name(), field.value(), &options.time_series) {
            ("timeseries", value, Some(series)) => options.time_series = Some(series.changed(value)?),
            ("timeseries", ..) => {
                let message = "option only supported on a time-series collection: timeseries";
                return Err(CommandError::named("InvalidOptions", message));
            }
            (_, RawBsonRef::String("off"), _) => options.expire_after_seconds = None,
            (_, value, _) => options.expire_after_seconds = Some(parse_collection_expiry(value)?),
        }
    }
    options.check_together()?;
    Ok(options)
}

/// The bounds of a capped collection with one of them changed.
fn changed_capped(capped: Option<CappedOptions>, field: Field<'_>) -> Result<CappedOptions> {
    let Some(capped) = capped else {
        return Err(CommandError::named("InvalidOptions", "Collection must be capped."));
    };
    let Some(value) = field.integer()? else { return Ok(capped) };
    let (size, max) = (capped.size as i64, capped.max.map(|max| max as i64));
    Ok(match field.name() {
        "cappedSize" => CappedOptions::new(value, max)?,
        _ => CappedOptions::new(size, Some(value))?,
    })
}

/// The `index` field.
#[derive(Default)]
struct IndexRequest<'a> {
    name: Option<&'a str>,
    key_pattern: Option<&'a RawDocument>,
    hidden: Option<bool>,
    expire_after_seconds: Option<i64>,
    prepare_unique: Option<bool>,
    unique: bool,
}

impl<'a> IndexRequest<'a> {
    fn parse(source: &'a RawDocument) -> Result<Self> {
        let mut request = Self::default();
        for element in document::elements(source) {
            let field = Field::of("collMod.index", element);
            match field.name() {
                "name" => request.name = field.string()?,
                "keyPattern" => request.key_pattern = field.document()?,
                "hidden" => request.hidden = field.optional_boolean()?,
                "expireAfterSeconds" if field.is_null() => {}
                "expireAfterSeconds" => request.expire_after_seconds = Some(expiry(field)?),
                "prepareUnique" => request.prepare_unique = field.optional_boolean()?,
                "unique" => request.unique = parse_unique(field)?,
                "forceNonUnique" => field.refuse_unless_null()?,
                _ => return Err(field.unknown()),
            }
        }
        let problem = match (request.name, request.key_pattern) {
            (Some(_), Some(_)) => "Cannot specify both key pattern and name.",
            (None, None) => "Must specify either index name or key pattern.",
            _ if request.changes() > 1 && (request.unique || request.prepare_unique.is_some()) => {
                "unique and prepareUnique cannot be combined with each other or with other modifications of an index"
            }
            _ if request.changes() == 0 => "no expireAfterSeconds, hidden, unique, or prepareUnique field",
            _ => return Ok(request),
        };
        Err(CommandError::named("InvalidOptions", problem))
    }

    fn changes(&self) -> usize {
        let given =
            [self.hidden.is_some(), self.expire_after_seconds.is_some(), self.prepare_unique.is_some(), self.unique];
        given.iter().filter(|given| **given).count()
    }

    fn find(&self, collection: &Collection, series: Option<&TimeSeries>) -> Result<Arc<Index>> {
        let indexes = collection.indexes();
        let of_buckets = match (series, self.key_pattern) {
            (Some(series), Some(pattern)) => Some(index_face::bucket_key(series, pattern)?),
            _ => None,
        };
        let key_pattern = of_buckets.as_deref().or(self.key_pattern);
        let is_it = |index: &&Arc<Index>| match (self.name, key_pattern) {
            (Some(name), _) => index.name() == name,
            (_, Some(pattern)) => compare_documents(&index.specification().key, pattern) == Ordering::Equal,
            _ => false,
        };
        let found: Vec<&Arc<Index>> = indexes.ready().filter(is_it).collect();
        let pattern = || self.key_pattern.map(|pattern| show_value(RawBsonRef::Document(pattern))).unwrap_or_default();
        let what = || self.name.map_or_else(pattern, str::to_owned);
        match found.as_slice() {
            [index] => Ok((*index).clone()),
            [] => Err(CommandError::named(
                "IndexNotFound",
                format!("cannot find index {} for ns {}", what(), collection.namespace()),
            )),
            several => Err(CommandError::named(
                "InvalidOptions",
                format!("index keyPattern {} matches {} indexes, must use index name", what(), several.len()),
            )),
        }
    }

    /// Writes the old and new values.
    fn write_change(&self, index: &Index, reply: &mut DocumentWriter<'_>) {
        let specification = index.specification();
        if let Some(seconds) = self.expire_after_seconds {
            if let Some(old) = specification.expire_after_seconds {
                reply.int64("expireAfterSeconds_old", old);
            }
            reply.int64("expireAfterSeconds_new", seconds);
        }
        if let Some(hidden) = self.hidden.filter(|hidden| *hidden != specification.hidden) {
            reply.boolean("hidden_old", specification.hidden);
            reply.boolean("hidden_new", hidden);
        }
        if let Some(prepares) = self.prepare_unique.filter(|prepares| *prepares != specification.prepare_unique) {
            reply.boolean("prepareUnique_old", specification.prepare_unique);
            reply.boolean("prepareUnique_new", prepares);
        }
        if self.unique && !specification.unique {
            reply.boolean("unique_new", true);
        }
    }
}

/// An index does not cease to be unique by this.
fn parse_unique(field: Field<'_>) -> Result<bool> {
    match field.optional_boolean()? {
        Some(false) => Err(CommandError::bad_value("Cannot make a unique index non-unique")),
        given => Ok(given.unwrap_or_default()),
    }
}

fn expiry(field: Field<'_>) -> Result<i64> {
    parse_expiry(field.value()).map_err(|error| CommandError::named("InvalidOptions", error.to_string()))
}
