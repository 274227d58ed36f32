//! `create`: creates a collection or a view.
//!
//! Creating a collection that exists with the same options changes nothing and succeeds, but for in a transaction. A time-series
//! collection is created as its buckets (`time_series`).

use bson::{RawBsonRef, RawDocumentBuf};
use collection::{CollectionError, CollectionOptions, ID_INDEX_NAME, IndexSpecification, Namespace};
use query_language::expression::show_value;
use transaction::{CommitInfo, TransactionError};

use super::{acknowledge, check_is_free, check_may_create, check_may_validate, take_generic, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::needed_privileges;
use crate::handlers::time_series::{self, index_face};
use crate::handlers::views::define::{self, ViewRequest};
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::collection_created),
        changes: Changes::Stored,
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        computed: Some(needed_privileges::of_view),
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "create",
            "Creates a collection or a view.",
            Needs::Primary,
            &[on_collection(Action::CreateCollection)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    // It is made with another size this way.
    if namespace.collection() != crate::handlers::diagnostics::profile::COLLECTION {
        check_may_create(&namespace)?;
    }
    defining.operation().set_time_limit(arguments.time_limit())?;
    let mut view = ViewRequest::default();
    let options = parse_options(&mut arguments, &mut view)?;
    if view.is_given() {
        view.collator = options.collator.clone();
        if !(CollectionOptions { collator: None, ..options }).to_document().is_empty() {
            let message = "options of collections cannot be used with 'viewOn'";
            return Err(CommandError::named("InvalidOptions", message));
        }
        let commit = define::create(&defining.changing, &namespace, &view)?;
        return acknowledge(defining, arguments.generic.write_concern, commit.as_ref(), reply);
    }
    check_is_free(defining.queries(), &namespace)?;
    if options.validator.is_some() {
        check_may_validate(&namespace)?;
    }
    if options.time_series.is_some() {
        let commit = create_series(defining, &namespace, options)?;
        return acknowledge(defining, arguments.generic.write_concern, commit.as_ref(), reply);
    }
    let commit = create(defining, &namespace, options)?;
    acknowledge(defining, arguments.generic.write_concern, commit.as_ref(), reply)
}

fn parse_options<'a>(arguments: &mut Arguments<'a>, view: &mut ViewRequest<'a>) -> Result<CollectionOptions> {
    let mut given: Vec<Field<'_>> = Vec::new();
    for field in arguments.fields() {
        match field.name() {
            "idIndex" => check_id_index(field)?,
            "viewOn" | "pipeline" => view.take(field)?,
            _ if take_generic(arguments, field)? => {}
            _ => given.push(field),
        }
    }
    let options: RawDocumentBuf =
        document_of(|document| given.iter().for_each(|field| document.element(field.element)))?;
    Ok(CollectionOptions::parse(&options)?)
}

/// The `_id` index is what it is; saying so is fine.
fn check_id_index(field: Field<'_>) -> Result<()> {
    let Some(given) = field.document()? else { return Ok(()) };
    let specification = IndexSpecification::parse(given)?;
    if let Some(name) = document::get_field(given, "name").and_then(bson::RawBsonRef::as_str)
        && name != ID_INDEX_NAME
        && specification.is_id_index()
    {
        let message = format!("The field 'name' for an _id index must be '{ID_INDEX_NAME}', but got '{name}'");
        return Err(CommandError::bad_value(message));
    }
    if specification.is_id_index() {
        return Ok(());
    }
    Err(CommandError::bad_value(format!(
        "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
        show_value(RawBsonRef::Document(&specification.key))
    )))
}

/// Creates a time-series collection: its buckets, and the index that it has from the beginning.
fn create_series(
    defining: &Defining<'_>,
    namespace: &Namespace,
    options: CollectionOptions,
) -> Result<Option<CommitInfo>> {
    if defining.reading().is_in_transaction() {
        let message = format!("Cannot create a time-series collection in a multi-document transaction: {namespace}");
        return Err(CommandError::named("OperationNotSupportedInTransaction", message));
    }
    if defining.queries().store.catalog().lookup(namespace.as_str()).is_some() {
        let message = format!("Collection {namespace} already exists.");
        return Err(CommandError::named("NamespaceExists", message));
    }
    let commit = create(defining, &time_series::new_buckets_of(namespace)?, options)?;
    let series = time_series::of(defining.queries(), namespace);
    if let (Some(series), true) = (series, commit.is_some())
        && let Some(usual) = index_face::usual(&series)?
    {
        let created = defining.queries().store.create_indexes_unless(&series.collection, vec![usual], &|| false)?;
        return Ok(created.commit.or(commit));
    }
    Ok(commit)
}

fn create(defining: &Defining<'_>, namespace: &Namespace, options: CollectionOptions) -> Result<Option<CommitInfo>> {
    let store = defining.queries().store;
    let created = match defining.reading().transaction() {
        Some(transaction) => store.create_in_transaction(transaction, namespace, options.clone()).map(|_| None),
        None => store.create_collection(namespace, options.clone()).map(|(_, commit)| Some(commit)),
    };
    match created {
        Ok(commit) => Ok(commit),
        Err(TransactionError::Collection(CollectionError::NamespaceExists(message))) => {
            // In a transaction it is no use of what is there, as in MongoDB.
            let existing = match defining.reading().transaction() {
                Some(_) => None,
                None => defining.reading().collection(namespace)?,
            };
            let is_same = existing.is_some_and(|existing| existing.definition().options.same_as(&options));
            if is_same { Ok(None) } else { Err(CommandError::named("NamespaceExists", message)) }
        }
        Err(error) => Err(error.into()),
    }
}
