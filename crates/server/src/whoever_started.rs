//! A server that ends with the program that started it (`--stop-with-input`). Called by `main`.
//!
//! A pipe to standard input ends when the other program does, be it killed. So tests leave no servers behind.

use std::io::Read;

use server::ServerHandle;

/// Asks the server to stop when standard input ends.
///
/// # Errors
/// The machine refuses a thread.
pub(crate) fn stop_with_input(handle: ServerHandle) -> Result<(), String> {
    let watching = platform::spawn_named("input-end", move || {
        let (mut input, mut bytes) = (std::io::stdin().lock(), [0; 256]);
        // What is said means nothing; an input that cannot be read is one that has ended.
        while input.read(&mut bytes).is_ok_and(|count| count > 0) {}
        tracing::info!(target: "control", "standard input has ended");
        handle.request_stop();
    });
    watching.map(drop).map_err(|error| format!("cannot watch standard input: {error}"))
}
