//! Whether this thread may run scripts, and its engine.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bson::{RawBson, RawBsonRef};
use document::Interruption;

use crate::engine::Engine;

/// What `security.javascriptEnabled` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scripting {
    Enabled,
    Disabled,
}

/// Why a function has no result.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The server was started without scripts.
    #[error("server-side JavaScript execution is disabled on this server")]
    Disabled,
    /// It does not parse, or is no function.
    #[error("{0}")]
    Code(String),
    /// It has thrown something.
    #[error("{0}")]
    Thrown(String),
    /// It wanted more memory than an engine has.
    #[error("JavaScript needed more than {} MiB of memory", crate::MEMORY_BYTES_MAX >> 20)]
    Memory,
    /// What it has returned is nothing that BSON has.
    #[error("{0}")]
    Value(String),
    /// The command is to stop.
    #[error(transparent)]
    Interrupted(#[from] Interruption),
}

thread_local! {
    static SCRIPTING: Cell<Scripting> = const { Cell::new(Scripting::Enabled) };
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
    static HAS_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// The time of one command, after which nothing of its scripts is left.
#[must_use]
#[derive(Debug)]
pub struct Running {
    before: Scripting,
}

/// Begins a command.
pub fn begin(scripting: Scripting) -> Running {
    Running { before: SCRIPTING.replace(scripting) }
}

impl Drop for Running {
    fn drop(&mut self) {
        SCRIPTING.set(self.before);
        if HAS_ENGINE.replace(false) {
            ENGINE.with_borrow_mut(Option::take);
        }
    }
}

/// Refuses scripts where they are disabled.
///
/// # Errors
/// `Disabled`.
pub fn check_enabled() -> Result<(), ScriptError> {
    match SCRIPTING.get() {
        Scripting::Enabled => Ok(()),
        Scripting::Disabled => Err(ScriptError::Disabled),
    }
}

/// How the code is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `function (...) {...}`.
    Function,
    /// That, or an expression, or the body of a function: `$where`.
    Condition,
}

/// A function as it was sent. It is compiled by the engine that first calls it.
#[derive(Debug, Clone)]
pub struct Function {
    code: Arc<str>,
    kind: Kind,
}

impl Function {
    /// The function of this code.
    ///
    /// # Errors
    /// `Disabled`.
    pub fn new(code: &str, kind: Kind) -> Result<Function, ScriptError> {
        check_enabled()?;
        Ok(Function { code: code.into(), kind })
    }

    /// As it was sent.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Calls it; `this` is what the function finds by that name.
    ///
    /// # Errors
    /// All of `ScriptError`.
    pub fn call(&self, this: RawBsonRef<'_>, arguments: &[RawBsonRef<'_>]) -> Result<RawBson, ScriptError> {
        with_engine(|engine| engine.call(&self.code, self.kind, this, arguments))
    }

    /// Whether what it returns is true, as JavaScript sees it.
    ///
    /// # Errors
    /// All of `ScriptError`.
    pub fn is_true_of(&self, this: RawBsonRef<'_>) -> Result<bool, ScriptError> {
        with_engine(|engine| engine.is_true(&self.code, self.kind, this))
    }

    /// Calls it, and gives what it emits (`emit(key, value)`), in order.
    ///
    /// # Errors
    /// All of `ScriptError`.
    pub fn emitted(&self, this: RawBsonRef<'_>) -> Result<Vec<(RawBson, RawBson)>, ScriptError> {
        with_engine(|engine| engine.emitted(&self.code, self.kind, this))
    }

    /// Defines global variables for all functions of the command.
    ///
    /// # Errors
    /// All of `ScriptError`.
    pub fn define_globals(scope: &bson::RawDocument) -> Result<(), ScriptError> {
        with_engine(|engine| engine.define_globals(scope))
    }
}

fn with_engine<T>(work: impl FnOnce(&mut Engine) -> Result<T, ScriptError>) -> Result<T, ScriptError> {
    check_enabled()?;
    ENGINE.with_borrow_mut(|slot| {
        let engine = match slot {
            Some(engine) => engine,
            None => {
                HAS_ENGINE.set(true);
                slot.insert(Engine::new()?)
            }
        };
        work(engine)
    })
}
