//! The built-in roles against the tables of MongoDB's manual, which `manual.txt` has, with the differences that are meant.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::privilege_set::Target;

const TABLE: &str = include_str!("manual.txt");
/// What is looked at; `orders` is in the role's database, or in any.
const TARGETS: &[(&str, Target<'static>)] = &[
    ("anything", Target::Anything),
    ("cluster", Target::Cluster),
    ("orders", Target::Collection("shop", "orders")),
    ("shop.system.js", Target::Collection("shop", "system.js")),
    ("shop.system.profile", Target::Collection("shop", "system.profile")),
    ("shop.system.users", Target::Collection("shop", "system.users")),
    ("shop.system.views", Target::Collection("shop", "system.views")),
    ("admin.system.users", Target::Collection("admin", "system.users")),
    ("admin.system.roles", Target::Collection("admin", "system.roles")),
    ("admin.system.version", Target::Collection("admin", "system.version")),
    ("config.x", Target::Collection("config", "x")),
    ("config.settings", Target::Collection("config", "settings")),
    ("config.system.js", Target::Collection("config", "system.js")),
    ("config.system.profile", Target::Collection("config", "system.profile")),
    ("config.system.preimages", Target::Collection("config", "system.preimages")),
    ("local.x", Target::Collection("local", "x")),
    ("local.system.js", Target::Collection("local", "system.js")),
    ("local.system.profile", Target::Collection("local", "system.profile")),
    ("local.system.replset", Target::Collection("local", "system.replset")),
    ("__mdb_internal_search.x", Target::Collection("__mdb_internal_search", "x")),
];

/// Actions by target.
type Allowed = BTreeMap<&'static str, BTreeSet<String>>;

/// Lines without remarks, each with those that go on with it.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match lines.last_mut().filter(|_| line.starts_with(' ')) {
            Some(last) => last.push_str(line),
            None => lines.push(line.to_owned()),
        }
    }
    lines
}

fn target_named(name: &str) -> &'static str {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(known, _)| *known).unwrap_or_else(|| panic!("no target {name}"))
}

/// What each role is to allow.
fn expected() -> BTreeMap<String, Allowed> {
    let mut roles: BTreeMap<String, Allowed> = BTreeMap::new();
    let (mut role, mut targets) = (String::new(), Vec::new());
    for line in lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((&line, ""));
        if line.contains(':') {
            let (named, actions) = line.split_once(':').unwrap();
            targets = named.split_whitespace().map(target_named).collect();
            let allowed = roles.get_mut(&role).unwrap();
            for target in &targets {
                allowed.entry(*target).or_default().extend(actions.split_whitespace().map(str::to_owned));
            }
        } else if first == "+" || first == "-" {
            let allowed = roles.get_mut(&role).unwrap();
            for target in &targets {
                let there = allowed.entry(*target).or_default();
                for action in rest.split_whitespace() {
                    let is_news = if first == "+" { there.insert(action.to_owned()) } else { there.remove(action) };
                    assert!(is_news, "{role}: '{first} {action}' says nothing");
                }
            }
        } else {
            role = first.to_owned();
            let mut allowed = Allowed::new();
            for other in rest.split_whitespace().filter(|word| *word != "=") {
                for (target, actions) in &roles[other] {
                    allowed.entry(*target).or_default().extend(actions.iter().cloned());
                }
            }
            assert!(roles.insert(role.clone(), allowed).is_none(), "{role} is there twice");
        }
    }
    for (role, allowed) in &mut roles {
        if !OF_DATABASES.contains(&role.as_str()) {
            // A database like others.
            let of_any = allowed.get("orders").cloned().unwrap_or_default();
            allowed.entry("__mdb_internal_search.x").or_default().extend(of_any);
        }
        // What is allowed on anything is allowed on each.
        let everywhere = allowed.get("anything").cloned().unwrap_or_default();
        TARGETS.iter().for_each(|(name, _)| allowed.entry(name).or_default().extend(everywhere.iter().cloned()));
    }
    roles
}

#[test]
fn roles_allow_what_the_manual_says_and_the_differences_are_those_that_are_meant() {
    let expected = expected();
    let named: Vec<&str> = expected.keys().map(String::as_str).collect();
    let all: Vec<&str> = builtin_role_names("admin").into_iter().filter(|role| *role != "__system").collect();
    assert_eq!(named, all);
    let mut differences = Vec::new();
    for (role, allowed) in &expected {
        let database = if OF_DATABASES.contains(&role.as_str()) { "shop" } else { "admin" };
        let privileges = builtin_privileges(database, role).unwrap();
        for (name, target) in TARGETS {
            let found: BTreeSet<String> =
                privileges.actions_on(*target).iter().map(|action| action.name().to_owned()).collect();
            let wanted = &allowed[name];
            let (lacking, beyond): (Vec<_>, Vec<_>) =
                (wanted.difference(&found).collect(), found.difference(wanted).collect());
            if !lacking.is_empty() || !beyond.is_empty() {
                differences.push(format!("{role} on {name}: lacks {lacking:?}, has beyond it {beyond:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_server_itself_may_do_everything() {
    let privileges = builtin_privileges("admin", "__system").unwrap();
    for (name, target) in TARGETS {
        assert!(Action::ALL.iter().all(|action| privileges.allows(*target, *action)), "{name}");
    }
}
