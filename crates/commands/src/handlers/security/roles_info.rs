//! `rolesInfo`: what is known of roles, by name or of a database.

use authentication::{ActionSet, Resource, Target, builtin_privileges, builtin_role_names, is_builtin};
use bson::RawBsonRef;
use document::{Number, array_elements};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::names::{RoleName, write_roles};
use crate::state::access_control::resolve::{ResolvedRoles, resolve};
use crate::state::access_control::stored_role::{StoredRole, write_privileges};
use crate::state::accounts::Accounts;
use crate::state::operations::before_allocating;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        context.operation.set_time_limit(arguments.time_limit())?;
        run(context.accounts(), arguments, reply)
    },
    Declaration::new("rolesInfo", "What is known of roles.", Needs::Data, &[]),
);

/// What is told of each.
#[derive(Default, Clone, Copy)]
struct Detail {
    privileges: bool,
    restrictions: bool,
}

/// Runs the command.
pub(crate) fn run(accounts: Accounts<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let named = wanted(accounts, &arguments)?;
    let (mut detail, mut shows_builtin) = (Detail::default(), false);
    for field in arguments.fields() {
        match field.name() {
            "showPrivileges" if field.value().as_str() == Some("asUserFragment") => {
                return Err(field.not_implemented());
            }
            "showPrivileges" => detail.privileges = field.boolean()?,
            "showBuiltinRoles" => shows_builtin = field.boolean()?,
            "showAuthenticationRestrictions" => detail.restrictions = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    check_may_view(accounts, named.as_deref())?;
    let mut documents = Vec::new();
    let mut add = |role: StoredRole| {
        accounts.operation.check_interrupt()?;
        let document = describe(accounts, &role, detail)?;
        before_allocating(document.as_bytes().len())?;
        documents.push(document);
        Ok(())
    };
    let (writing, database) = (accounts.writing, accounts.database);
    match &named {
        Some(names) => {
            for name in names {
                let found = builtin(name).map_or_else(|| StoredRole::find(writing, name), |role| Ok(Some(role)))?;
                found.map_or(Ok(()), &mut add)?;
            }
        }
        None => {
            if shows_builtin {
                let names = builtin_role_names(database).into_iter().filter(|name| *name != "__system");
                let mut roles = names.filter_map(|name| builtin(&RoleName::new(name, database)));
                roles.try_for_each(&mut add)?;
            }
            StoredRole::all(writing, |role| {
                accounts.operation.check_interrupt()?;
                if role.name.database == database { add(role) } else { Ok(()) }
            })?;
        }
    }
    reply.array("roles", |list| documents.iter().for_each(|document| list.push(document)));
    Ok(())
}

/// Which roles the first field names; none: those of the database.
fn wanted(accounts: Accounts<'_>, arguments: &Arguments<'_>) -> Result<Option<Vec<RoleName>>> {
    let field = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let read = |value| RoleName::read("rolesInfo", "role", value, accounts.database);
    match field.value() {
        RawBsonRef::Array(array) => {
            array_elements(array).map(|element| read(element.value())).collect::<Result<_>>().map(Some)
        }
        value if Number::from_bson(value).and_then(Number::to_i64_exact) == Some(1) => Ok(None),
        value @ (RawBsonRef::String(_) | RawBsonRef::Document(_)) => Ok(Some(vec![read(value)?])),
        _ => Err(field.wrong_type("types '[int, string, object, array]'")),
    }
}

/// Everybody may look at the roles that he has.
fn check_may_view(accounts: Accounts<'_>, named: Option<&[RoleName]>) -> Result<()> {
    let view = |database: &str| accounts.rights.require(Target::Database(database), Action::ViewRole);
    let Some(names) = named else { return view(accounts.database) };
    let own = accounts.rights.login.found();
    let mut others = names.iter().filter(|name| own.is_none_or(|own| !own.roles.contains(name)));
    others.try_for_each(|name| view(&name.database))
}

/// A built-in role as if it were stored.
fn builtin(name: &RoleName) -> Option<StoredRole> {
    let privileges: Vec<(Resource, ActionSet)> = builtin_privileges(&name.database, &name.name)?.privileges();
    Some(StoredRole { name: name.clone(), privileges, roles: Vec::new(), restrictions: None })
}

fn describe(accounts: Accounts<'_>, role: &StoredRole, detail: Detail) -> Result<bson::RawDocumentBuf> {
    let resolved = resolve(accounts.writing, &role.roles)?;
    let is_builtin = is_builtin(&role.name.database, &role.name.name);
    document_of(|document| {
        document.string("_id", &role.name.id());
        role.name.write("role", document);
        write_roles("roles", &role.roles, document);
        if detail.privileges {
            write_privileges("privileges", &role.privileges, document);
        }
        write_roles("inheritedRoles", &resolved.roles, document);
        if detail.privileges {
            let mut all = resolved.privileges.clone();
            role.privileges.iter().for_each(|(resource, actions)| all.add(resource, actions));
            write_privileges("inheritedPrivileges", &all.privileges(), document);
        }
        if detail.restrictions {
            match &role.restrictions {
                Some(restrictions) => document.value("authenticationRestrictions", RawBsonRef::Array(restrictions)),
                None => document.array("authenticationRestrictions", |_| {}),
            }
        }
        document.boolean("isBuiltin", is_builtin);
    })
}

/// Writes what follows from roles.
pub(super) fn write_resolved(resolved: &ResolvedRoles, document: &mut DocumentWriter<'_>) {
    write_roles("inheritedRoles", &resolved.roles, document);
    write_privileges("inheritedPrivileges", &resolved.privileges.privileges(), document);
}
