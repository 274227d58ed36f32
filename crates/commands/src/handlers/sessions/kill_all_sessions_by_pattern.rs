//! `killAllSessionsByPattern`: ends the sessions that match one of the patterns `{lsid}`, `{uid}`, `{users}`, `{roles}` or `{}`. There are no
//! users yet, so only an `lsid` and the empty pattern match anything.

use std::collections::HashSet;

use bson::{RawDocument, Uuid};
use document::elements;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

/// What a pattern matches.
enum Pattern {
    All,
    One(Uuid),
    NoSession,
}

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "killAllSessionsByPattern",
            "Ends sessions that match.",
            Needs::Nothing,
            &[on_cluster(Action::KillAnySession)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let (mut named, mut names_all) = (HashSet::new(), false);
    for source in target.documents()?.into_iter().flatten() {
        context.operation.check_interrupt()?;
        match pattern(source)? {
            Pattern::All => names_all = true,
            Pattern::One(session) => drop(named.insert(session)),
            Pattern::NoSession => {}
        }
    }
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let mut killed = super::all(context);
    if !names_all {
        killed.retain(|session| named.contains(session));
    }
    super::kill(context, &killed)
}

fn pattern(source: &RawDocument) -> Result<Pattern> {
    let mut pattern = Pattern::All;
    for element in elements(source) {
        let field = Field::of("KillAllSessionsByPattern", element);
        match field.name() {
            "lsid" => {
                if let Some(lsid) = field.document()? {
                    pattern = Pattern::One(super::session_id(lsid)?);
                }
            }
            "uid" | "users" | "roles" => pattern = Pattern::NoSession,
            _ => return Err(field.unknown()),
        }
    }
    Ok(pattern)
}
