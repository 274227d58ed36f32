//! From a message to its command's handler, and from its result to the reply.
//!
//! Called by `server` for every request. Checks the message's documents, finds the handler in `registry`, writes `ok` or
//! the error.

mod auditing;
mod authorization;
mod confirmation;
mod password_login;
mod role_descriptions;

pub use password_login::PasswordLogin;
pub use role_descriptions::{RoleDescription, role_descriptions};

use std::cell::Cell;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use document::{Limits, validate_document};
use platform::command_memory::Patience;

use crate::DocumentWriter;
use crate::handlers::command::{Command, Handler};
use crate::handlers::crud::query_statistics;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::handlers::diagnostics;
use crate::registry;
use crate::request::arguments::Arguments;
use crate::request::cluster_time;
use crate::request::command_request::{Attempt, CommandRequest, NoSequences};
use crate::request::declaration::{Changes, Class, CursorUse, Declaration, SessionUse, WriteConcernUse};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::outcome::Outcome;
use crate::request::session_fields::SessionFields;
use crate::state::access_control::login::Login;
use crate::state::acknowledgement;
use crate::state::admission::{Granted, Need, Permission, Turn};
use crate::state::command_table::CommandTable;
use crate::state::context::{ClientContext, Context, ServerContext, count};
use crate::state::execution_notes::ExecutionNotes;
use crate::state::fail_points::{Fault, Struck, error_of};
use crate::state::operation_session::{Beginning, OperationSession};
use crate::state::operations::{Operation, Registered, limit_of_queries};
use crate::state::replica_set::role;

/// Command bodies may be larger than documents: they carry them.
const BODY_LIMITS: Limits = Limits { bytes_max: 48_000_000 };

/// How often a command begins whose collections are dropped again and again.
const ATTEMPTS_MAX: usize = 100;

/// Runs commands.
pub struct Dispatcher {
    server: Arc<ServerContext>,
}

impl Dispatcher {
    /// A dispatcher over a server's state.
    pub fn new(server: Arc<ServerContext>) -> Self {
        query_language::limit_memory(limit_of_queries);
        Self { server }
    }

    /// The state it works on.
    pub fn server(&self) -> &Arc<ServerContext> {
        &self.server
    }

    /// All figures of `serverStatus`, with histograms, for those inside the program who watch it. No command is run or counted.
    ///
    /// # Errors
    /// Why a figure cannot be told.
    pub fn status(&self) -> std::result::Result<RawDocumentBuf, String> {
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::begin(&mut bytes);
        let written = diagnostics::server_status::write_all(&self.server, &mut writer);
        writer.finish();
        written.map_err(|error| error.message)?;
        RawDocumentBuf::from_bytes(bytes).map_err(|error| error.to_string())
    }

    /// Runs one command and appends one reply document to `reply`.
    pub fn run(&self, request: &CommandRequest<'_>, client: &mut ClientContext, reply: &mut Vec<u8>) -> Outcome {
        let permission = client.permission.take();
        if permission.as_ref().is_some_and(|permission| !permission.is_granted()) {
            return self.run_command(request, client, permission, reply);
        }
        if request.attempt == Attempt::AfterWait {
            return self.run_command(request, client, permission, reply);
        }
        let name = registry::declaration(request.name).map_or(request.name, |command| command.name);
        let struck = Struck {
            name,
            database: request.database,
            body: request.body,
            metadata: client.metadata.as_ref().map(|metadata| &***metadata),
        };
        match self.server.fail_points.strike(&struck) {
            Some(fault) => self.run_with_fault(&fault, request, client, permission, reply),
            None => self.run_command(request, client, permission, reply),
        }
    }

    /// What a client's request must wait for before it runs; `None`: for nothing, or it must not be held up. Cheap, does not wait.
    pub fn need(&self, name: &str, database: &str, body: &RawDocument, client: &ClientContext) -> Option<Need> {
        let command = registry::declaration(name)?;
        let is_null = |kind| matches!(kind, bson::spec::ElementType::Null | bson::spec::ElementType::Undefined);
        let has = |name: &str| {
            body.iter_elements()
                .flatten()
                .any(|element| element.key().as_str() == name && !is_null(element.element_type()))
        };
        let must_run = || has("autocommit") && !has("startTransaction");
        if command.class == Class::Exempt || must_run() {
            return None;
        }
        let queued = self.server.operations.queue(&client.slot, command, database, body.as_bytes());
        Some(Need { class: command.class, queued })
    }

    fn run_command(
        &self,
        request: &CommandRequest<'_>,
        client: &mut ClientContext,
        permission: Option<Permission>,
        reply: &mut Vec<u8>,
    ) -> Outcome {
        let start = reply.len();
        let mut writer = DocumentWriter::begin(reply);
        match self.try_run(request, client, permission, &mut writer) {
            Ok(outcome @ (Outcome::Reply | Outcome::ReplyAndMore(_))) => {
                writer.double("ok", 1.0);
                cluster_time::write(&mut writer, self.server.store.readable_timestamp());
                writer.finish();
                outcome
            }
            Ok(waiting) => {
                reply.truncate(start);
                waiting
            }
            Err(error) => {
                reply.truncate(start);
                self.count_failure(request.name, &error);
                let topology = error.is_of_topology().then_some(&*self.server);
                let acknowledged = self.check_write_concern(request);
                self.write_error(&self.labelled(request, error), topology, acknowledged, reply);
                Outcome::Reply
            }
        }
    }

    /// What a command that has failed says of its write concern, if it takes one.
    fn check_write_concern(&self, request: &CommandRequest<'_>) -> Result<()> {
        match registry::declaration(request.name) {
            Some(command) if command.write_concern == WriteConcernUse::Taken => {
                acknowledgement::check_beside_error(&self.server.replica_set, request.body)
            }
            _ => Ok(()),
        }
    }

    /// An error that says that the server's state is another has the topology's version, so that a client knows whether it is news.
    fn write_error(
        &self,
        error: &CommandError,
        topology: Option<&ServerContext>,
        acknowledged: Result<()>,
        reply: &mut Vec<u8>,
    ) {
        let mut writer = DocumentWriter::begin(reply);
        writer.double("ok", 0.0);
        error.write_fields(&mut writer);
        write_concern_error(acknowledged, &mut writer);
        if let Some(server) = topology {
            server.topology.write_version(&mut writer);
        }
        cluster_time::write(&mut writer, self.server.store.readable_timestamp());
        writer.finish();
    }

    /// Does to a command what a fail point says.
    fn run_with_fault(
        &self,
        fault: &Fault,
        request: &CommandRequest<'_>,
        client: &mut ClientContext,
        permission: Option<Permission>,
        reply: &mut Vec<u8>,
    ) -> Outcome {
        if let Some(block) = fault.block {
            self.server.clock.sleep(block);
        }
        if fault.closes_connection {
            return Outcome::CloseConnection;
        }
        if let Some(code) = fault.error_code {
            let error = error_of(code, "failCommand");
            let start = reply.len();
            self.write_error(&self.labelled(request, error), None, Ok(()), reply);
            if let Some(labels) = &fault.labels {
                replace_labels(reply, start, labels);
            }
            return Outcome::Reply;
        }
        let start = reply.len();
        let outcome = self.run_command(request, client, permission, reply);
        if let (Some(error), Outcome::Reply | Outcome::ReplyAndMore(_)) = (&fault.write_concern_error, outcome) {
            let code = document::get_field(error, "code").and_then(bson::RawBsonRef::as_i32).unwrap_or_default();
            let own = self.labelled(request, CommandError::of_code(code, ""));
            let own = own.labels.iter().map(|label| (*label).to_owned()).filter(|label| label == "RetryableWriteError");
            let given = fault.labels.clone().or_else(|| listed_labels(error));
            let labels = given.unwrap_or_else(|| own.collect());
            append_to_reply(reply, start, |writer| writer.embed("writeConcernError", error));
            if !labels.is_empty() {
                replace_labels(reply, start, &labels);
            }
        }
        outcome
    }

    /// Adds the labels by which drivers know what to try again.
    fn labelled(&self, request: &CommandRequest<'_>, mut error: CommandError) -> CommandError {
        if error.ends_change_stream() {
            error.add_label("NonResumableChangeStreamError");
        }
        let Ok(fields) = SessionFields::read(request.body) else { return error };
        let ends = registry::declaration(request.name)
            .is_some_and(|command| command.session_use == SessionUse::EndsTransaction);
        if fields.is_in_transaction() {
            error = error.in_transaction();
        }
        if fields.is_in_transaction() && error.is_transient_in_transaction(ends) {
            error.add_label("TransientTransactionError");
        } else if (fields.is_retryable_write() || ends) && error.is_retryable() {
            error.add_label("RetryableWriteError");
        }
        error
    }

    fn try_run(
        &self,
        request: &CommandRequest<'_>,
        client: &mut ClientContext,
        permission: Option<Permission>,
        reply: &mut DocumentWriter<'_>,
    ) -> Result<Outcome> {
        let found = self.checked(request)?;
        auditing::run_allowed(&self.server, found, request, client, |client| {
            self.run_found(found, request, client, permission, reply)
        })
    }

    fn run_found(
        &self,
        found: &Command,
        request: &CommandRequest<'_>,
        client: &mut ClientContext,
        permission: Option<Permission>,
        reply: &mut DocumentWriter<'_>,
    ) -> Result<Outcome> {
        let command = &found.declaration;
        // What only reads locks nothing while it waits.
        let patience = if command.class == Class::Read { Patience::Waits } else { Patience::FailsAtOnce };
        let _memory = self.server.memory.begin_command(patience, client.slot.clone());
        let body = request.body.as_bytes();
        let fields = SessionFields::read(request.body)?;
        fields.api.check(command, request.body, registry::declaration)?;
        cluster_time::check(fields.cluster_time, &*self.server.clock, || self.server.store.visible_timestamp())?;
        let (queued, granted) = permission.map(Permission::into_parts).unzip();
        count_connection(&self.server, command.class, client);
        let operations = &self.server.operations;
        let registered = operations.register(&client.slot, command, request.database, body, fields.session, queued);
        let operation = self.admit(registered, command, &fields, granted)?;
        let (store, memory, cursors) = (&*self.server.store, &self.server.memory, &self.server.cursors);
        let beginning =
            Beginning { command, database: request.database, user: client.login.user(), store, memory, cursors };
        let session = OperationSession::begin(&fields, &beginning, &operation)
            .map_err(|error| confirmation::error_to_be_told(store, &operation, error))?;
        session.txn_number().into_iter().for_each(|number| client.slot.set_transaction(number));
        let snapshot = if session.transaction().is_none() { fields.read_concern.view(store, command)? } else { None };
        let mut context = Context {
            server: &self.server,
            connection: client.connection,
            metadata: &mut client.metadata,
            login: &mut client.login,
            slot: &client.slot,
            operation,
            session,
            read_concern: fields.read_concern,
            snapshot,
            commands: self,
            request,
            closes_connection: Cell::new(false),
            notes: ExecutionNotes::begin(),
        };
        let _watching = document::work::watch(client.slot.clone());
        let _scripts = javascript::begin(match self.server.facts.has_scripting {
            true => javascript::Scripting::Enabled,
            false => javascript::Scripting::Disabled,
        });
        let result = self.handle(found, &mut context, reply).and_then(|outcome| {
            fields.read_concern.confirm(store)?;
            if fields.is_in_transaction() && self.server.replica_set.is_alone() {
                write_recovery_token(reply);
            }
            Ok(outcome)
        });
        let result = confirmation::to_be_told(&mut context, command, result, reply);
        context.session.end(store, &self.server.cursors, context.operation.elapsed(), result.is_err());
        if context.closes_connection.get() {
            return Ok(Outcome::CloseConnection);
        }
        let result = result.map_err(|error| context.operation.name_interruption(error));
        if !matches!(result, Ok(Outcome::WaitForTopologyChange(_))) {
            self.record(&context, command, reply.len(), result.as_ref().err());
        }
        result
    }

    /// A command has ended: it is counted, and recorded.
    fn record(&self, context: &Context<'_>, command: &Declaration, reply_bytes: usize, error: Option<&CommandError>) {
        let (server, recording) = (&self.server, context.recording());
        diagnostics::finished(recording, server.counting(), server.traces.as_ref(), command, reply_bytes, error);
        if error.is_none() {
            query_statistics::note(&server.query_statistics, recording, server.queries(), command);
        }
    }

    /// Runs the command's handler; again, when its collection was dropped under it. What it was asked for it does with what is there then, or it
    /// says that there is nothing.
    fn handle(&self, command: &Command, context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<Outcome> {
        let start = reply.len();
        for _ in 1..ATTEMPTS_MAX {
            match self.handle_once(command, context, reply) {
                Err(error) if begins_again(&command.declaration, context, &error) => {
                    reply.rewind(start);
                    context.operation.check_interrupt()?;
                }
                result => return result,
            }
        }
        self.handle_once(command, context, reply)
    }

    fn handle_once(
        &self,
        command: &Command,
        context: &mut Context<'_>,
        reply: &mut DocumentWriter<'_>,
    ) -> Result<Outcome> {
        let mut arguments = Arguments::new(command.declaration.name, context.request.body);
        if context.session.transaction().is_none() {
            arguments.generic.write_concern = self.server.default_concerns.write_concern(&self.server.replica_set);
        }
        match command.handler {
            Handler::Reply(run) => run(context, arguments, reply).map(|()| Outcome::Reply),
            Handler::MayWait(run) => run(context, arguments, reply),
        }
    }

    fn count_failure(&self, name: &str, error: &CommandError) {
        const WRITE_CONFLICT: i32 = 112;
        self.server.figures.count_failure(registry::declaration(name), error);
        if error.code == WRITE_CONFLICT {
            count(&self.server.counts.write_conflicts, 1);
        }
    }
}

/// Whether a command that has failed so has done nothing yet and finds something else when it begins again. A cursor has done something.
fn begins_again(command: &Declaration, context: &Context<'_>, error: &CommandError) -> bool {
    error.code_name == "QueryPlanKilled"
        && command.cursor == CursorUse::BeginsAnew
        && context.session.transaction().is_none()
}

impl Dispatcher {
    /// The command that is asked for, counted, if it is well formed and may be run here at all.
    fn checked(&self, request: &CommandRequest<'_>) -> Result<&'static Command> {
        let server = &self.server;
        validate_document(request.body.as_bytes(), &BODY_LIMITS)?;
        let Some(found) = registry::find(request.name) else {
            server.figures.count_unknown();
            return Err(registry::refusal(request.name));
        };
        let command = &found.declaration;
        let is_new = request.attempt != Attempt::AfterWait;
        if is_new {
            server.figures.count_request(command);
        }
        if request.database.is_empty() {
            return Err(CommandError::named("InvalidNamespace", "Invalid namespace specified ''"));
        }
        if command.is_admin_only && request.database != "admin" {
            let message = format!("{} may only be run against the admin database.", command.name);
            return Err(CommandError::named("Unauthorized", message));
        }
        if server.replica_set.is_uninitiated() {
            role::check_uninitiated(command, request.database, request.body)?;
        } else if server.replica_set.is_secondary() {
            role::check_secondary(command, request.database, request.body)?;
        }
        check_sequences(request, command.sequences)?;
        count(&server.counts.command, u64::from(is_new && command.counts_as_command));
        Ok(found)
    }

    /// A command that writes waits while writes are locked out, without a place among those that run.
    fn wait_for_fsync_lock(
        &self,
        registered: &Registered<'_>,
        command: &Declaration,
        granted: Option<Granted>,
    ) -> Result<Option<Granted>> {
        let lock = &self.server.fsync_lock;
        if !lock.is_locked() || command.changes == Changes::Nothing {
            return Ok(granted);
        }
        drop(granted);
        registered.wait_for_lock(|check| lock.wait(check))?;
        Ok(None)
    }

    /// Begins the command with its ticket: waits for that, unless it has been done.
    fn admit<'a>(
        &'a self,
        registered: Registered<'a>,
        command: &Declaration,
        fields: &SessionFields,
        granted: Option<Granted>,
    ) -> Result<Operation<'a>> {
        let (server, class) = (&self.server, command.class);
        let granted = self.wait_for_fsync_lock(&registered, command, granted)?;
        let mut has_waited = granted.is_some();
        let ticket = match granted {
            Some(granted) => granted.into_ticket(&server.admission, class)?,
            None => server.admission.admit(class, || {
                let must_run = fields.goes_on_with_transaction();
                if !must_run {
                    has_waited = true;
                    registered.note_waiting();
                }
                must_run
            })?,
        };
        let now = registered.placed(has_waited)?;
        let yields = registered.yields();
        let turn = Turn::begin(&server.admission, ticket, class, fields.is_in_transaction(), now, yields);
        Ok(registered.begin(turn, fields.api))
    }
}

impl CommandTable for Dispatcher {
    fn declaration(&self, name: &str) -> Option<&'static Declaration> {
        registry::declaration(name)
    }

    fn declarations(&self) -> Vec<&'static Declaration> {
        registry::declarations().collect()
    }

    fn refusal(&self, name: &str) -> CommandError {
        registry::refusal(name)
    }

    fn run_inside(&self, operation: &Operation<'_>, database: &str, command: &RawDocument) -> Result<()> {
        let first =
            document::elements(command).next().ok_or_else(|| CommandError::failed_to_parse("an empty command"))?;
        let body = document_of(|body| {
            document::elements(command).for_each(|element| body.element(element));
            body.document("writeConcern", |concern| concern.int32("w", 1));
        })?;
        let request = CommandRequest {
            name: first.name(),
            database,
            body: &body,
            sequences: &NoSequences,
            attempt: Attempt::First,
            is_legacy: false,
        };
        let mut client = self.server.connect(operation.connection(), operation.slot().client.clone());
        // The command that it is a part of was allowed.
        client.login = Login::of_server();
        let mut reply = Vec::new();
        self.try_run(&request, &mut client, None, &mut DocumentWriter::begin(&mut reply)).map(drop)
    }
}

/// By which a router finds out what became of a transaction. Drivers send it with its end; there is one place to ask here.
fn write_recovery_token(reply: &mut DocumentWriter<'_>) {
    reply.document("recoveryToken", |token| token.string("recoveryShardId", "plimsoll"));
}

/// Counts the connection among those that come with such commands.
fn count_connection(server: &ServerContext, class: Class, client: &mut ClientContext) {
    if class != Class::Exempt {
        client.class = class;
        server.admission.count(class, &mut client.counted);
    }
}

fn check_sequences(request: &CommandRequest<'_>, known: &[&str]) -> Result<()> {
    for name in request.sequences.names() {
        if !known.contains(&name) {
            let message = format!("BSON field '{}.{name}' is an unknown field.", request.name);
            return Err(CommandError::numbered(40415, message));
        }
    }
    Ok(())
}

fn listed_labels(error: &RawDocument) -> Option<Vec<String>> {
    let bson::RawBsonRef::Array(listed) = document::get_field(error, "errorLabels")? else { return None };
    Some(document::array_elements(listed).filter_map(|label| Some(label.value().as_str()?.to_owned())).collect())
}

/// Writes the reply that begins at `start` again without its labels, and with others.
fn replace_labels(reply: &mut Vec<u8>, start: usize, labels: &[String]) {
    let written = reply.split_off(start);
    let mut writer = DocumentWriter::begin(reply);
    for element in document::elements_of_bytes(&written).filter(|element| element.name_bytes() != b"errorLabels") {
        writer.element(element);
    }
    writer.array("errorLabels", |list| labels.iter().for_each(|label| list.push_string(label)));
    writer.finish();
}

/// Writes the reply that begins at `start` again, with more behind.
fn append_to_reply(reply: &mut Vec<u8>, start: usize, write: impl FnOnce(&mut DocumentWriter<'_>)) {
    let written = reply.split_off(start);
    let mut writer = DocumentWriter::begin(reply);
    document::elements_of_bytes(&written).for_each(|element| writer.element(element));
    write(&mut writer);
    writer.finish();
}
