//! `hello` and `isMaster`: what the server is and can do; the first thing that every client asks.
//!
//! With a topology version and a time limit the client wants to be answered when the topology is another (when a replica set is
//! initiated, or has another configuration), or the time is over. A client
//! that takes several replies to one request then gets the next one in the same way, until it closes the connection: so it learns of a
//! change at once. When the server stops, that is an error. When writes have stopped for good, the server is not writable, and `info` says why and what to do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{DateTime, RawBsonRef, RawDocument};
use document::{array_elements, elements, get_field};
use transaction::{Leadership, WRITES_STOPPED_ADVICE};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::write_statements::OPERATIONS_MAX;
use crate::handlers::security::authenticate::{log_in_by_hello, write_user};
use crate::handlers::security::log_in::{begin_in_hello, write_begun};
use crate::handlers::security::users_info::mechanisms_of;
use crate::request::arguments::{Arguments, Field};
use crate::request::cluster_time::bson_timestamp;
use crate::request::command_request::Attempt;
use crate::request::declaration::{Authentication, Declaration, Needs, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::outcome::{Next, Outcome};
use crate::state::greeting::Greeting;
use crate::state::logging_in::LoggingIn;
use crate::state::replica_set::members::SetMembers;
use crate::state::replica_set::{Identity, Membership};
use crate::state::server_identity::ServerIdentity;
use crate::state::session_end::TIMEOUT_MINUTES;
use crate::state::topology::Topology;
use crate::state::versions::{DOCUMENT_BYTES_MAX, MESSAGE_BYTES_MAX, WIRE_VERSION_MAX, WIRE_VERSION_MIN};

/// Largest `client` document.
const METADATA_BYTES_MAX: usize = 512;

/// What a client asks beside the obvious.
#[derive(Default)]
struct Request<'a> {
    /// The compressors of both sides, in the client's order.
    compressors: Vec<&'a str>,
    topology: Option<(ObjectId, i64)>,
    await_time: Option<Duration>,
    metadata: Option<&'a RawDocument>,
    /// Whose mechanisms it wants to know: `database.user`.
    user: Option<&'a str>,
    /// A login to begin with.
    login: Option<&'a RawDocument>,
}

pub(crate) static HELLO: Command = Command::waiting(
    |context, arguments, reply| run(&mut context.greeting(), arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        secrets: &["speculativeAuthenticate"],
        stable_api: StableApi::Version1,
        ..Declaration::new("hello", "What the server is and can do.", Needs::Nothing, &[])
    },
);

pub(crate) static IS_MASTER: Command = Command::waiting(
    |context, arguments, reply| run(&mut context.greeting(), arguments, reply),
    Declaration {
        aliases: &["ismaster"],
        secrets: &["speculativeAuthenticate"],
        authentication: Authentication::NotNeeded,
        ..Declaration::new("isMaster", "What the server is and can do; the older name of hello.", Needs::Nothing, &[])
    },
);

/// Runs `hello` or `isMaster`.
pub(crate) fn run(
    greeting: &mut Greeting<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<Outcome> {
    let Greeting { identity, attempt, .. } = *greeting;
    let request = Request::parse(&mut arguments, &identity.facts.compressors)?;
    if let Some(wait) = request.wait(identity.topology, attempt)? {
        return Ok(Outcome::WaitForTopologyChange(wait));
    }
    if greeting.operations.is_stopping() {
        return Err(CommandError::named("ShutdownInProgress", "the server is shutting down"));
    }
    if let Some(metadata) = request.metadata.filter(|_| attempt == Attempt::First) {
        store_metadata(greeting, metadata)?;
    }
    write_reply(identity, greeting.logging_in.slot.connection, &request, reply);
    if let Some(user) = request.user {
        greeting.logging_in.access.logins.mechanisms_asked.fetch_add(1, Ordering::Relaxed);
        let mechanisms = mechanisms_of(greeting.logging_in.writing, user)?;
        reply.array("saslSupportedMechs", |list| mechanisms.iter().for_each(|name| list.push_string(name)));
    }
    // Answering nothing means that a login has to be asked for in the usual way.
    let asked = request.login.filter(|_| attempt == Attempt::First);
    if let Some(asked) = asked {
        begin_login(&mut greeting.logging_in, asked, reply);
    }
    // Without a time there is nothing to pace the replies that follow.
    let pace = request.await_time.filter(|limit| !limit.is_zero());
    Ok(pace.map_or(Outcome::Reply, |limit| Outcome::ReplyAndMore(Next::OnTopologyChange(limit))))
}

/// The login that the client begins with.
fn begin_login(logging_in: &mut LoggingIn<'_>, asked: &RawDocument, reply: &mut DocumentWriter<'_>) {
    if elements(asked).next().is_some_and(|first| first.name() == "authenticate") {
        if let Some(user) = log_in_by_hello(logging_in, asked) {
            reply.document("speculativeAuthenticate", |begun| write_user(&user, begun));
        }
    } else if let Some(begun) = begin_in_hello(logging_in, asked) {
        write_begun(&begun, reply);
    }
}

impl<'a> Request<'a> {
    fn parse(arguments: &mut Arguments<'a>, configured: &[&str]) -> Result<Self> {
        let mut request = Self::default();
        for field in arguments.fields() {
            match field.name() {
                // We always say that hello is understood.
                "helloOk" => drop(field.boolean()?),
                // The old shell says that it is one.
                "forShell" => drop(field.boolean()?),
                // An older server of a cluster says who it is.
                "hostInfo" => drop(field.string()?),
                // What the client does when it is told that the server is overloaded; nothing to answer.
                "backpressure" => check_backpressure(field)?,
                "client" => request.metadata = field.document()?,
                "compression" => request.compressors = common_compressors(field, configured)?,
                "saslSupportedMechs" => request.user = field.string()?,
                "speculativeAuthenticate" => request.login = field.document()?,
                "loadBalanced" if !field.boolean()? => {}
                "loadBalanced" | "internalClient" => return Err(field.not_implemented()),
                "topologyVersion" => request.topology = field.document()?.map(topology_version).transpose()?,
                "maxAwaitTimeMS" => request.await_time = field.integer()?.map(await_time).transpose()?,
                _ => arguments.generic(field)?,
            }
        }
        match (request.topology, request.await_time) {
            (Some(_), None) => {
                Err(CommandError::numbered(31368, "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'"))
            }
            (None, Some(_)) => {
                Err(CommandError::numbered(31368, "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'"))
            }
            _ => Ok(request),
        }
    }

    /// How long the reply has to wait, if at all.
    fn wait(&self, current: &Topology, attempt: Attempt) -> Result<Option<Duration>> {
        let (Some((process, counter)), Some(limit)) = (self.topology, self.await_time) else { return Ok(None) };
        let current = current.counter_of(process);
        if let Some(current) = current.filter(|current| counter > *current) {
            let message = format!(
                "Received a topology version with counter: {counter} which is greater than the server topology version \
                 counter: {current}"
            );
            return Err(CommandError::numbered(31382, message));
        }
        let has_news = current.is_none_or(|current| counter < current);
        let is_first = attempt == Attempt::First;
        Ok((!has_news && is_first && !limit.is_zero()).then_some(limit))
    }
}

fn check_backpressure(field: Field<'_>) -> Result<()> {
    match field.value() {
        RawBsonRef::String(_) => Ok(()),
        _ => field.boolean().map(drop),
    }
}

/// Those that the client offers and the server is configured to use, in the client's order.
fn common_compressors<'a>(field: Field<'a>, configured: &[&str]) -> Result<Vec<&'a str>> {
    let mut common = Vec::new();
    for element in field.array()?.into_iter().flat_map(array_elements) {
        match element.value() {
            RawBsonRef::String(name) if configured.contains(&name) && !common.contains(&name) => common.push(name),
            RawBsonRef::String(_) => {}
            _ => return Err(field.wrong_type("an array of type 'string'")),
        }
    }
    Ok(common)
}

fn topology_version(source: &RawDocument) -> Result<(ObjectId, i64)> {
    let (mut process, mut counter) = (None, None);
    for element in elements(source) {
        let field = Field::of("TopologyVersion", element);
        match (field.name(), field.value()) {
            ("processId", RawBsonRef::ObjectId(id)) => process = Some(id),
            ("processId", _) => return Err(field.wrong_type("type 'objectId'")),
            ("counter", RawBsonRef::Int64(value)) => counter = Some(value),
            ("counter", _) => return Err(field.wrong_type("type 'long'")),
            _ => return Err(field.unknown()),
        }
    }
    let missing = |name| {
        CommandError::numbered(40414, format!("BSON field 'TopologyVersion.{name}' is missing but a required field"))
    };
    let process = process.ok_or_else(|| missing("processId"))?;
    match counter.ok_or_else(|| missing("counter"))? {
        negative if negative < 0 => {
            Err(CommandError::numbered(31372, "topologyVersion must have a non-negative counter"))
        }
        counter => Ok((process, counter)),
    }
}

fn await_time(milliseconds: i64) -> Result<Duration> {
    u64::try_from(milliseconds)
        .map(Duration::from_millis)
        .map_err(|_| CommandError::numbered(31373, "maxAwaitTimeMS must be a non-negative integer"))
}

/// Keeps what the client says of itself. It says so once.
fn store_metadata(greeting: &mut Greeting<'_>, metadata: &RawDocument) -> Result<()> {
    if greeting.metadata.is_some() {
        let message = "The client metadata document may only be sent in the first hello";
        return Err(CommandError::named("ClientMetadataCannotBeMutated", message));
    }
    if metadata.as_bytes().len() > METADATA_BYTES_MAX {
        let message = format!("The client metadata document must be less then or equal to {METADATA_BYTES_MAX} bytes");
        return Err(CommandError::named("ClientMetadataDocumentTooLarge", message));
    }
    for name in ["driver", "os"] {
        if !matches!(get_field(metadata, name), Some(RawBsonRef::Document(_))) {
            let message = format!("Missing required field '{name}' in the client metadata document");
            return Err(CommandError::named("ClientMetadataMissingField", message));
        }
    }
    let (slot, shown) = (greeting.logging_in.slot, query_language::expression::show_value);
    tracing::debug!(connection = slot.connection, metadata = %shown(RawBsonRef::Document(metadata)), "client metadata");
    let metadata = Arc::new(metadata.to_owned());
    slot.set_metadata(metadata.clone());
    greeting.logging_in.auditing().tell_metadata(slot.connection, &metadata);
    *greeting.metadata = Some(metadata);
    Ok(())
}

fn write_reply(server: ServerIdentity<'_>, connection: u64, request: &Request<'_>, reply: &mut DocumentWriter<'_>) {
    reply.boolean("helloOk", true);
    // Before what it says is read, so that a change in between is told at once.
    server.topology.write_version(reply);
    write_identity(server, reply);
    reply.int32("maxBsonObjectSize", DOCUMENT_BYTES_MAX);
    reply.int32("maxMessageSizeBytes", MESSAGE_BYTES_MAX);
    reply.int32("maxWriteBatchSize", OPERATIONS_MAX as i32);
    reply.date("localTime", DateTime::from_millis(server.clock.wall_millis()));
    reply.int32("logicalSessionTimeoutMinutes", TIMEOUT_MINUTES);
    reply.int32("connectionId", connection as i32);
    reply.int32("minWireVersion", WIRE_VERSION_MIN);
    reply.int32("maxWireVersion", WIRE_VERSION_MAX);
    reply.boolean("readOnly", server.store.writes_stopped().is_some());
    if !request.compressors.is_empty() {
        reply.array("compression", |list| request.compressors.iter().for_each(|name| list.push_string(name)));
    }
}

/// What the server is to a driver.
pub(crate) fn write_identity(server: ServerIdentity<'_>, reply: &mut DocumentWriter<'_>) {
    let is_writable = |reply: &mut DocumentWriter<'_>, is_writable| {
        reply.boolean("ismaster", is_writable);
        reply.boolean("isWritablePrimary", is_writable);
    };
    let writes_stopped = server.store.writes_stopped();
    let accepts_writes = writes_stopped.is_none() && server.store.leadership() == Leadership::Held;
    if let Some(reason) = writes_stopped {
        reply.string("info", &format!("writes have stopped: {reason}; {WRITES_STOPPED_ADVICE}"));
    }
    match server.replica_set.identity() {
        Identity::Alone => {
            is_writable(reply, accepts_writes);
            // Drivers take sessions, retryable writes and transactions from members of replica sets and from routers. A router is what has no
            // names of hosts to discover: whatever address the client used stays good.
            reply.string("msg", "isdbgrid");
        }
        Identity::NotInitiated => {
            is_writable(reply, false);
            reply.boolean("secondary", false);
            if accepts_writes {
                reply.string("info", "Does not have a valid replica set config");
            }
            reply.boolean("isreplicaset", true);
        }
        Identity::Primary(membership) => {
            is_writable(reply, accepts_writes);
            write_membership(server, &membership, accepts_writes, reply);
        }
        Identity::Secondary(membership) => {
            is_writable(reply, false);
            write_membership(server, &membership, false, reply);
        }
    }
}

/// What a primary says of its set. One that cannot write is as good as a secondary: there is no primary.
fn write_membership(
    server: ServerIdentity<'_>,
    membership: &Membership,
    accepts_writes: bool,
    reply: &mut DocumentWriter<'_>,
) {
    let (configuration, member) = (&membership.configuration, &membership.configuration.member);
    let look = server.replica_set.members().map(SetMembers::look);
    let own = look.as_ref().and_then(|look| look.members.iter().find(|member| member.is_self));
    let is_readable = look.is_none() || own.is_some_and(|own| !own.is_catching_up);
    reply.string("setName", &configuration.name);
    reply.int32("setVersion", configuration.version);
    // One that has not caught up is none to read from.
    reply.boolean("secondary", !accepts_writes && is_readable);
    reply.array("hosts", |hosts| match &look {
        Some(look) => look.members.iter().for_each(|member| hosts.push_string(&member.host)),
        None => hosts.push_string(&member.host),
    });
    let other = look.as_ref().and_then(|look| look.primary.as_ref()).filter(|primary| **primary != member.host);
    match (accepts_writes, other) {
        (true, _) => reply.string("primary", &member.host),
        (false, Some(primary)) => reply.string("primary", primary),
        (false, None) => {}
    }
    reply.string("me", &member.host);
    let tags = own.map_or(&member.tags, |own| &own.tags);
    if !tags.is_empty() {
        reply.document("tags", |written| tags.iter().for_each(|(name, value)| written.string(name, value)));
    }
    if accepts_writes {
        reply.object_id("electionId", membership.election_id());
    }
    let newest = server.store.readable_timestamp();
    reply.document("lastWrite", |last| {
        for (time, date) in [("opTime", "lastWriteDate"), ("majorityOpTime", "majorityWriteDate")] {
            last.document(time, |time| write_op_time(time, newest, membership.term));
            last.date(date, DateTime::from_millis(newest.seconds_millis()));
        }
    });
}

/// `{ts, t}`.
pub(crate) fn write_op_time(time: &mut DocumentWriter<'_>, timestamp: platform::Timestamp, term: i64) {
    time.timestamp("ts", bson_timestamp(timestamp));
    time.int64("t", term);
}
