//! `plimsollProfile`: samples where this server computes, for `plimsoll profile` where perf is missing or refused.
//!
//! `{plimsollProfile: 1, seconds: 1, hertz: 99}` answers when the time is over, with the stacks in `folded`, a line each:
//! functions from the outermost on with semicolons between, then how often they were seen.

use std::time::Duration;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::server_hooks::ServerHooks;

/// Longer profiles are several commands: one that runs cannot be ended early.
const SECONDS_MAX: u64 = 10;
const HERTZ: u64 = 99;
const HERTZ_MAX: u64 = 1000;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&*context.server.hooks, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "plimsollProfile",
            "Samples for some seconds where the server computes.",
            Needs::Nothing,
            &[on_cluster(Action::CpuProfiler)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(hooks: &dyn ServerHooks, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let (mut seconds, mut hertz) = (1, HERTZ);
    for field in arguments.fields() {
        match field.name() {
            "seconds" => seconds = field.unsigned()?.unwrap_or(seconds),
            "hertz" => hertz = field.unsigned()?.unwrap_or(hertz),
            _ => arguments.generic(field)?,
        }
    }
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(CommandError::bad_value(format!("seconds must lie between 1 and {SECONDS_MAX}")));
    }
    if !(1..=HERTZ_MAX).contains(&hertz) {
        return Err(CommandError::bad_value(format!("hertz must lie between 1 and {HERTZ_MAX}")));
    }
    let hertz = u32::try_from(hertz).unwrap_or(u32::MAX);
    let folded = hooks.sample_profile(Duration::from_secs(seconds), hertz);
    let folded = folded.map_err(|problem| CommandError::named("OperationFailed", problem))?;
    reply.string("folded", &folded);
    reply.size("seconds", seconds);
    reply.size("hertz", u64::from(hertz));
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use crate::test_server::TestServer;

    #[test]
    fn what_was_sampled_is_answered_and_impossible_times_are_refused() {
        let mut server = TestServer::new();
        let reply = server.run("admin", doc! { "plimsollProfile": 1, "seconds": 2, "hertz": 50 });
        assert_eq!(reply.get_str("folded").unwrap(), "thread;main;work 100\n");
        for (wrong, named) in [
            (doc! { "plimsollProfile": 1, "seconds": 0 }, "seconds"),
            (doc! { "plimsollProfile": 1, "seconds": 11 }, "seconds"),
            (doc! { "plimsollProfile": 1, "hertz": 5000 }, "hertz"),
        ] {
            let (code, message) = server.fail("admin", wrong);
            assert!(code == 2 && message.contains(named), "{code} {message}");
        }
        assert_eq!(server.fail("admin", doc! { "plimsollProfile": 1, "often": 1 }).0, 40415);
        assert_eq!(server.fail("test", doc! { "plimsollProfile": 1 }).0, 13);
    }
}
