//! Threads: the one place where background threads are started, so that each has a name.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::memory_check;

/// Starts a thread called `name` (the kernel shows the first 15 bytes) that runs `body`.
///
/// # Errors
/// When the machine refuses another thread.
#[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
pub fn spawn_named<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(to_its_end(body))
}

/// The same for a thread with a stack of `stack_bytes`.
///
/// # Errors
/// When the machine refuses another thread.
#[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
pub fn spawn_sized<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(to_its_end(body))
}

/// The same for a thread that ends before the scope does, and may use what lives as long.
///
/// # Errors
/// When the machine refuses another thread.
#[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, to_its_end(body))
}

/// What a thread runs, and what is to be done when it ends.
fn to_its_end<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    || {
        let result = body();
        memory_check::thread_ends();
        result
    }
}
