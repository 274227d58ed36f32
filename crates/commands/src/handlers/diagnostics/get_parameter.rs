//! `getParameter`: the server parameters of MongoDB that have a meaning here, with the values they have.

use bson::{RawBsonRef, RawDocument};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::take_generic;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::parameters::{PARAMETERS, Parameter, ServerParameters};

/// What is asked for.
#[derive(Default)]
struct Options {
    wants_all: bool,
    with_details: bool,
    /// Only those that can be set then.
    set_at: Option<When>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Startup,
    Runtime,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.server.server_parameters(), arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new("getParameter", "Server parameters.", Needs::Nothing, &[on_cluster(Action::GetParameter)])
    },
);

/// Runs the command.
pub(crate) fn run(
    server: ServerParameters<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let options = match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String("*")) => Options { wants_all: true, ..Options::default() },
        Some(RawBsonRef::Document(options)) => Options::parse(options)?,
        _ => Options::default(),
    };
    let mut wanted = Vec::new();
    for field in arguments.fields() {
        // Names that are no parameters are left out of the reply.
        if !take_generic(&mut arguments, field)? {
            wanted.push(field.name());
        }
    }
    let mut found = 0;
    for parameter in PARAMETERS {
        if (options.wants_all || wanted.contains(&parameter.name)) && options.has(parameter) {
            write(server, parameter, options.with_details, reply);
            found += 1;
        }
    }
    if found == 0 { Err(CommandError::named("InvalidOptions", "no option found to get")) } else { Ok(()) }
}

impl Options {
    fn parse(source: &RawDocument) -> Result<Options> {
        let mut options = Options::default();
        for element in document::elements(source) {
            let field = Field::of("getParameter", element);
            match field.name() {
                "allParameters" => options.wants_all = field.boolean()?,
                "showDetails" => options.with_details = field.boolean()?,
                "setAt" => options.set_at = Some(when(field)?),
                _ => return Err(field.unknown()),
            }
        }
        Ok(options)
    }

    fn has(&self, parameter: &Parameter) -> bool {
        match self.set_at {
            Some(When::Startup) => parameter.is_of_startup,
            Some(When::Runtime) => parameter.set.is_some(),
            None => true,
        }
    }
}

fn when(field: Field<'_>) -> Result<When> {
    match field.required(Field::string)? {
        "startup" => Ok(When::Startup),
        "runtime" => Ok(When::Runtime),
        other => Err(CommandError::bad_value(format!(
            "Enumeration value '{other}' for field 'getParameter.setAt' is not a valid value."
        ))),
    }
}

fn write(server: ServerParameters<'_>, parameter: &Parameter, with_details: bool, reply: &mut DocumentWriter<'_>) {
    if !with_details {
        return server.write(parameter, parameter.name, reply);
    }
    reply.document(parameter.name, |details| {
        server.write(parameter, "value", details);
        details.boolean("settableAtRuntime", parameter.set.is_some());
        details.boolean("settableAtStartup", parameter.is_of_startup);
    });
}
