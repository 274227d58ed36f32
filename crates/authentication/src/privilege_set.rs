//! What somebody may do: actions by resource, compiled so that a question costs a few look-ups and no allocation.
//!
//! Made by `commands` from roles, or for the localhost exception; asked before each command.

use std::collections::HashMap;

use crate::action::{Action, ActionSet};

/// What a privilege is about, in a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// `{cluster: true}`.
    Cluster,
    /// `{anyResource: true}`.
    Any,
    /// `{db, collection}`; an empty name stands for any that is not the server's own.
    Named {
        /// The database.
        database: String,
        /// The collection.
        collection: String,
    },
}

/// What a command wants to do something to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// The server as a whole.
    Cluster,
    /// A database.
    Database(&'a str),
    /// A collection of a database.
    Collection(&'a str, &'a str),
    /// Whatever there is.
    Anything,
}

/// Of one database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfDatabase {
    /// The database itself and its collections but those of the server.
    all: ActionSet,
    collections: HashMap<String, ActionSet>,
}

/// See the module's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivilegeSet {
    any_resource: ActionSet,
    cluster: ActionSet,
    /// All databases but the server's own, and their collections but those of the server.
    any_database: OfDatabase,
    databases: HashMap<String, OfDatabase>,
}

impl PrivilegeSet {
    /// Adds a privilege.
    pub fn add(&mut self, resource: &Resource, actions: &ActionSet) {
        self.actions_mut(resource).add(actions);
    }

    fn actions_mut(&mut self, resource: &Resource) -> &mut ActionSet {
        match resource {
            Resource::Cluster => &mut self.cluster,
            Resource::Any => &mut self.any_resource,
            Resource::Named { database, collection } => {
                let of_database = match database.as_str() {
                    "" => &mut self.any_database,
                    _ => self.databases.entry(database.clone()).or_default(),
                };
                match collection.as_str() {
                    "" => &mut of_database.all,
                    _ => of_database.collections.entry(collection.clone()).or_default(),
                }
            }
        }
    }

    /// Whether something may be done.
    pub fn allows(&self, target: Target<'_>, action: Action) -> bool {
        if self.any_resource.contains(action) {
            return true;
        }
        match target {
            Target::Anything => false,
            Target::Cluster => self.cluster.contains(action),
            Target::Database(database) => self.of_whole(database).any(|actions| actions.contains(action)),
            Target::Collection(database, collection) => {
                let named = [Some(&self.any_database), self.databases.get(database)];
                let named = named.into_iter().flatten().filter_map(|grants| grants.collections.get(collection));
                let mut whole = self.of_whole(database).filter(|_| !collection.starts_with("system."));
                whole.any(|actions| actions.contains(action)) || named.into_iter().any(|set| set.contains(action))
            }
        }
    }

    /// All that may be done to something.
    pub fn actions_on(&self, target: Target<'_>) -> ActionSet {
        let mut all = ActionSet::default();
        Action::ALL.iter().filter(|action| self.allows(target, **action)).for_each(|action| all.insert(*action));
        all
    }

    /// What is granted on a database, and so on what is in it.
    fn of_whole<'s>(&'s self, database: &'s str) -> impl Iterator<Item = &'s ActionSet> + 's {
        let is_own = matches!(database, "local" | "config");
        let any = Some(&self.any_database.all).filter(|_| !is_own);
        any.into_iter().chain(self.databases.get(database).map(|grants| &grants.all))
    }

    /// Whether a database is named, or something in it.
    pub fn has_any_in(&self, database: &str) -> bool {
        self.databases.contains_key(database)
    }

    /// Everything that is granted, in a fixed order: for people, and for comparing.
    pub fn privileges(&self) -> Vec<(Resource, ActionSet)> {
        let named = |database: &str, collection: &str| Resource::Named {
            database: database.to_owned(),
            collection: collection.to_owned(),
        };
        let mut all = vec![(Resource::Any, self.any_resource), (Resource::Cluster, self.cluster)];
        let mut databases: Vec<(&str, &OfDatabase)> = vec![("", &self.any_database)];
        databases.extend(self.databases.iter().map(|(name, grants)| (name.as_str(), grants)));
        databases.sort_by_key(|(name, _)| *name);
        for (database, grants) in databases {
            all.push((named(database, ""), grants.all));
            let mut collections: Vec<_> = grants.collections.iter().collect();
            collections.sort_by_key(|(name, _)| *name);
            all.extend(collections.into_iter().map(|(collection, set)| (named(database, collection), *set)));
        }
        all.retain(|(_, actions)| !actions.is_empty());
        all
    }

    /// Adds everything of another.
    pub fn add_all(&mut self, other: &Self) {
        other.privileges().iter().for_each(|(resource, actions)| self.add(resource, actions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(database: &str, collection: &str) -> PrivilegeSet {
        let mut set = PrivilegeSet::default();
        let resource = Resource::Named { database: database.to_owned(), collection: collection.to_owned() };
        set.add(&resource, &ActionSet::of(&[Action::Find]));
        set
    }

    #[test]
    fn empty_names_stand_for_all_but_what_is_the_servers_own() {
        let find = |set: &PrivilegeSet, target| set.allows(target, Action::Find);
        let all = set("", "");
        assert!(find(&all, Target::Collection("shop", "orders")) && find(&all, Target::Database("shop")));
        for own in
            [Target::Collection("shop", "system.js"), Target::Collection("local", "c"), Target::Database("config")]
        {
            assert!(!find(&all, own), "{own:?}");
        }
        assert!(!find(&all, Target::Cluster) && !all.allows(Target::Database("shop"), Action::Insert));
        let of_shop = set("shop", "");
        assert!(find(&of_shop, Target::Collection("shop", "orders")) && !find(&of_shop, Target::Database("shop2")));
        assert!(!find(&of_shop, Target::Collection("shop", "system.views")));
        assert!(find(&set("local", ""), Target::Collection("local", "startup_log")));
    }

    #[test]
    fn a_named_collection_is_that_one() {
        let exact = set("shop", "system.js");
        assert!(exact.allows(Target::Collection("shop", "system.js"), Action::Find));
        assert!(!exact.allows(Target::Collection("shop", "other"), Action::Find));
        assert!(!exact.allows(Target::Database("shop"), Action::Find));
        assert!(exact.has_any_in("shop") && !exact.has_any_in("x"));
        assert!(exact.actions_on(Target::Database("shop")).is_empty());
        let anywhere = set("", "orders");
        assert!(anywhere.allows(Target::Collection("a", "orders"), Action::Find));
        assert!(!anywhere.allows(Target::Collection("a", "others"), Action::Find));
    }

    #[test]
    fn any_resource_is_all() {
        let mut set = PrivilegeSet::default();
        set.add(&Resource::Any, &ActionSet::of(&[Action::Any]));
        for target in [Target::Anything, Target::Cluster, Target::Collection("admin", "system.users")] {
            assert!(set.allows(target, Action::Any) && set.allows(target, Action::Find));
        }
        let mut copy = PrivilegeSet::default();
        copy.add_all(&set);
        assert_eq!(copy, set);
    }
}
