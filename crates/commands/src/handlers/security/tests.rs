//! Users and roles by their commands, and what follows for open connections.

use bson::{Document, doc};

use super::role_checks::ROLES_FOLLOWED_MAX;
use crate::request::command_request::Attempt;
use crate::state::access_control::RESOLVED_MAX;
use crate::state::access_control::names::{RoleName, UserName};
use crate::state::access_control::stored_role::StoredRole;
use crate::state::access_control::stored_user::StoredUser;
use crate::test_server::TestServer;

fn code(server: &mut TestServer, database: &str, command: Document) -> i32 {
    server.send(database, command, Attempt::First).unwrap().get_i32("code").unwrap_or(0)
}

/// A server with an administrator, who is logged in.
fn server_with_root() -> TestServer {
    let mut server = TestServer::with_logins();
    server.run("admin", doc! {"createUser": "root", "pwd": "secret", "roles": ["root"]});
    server.log_in("root", "admin");
    server
}

#[test]
fn the_first_user_is_made_from_the_machine_itself_and_only_the_first() {
    let mut server = TestServer::with_logins();
    server.log_out();
    let first = doc! {"createUser": "root", "pwd": "secret", "roles": ["root"]};
    assert_eq!(code(&mut server, "admin", first.clone()), 13);
    server.client = server.dispatcher.server().connect(2, "127.0.0.1:9".to_owned());
    for refused in [doc! {"find": "c"}, doc! {"usersInfo": 1}, doc! {"startSession": 1}, doc! {"listDatabases": 1}] {
        let (code, message) = server.fail("admin", refused);
        assert!(code == 13 && message.ends_with("requires authentication"), "{message}");
    }
    server.run("admin", first);
    let second = doc! {"createUser": "other", "pwd": "secret", "roles": ["root"]};
    assert_eq!(code(&mut server, "admin", second), 13);
    server.log_in("root", "admin");
    server.run("admin", doc! {"dropUser": "root"});
    assert_eq!(code(&mut server, "admin", doc! {"ping": 1}), 0);
    assert_eq!(code(&mut server, "admin", doc! {"createUser": "again", "pwd": "x", "roles": []}), 13);
}

#[test]
fn users_have_mongodbs_shape_and_are_found_in_all_forms() {
    let mut server = server_with_root();
    let restrictions = bson::bson!([{"clientSource": ["127.0.0.1"]}]);
    server.run(
        "shop",
        doc! {
            "createUser": "ada", "pwd": "p", "customData": {"a": 1},
            "roles": ["read", {"role": "readWrite", "db": "other"}], "authenticationRestrictions": restrictions.clone(),
        },
    );
    let stored = server.run("admin", doc! {"find": "system.users", "filter": {"_id": "shop.ada"}});
    assert!(stored.get_document("cursor").is_ok());
    let users = |server: &mut TestServer, command: Document| {
        server
            .run("shop", command)
            .get_array("users")
            .unwrap()
            .iter()
            .map(|user| user.as_document().unwrap().clone())
            .collect::<Vec<_>>()
    };
    let found = users(&mut server, doc! {"usersInfo": "ada"}).remove(0);
    assert_eq!(
        found.keys().map(String::as_str).collect::<Vec<_>>(),
        ["_id", "userId", "user", "db", "customData", "roles", "mechanisms"]
    );
    let mechanisms = bson::bson!(["SCRAM-SHA-1", "SCRAM-SHA-256"]);
    assert_eq!((found.get_str("_id").unwrap(), found.get("mechanisms")), ("shop.ada", Some(&mechanisms)));
    for form in [
        doc! {"usersInfo": 1},
        doc! {"usersInfo": {"user": "ada", "db": "shop"}},
        doc! {"usersInfo": ["ada", "nobody"]},
    ] {
        assert_eq!(users(&mut server, form), std::slice::from_ref(&found));
    }
    assert_eq!(users(&mut server, doc! {"usersInfo": {"forAllDBs": true}}).len(), 2);
    assert_eq!(users(&mut server, doc! {"usersInfo": 1, "filter": {"roles.role": "nothing"}}).len(), 0);
    let shown = users(&mut server, doc! {"usersInfo": "ada", "showCredentials": true, "showPrivileges": true, "showAuthenticationRestrictions": true}).remove(0);
    let sha256 = shown.get_document("credentials").unwrap().get_document("SCRAM-SHA-256").unwrap();
    assert_eq!(sha256.get_i32("iterationCount").unwrap(), 15_000);
    assert_eq!(shown.get_array("inheritedRoles").unwrap().len(), 2);
    assert_eq!(shown.get("authenticationRestrictions"), Some(&restrictions));
    assert_eq!(code(&mut server, "shop", doc! {"usersInfo": 1, "showPrivileges": true}), 20);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let mut server = server_with_root();
    server.run("shop", doc! {"createUser": "ada", "pwd": "p", "roles": []});
    for (refused, expected) in [
        (doc! {"createUser": "ada", "pwd": "p", "roles": []}, 51003),
        (doc! {"createUser": "b", "roles": []}, 2),
        (doc! {"createUser": "b", "pwd": "", "roles": []}, 2),
        (doc! {"createUser": "b", "pwd": "p"}, 40414),
        (doc! {"createUser": "b", "pwd": "p", "roles": ["nothing"]}, 31),
        (doc! {"createUser": "b", "pwd": "p", "roles": [], "mechanisms": ["PLAIN"]}, 2),
        (
            doc! {"createUser": "b", "pwd": "p", "roles": [], "digestPassword": false, "mechanisms": ["SCRAM-SHA-256"]},
            2,
        ),
        (doc! {"createUser": "b", "pwd": "p", "roles": [], "x": 1}, 40415),
        (doc! {"createUser": "b", "pwd": "p", "roles": [], "authenticationRestrictions": [{"clientSource": ["x"]}]}, 2),
        (doc! {"updateUser": "ada"}, 2),
        (doc! {"updateUser": "b", "pwd": "p"}, 11),
        (doc! {"dropUser": "b"}, 11),
        (doc! {"grantRolesToUser": "ada", "roles": []}, 2),
        (doc! {"createRole": "read", "privileges": [], "roles": []}, 2),
        (
            doc! {"createRole": "r", "privileges": [{"resource": {"cluster": true}, "actions": ["top"]}], "roles": []},
            49,
        ),
        (
            doc! {"createRole": "r", "privileges": [{"resource": {"db": "shop", "collection": ""}, "actions": ["fly"]}], "roles": []},
            2,
        ),
        (doc! {"updateRole": "read", "privileges": []}, 49),
        (doc! {"dropRole": "r"}, 31),
    ] {
        let found = code(&mut server, "shop", refused.clone());
        assert_eq!(found, expected, "{refused}");
    }
    server.run("shop", doc! {"createRole": "a", "privileges": [], "roles": ["read"]});
    server.run("shop", doc! {"createRole": "b", "privileges": [], "roles": ["a"]});
    assert_eq!(code(&mut server, "shop", doc! {"createRole": "a", "privileges": [], "roles": []}), 51002);
    let (_, message) = server.fail("shop", doc! {"grantRolesToRole": "a", "roles": ["b"]});
    assert!(message.contains("cycle"), "{message}");
}

#[test]
fn what_a_user_may_do_changes_at_once_on_open_connections() {
    let mut server = server_with_root();
    server.run("shop", doc! {"createUser": "ada", "pwd": "p", "roles": []});
    server.insert("shop", "orders", 0..3);
    let mut root =
        std::mem::replace(&mut server.client, server.dispatcher.server().connect(2, "10.0.0.2:5".to_owned()));
    let find = doc! {"find": "orders"};
    server.log_in("ada", "shop");
    let as_root = |server: &mut TestServer, root: &mut crate::ClientContext, database: &str, command: Document| {
        std::mem::swap(&mut server.client, root);
        server.run(database, command);
        std::mem::swap(&mut server.client, root);
    };
    assert_eq!(code(&mut server, "shop", find.clone()), 13);
    let privilege = bson::bson!([{"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}]);
    as_root(&mut server, &mut root, "shop", doc! {"createRole": "reader", "privileges": privilege, "roles": []});
    as_root(&mut server, &mut root, "shop", doc! {"grantRolesToUser": "ada", "roles": ["reader"]});
    assert_eq!(code(&mut server, "shop", find.clone()), 0);
    assert_eq!(code(&mut server, "shop", doc! {"find": "others"}), 13);
    assert_eq!(code(&mut server, "admin", doc! {"find": "system.users"}), 13);
    let names = server.run("shop", doc! {"listCollections": 1, "nameOnly": true, "authorizedCollections": true});
    assert_eq!(names.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
    assert_eq!(code(&mut server, "shop", doc! {"listCollections": 1}), 13);
    assert_eq!(server.run("admin", doc! {"listDatabases": 1}).get_array("databases").unwrap().len(), 1);
    let status = server.run("admin", doc! {"connectionStatus": 1, "showPrivileges": true});
    let info = status.get_document("authInfo").unwrap();
    assert_eq!(info.get_array("authenticatedUserRoles").unwrap().len(), 1);
    assert_eq!(info.get_array("authenticatedUserPrivileges").unwrap().len(), 1);
    // As a document, without any command for it.
    as_root(
        &mut server,
        &mut root,
        "admin",
        doc! {"update": "system.users", "updates": [{"q": {"_id": "shop.ada"}, "u": {"$set": {"roles": []}}}]},
    );
    assert_eq!(code(&mut server, "shop", find.clone()), 13);
    as_root(&mut server, &mut root, "shop", doc! {"grantRolesToUser": "ada", "roles": ["read"]});
    assert_eq!(code(&mut server, "shop", find.clone()), 0);
    as_root(&mut server, &mut root, "shop", doc! {"dropUser": "ada"});
    let (_, message) = server.fail("shop", find);
    assert_eq!(message, "Command find requires authentication");
}

#[test]
fn nobody_gives_what_he_may_not_and_a_dropped_role_is_gone_everywhere() {
    let mut server = server_with_root();
    server.run("shop", doc! {"createRole": "r", "privileges": [], "roles": ["read"]});
    server.run("shop", doc! {"createRole": "s", "privileges": [], "roles": ["r"]});
    server.run("shop", doc! {"createUser": "ada", "pwd": "p", "roles": ["userAdmin", "r"]});
    let roles = server.run("shop", doc! {"rolesInfo": 1, "showBuiltinRoles": true});
    assert_eq!(roles.get_array("roles").unwrap().len(), 8);
    server.run("shop", doc! {"dropRole": "r"});
    let user = server.run("shop", doc! {"usersInfo": "ada"});
    assert_eq!(user.get_array("users").unwrap()[0].as_document().unwrap().get_array("roles").unwrap().len(), 1);
    let left = server.run("shop", doc! {"rolesInfo": "s"});
    assert!(left.get_array("roles").unwrap()[0].as_document().unwrap().get_array("roles").unwrap().is_empty());
    server.log_in("ada", "shop");
    server.run("shop", doc! {"createUser": "bob", "pwd": "p", "roles": ["readWrite"]});
    for refused in [
        doc! {"createUser": "eve", "pwd": "p", "roles": [{"role": "root", "db": "admin"}]},
        doc! {"grantRolesToUser": "ada", "roles": [{"role": "read", "db": "other"}]},
    ] {
        assert_eq!(code(&mut server, "shop", refused), 13);
    }
    let anything = bson::bson!([{"resource": {"anyResource": true}, "actions": ["anyAction"]}]);
    assert_eq!(code(&mut server, "shop", doc! {"createRole": "x", "privileges": anything, "roles": []}), 13);
    server.log_in("bob", "shop");
    assert_eq!(code(&mut server, "shop", doc! {"updateUser": "bob", "pwd": "q"}), 13);
    assert_eq!(code(&mut server, "shop", doc! {"usersInfo": "bob"}), 0);
    assert_eq!(code(&mut server, "shop", doc! {"usersInfo": "ada"}), 13);
}

#[test]
fn cursors_are_their_users_own() {
    let mut server = server_with_root();
    for name in ["ada", "bob"] {
        server.run("shop", doc! {"createUser": name, "pwd": "p", "roles": ["read"]});
    }
    server.insert("shop", "c", 0..9);
    server.log_in("ada", "shop");
    let reply = server.run("shop", doc! {"find": "c", "batchSize": 1});
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    server.log_in("bob", "shop");
    assert_eq!(code(&mut server, "shop", doc! {"getMore": id, "collection": "c"}), 13);
    server.log_in("ada", "shop");
    assert_eq!(code(&mut server, "shop", doc! {"getMore": id, "collection": "c", "batchSize": 1}), 0);
    assert_eq!(code(&mut server, "shop", doc! {"killCursors": "c", "cursors": [id]}), 0);
}

#[test]
fn no_secret_is_shown() {
    let mut server = server_with_root();
    server.run("shop", doc! {"createUser": "ada", "pwd": "p", "roles": []});
    server.run("shop", doc! {"profile": 2});
    server.run("shop", doc! {"createUser": "bob", "pwd": "S3CRET", "roles": []});
    server.run("shop", doc! {"profile": 0});
    let records = server.run("shop", doc! {"find": "system.profile"}).to_string();
    assert!(records.contains("createUser") && !records.contains("S3CRET"), "{records}");
    server.log_in("ada", "shop");
    let (_, message) = server.fail("shop", doc! {"createUser": "eve", "pwd": "S3CRET", "roles": []});
    assert!(message.contains("xxx") && !message.contains("S3CRET"), "{message}");
}

#[test]
fn a_role_cannot_have_roles_without_end() {
    let mut server = server_with_root();
    let context = server.dispatcher.server().clone();
    let mut roles = Vec::new();
    for number in 0..=ROLES_FOLLOWED_MAX {
        let name = RoleName::new(&format!("r{number}"), "shop");
        let role = StoredRole { name: name.clone(), privileges: Vec::new(), roles: Vec::new(), restrictions: None };
        role.put(&context.writing).unwrap();
        roles.push(name.name);
    }
    let command = doc! {"createRole": "all", "privileges": [], "roles": roles.clone()};
    assert_eq!(code(&mut server, "shop", command), 2);
    roles.pop();
    server.run("shop", doc! {"createRole": "all", "privileges": [], "roles": roles});
}

#[test]
fn more_users_than_are_kept_resolved_are_found_again() {
    let server = server_with_root();
    let context = server.dispatcher.server().clone();
    let names: Vec<UserName> =
        (0..RESOLVED_MAX + 5).map(|number| UserName::new(&format!("u{number}"), "shop")).collect();
    for name in &names {
        let user = StoredUser {
            name: name.clone(),
            user_id: None,
            credentials: Vec::new(),
            is_external: false,
            custom_data: None,
            roles: Vec::new(),
            restrictions: None,
        };
        user.put(&context.writing).unwrap();
    }
    for name in names.iter().chain(names.first()) {
        assert!(context.access.access(&context.writing, name).unwrap().is_some(), "{name}");
    }
    assert!(context.access.resolved_count() <= RESOLVED_MAX);
}

#[test]
fn a_user_made_by_the_operator_is_taken_in() {
    let mut server = TestServer::with_logins();
    let context = server.dispatcher.server().clone();
    let document = |role| crate::user_document("ops", "admin", "p", role, &platform::SeededRandom::new(1)).unwrap();
    assert_eq!(context.take_in_user(&document("nothing")).unwrap_err().code, 31);
    context.take_in_user(&document("root")).unwrap();
    context.take_in_user(&document("read")).unwrap();
    server.log_in("ops", "admin");
    let user =
        server.run("admin", doc! {"usersInfo": "ops"}).get_array("users").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(user.get_array("roles").unwrap().len(), 2);
    assert!(crate::user_document("ops", "admin", "", "root", &platform::SeededRandom::new(1)).is_err());
}
