//! The audit log: who has done what, in the fields of MongoDB's audit messages. Where it goes, the program around decides.
//!
//! ```text
//! dispatcher, logins ─ Audit::write ─ does the filter take it? ─ AuditSink: a file, or the diagnostics log
//! ```
//!
//! Every event is a document `{atype, ts, uuid, local, remote, users, roles, param, result}`. A sink that is strict fails when it
//! cannot write: then nothing is done, or what was done is not acknowledged.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{DateTime, RawDocument};
use platform::Clock;
use query_language::filter::{Filter, FilterOptions};

use crate::DocumentWriter;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::redaction::redacted;
use crate::state::access_control::AccessControl;
use crate::state::access_control::login::Login;
use crate::state::access_control::names::{UserName, write_roles};
use crate::state::context::{Context, ServerContext};
use crate::state::parameters::Parameters;
use crate::state::server_hooks::ServerHooks;

/// Events whose `param` may have values of documents in it.
const CARRY_DOCUMENTS: [&str; 2] = ["authCheck", "applyOps"];

/// Where events go.
pub trait AuditSink: Send + Sync {
    /// Whether there is room for what is about to happen.
    ///
    /// # Errors
    /// There is none, and nothing may happen that is not written.
    fn prepare(&self) -> std::result::Result<(), String>;
    /// Writes one event.
    ///
    /// # Errors
    /// It cannot be written, and must be.
    fn write(&self, event: &RawDocument) -> std::result::Result<(), String>;
    /// Whether it goes to a file of its own.
    fn has_file(&self) -> bool;
    /// Begins a new file.
    ///
    /// # Errors
    /// There is none that could be.
    fn rotate(&self) -> std::result::Result<(), String>;
    /// Events that were written, and that were lost.
    fn figures(&self) -> (u64, u64);
}

/// Which events are written: as a query over them.
pub struct AuditFilter(Filter);

impl AuditFilter {
    /// From the query.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(query: &RawDocument) -> Result<Self> {
        let options = FilterOptions::default();
        Ok(Self(Filter::parse(query, &options)?))
    }
}

/// What is written of what happens.
#[derive(Default)]
pub struct AuditSettings {
    /// `None`: every event.
    pub filter: Option<AuditFilter>,
    /// Whether also what is allowed is told (`auditAuthorizationSuccess`).
    pub tells_success: bool,
}

/// See the module's head.
pub(crate) struct Audit {
    is_on: bool,
    filter: Option<AuditFilter>,
    tells_success: AtomicBool,
}

/// Who does something, from where.
#[derive(Clone, Copy)]
pub(crate) struct Actor<'a> {
    pub(crate) login: &'a Login,
    pub(crate) client: &'a str,
}

impl Audit {
    /// `None`: there is none.
    pub(crate) fn new(settings: Option<AuditSettings>) -> Self {
        let is_on = settings.is_some();
        let AuditSettings { filter, tells_success } = settings.unwrap_or_default();
        Self { is_on, filter, tells_success: AtomicBool::new(tells_success) }
    }

    /// Whether there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// `auditAuthorizationSuccess`.
    pub(crate) fn tells_success(&self) -> bool {
        self.tells_success.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub(crate) fn tell_success(&self, tells: bool) {
        self.tells_success.store(tells, Ordering::Relaxed);
    }
}

/// What events are made of, and where they go. Made by `ServerContext`.
#[derive(Clone, Copy)]
pub(crate) struct AuditTrail<'a> {
    audit: &'a Audit,
    hooks: &'a dyn ServerHooks,
    clock: &'a dyn Clock,
    /// Where the identities of connections come from.
    access: &'a AccessControl,
    parameters: &'a Parameters,
}

impl AuditTrail<'_> {
    /// Before something that is told when it has happened.
    pub(crate) fn prepare(&self) -> Result<()> {
        if !self.audit.is_on() {
            return Ok(());
        }
        self.hooks.audit().map_or(Ok(()), |sink| sink.prepare().map_err(refused))
    }

    /// Tells something that has happened, with the code of what came of it.
    pub(crate) fn write(&self, actor: Actor<'_>, kind: &str, param: &RawDocument, result: i32) -> Result<()> {
        if !self.audit.is_on() {
            return Ok(());
        }
        let Some(sink) = self.hooks.audit() else { return Ok(()) };
        let event = self.event(actor, kind, param, result)?;
        if let Some(AuditFilter(filter)) = &self.audit.filter
            && !filter.matches(&event)?
        {
            return Ok(());
        }
        sink.write(&event).map_err(refused)
    }

    fn event(&self, actor: Actor<'_>, kind: &str, param: &RawDocument, result: i32) -> Result<bson::RawDocumentBuf> {
        let login = actor.login;
        document_of(|event| {
            event.string("atype", kind);
            event.date("ts", DateTime::from_millis(self.clock.wall_millis()));
            event.uuid("uuid", *login.connection.get_or_init(|| random_uuid(&self.access.unguessable(16))));
            event.document("local", |local| write_local(login, local));
            event.document("remote", |remote| match actor.client.parse::<SocketAddr>() {
                Ok(client) => write_address(client.ip(), client.port(), remote),
                Err(_) if login.is_server() => remote.boolean("isSystemUser", true),
                Err(_) => remote.string("unix", "anonymous"),
            });
            event.array("users", |users| {
                login.user().into_iter().for_each(|user| users.push_document(|fields| user.write("user", fields)));
            });
            write_roles("roles", login.found().map(|found| found.roles.as_slice()).unwrap_or_default(), event);
            match self.parameters.redacts() && CARRY_DOCUMENTS.contains(&kind) {
                true => event.embed("param", &redacted(param, &["command", "ns"])),
                false => event.embed("param", param),
            }
            event.int32("result", result);
        })
    }
}

impl ServerContext {
    /// Where it tells what happens.
    pub(crate) fn audit_trail(&self) -> AuditTrail<'_> {
        AuditTrail {
            audit: &self.audit,
            hooks: &*self.hooks,
            clock: &*self.clock,
            access: &self.access,
            parameters: &self.parameters,
        }
    }

    /// Begins a new file of the audit log; `None`: it has none.
    pub fn rotate_audit_log(&self) -> Option<std::result::Result<(), String>> {
        self.hooks.audit().filter(|sink| sink.has_file()).map(AuditSink::rotate)
    }

    /// Tells that the server has started, or is stopping. Called by the server.
    ///
    /// # Errors
    /// It cannot be written, and must be.
    pub fn audit_itself(&self, kind: &str) -> Result<()> {
        let login = Login::of_server();
        let param = document_of(|param| {
            if kind == "startup" {
                param.embed("startupOptions", &self.facts.configuration);
            }
        })?;
        self.audit_trail().write(Actor { login: &login, client: "" }, kind, &param, 0)
    }
}

/// What a command's client does is told so. Made by `Context`.
#[derive(Clone, Copy)]
pub(crate) struct Auditing<'a> {
    pub(crate) trail: AuditTrail<'a>,
    pub(crate) actor: Actor<'a>,
}

impl Context<'_> {
    /// How it is told what its client does.
    pub(crate) fn auditing(&self) -> Auditing<'_> {
        let actor = Actor { login: self.login, client: &self.slot.client };
        Auditing { trail: self.server.audit_trail(), actor }
    }
}

impl Auditing<'_> {
    /// Tells of what the command's client has done.
    pub(crate) fn tell(&self, kind: &str, result: i32, write: impl FnOnce(&mut DocumentWriter<'_>)) -> Result<()> {
        if !self.trail.audit.is_on() {
            return Ok(());
        }
        self.trail.write(self.actor, kind, &document_of(write)?, result)
    }

    /// Tells what the client says of itself. It may connect though that cannot be written: it has not done anything yet.
    pub(crate) fn tell_metadata(&self, connection: u64, metadata: &RawDocument) {
        let told = self.tell("clientMetadata", 0, |param| {
            param.document("localEndpoint", |local| write_local(self.actor.login, local));
            param.embed("clientMetadata", metadata);
        });
        if let Err(error) = told {
            tracing::error!(target: "control", connection, reason = %error.message, "a client is missing in the audit log");
        }
    }

    /// Tells of a login.
    pub(crate) fn tell_login(&self, user: &UserName, mechanism: &str, result: i32) -> Result<()> {
        self.tell("authenticate", result, |param| {
            user.write("user", param);
            param.string("mechanism", mechanism);
        })
    }
}

/// Where a client has come in.
fn write_local(login: &Login, local: &mut DocumentWriter<'_>) {
    match login.server_address {
        Some(address) => write_address(address, login.server_port, local),
        None if login.is_server() => local.boolean("isSystemUser", true),
        None => local.string("unix", "anonymous"),
    }
}

fn write_address(address: IpAddr, port: u16, fields: &mut DocumentWriter<'_>) {
    fields.string("ip", &address.to_canonical().to_string());
    fields.int32("port", i32::from(port));
}

/// Random bytes as an id of the fourth kind.
fn random_uuid(random: &[u8]) -> bson::Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(random).for_each(|(byte, random)| *byte = *random);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    bson::Uuid::from_bytes(bytes)
}

fn refused(problem: String) -> CommandError {
    CommandError::named("OperationFailed", format!("the audit log cannot be written (--audit-mode strict): {problem}"))
}
