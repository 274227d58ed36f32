//! `killAllSessionsByPattern`: ends the sessions that match one of the patterns `{lsid}`, `{uid}`, `{users}`, `{roles}` or `{}`. There are no
//! users yet, so only an `lsid` and the empty pattern match anything.

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
    let patterns = target.documents()?.into_iter().flatten().map(pattern).collect::<Result<Vec<_>>>()?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    for session in context.server.store.sessions().all() {
        let is_match = patterns.iter().any(|pattern| match pattern {
            Pattern::All => true,
            Pattern::One(id) => *id == session.id(),
            Pattern::NoSession => false,
        });
        if is_match {
            super::kill(context, session.id());
        }
    }
    Ok(())
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
