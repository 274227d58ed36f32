//! A role as it is stored in `admin.system.roles`, in MongoDB's shape.
//!
//! ```text
//! { _id: "db.name", role, db, privileges: [ { resource, actions: [ .. ] } ], roles: [ { role, db } ], authenticationRestrictions? }
//! ```

use authentication::{Action, ActionSet, PrivilegeSet, Resource};
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{array_elements, elements, get_field};

use super::names::{RoleName, write_roles};
use super::restrictions::Restrictions;
use super::stored_user::read_stored_roles;
use super::{ROLES, find, for_each, put, remove};
use crate::DocumentWriter;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::writing::Writing;

/// See the module's head.
#[derive(Debug, Clone)]
pub(crate) struct StoredRole {
    pub(crate) name: RoleName,
    pub(crate) privileges: Vec<(Resource, ActionSet)>,
    pub(crate) roles: Vec<RoleName>,
    pub(crate) restrictions: Option<RawArrayBuf>,
}

impl StoredRole {
    /// The role of a name.
    pub(crate) fn find(writing: &Writing, name: &RoleName) -> Result<Option<Self>> {
        find(writing, ROLES, &name.id())?.map(|document| Self::decode(&document)).transpose()
    }

    /// All roles, in the order in which they are stored. What is none is left out.
    pub(crate) fn all(writing: &Writing, mut each: impl FnMut(Self) -> Result<()>) -> Result<()> {
        for_each(writing, ROLES, |document| Self::decode(document).map_or(Ok(()), &mut each))
    }

    /// Stores it, in the place of what there was.
    pub(crate) fn put(&self, writing: &Writing) -> Result<()> {
        put(writing, ROLES, &self.name.id(), &self.encode()?)
    }

    /// Removes the role of a name.
    pub(crate) fn remove(writing: &Writing, name: &RoleName) -> Result<bool> {
        remove(writing, ROLES, &name.id())
    }

    pub(crate) fn decode(document: &RawDocument) -> Result<Self> {
        let text = |name: &str| {
            let malformed = || CommandError::failed_to_parse(format!("a role's document has no valid '{name}'"));
            get_field(document, name).and_then(|value| value.as_str()).ok_or_else(malformed)
        };
        let array = |name: &str| match get_field(document, name) {
            Some(RawBsonRef::Array(array)) => Some(array),
            _ => None,
        };
        Ok(Self {
            name: RoleName::new(text("role")?, text("db")?),
            privileges: array("privileges").map(read_stored_privileges).unwrap_or_default(),
            roles: array("roles").map(read_stored_roles).unwrap_or_default(),
            restrictions: array("authenticationRestrictions").map(ToOwned::to_owned),
        })
    }

    fn encode(&self) -> Result<RawDocumentBuf> {
        document_of(|document| {
            document.string("_id", &self.name.id());
            self.name.write("role", document);
            write_privileges("privileges", &self.privileges, document);
            write_roles("roles", &self.roles, document);
            if let Some(restrictions) = &self.restrictions {
                document.value("authenticationRestrictions", RawBsonRef::Array(restrictions));
            }
        })
    }

    /// From where who has it may log in.
    pub(crate) fn restrictions(&self) -> Result<Restrictions> {
        self.restrictions.as_deref().map_or_else(|| Ok(Restrictions::default()), Restrictions::parse)
    }

    /// Adds actions on a resource.
    pub(crate) fn grant(&mut self, resource: Resource, actions: ActionSet) {
        match self.privileges.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, known)) => known.add(&actions),
            None => self.privileges.push((resource, actions)),
        }
    }

    /// Takes actions on a resource away.
    pub(crate) fn revoke(&mut self, resource: &Resource, actions: &ActionSet) {
        if let Some((_, known)) = self.privileges.iter_mut().find(|(known, _)| known == resource) {
            known.remove(actions);
        }
        self.privileges.retain(|(_, actions)| !actions.is_empty());
    }
}

/// The privileges that are stored. One that makes no sense here, of a newer server perhaps, allows nothing.
fn read_stored_privileges(array: &RawArray) -> Vec<(Resource, ActionSet)> {
    let one = |element: document::Element<'_>| {
        let document = element.value().as_document()?;
        let resource = read_resource(get_field(document, "resource")?.as_document()?).ok()?;
        let mut actions = ActionSet::default();
        let names = get_field(document, "actions")?.as_array()?;
        array_elements(names)
            .filter_map(|name| Action::of_name(name.value().as_str()?))
            .for_each(|action| actions.insert(action));
        Some((resource, actions))
    };
    array_elements(array).filter_map(one).collect()
}

/// The privileges that a command gives.
pub(crate) fn read_privileges(array: &RawArray) -> Result<Vec<(Resource, ActionSet)>> {
    array_elements(array)
        .map(|element| {
            let malformed = || CommandError::type_mismatch("a privilege must be an object");
            read_privilege(element.value().as_document().ok_or_else(malformed)?)
        })
        .collect()
}

fn read_privilege(document: &RawDocument) -> Result<(Resource, ActionSet)> {
    let (mut resource, mut actions) = (None, None);
    for element in elements(document) {
        match (element.name(), element.value()) {
            ("resource", RawBsonRef::Document(found)) => resource = Some(read_resource(found)?),
            ("actions", RawBsonRef::Array(names)) => actions = Some(read_actions(names)?),
            (name, _) => {
                return Err(CommandError::failed_to_parse(format!("a privilege has no '{name}', or not of this type")));
            }
        }
    }
    let missing = |name: &str| CommandError::failed_to_parse(format!("a privilege needs '{name}'"));
    Ok((resource.ok_or_else(|| missing("resource"))?, actions.ok_or_else(|| missing("actions"))?))
}

fn read_actions(names: &RawArray) -> Result<ActionSet> {
    let mut actions = ActionSet::default();
    for element in array_elements(names) {
        let wrong = || CommandError::type_mismatch("an action must be a string");
        let name = element.value().as_str().ok_or_else(wrong)?;
        let unknown = || CommandError::bad_value(format!("Unrecognized action privilege strings: {name}"));
        actions.insert(Action::of_name(name).ok_or_else(unknown)?);
    }
    match actions.is_empty() {
        true => Err(CommandError::failed_to_parse("a privilege needs at least one action")),
        false => Ok(actions),
    }
}

fn read_resource(document: &RawDocument) -> Result<Resource> {
    let (mut database, mut collection, mut whole) = (None, None, None);
    for element in elements(document) {
        match (element.name(), element.value()) {
            ("db", RawBsonRef::String(name)) => database = Some(name.to_owned()),
            ("collection", RawBsonRef::String(name)) => collection = Some(name.to_owned()),
            ("cluster", RawBsonRef::Boolean(true)) => whole = Some(Resource::Cluster),
            ("anyResource", RawBsonRef::Boolean(true)) => whole = Some(Resource::Any),
            (name, _) => {
                let message = format!("a resource has no '{name}', or not of this value");
                return Err(CommandError::failed_to_parse(message));
            }
        }
    }
    match (whole, database, collection) {
        (Some(whole), None, None) => Ok(whole),
        (None, Some(database), Some(collection)) => Ok(Resource::Named { database, collection }),
        _ => {
            let message = "a resource is {db, collection}, {cluster: true} or {anyResource: true}";
            Err(CommandError::failed_to_parse(message))
        }
    }
}

/// Writes privileges as an array.
pub(crate) fn write_privileges(name: &str, privileges: &[(Resource, ActionSet)], document: &mut DocumentWriter<'_>) {
    document.array(name, |list| {
        for (resource, actions) in privileges {
            list.push_document(|privilege| {
                privilege.document("resource", |written| match resource {
                    Resource::Cluster => written.boolean("cluster", true),
                    Resource::Any => written.boolean("anyResource", true),
                    Resource::Named { database, collection } => {
                        written.string("db", database);
                        written.string("collection", collection);
                    }
                });
                privilege.array("actions", |list| actions.iter().for_each(|action| list.push_string(action.name())));
            });
        }
    });
}

/// As a set.
pub(crate) fn set_of(privileges: &[(Resource, ActionSet)]) -> PrivilegeSet {
    let mut set = PrivilegeSet::default();
    privileges.iter().for_each(|(resource, actions)| set.add(resource, actions));
    set
}
