//! `collMod`: changes the validator of a collection, the bounds of a capped one, whether pre-images are kept, or hides an index or changes when its documents expire.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::catalog::{IndexModification, Modification};
use collection::{CappedOptions, Collection, CollectionOptions, Index, parse_expiry, parse_pre_images};
use document::compare_documents;
use query_language::expression::show_value;

use super::{acknowledge, check_may_validate, existing_collection, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Changes, Declaration, Needs, StableApi, WithoutClient, WriteConcernUse};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
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
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(context, &arguments)?;
    context.operation.set_time_limit(arguments.time_limit())?;
    let (mut index, mut validation) = (None, Vec::new());
    for field in arguments.fields() {
        match field.name() {
            "index" => index = field.document()?.map(IndexRequest::parse).transpose()?,
            "validator"
            | "validationLevel"
            | "validationAction"
            | "cappedSize"
            | "cappedMax"
            | "changeStreamPreAndPostImages" => validation.extend(Some(field).filter(|field| !field.is_null())),
            "viewOn"
            | "pipeline"
            | "expireAfterSeconds"
            | "timeseries"
            | "timeseriesBucketsMayHaveMixedSchemaData"
            | "recordPreImages"
            | "clusteredIndex"
            | "dryRun" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    let collection =
        existing_collection(context.server, namespace.as_str(), || format!("ns does not exist: {namespace}"))?;
    if validation.iter().any(|field| field.name() == "validator") {
        check_may_validate(&namespace)?;
    }
    let mut modification = Modification::default();
    if !validation.is_empty() {
        modification.options = Some(changed_options(&collection, &validation)?);
    }
    if let Some(request) = index {
        let found = request.find(&collection)?;
        request.write_change(&found, reply);
        let (hidden, expire_after_seconds) = (request.hidden, request.expire_after_seconds);
        modification.index = Some(IndexModification { name: found.name().to_owned(), hidden, expire_after_seconds });
    }
    // Logged also when nothing changes: followers of the oplog are told of every collMod, as in MongoDB.
    let commit = context.server.store.modify_collection(&collection, modification)?;
    acknowledge(context, arguments.generic.write_concern, Some(&commit), reply)
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
                "unique" | "prepareUnique" | "forceNonUnique" => field.refuse_unless_null()?,
                _ => return Err(field.unknown()),
            }
        }
        let problem = match (request.name, request.key_pattern) {
            (Some(_), Some(_)) => "Cannot specify both key pattern and name.",
            (None, None) => "Must specify either index name or key pattern.",
            _ if request.hidden.is_none() && request.expire_after_seconds.is_none() => {
                "no expireAfterSeconds, hidden, unique, or prepareUnique field"
            }
            _ => return Ok(request),
        };
        Err(CommandError::named("InvalidOptions", problem))
    }

    fn find(&self, collection: &Collection) -> Result<Arc<Index>> {
        let indexes = collection.indexes();
        let is_it = |index: &&Arc<Index>| match (self.name, self.key_pattern) {
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
    }
}

fn expiry(field: Field<'_>) -> Result<i64> {
    parse_expiry(field.value()).map_err(|error| CommandError::named("InvalidOptions", error.to_string()))
}
