//! What the audit log says of a command that changes users, roles, definitions or the server's configuration: MongoDB's names of
//! such events, and their `param`.
//!
//! A command's declaration names one of these functions; `dispatcher` calls it with the request and writes the events when the
//! command has ended. What is malformed gives an event without what cannot be read: its command fails.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{array_elements, elements, get_field};

use crate::DocumentWriter;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::Declaration;
use crate::request::document_writer::document_of;

/// Bytes of a field of a command in an event; a larger one is told as such.
const FIELD_BYTES_MAX: usize = 16 << 10;
/// What stands for what is too large.
const TRUNCATED: &str = "$truncated";

/// Something that the audit log tells.
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    pub(crate) param: RawDocumentBuf,
}

/// Tells what a command does.
pub(crate) type Audited = fn(&Declaration, &CommandRequest<'_>) -> Vec<Event>;

/// Fields that any command may have, which say nothing of what it does.
const GENERIC: &[&str] = &[
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "stmtId",
    "writeConcern",
    "readConcern",
    "maxTimeMS",
    "comment",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
];

fn one(kind: &'static str, write: impl FnOnce(&mut DocumentWriter<'_>)) -> Vec<Event> {
    // A document that is too large is none of ours.
    document_of(write).into_iter().map(|param| Event { kind, param }).collect()
}

fn target<'a>(request: &CommandRequest<'a>) -> &'a str {
    elements(request.body).next().and_then(|first| first.value().as_str()).unwrap_or_default()
}

fn namespace(request: &CommandRequest<'_>) -> String {
    format!("{}.{}", request.database, target(request))
}

/// The command's fields as they came, without its secrets.
pub(crate) fn as_named(command: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one(command.name, |param| {
        param.string("db", request.database);
        write_fields(command, request.body, param);
    })
}

/// Writes the fields of a command that are its own and no secrets.
fn write_fields(command: &Declaration, body: &RawDocument, param: &mut DocumentWriter<'_>) {
    let is_own = |name: &str| !name.starts_with('$') && !GENERIC.contains(&name) && !command.secrets.contains(&name);
    for element in elements(body).filter(|element| is_own(element.name())) {
        match element.value_bytes().len() <= FIELD_BYTES_MAX {
            true => param.element(element),
            false => param.string(element.name(), TRUNCATED),
        }
    }
}

/// `{user, db, ...}`, with whether a password was set in place of the password.
pub(crate) fn of_user(command: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one(command.name, |param| {
        param.string("user", target(request));
        param.string("db", request.database);
        if command.name == "updateUser" {
            param.boolean("passwordChanged", get_field(request.body, "pwd").is_some());
        }
        write_granted(request, &["customData", "roles", "authenticationRestrictions"], param);
    })
}

/// `{role, db, ...}`.
pub(crate) fn of_role(command: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one(command.name, |param| {
        param.string("role", target(request));
        param.string("db", request.database);
        write_granted(request, &["roles", "privileges", "authenticationRestrictions"], param);
    })
}

fn write_granted(request: &CommandRequest<'_>, names: &[&str], param: &mut DocumentWriter<'_>) {
    for element in elements(request.body).filter(|element| names.contains(&element.name())) {
        match element.value() {
            _ if element.value_bytes().len() > FIELD_BYTES_MAX => param.string(element.name(), TRUNCATED),
            RawBsonRef::Array(roles) if element.name() == "roles" => param.array("roles", |list| {
                for role in array_elements(roles) {
                    match role.value() {
                        // A name alone is one of the same database.
                        RawBsonRef::String(name) => list.push_document(|role| {
                            role.string("role", name);
                            role.string("db", request.database);
                        }),
                        other => list.push_value(other),
                    }
                }
            }),
            _ => param.element(element),
        }
    }
}

/// `{db}`.
pub(crate) fn of_database(command: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one(command.name, |param| param.string("db", request.database))
}

/// `dropDatabase`.
pub(crate) fn database_dropped(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one("dropDatabase", |param| param.string("ns", request.database))
}

/// `createCollection`, with what a view is of.
pub(crate) fn collection_created(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one("createCollection", |param| {
        param.string("ns", &namespace(request));
        let of_view = |name: &str| matches!(name, "viewOn" | "pipeline");
        for element in elements(request.body).filter(|element| of_view(element.name())) {
            if element.value_bytes().len() <= FIELD_BYTES_MAX {
                param.element(element);
            }
        }
    })
}

/// `createCollection` for what `$out` puts in the place of whatever is there.
pub(crate) fn replaced_by_pipeline(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    let explains = matches!(get_field(request.body, "explain"), Some(RawBsonRef::Boolean(true)));
    let Some(RawBsonRef::Array(stages)) = get_field(request.body, "pipeline").filter(|_| !explains) else {
        return Vec::new();
    };
    let last = array_elements(stages).last().and_then(|stage| stage.value().as_document());
    match last.and_then(|stage| get_field(stage, "$out")) {
        Some(RawBsonRef::String(name)) => {
            one("createCollection", |param| param.string("ns", &format!("{}.{name}", request.database)))
        }
        Some(RawBsonRef::Document(target)) => one("createCollection", |param| {
            let part = |name: &str| get_field(target, name).and_then(|part| part.as_str()).unwrap_or_default();
            param.string("ns", &format!("{}.{}", part("db"), part("coll")));
        }),
        _ => Vec::new(),
    }
}

/// `dropCollection`.
pub(crate) fn collection_dropped(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one("dropCollection", |param| param.string("ns", &namespace(request)))
}

/// `renameCollection`.
pub(crate) fn renamed(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    one("renameCollection", |param| {
        param.string("old", target(request));
        let new = get_field(request.body, "to").and_then(|new| new.as_str());
        param.string("new", new.unwrap_or_default());
    })
}

/// `createIndex`, for each.
pub(crate) fn indexes_created(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    let Some(RawBsonRef::Array(indexes)) = get_field(request.body, "indexes") else { return Vec::new() };
    let specifications = array_elements(indexes).filter_map(|element| element.value().as_document());
    let event = |index: &RawDocument| {
        one("createIndex", |param| {
            param.string("ns", &namespace(request));
            param.string("indexName", get_field(index, "name").and_then(|name| name.as_str()).unwrap_or_default());
            if index.as_bytes().len() <= FIELD_BYTES_MAX {
                param.embed("indexSpec", index);
            }
        })
    };
    specifications.flat_map(event).collect()
}

/// `dropIndex`, for each that is named; `*` are all.
pub(crate) fn indexes_dropped(_: &Declaration, request: &CommandRequest<'_>) -> Vec<Event> {
    let event = |index: RawBsonRef<'_>| {
        one("dropIndex", |param| {
            param.string("ns", &namespace(request));
            match index {
                RawBsonRef::String(name) => param.string("indexName", name),
                RawBsonRef::Document(keys) => param.embed("key", keys),
                _ => {}
            }
        })
    };
    match get_field(request.body, "index") {
        Some(RawBsonRef::Array(names)) => array_elements(names).flat_map(|name| event(name.value())).collect(),
        Some(index) => event(index),
        None => Vec::new(),
    }
}

/// Writes what somebody was, or was not, allowed to run: `authCheck`.
pub(crate) fn write_check(command: &Declaration, request: &CommandRequest<'_>, param: &mut DocumentWriter<'_>) {
    param.string("command", command.name);
    let target = target(request);
    let is_of_collection = !target.is_empty() && !command.secrets.contains(&command.name);
    param.string("ns", &if is_of_collection { namespace(request) } else { request.database.to_owned() });
    param.document("args", |args| {
        for element in elements(request.body) {
            let is_secret = command.secrets.contains(&element.name());
            match is_secret || element.value_bytes().len() > FIELD_BYTES_MAX {
                true => args.string(element.name(), if is_secret { "xxx" } else { TRUNCATED }),
                false => args.element(element),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::request::command_request::{Attempt, NoSequences};
    use crate::request::declaration::Needs;

    fn told(audited: Audited, name: &'static str, body: RawDocumentBuf) -> Vec<(&'static str, RawDocumentBuf)> {
        let command = Declaration { secrets: &["pwd"], ..Declaration::new(name, "", Needs::Nothing, &[]) };
        let request = CommandRequest {
            name,
            database: "shop",
            body: &body,
            sequences: &NoSequences,
            attempt: Attempt::First,
            is_legacy: false,
        };
        audited(&command, &request).into_iter().map(|event| (event.kind, event.param)).collect()
    }

    #[test]
    fn users_and_roles_are_told_without_passwords() {
        let body = rawdoc! { "updateUser": "ada", "pwd": "secret", "roles": ["read", { "role": "x", "db": "y" }], "$db": "shop" };
        let expected = rawdoc! {
            "user": "ada", "db": "shop", "passwordChanged": true,
            "roles": [{ "role": "read", "db": "shop" }, { "role": "x", "db": "y" }],
        };
        assert_eq!(told(of_user, "updateUser", body), [("updateUser", expected)]);
        let body = rawdoc! { "setIt": 1, "pwd": "secret", "lsid": {}, "$db": "shop", "level": 5 };
        assert_eq!(told(as_named, "setIt", body), [("setIt", rawdoc! { "db": "shop", "setIt": 1, "level": 5 })]);
    }

    #[test]
    fn each_index_is_an_event_and_what_is_malformed_is_none() {
        let indexes = rawdoc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }, 5] };
        let told_index =
            rawdoc! { "ns": "shop.c", "indexName": "a_1", "indexSpec": { "key": { "a": 1 }, "name": "a_1" } };
        assert_eq!(told(indexes_created, "createIndexes", indexes), [("createIndex", told_index)]);
        assert_eq!(told(indexes_created, "createIndexes", rawdoc! { "createIndexes": 1, "indexes": 7 }), []);
        let dropped = told(indexes_dropped, "dropIndexes", rawdoc! { "dropIndexes": "c", "index": ["a", "b"] });
        assert_eq!(dropped.len(), 2);
        let large = "x".repeat(FIELD_BYTES_MAX);
        let large = told(as_named, "profile", rawdoc! { "profile": 1, "filter": large });
        assert_eq!(large[0].1.get_str("filter").unwrap(), TRUNCATED);
    }
}
