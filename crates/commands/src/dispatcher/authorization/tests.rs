//! Every command is refused to who may do nothing, and runs for who may do exactly what it declares.

use authentication::{ActionSet, Resource, Target};
use bson::{Document, RawDocumentBuf, doc};

use super::tell_needs;
use crate::registry;
use crate::request::command_request::{Attempt, CommandRequest, NoSequences};
use crate::request::declaration::{Authentication, Declaration};
use crate::request::privileges::Action;
use crate::state::access_control::names::{RoleName, UserName};
use crate::state::access_control::stored_role::StoredRole;
use crate::state::access_control::stored_user::StoredUser;
use crate::test_server::TestServer;

const UNAUTHORIZED: i32 = 13;

/// A command that asks for something, beyond its name and a collection.
fn sample(name: &str) -> Document {
    match name {
        "aggregate" => doc! {"aggregate": "c", "cursor": {}, "pipeline": [
            {"$lookup": {"from": "d", "as": "x", "pipeline": [{"$unionWith": "e"}]}},
            {"$facet": {"f": [{"$lookup": {"from": "g", "localField": "a", "foreignField": "a", "as": "y"}}]}},
            {"$out": {"db": "other", "coll": "h"}},
        ]},
        "mapReduce" => doc! {
            "mapReduce": "c", "map": "function () {}", "reduce": "function () {}", "out": "d",
            "bypassDocumentValidation": true,
        },
        "explain" => doc! {"explain": {"find": "c"}},
        "findAndModify" => doc! {"findAndModify": "c", "update": {"a": 1}, "upsert": true},
        "update" => doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": true}]},
        "insert" => doc! {"insert": "c", "documents": [{"a": 1}], "bypassDocumentValidation": true},
        "bulkWrite" => doc! {"bulkWrite": 1, "nsInfo": [{"ns": "test.c"}, {"ns": "other.d"}], "ops": [
            {"insert": 0, "document": {"a": 1}},
            {"update": 1, "filter": {}, "updateMods": {"$set": {"a": 1}}, "upsert": true},
            {"delete": 0, "filter": {}},
        ], "bypassDocumentValidation": true},
        "create" => doc! {"create": "v", "viewOn": "c", "pipeline": [{"$unionWith": "d"}]},
        "collMod" => doc! {"collMod": "v", "viewOn": "c", "pipeline": [{"$unionWith": "d"}]},
        "renameCollection" => doc! {"renameCollection": "test.c", "to": "other.c", "dropTarget": true},
        "cloneCollectionAsCapped" => doc! {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 4096},
        "dataSize" => doc! {"dataSize": "test.c"},
        "createUser" => doc! {"createUser": "x", "pwd": "x", "roles": []},
        "createRole" => doc! {"createRole": "x", "privileges": [], "roles": []},
        "getMore" => doc! {"getMore": 1_i64, "collection": "c"},
        "_mergeAuthzCollections" => doc! {
            "_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "tempRolesCollection": "admin.temproles",
        },
        "killOp" => doc! {"killOp": 1, "op": 1},
        "killSessions" => doc! {"killSessions": []},
        "killCursors" => doc! {"killCursors": "c", "cursors": [1_i64]},
        "fsync" | "shutdown" | "currentOp" | "listDatabases" | "usersInfo" | "rolesInfo" | "dropDatabase" => {
            doc! {name: 1}
        }
        // The rest is refused after it was allowed, or is happy with this.
        _ => doc! {name: "c"},
    }
}

/// What the handler asks for itself, as it depends on whose something is.
fn asked_by_handler(name: &str) -> &'static [(Option<&'static str>, Action)] {
    match name {
        "usersInfo" => &[(Some("test"), Action::ViewUser)],
        "rolesInfo" => &[(Some("test"), Action::ViewRole)],
        "killOp" => &[(None, Action::Killop)],
        "killSessions" => &[(None, Action::KillAnySession)],
        _ => &[],
    }
}

fn resource(target: Target<'_>) -> Resource {
    let named = |database: &str, collection: &str| Resource::Named {
        database: database.to_owned(),
        collection: collection.to_owned(),
    };
    match target {
        Target::Cluster => Resource::Cluster,
        Target::Anything => Resource::Any,
        Target::Database(database) => named(database, ""),
        Target::Collection(database, collection) => named(database, collection),
    }
}

/// The privileges that a command declares, for these fields.
fn declared(command: &Declaration, database: &str, body: &RawDocumentBuf) -> Vec<(Resource, ActionSet)> {
    let request = CommandRequest {
        name: command.name,
        database,
        body,
        sequences: &NoSequences,
        attempt: Attempt::First,
        is_legacy: false,
    };
    let mut told = Vec::new();
    tell_needs(command, &request, &mut |target, action| told.push((resource(target), ActionSet::of(&[action]))))
        .unwrap();
    told.extend(asked_by_handler(command.name).iter().map(|(database, action)| {
        (resource(database.map_or(Target::Cluster, Target::Database)), ActionSet::of(&[*action]))
    }));
    told
}

fn grant(server: &TestServer, privileges: Vec<(Resource, ActionSet)>) {
    let context = server.dispatcher.server();
    let mut role =
        StoredRole { name: RoleName::new("r", "admin"), privileges: Vec::new(), roles: Vec::new(), restrictions: None };
    privileges.into_iter().for_each(|(resource, actions)| role.grant(resource, actions));
    context.access.note_changes(|| role.put(&context.writing)).unwrap();
}

#[test]
fn every_command_is_refused_without_and_runs_with_exactly_what_it_declares() {
    let mut server = TestServer::with_logins();
    let context = server.dispatcher.server().clone();
    let user = StoredUser {
        name: UserName::new("u", "admin"),
        user_id: None,
        credentials: Vec::new(),
        is_external: false,
        custom_data: None,
        roles: vec![RoleName::new("r", "admin")],
        restrictions: None,
    };
    context.access.note_changes(|| user.put(&context.writing)).unwrap();
    for command in registry::declarations() {
        let (name, body) = (command.name, sample(command.name));
        let database = if command.is_admin_only { "admin" } else { "test" };
        let code = |server: &mut TestServer| {
            let reply = server.send(database, body.clone(), Attempt::First);
            reply.map_or(0, |reply| reply.get_i32("code").unwrap_or(0))
        };
        server.log_out();
        let is_open = command.authentication == Authentication::NotNeeded;
        assert_eq!(code(&mut server) == UNAUTHORIZED, !is_open, "{name} without a login");
        let needed = declared(command, database, &RawDocumentBuf::try_from(&body).unwrap());
        server.log_in("u", "admin");
        for without in 0..needed.len() {
            let mut granted = needed.clone();
            let (taken, action) = granted.remove(without);
            granted.retain(|(resource, actions)| *resource != taken || *actions != action);
            grant(&server, granted);
            assert_eq!(code(&mut server), UNAUTHORIZED, "{name} without {action:?} on {taken:?}");
        }
        grant(&server, needed);
        let reply = server.send(database, body.clone(), Attempt::First);
        let is_refused =
            reply.as_ref().is_some_and(|reply| reply.get_i32("code").is_ok_and(|code| code == UNAUTHORIZED));
        assert!(!is_refused, "{name} with what it declares: {reply:?}");
    }
}

#[test]
fn every_stage_is_known_to_what_pipelines_need() {
    let reads_or_writes_elsewhere = ["$facet", "$graphLookup", "$lookup", "$merge", "$out", "$unionWith"];
    let begins_otherwise = [
        "$changeStream",
        "$collStats",
        "$currentOp",
        "$documents",
        "$indexStats",
        "$listClusterCatalog",
        "$listLocalSessions",
        "$listSessions",
        "$planCacheStats",
        "$querySettings",
        "$queryStats",
    ];
    let only_on_documents = [
        "$addFields",
        "$bucket",
        "$bucketAuto",
        "$changeStreamSplitLargeEvent",
        "$count",
        "$group",
        "$_internalUnpackBucket",
        "$limit",
        "$match",
        "$densify",
        "$fill",
        "$geoNear",
        "$project",
        "$redact",
        "$replaceRoot",
        "$replaceWith",
        "$sample",
        "$score",
        "$set",
        "$setWindowFields",
        "$skip",
        "$sort",
        "$sortByCount",
        "$unset",
        "$unwind",
    ];
    for stage in aggregation::registry::STAGES.iter().filter(|stage| stage.is_implemented()).map(|stage| stage.name) {
        let lists = [&reads_or_writes_elsewhere[..], &begins_otherwise, &only_on_documents];
        let is_known = lists.iter().any(|list| list.contains(&stage));
        assert!(is_known, "say in handlers/crud/needed_privileges.rs what {stage} needs");
    }
}
