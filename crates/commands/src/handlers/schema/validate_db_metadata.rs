//! `validateDBMetadata`: which collections have something that version 1 of the stable API, used strictly, does not have.
//!
//! Of what can be stored here that is: sparse indexes.

use bson::RawDocument;
use collection::Collection;
use transaction::Store;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_database};
use crate::state::operations::Operation;

/// What is asked for.
#[derive(Default)]
struct Api {
    has_version: bool,
    is_strict: bool,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.store, &context.operation, arguments, reply),
    Declaration::new(
        "validateDBMetadata",
        "What version 1 of the stable API does not have.",
        Needs::Primary,
        &[on_database(Action::Validate)],
    ),
);

/// Runs the command.
pub(crate) fn run(
    store: &Store,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut api, mut database, mut name) = (None, None, None);
    for field in arguments.fields() {
        match field.name() {
            "apiParameters" => api = field.document()?.map(parse_api).transpose()?,
            "db" => database = field.string()?,
            "collection" => name = field.string()?,
            _ => arguments.generic(field)?,
        }
    }
    let api = required(api, "validateDBMetadata.apiParameters")?;
    if !api.has_version {
        return required(None, "validateDBMetadata.apiParameters.version");
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let catalog = store.catalog();
    let mut collections = match database {
        Some(database) => catalog.collections_of(database),
        None => catalog.all_collections(),
    };
    collections.retain(|collection| name.is_none_or(|name| collection.namespace().collection() == name));
    collections.sort_by(|left, right| left.namespace().as_str().cmp(right.namespace().as_str()));
    reply.array("apiVersionErrors", |errors| {
        for collection in collections.iter().filter(|_| api.is_strict) {
            for index in sparse_indexes(collection) {
                let error = CommandError::named(
                    "APIStrictError",
                    format!("The index with name {index} is not allowed in API version 1."),
                );
                errors.push_document(|entry| {
                    entry.string("ns", collection.namespace().as_str());
                    entry.int32("code", error.code);
                    entry.string("codeName", &error.code_name);
                    entry.string("errmsg", &error.message);
                });
            }
        }
    });
    Ok(())
}

fn parse_api(parameters: &RawDocument) -> Result<Api> {
    let mut api = Api::default();
    for element in document::elements(parameters) {
        let field = Field::of("validateDBMetadata.apiParameters", element);
        match field.name() {
            "version" => {
                let version = field.required(Field::string)?;
                if version != "1" {
                    let message = format!("API version must be \"1\", not \"{version}\"");
                    return Err(CommandError::named("APIVersionError", message));
                }
                api.has_version = true;
            }
            "strict" => api.is_strict = field.boolean()?,
            // Nothing of version 1 is deprecated.
            "deprecationErrors" => drop(field.boolean()?),
            _ => return Err(field.unknown()),
        }
    }
    Ok(api)
}

fn sparse_indexes(collection: &Collection) -> Vec<String> {
    let indexes = collection.indexes();
    let sparse = indexes.ready().filter(|index| index.specification().sparse);
    sparse.map(|index| index.name().to_owned()).collect()
}
