//! One engine of QuickJS with the prelude, and the functions that it has compiled.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocument};
use document::{Interruption, work};
use rquickjs::function::Args;
use rquickjs::{Array, Context, Ctx, Error, Exception, Function, Persistent, Runtime, Value};

use crate::bounded_memory::BoundedMemory;
use crate::from_script::FromScript;
use crate::session::{Kind, ScriptError};
use crate::to_script::ToScript;

/// The most memory of one engine.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;
/// The most of the thread's stack.
const STACK_BYTES_MAX: usize = 768 << 10;

const PRELUDE: &str = include_str!("prelude.js");

type Result<T> = std::result::Result<T, ScriptError>;

pub(crate) struct Engine {
    // Before the runtime that they live in.
    functions: HashMap<(Arc<str>, Kind), Persistent<Function<'static>>>,
    context: Context,
    _runtime: Runtime,
    /// Whether the script that runs has wanted more memory than there is.
    has_refused_memory: Rc<Cell<bool>>,
    /// Why the script that runs was ended.
    interruption: Rc<Cell<Option<Interruption>>>,
}

impl Engine {
    pub(crate) fn new() -> Result<Engine> {
        let has_refused_memory = Rc::new(Cell::new(false));
        let memory = BoundedMemory::new(MEMORY_BYTES_MAX, has_refused_memory.clone());
        let runtime = Runtime::new_with_alloc(memory).map_err(|_| ScriptError::Memory)?;
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        let interruption = Rc::new(Cell::new(None));
        let noted = interruption.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || match work::check() {
            Ok(()) => false,
            Err(reason) => {
                noted.set(Some(reason));
                true
            }
        })));
        let context = Context::full(&runtime).map_err(|_| ScriptError::Memory)?;
        let engine = Engine { functions: HashMap::new(), context, _runtime: runtime, has_refused_memory, interruption };
        engine.run(|ctx| {
            crate::natives::define(&ctx)?;
            ctx.eval::<(), _>(PRELUDE)
        })?;
        Ok(engine)
    }

    pub(crate) fn call(
        &mut self,
        code: &Arc<str>,
        kind: Kind,
        this: RawBsonRef<'_>,
        arguments: &[RawBsonRef<'_>],
    ) -> Result<RawBson> {
        let function = self.function(code, kind)?;
        self.converted(|ctx| {
            let result = apply(&ctx, function, this, arguments)?;
            FromScript::new(&ctx)?.value(&result)
        })
    }

    pub(crate) fn is_true(&mut self, code: &Arc<str>, kind: Kind, this: RawBsonRef<'_>) -> Result<bool> {
        let function = self.function(code, kind)?;
        self.converted(|ctx| {
            let document = ToScript::new(&ctx)?.value(this)?;
            ctx.globals().set("obj", document)?;
            let result = apply(&ctx, function, this, &[])?;
            Ok(is_truthy(&result))
        })
    }

    pub(crate) fn emitted(
        &mut self,
        code: &Arc<str>,
        kind: Kind,
        this: RawBsonRef<'_>,
    ) -> Result<Vec<(RawBson, RawBson)>> {
        let function = self.function(code, kind)?;
        self.converted(|ctx| {
            let list = Array::new(ctx.clone())?;
            ctx.globals().set("__emitted", list.clone())?;
            apply(&ctx, function, this, &[])?;
            let from = FromScript::new(&ctx)?;
            let mut found = Vec::with_capacity(list.len() / 2);
            for position in (0..list.len()).step_by(2) {
                work::step()?;
                let (key, value): (Value<'_>, Value<'_>) = (list.get(position)?, list.get(position + 1)?);
                found.push((from.value(&key)?, from.value(&value)?));
            }
            Ok(found)
        })
    }

    pub(crate) fn define_globals(&mut self, scope: &RawDocument) -> Result<()> {
        self.converted(|ctx| {
            let to = ToScript::new(&ctx)?;
            let compile: Function<'_> = ctx.globals().get("__function")?;
            for element in document::elements(scope) {
                let value = match element.value() {
                    RawBsonRef::JavaScriptCode(code) => compile.call((code,))?,
                    other => to.value(other)?,
                };
                ctx.globals().set(element.name(), value)?;
            }
            Ok(())
        })
    }

    /// The compiled function.
    fn function(&mut self, code: &Arc<str>, kind: Kind) -> Result<Persistent<Function<'static>>> {
        let key = (code.clone(), kind);
        if let Some(known) = self.functions.get(&key) {
            return Ok(known.clone());
        }
        let compile = match kind {
            Kind::Function => "__function",
            Kind::Condition => "__condition",
        };
        let compiled = self.run(|ctx| {
            let compile: Function<'_> = ctx.globals().get(compile)?;
            let function: Function<'_> = compile.call((&**code,))?;
            Ok(Persistent::save(&ctx, function))
        });
        let compiled = compiled.map_err(|error| match error {
            ScriptError::Thrown(message) => ScriptError::Code(message),
            other => other,
        })?;
        self.functions.insert(key, compiled.clone());
        Ok(compiled)
    }

    fn run<T>(&self, work: impl FnOnce(Ctx<'_>) -> rquickjs::Result<T>) -> Result<T> {
        self.converted(|ctx| Ok(work(ctx)?))
    }

    /// Runs something in the engine; what it throws becomes an error of ours.
    fn converted<T>(&self, work: impl FnOnce(Ctx<'_>) -> std::result::Result<T, Failure>) -> Result<T> {
        self.interruption.set(None);
        self.has_refused_memory.set(false);
        self.context.with(|ctx| {
            let failure = match work(ctx.clone()) {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            let thrown = match failure {
                Failure::Script(error) => return Err(error),
                Failure::Engine(Error::Exception) => Some(ctx.catch()),
                Failure::Engine(Error::Allocation) => return Err(ScriptError::Memory),
                Failure::Engine(_) => None,
            };
            if let Some(reason) = self.interruption.take() {
                return Err(reason.into());
            }
            // Without memory for an exception the engine throws null.
            if self.has_refused_memory.get() && thrown.as_ref().is_some_and(Value::is_null) {
                return Err(ScriptError::Memory);
            }
            Err(thrown.map_or_else(|| ScriptError::Thrown("the script failed".to_owned()), |thrown| described(&thrown)))
        })
    }
}

/// What goes wrong inside of the engine.
pub(crate) enum Failure {
    Engine(Error),
    Script(ScriptError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<ScriptError> for Failure {
    fn from(error: ScriptError) -> Self {
        Failure::Script(error)
    }
}

impl From<Interruption> for Failure {
    fn from(interruption: Interruption) -> Self {
        Failure::Script(interruption.into())
    }
}

fn apply<'js>(
    ctx: &Ctx<'js>,
    function: Persistent<Function<'static>>,
    this: RawBsonRef<'_>,
    arguments: &[RawBsonRef<'_>],
) -> std::result::Result<Value<'js>, Failure> {
    let to = ToScript::new(ctx)?;
    let mut args = Args::new(ctx.clone(), arguments.len());
    args.this(to.value(this)?)?;
    for argument in arguments {
        args.push_arg(to.value(*argument)?)?;
    }
    Ok(function.restore(ctx)?.call_arg(args)?)
}

fn is_truthy(value: &Value<'_>) -> bool {
    if let Some(truth) = value.as_bool() {
        return truth;
    }
    if let Some(number) = value.as_number() {
        return number != 0.0 && !number.is_nan();
    }
    if let Some(text) = value.as_string() {
        return text.to_string().is_ok_and(|text| !text.is_empty());
    }
    !value.is_undefined() && !value.is_null()
}

/// What was thrown, as people read it: with its name, such as `ReferenceError`.
fn described(thrown: &Value<'_>) -> ScriptError {
    let Some(exception) = thrown.as_object().and_then(|object| Exception::from_object(object.clone())) else {
        let text = thrown.as_string().and_then(|text| text.to_string().ok());
        return ScriptError::Thrown(text.unwrap_or_else(|| "uncaught exception".to_owned()));
    };
    let message = exception.message().unwrap_or_default();
    if message == "out of memory" {
        return ScriptError::Memory;
    }
    let name: String = exception.get("name").unwrap_or_else(|_| "Error".to_owned());
    ScriptError::Thrown(format!("{name}: {message}"))
}
