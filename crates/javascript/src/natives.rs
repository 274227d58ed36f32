//! What the prelude has from the server: printing and waiting.

use std::time::Duration;

use rquickjs::{Ctx, Function};

/// How long one pause of `sleep` is; between two pauses the engine asks whether the command is to stop.
const PAUSE: Duration = Duration::from_millis(1);

/// Defines the functions.
pub(crate) fn define(ctx: &Ctx<'_>) -> rquickjs::Result<()> {
    let globals = ctx.globals();
    globals.set("__print", Function::new(ctx.clone(), print)?)?;
    globals.set("__pause", Function::new(ctx.clone(), pause)?)?;
    Ok(())
}

/// As in MongoDB, into the diagnostics of the server.
fn print(text: String) {
    tracing::info!(text, "a script prints");
}

/// Asks, too: a script that only waits makes few steps.
fn pause() -> rquickjs::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a script's sleep is of real time, whatever clock the server has")]
    std::thread::sleep(PAUSE);
    document::work::count(PAUSE_UNITS);
    Ok(())
}

/// Units of work that a pause stands for, so that the next question comes soon.
const PAUSE_UNITS: usize = 1024;
