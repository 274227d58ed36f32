//! `usersInfo`: what is known of users, by name, of a database, or of all databases.

use authentication::Target;
use bson::{RawBsonRef, RawDocument};
use document::{Number, array_elements};

use super::roles_info::write_resolved;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::{is_wanted, list_filter};
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::names::{UserName, write_roles};
use crate::state::access_control::resolve::resolve;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::accounts::Accounts;
use crate::state::operations::before_allocating;
use crate::state::writing::Writing;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        context.operation.set_time_limit(arguments.time_limit())?;
        run(context.accounts(), arguments, reply)
    },
    Declaration::new("usersInfo", "What is known of users.", Needs::Data, &[]),
);

/// Which users.
enum Wanted {
    OfDatabase,
    OfAll,
    Named(Vec<UserName>),
}

/// What is told of each.
#[derive(Default, Clone, Copy)]
struct Detail {
    credentials: bool,
    privileges: bool,
    restrictions: bool,
    hides_custom_data: bool,
}

/// Runs the command.
pub(crate) fn run(accounts: Accounts<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let wanted = wanted(accounts, &arguments)?;
    let (mut detail, mut filter) = (Detail::default(), None);
    for field in arguments.fields() {
        match field.name() {
            "showCredentials" => detail.credentials = field.boolean()?,
            "showPrivileges" => detail.privileges = field.boolean()?,
            "showAuthenticationRestrictions" => detail.restrictions = field.boolean()?,
            "showCustomData" => detail.hides_custom_data = !field.boolean_or(true)?,
            "filter" => filter = list_filter(field)?,
            _ => arguments.generic(field)?,
        }
    }
    let is_named = matches!(wanted, Wanted::Named(_));
    if (detail.privileges || detail.restrictions) && !is_named {
        let message = "Privilege or restriction details require exact-match usersInfo queries";
        return Err(CommandError::named("IllegalOperation", message));
    }
    check_may_view(accounts, &wanted)?;
    let mut documents = Vec::new();
    let mut add = |user: StoredUser| {
        accounts.operation.check_interrupt()?;
        let document = describe(accounts, &user, detail)?;
        if is_wanted(filter.as_ref(), &document)? {
            before_allocating(document.as_bytes().len())?;
            documents.push(document);
        }
        Ok(())
    };
    let writing = accounts.writing;
    match &wanted {
        Wanted::Named(names) => {
            for name in names {
                StoredUser::find(writing, name)?.map_or(Ok(()), &mut add)?;
            }
        }
        Wanted::OfAll => StoredUser::all(writing, add)?,
        Wanted::OfDatabase => StoredUser::all(writing, |user| {
            accounts.operation.check_interrupt()?;
            if user.name.database == accounts.database { add(user) } else { Ok(()) }
        })?,
    }
    reply.array("users", |list| documents.iter().for_each(|document| list.push(document)));
    Ok(())
}

/// Which users the first field names.
fn wanted(accounts: Accounts<'_>, arguments: &Arguments<'_>) -> Result<Wanted> {
    let field = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let database = accounts.database;
    let read = |value| UserName::read("usersInfo", "user", value, database);
    match field.value() {
        RawBsonRef::Document(document) if wants_all(document) => Ok(Wanted::OfAll),
        RawBsonRef::Array(array) => {
            let names = array_elements(array).map(|element| read(element.value()));
            Ok(Wanted::Named(names.collect::<Result<_>>()?))
        }
        value if Number::from_bson(value).and_then(Number::to_i64_exact) == Some(1) => Ok(Wanted::OfDatabase),
        value @ (RawBsonRef::String(_) | RawBsonRef::Document(_)) => Ok(Wanted::Named(vec![read(value)?])),
        _ => Err(field.wrong_type("types '[int, string, object, array]'")),
    }
}

fn wants_all(document: &RawDocument) -> bool {
    let wanted = document::elements(document).next().filter(|element| element.name() == "forAllDBs");
    wanted.is_some_and(|element| Field::of("usersInfo", element).boolean().unwrap_or(false))
}

/// Everybody may look at himself.
fn check_may_view(accounts: Accounts<'_>, wanted: &Wanted) -> Result<()> {
    let view = |database: &str| accounts.rights.require(Target::Database(database), Action::ViewUser);
    match wanted {
        Wanted::OfDatabase => view(accounts.database),
        Wanted::OfAll => view("admin").and_then(|()| view("")),
        Wanted::Named(names) => {
            let own = accounts.rights.login.user();
            let mut others = names.iter().filter(|name| own.is_none_or(|own| **own != **name));
            others.try_for_each(|name| view(&name.database))
        }
    }
}

fn describe(accounts: Accounts<'_>, user: &StoredUser, detail: Detail) -> Result<bson::RawDocumentBuf> {
    let resolved = match detail.privileges {
        true => Some(resolve(accounts.writing, &user.roles)?),
        false => None,
    };
    document_of(|document| {
        document.string("_id", &user.name.id());
        user.user_id.into_iter().for_each(|id| document.uuid("userId", id));
        user.name.write("user", document);
        if let Some(data) = user.custom_data.as_ref().filter(|_| !detail.hides_custom_data) {
            document.embed("customData", data);
        }
        if detail.credentials {
            user.write_credentials(document);
        }
        write_roles("roles", &user.roles, document);
        if let Some(resolved) = &resolved {
            write_resolved(resolved, document);
        }
        if detail.restrictions {
            match &user.restrictions {
                Some(restrictions) => document.value("authenticationRestrictions", RawBsonRef::Array(restrictions)),
                None => document.array("authenticationRestrictions", |_| {}),
            }
        }
        document.array("mechanisms", |list| user.mechanisms().for_each(|name| list.push_string(name)));
    })
}

/// The mechanisms of a user, for `hello`: in the form `db.name`.
pub(crate) fn mechanisms_of(writing: &Writing, name: &str) -> Result<Vec<&'static str>> {
    let (database, name) = name
        .split_once('.')
        .ok_or_else(|| CommandError::bad_value("UserName must contain a '.' separated database.user pair"))?;
    let user = StoredUser::find(writing, &UserName::new(name, database))?;
    // Who does not exist has what a new user has.
    Ok(match user {
        Some(user) => user.mechanisms().filter(|name| *name != "external").collect(),
        None => authentication::Mechanism::ALL.map(authentication::Mechanism::name).to_vec(),
    })
}
