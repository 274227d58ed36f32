//! `configureFailPoint`: has something fail, for tests of drivers. Only with `--enable-test-commands`.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::elements;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::EVERYTHING;
use crate::state::context::ServerFacts;
use crate::state::fail_points::{CursorFault, FailPoint, FailPoints, Fault, Mode, NAMES, Setting, Target, WriteFault};
use crate::state::server_hooks::ServerHooks;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.fail_points, &server.facts, &*server.hooks, arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "configureFailPoint",
            "Has something fail, for tests; only with --enable-test-commands.",
            Needs::Nothing,
            &[EVERYTHING],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    fail_points: &FailPoints,
    facts: &ServerFacts,
    hooks: &dyn ServerHooks,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    check_switch(facts, "configureFailPoint")?;
    let name = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let name = required(name.string()?, "configureFailPoint.configureFailPoint")?;
    let point = FailPoint::named(name).ok_or_else(|| unknown(name))?;
    let (mut mode, mut data) = (None, None);
    for field in arguments.fields() {
        match field.name() {
            "mode" => mode = Some(field),
            "data" => data = field.document()?,
            _ => arguments.generic(field)?,
        }
    }
    let mode = mode.ok_or_else(|| {
        CommandError::numbered(40414, "BSON field 'configureFailPoint.mode' is missing but a required field")
    })?;
    let setting = match parse_mode(mode)? {
        None => None,
        Some(mode) => Some((mode, parse_setting(point, data)?)),
    };
    if point == FailPoint::WallClock {
        move_wall_clock(hooks, setting.as_ref())?;
    }
    reply.count("count", fail_points.set(point, setting));
    Ok(())
}

/// Refuses a command that only exists with the switch.
pub(super) fn check_switch(facts: &ServerFacts, command: &str) -> Result<()> {
    if facts.has_test_commands {
        return Ok(());
    }
    let message = format!("no such command: '{command}' (the server was not started with --enable-test-commands)");
    Err(CommandError::named("CommandNotFound", message))
}

/// The error for a fail point that we do not have.
pub(super) fn unknown(name: &str) -> CommandError {
    CommandError::not_implemented(format!("the fail point '{name}' (there are {})", NAMES.join(", ")))
}

fn parse_setting(point: FailPoint, data: Option<&RawDocument>) -> Result<Setting> {
    Ok(match point {
        FailPoint::Command => {
            let (target, fault) = data.map(parse_data).transpose()?.unwrap_or_default();
            Setting::Command(target, fault)
        }
        FailPoint::GetMore => Setting::GetMore(parse_cursor_fault(data)?),
        FailPoint::RetryableWrite => Setting::RetryableWrite(parse_write_fault(data)?),
        FailPoint::EveryTimeIsOver => no_data(data).map(|()| Setting::EveryTimeIsOver)?,
        FailPoint::NoTimeIsOver => no_data(data).map(|()| Setting::NoTimeIsOver)?,
        FailPoint::WallClock => Setting::WallClock(parse_wall_clock(data)?),
    })
}

/// It strikes nobody: the clock moves at once, and back when the fail point is switched off.
fn move_wall_clock(hooks: &dyn ServerHooks, setting: Option<&(Mode, Setting)>) -> Result<()> {
    let millis = match setting {
        None => 0,
        Some((Mode::Always, Setting::WallClock(millis))) => *millis,
        Some(_) => return Err(CommandError::bad_value("the mode of wallClockIsAhead must be 'off' or 'alwaysOn'")),
    };
    hooks.set_wall_clock_ahead(millis);
    Ok(())
}

fn parse_wall_clock(data: Option<&RawDocument>) -> Result<i64> {
    let mut seconds = None;
    for element in data.into_iter().flat_map(elements) {
        let field = Field::of("wallClockIsAhead", element);
        match field.name() {
            "seconds" => seconds = field.integer()?,
            _ => return Err(field.unknown()),
        }
    }
    let seconds = required(seconds, "wallClockIsAhead.seconds")?;
    seconds.checked_mul(1000).ok_or_else(|| CommandError::bad_value("wallClockIsAhead.seconds is too large"))
}

fn no_data(data: Option<&RawDocument>) -> Result<()> {
    match data.and_then(|data| elements(data).next()) {
        Some(element) => Err(Field::of("configureFailPoint.data", element).unknown()),
        None => Ok(()),
    }
}

fn parse_cursor_fault(data: Option<&RawDocument>) -> Result<CursorFault> {
    let mut fault = CursorFault::default();
    for element in data.into_iter().flat_map(elements) {
        let field = Field::of("failGetMoreAfterCursorCheckout", element);
        match field.name() {
            "errorCode" => fault.error_code = code(field)?,
            "closeConnection" => fault.closes_connection = field.boolean()?,
            _ => return Err(field.unknown()),
        }
    }
    if fault == CursorFault::default() {
        return Err(CommandError::bad_value("failGetMoreAfterCursorCheckout needs 'errorCode' or 'closeConnection'"));
    }
    Ok(fault)
}

fn parse_write_fault(data: Option<&RawDocument>) -> Result<WriteFault> {
    let mut fault = WriteFault { error_code: None, closes_connection: true };
    for element in data.into_iter().flat_map(elements) {
        let field = Field::of("onPrimaryTransactionalWrite", element);
        match field.name() {
            "failBeforeCommitExceptionCode" => fault.error_code = Some(code(field)?),
            "closeConnection" => fault.closes_connection = field.boolean()?,
            _ => return Err(field.unknown()),
        }
    }
    Ok(fault)
}

fn code(field: Field<'_>) -> Result<i32> {
    i32::try_from(field.integer()?.unwrap_or_default()).map_err(|_| field.wrong_type("type 'int'"))
}

/// `None`: off.
fn parse_mode(field: Field<'_>) -> Result<Option<Mode>> {
    let source = match field.value() {
        RawBsonRef::String("off") => return Ok(None),
        RawBsonRef::String("alwaysOn") => return Ok(Some(Mode::Always)),
        RawBsonRef::Document(source) => source,
        _ => return Err(CommandError::bad_value("'mode' must be one of 'off', 'alwaysOn' or an object")),
    };
    let mut mode = None;
    for element in elements(source) {
        let field = Field::of("configureFailPoint.mode", element);
        mode = Some(match field.name() {
            "times" => Mode::Times(field.unsigned()?.unwrap_or_default()),
            "skip" => Mode::Skip(field.unsigned()?.unwrap_or_default()),
            "activationProbability" => return Err(field.not_implemented()),
            _ => return Err(field.unknown()),
        });
    }
    mode.map(Some).ok_or_else(|| CommandError::bad_value("'mode' must name one of 'times' and 'skip'"))
}

fn parse_data(source: &RawDocument) -> Result<(Target, Fault)> {
    let (mut target, mut fault) = (Target::default(), Fault::default());
    let (mut blocks, mut block_time) = (false, None);
    for element in elements(source) {
        let field = Field::of("failCommand", element);
        match field.name() {
            "failCommands" => target.commands = strings(field)?,
            "appName" => target.app_name = field.string()?.map(str::to_owned),
            "namespace" => target.namespace = field.string()?.map(str::to_owned),
            "errorCode" if field.is_null() => {}
            "errorCode" => fault.error_code = Some(code(field)?),
            "errorLabels" => fault.labels = Some(strings(field)?),
            "closeConnection" => fault.closes_connection = field.boolean()?,
            "blockConnection" => blocks = field.boolean()?,
            "blockTimeMS" => block_time = field.unsigned()?.map(Duration::from_millis),
            "writeConcernError" => fault.write_concern_error = field.document()?.map(ToOwned::to_owned),
            // There are no commands from inside.
            "failInternalCommands" => drop(field.boolean()?),
            "threadName" | "errorExtraInfo" | "failLocalClients" => field.refuse_unless_null()?,
            _ => return Err(field.unknown()),
        }
    }
    match (blocks, block_time) {
        (true, Some(time)) => fault.block = Some(time),
        (true, None) => return Err(CommandError::bad_value("'blockTimeMS' must be given with 'blockConnection'")),
        (false, _) => {}
    }
    Ok((target, fault))
}

fn strings(field: Field<'_>) -> Result<Vec<String>> {
    let text = |value: RawBsonRef<'_>| value.as_str().map(str::to_owned);
    let items = field.array()?.into_iter().flat_map(document::array_elements).map(|item| text(item.value()));
    items.collect::<Option<_>>().ok_or_else(|| field.wrong_type("an array of type 'string'"))
}
