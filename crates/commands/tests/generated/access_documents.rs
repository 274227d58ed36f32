//! Documents of users and roles as commands bring them and as a restore writes them, right and wrong, in any mixture; and whatever reads them.
//!
//! Used by the test beside it and by `fuzz/fuzz_targets/users_and_roles.rs`.

use bson::{Bson, Document, doc};

use super::generator::{Choices, value};
use super::small_server::SmallServer;

const DATABASES: &[&str] = &["admin", "shop", "$external", "", "a.b"];
const USERS: &[&str] = &["ada", "bob", "", "a.b", "CN=ada", "é"];
const ROLES: &[&str] = &["clerk", "boss", "read", "root", "", "__system"];
const ACTIONS: &[&str] = &["find", "insert", "anyAction", "createUser", "", "nothing", "grantRole"];

/// Sends a command that stores or reads such a document. Every one has a reply.
pub(crate) fn try_one(choices: &mut Choices<'_>, server: &mut SmallServer) {
    let mut command = match choices.below(10) {
        0 | 1 => stored(choices),
        2..=5 => changing(choices),
        _ => reading(choices),
    };
    let own = command.len();
    if choices.happens(6) {
        // Something of another type in the place of something.
        let name = command.keys().nth(choices.below(own)).cloned().unwrap_or_default();
        command.insert(name, value(choices, 2));
    }
    let database = choices.one_of(DATABASES);
    if command.contains_key("update") {
        command.insert("$db", "admin");
    } else {
        command.insert("$db", database);
    }
    println!("{command}");
    let reply = server.send(&command);
    assert!(reply.is_some_and(|reply| reply.contains_key("ok")), "{command}");
}

/// A document put into the collection itself.
fn stored(choices: &mut Choices<'_>) -> Document {
    let (database, is_user) = (choices.one_of(DATABASES), choices.happens(2));
    let name = choices.one_of(if is_user { USERS } else { ROLES });
    let (collection, kind) = if is_user { ("system.users", "user") } else { ("system.roles", "role") };
    let mut document = doc! { kind: name, "db": database, "roles": roles(choices) };
    if is_user {
        document.insert("credentials", credentials(choices));
        document.insert("userId", value(choices, 0));
        document.insert("customData", value(choices, 1));
    } else {
        document.insert("privileges", privileges(choices));
    }
    if choices.happens(3) {
        document.insert("authenticationRestrictions", restrictions(choices));
    }
    if choices.happens(4) {
        let field = document.keys().nth(choices.below(document.len())).cloned().unwrap_or_default();
        document.insert(field, value(choices, 2));
    }
    let id = format!("{database}.{name}");
    doc! { "update": collection, "updates": [{ "q": { "_id": id }, "u": document, "upsert": true }] }
}

fn changing(choices: &mut Choices<'_>) -> Document {
    let (user, role) = (choices.one_of(USERS), choices.one_of(ROLES));
    match choices.below(9) {
        0 => {
            doc! { "createUser": user, "pwd": "secret", "roles": roles(choices), "authenticationRestrictions": restrictions(choices) }
        }
        1 => doc! { "updateUser": user, "roles": roles(choices), "customData": value(choices, 1) },
        2 => doc! { "grantRolesToUser": user, "roles": roles(choices) },
        3 => doc! { "revokeRolesFromUser": user, "roles": roles(choices) },
        4 => {
            doc! { "createRole": role, "privileges": privileges(choices), "roles": roles(choices), "authenticationRestrictions": restrictions(choices) }
        }
        5 => doc! { "updateRole": role, "privileges": privileges(choices), "roles": roles(choices) },
        6 => doc! { "grantPrivilegesToRole": role, "privileges": privileges(choices) },
        7 => doc! { "revokePrivilegesFromRole": role, "privileges": privileges(choices) },
        _ => doc! { "grantRolesToRole": role, "roles": roles(choices) },
    }
}

fn reading(choices: &mut Choices<'_>) -> Document {
    let (user, role) = (choices.one_of(USERS), choices.one_of(ROLES));
    match choices.below(6) {
        0 => doc! { "usersInfo": user, "showPrivileges": true, "showCredentials": choices.happens(2) },
        1 => doc! { "usersInfo": { "forAllDBs": true }, "filter": { "user": user } },
        2 => doc! { "rolesInfo": role, "showPrivileges": true, "showBuiltinRoles": choices.happens(2) },
        3 => {
            doc! { "rolesInfo": [{ "role": role, "db": choices.one_of(DATABASES) }, value(choices, 1)], "showPrivileges": "asUserFragment" }
        }
        4 => doc! { "hello": 1, "saslSupportedMechs": format!("{}.{user}", choices.one_of(DATABASES)) },
        _ => {
            let mechanism = choices.one_of(&["SCRAM-SHA-256", "SCRAM-SHA-1", "MONGODB-X509", "PLAIN"]);
            let bytes = format!("n,,n={user},r=abc").into_bytes();
            let payload = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes };
            doc! { "saslStart": 1, "mechanism": mechanism, "payload": payload }
        }
    }
}

fn some(choices: &mut Choices<'_>, one: fn(&mut Choices<'_>) -> Bson) -> Bson {
    Bson::Array((0..choices.below(4)).map(|_| one(choices)).collect())
}

fn roles(choices: &mut Choices<'_>) -> Bson {
    some(choices, |choices| match choices.below(8) {
        0 => value(choices, 1),
        1 | 2 => Bson::String(choices.one_of(ROLES).to_owned()),
        _ => Bson::Document(doc! { "role": choices.one_of(ROLES), "db": choices.one_of(DATABASES) }),
    })
}

fn privileges(choices: &mut Choices<'_>) -> Bson {
    some(choices, |choices| {
        let resource = match choices.below(6) {
            0 => value(choices, 1),
            1 => Bson::Document(doc! { "cluster": true }),
            2 => Bson::Document(doc! { "anyResource": true, "db": "shop" }),
            _ => Bson::Document(
                doc! { "db": choices.one_of(DATABASES), "collection": choices.one_of(&["", "c", "system.users"]) },
            ),
        };
        let actions = some(choices, |choices| match choices.below(8) {
            0 => value(choices, 0),
            _ => Bson::String(choices.one_of(ACTIONS).to_owned()),
        });
        if choices.happens(8) {
            value(choices, 2)
        } else {
            Bson::Document(doc! { "resource": resource, "actions": actions })
        }
    })
}

fn restrictions(choices: &mut Choices<'_>) -> Bson {
    some(choices, |choices| {
        let address = |choices: &mut Choices<'_>| match choices.below(6) {
            0 => value(choices, 0),
            _ => Bson::String(
                choices.one_of(&["127.0.0.1", "10.0.0.0/8", "::1/129", "::/0", "1.2.3.4/-1", "x"]).to_owned(),
            ),
        };
        Bson::Document(
            doc! { "clientSource": [address(choices)], choices.one_of(&["serverAddress", "x"]): [address(choices)] },
        )
    })
}

fn credentials(choices: &mut Choices<'_>) -> Bson {
    let key = |choices: &mut Choices<'_>| match choices.below(4) {
        0 => value(choices, 0),
        _ => Bson::String(
            choices.one_of(&["", "AAAA", "x", "W22ZaJ0SNY7soEsUEjb6gQ==", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="]).to_owned(),
        ),
    };
    let mut all = Document::new();
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256", "external"] {
        if choices.happens(2) {
            let count = value(choices, 0);
            all.insert(mechanism, doc! { "iterationCount": count, "salt": key(choices), "storedKey": key(choices), "serverKey": key(choices) });
        }
    }
    if choices.happens(8) { value(choices, 2) } else { Bson::Document(all) }
}
