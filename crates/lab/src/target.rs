//! The server under test: how to reach it, what it says it is, and its process when it runs on this machine.

use std::time::Duration;

use bson::{Document, doc};
use clap::Args;
use mongodb::error::Error as DriverError;
use mongodb::options::{ClientOptions, ServerAddress};
use mongodb::{Client, Database};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, driver_reason};
use crate::server_counters::ServerStatus;
use crate::server_process::ServerProcess;

/// How long a server may take to answer the very first command.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Options of every benchmark that name the server.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetArguments {
    /// Connection string of the server to measure, MongoDB or compatible
    #[arg(long, value_name = "URI", default_value = "mongodb://127.0.0.1:27017")]
    pub(crate) target: String,
    /// Process to take CPU time and memory of; found by itself when the server listens on this machine
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// A server that has answered.
pub(crate) struct Target {
    /// For the workload.
    pub(crate) client: Client,
    /// For looking at the server beside the workload; its own connections, so that it does not queue behind it.
    pub(crate) observing_client: Client,
    pub(crate) options: ClientOptions,
    pub(crate) description: TargetDescription,
    pub(crate) process: Option<ServerProcess>,
}

/// The part of a report that says what was measured. Holds no credentials.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetDescription {
    /// Hosts and ports.
    pub addresses: String,
    /// What the server's process calls itself (`mongod`, `plimsoll`).
    pub program: Option<String>,
    /// The version it answers `buildInfo` with.
    pub version: Option<String>,
    /// Of its source.
    pub git_version: Option<String>,
    /// By its name.
    pub storage_engine: Option<String>,
    /// The local process whose CPU time and memory are reported; absent when the server is elsewhere.
    pub pid: Option<u32>,
}

impl Target {
    /// Connects for a workload of up to `connections` commands at once, and asks the server what it is.
    pub(crate) async fn connect(arguments: &TargetArguments, connections: u32) -> Result<Self, LabError> {
        Self::connect_to(&arguments.target, arguments.pid, connections).await
    }

    /// Connects to a connection string; `pid` is the server's process, when it is known.
    pub(crate) async fn connect_to(uri: &str, pid: Option<u32>, connections: u32) -> Result<Self, LabError> {
        let bad_target = |error: DriverError| LabError::BadTarget(Box::new(error));
        let mut options = ClientOptions::parse(uri).await.map_err(bad_target)?;
        options.app_name.get_or_insert_with(|| "plimsoll bench".to_owned());
        options.max_pool_size = Some(options.max_pool_size.unwrap_or(0).max(connections + 1));
        let addresses = options.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let build = first_answer(&options, &addresses).await?;
        let mut observing_options = options.clone();
        observing_options.max_pool_size = Some(2);
        let observing_client = Client::with_options(observing_options).map_err(bad_target)?;
        let client = Client::with_options(options.clone()).map_err(bad_target)?;
        let status = ServerStatus::fetch(&observing_client).await.ok();
        let process = match (pid, options.hosts.first()) {
            (Some(pid), _) => Some(ServerProcess { pid }),
            (None, Some(host)) => ServerProcess::find(host, status.as_ref().and_then(|status| status.pid)),
            (None, None) => None,
        };
        if let Some(ServerProcess { pid }) = process.filter(|process| process.sample().is_none()) {
            return Err(LabError::Unsupported(format!("there is no process {pid} on this machine")));
        }
        let text = |name: &str| build.get_str(name).ok().map(str::to_owned);
        let description = TargetDescription {
            addresses,
            program: status.as_ref().and_then(|status| status.program.clone()),
            version: text("version"),
            git_version: text("gitVersion"),
            storage_engine: status.and_then(|status| status.storage_engine),
            pid: process.map(|process| process.pid),
        };
        Ok(Self { client, observing_client, options, description, process })
    }

    /// The only host, for the raw client, which does not do what a driver does to find the right one.
    pub(crate) fn only_tcp_address(&self) -> Result<(String, u16), LabError> {
        let refuse =
            |what: &str| Err(LabError::Unsupported(format!("--client raw does not do {what}: use --client driver")));
        if self.options.credential.is_some() {
            return refuse("authentication");
        }
        if self.options.tls.is_some() {
            return refuse("TLS");
        }
        match &self.options.hosts[..] {
            [ServerAddress::Tcp { host, port }] => Ok((host.clone(), port.unwrap_or(27017))),
            _ => refuse("several hosts or Unix domain sockets"),
        }
    }
}

impl TargetDescription {
    /// One line for headings: program, version, engine, address.
    pub(crate) fn in_one_line(&self) -> String {
        let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".to_owned());
        let engine = self.storage_engine.as_ref().map(|engine| format!(" ({engine})")).unwrap_or_default();
        format!("{} {}{engine} at {}", named(&self.program), named(&self.version), self.addresses)
    }
}

/// Drops those of the collections that exist. Asks first, as servers differ in what they answer for one that does not.
pub(crate) async fn drop_existing(database: &Database, collections: &[String]) -> Result<(), LabError> {
    let existing = database.list_collection_names().await.map_err(LabError::command("listCollections"))?;
    for name in collections.iter().filter(|name| existing.contains(name)) {
        let dropped = database.collection::<Document>(name).drop().await;
        dropped.map_err(LabError::command(format!("drop {name}")))?;
    }
    Ok(())
}

/// The reply to `buildInfo` over a connection that gives up early, so that a wrong address is told within seconds.
async fn first_answer(options: &ClientOptions, addresses: &str) -> Result<Document, LabError> {
    let mut options = options.clone();
    options.server_selection_timeout = Some(FIRST_ANSWER);
    options.connect_timeout = Some(FIRST_ANSWER);
    let client = Client::with_options(options).map_err(|error| LabError::BadTarget(Box::new(error)))?;
    let unreachable = |reason: String| LabError::Unreachable { addresses: addresses.to_owned(), reason };
    let database = client.database("admin");
    let reply = database.run_command(doc! { "buildInfo": 1 });
    match tokio::time::timeout(FIRST_ANSWER * 2, async { reply.await }).await {
        Ok(Ok(build)) => Ok(build),
        Ok(Err(error)) if driver_reason(&error).contains("wire version") => {
            Err(LabError::Incompatible { addresses: addresses.to_owned(), reason: driver_reason(&error) })
        }
        Ok(Err(error)) if is_unreachable(&error) => Err(unreachable(short_reason(&error))),
        Ok(Err(error)) => Err(LabError::command("buildInfo")(error)),
        Err(_) => Err(unreachable(format!("connected, but no answer within {} s", FIRST_ANSWER.as_secs() * 2))),
    }
}

fn is_unreachable(error: &DriverError) -> bool {
    use mongodb::error::ErrorKind::{DnsResolve, Io, ServerSelection};
    matches!(&*error.kind, ServerSelection { .. } | Io(_) | DnsResolve { .. })
}

/// The cause inside the driver's description of its whole topology.
fn short_reason(error: &DriverError) -> String {
    let message = driver_reason(error);
    let cause = message.split("I/O error: ").nth(1).and_then(|rest| rest.split(", labels").next());
    cause.unwrap_or(&message).trim().to_owned()
}
