//! The members of a replica set under test: three of this program's own on a log in a directory, or those of the target.
//!
//! Used by the tests of replica sets (`slow_member`, `new_member`, `failover`). Members that run on this machine can be stopped
//! and let go on by signals, whoever has started them; only its own ones are killed and started again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::Client;
use mongodb::options::ServerAddress;
use rustix::process::{Pid, Signal, kill_process};

use super::rig::Rig;
use crate::error::LabError;
use crate::launch::{LaunchedServer, Stop};
use crate::server_process::ServerProcess;

const SET: &str = "plimsoll_certify";
const OWN_MEMBERS: usize = 3;
/// Within this a set is whole, or a member back.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// See the module's head.
pub(super) struct SetMembers {
    pub(super) uri: String,
    own: Vec<LaunchedServer>,
    start: Option<StartOptions>,
}

/// How members of its own are started.
#[derive(Clone)]
pub(super) struct StartOptions {
    program: PathBuf,
    command: String,
    scratch: PathBuf,
}

impl StartOptions {
    /// Starts a member with nothing in its directory.
    pub(super) async fn start(&self, number: usize) -> Result<LaunchedServer, LabError> {
        let scratch = self.scratch.join(format!("member-{number}"));
        LaunchedServer::start(&self.program, &self.command, &scratch, false).await
    }
}

impl SetMembers {
    /// Those of the target, or new ones; what is missing in words if there is no set to be tested.
    pub(super) async fn of(rig: &Rig) -> Result<Result<SetMembers, String>, LabError> {
        if rig.is_own() {
            return SetMembers::start(rig).await.map(Ok);
        }
        let hello = rig.admin(doc! { "hello": 1 }).await?;
        if hello.get_str("setName").is_err() || hosts(&hello).len() < 2 {
            return Ok(Err("the target is no replica set of several members".to_owned()));
        }
        if !rig.uri().contains("replicaSet=") {
            return Ok(Err("name the set in the connection string: replicaSet=NAME".to_owned()));
        }
        Ok(Ok(SetMembers { uri: rig.uri().to_owned(), own: Vec::new(), start: None }))
    }

    async fn start(rig: &Rig) -> Result<SetMembers, LabError> {
        let scratch = rig.scratch("set");
        std::fs::create_dir_all(&scratch).map_err(LabError::output(&scratch))?;
        let scratch = std::fs::canonicalize(&scratch).map_err(LabError::output(&scratch))?;
        let log = scratch.join("log");
        let sizes = match (rig.cache_bytes, rig.memory_bytes) {
            (Some(cache), Some(memory)) => format!("--cache {} --memory {}", cache as u64, memory as u64),
            _ => String::new(),
        };
        let set = format!("--replica-set {SET} --log dir://{}", log.display());
        let command = format!("{} {set} {sizes}", crate::launch::DEFAULT_COMMAND);
        let start = StartOptions { program: rig.program().unwrap_or_default().into(), command, scratch };
        let mut own = Vec::new();
        for number in 1..=OWN_MEMBERS {
            own.push(start.start(number).await?);
        }
        let addresses: Vec<&str> = own.iter().map(|member| address_in(&member.uri)).collect();
        let uri = format!("mongodb://{}/?replicaSet={SET}", addresses.join(","));
        Ok(SetMembers { uri, own, start: Some(start) })
    }

    /// How one more is started, if that is possible.
    pub(super) fn start_options(&self) -> Option<&StartOptions> {
        self.start.as_ref()
    }

    /// Takes a member in that was started with `start_options`.
    pub(super) fn add(&mut self, member: LaunchedServer) {
        self.own.push(member);
    }

    /// Kills a member of its own; `None` if it is not.
    pub(super) fn kill(&mut self, address: &str) -> Option<()> {
        let member = self.own.iter_mut().find(|member| address_in(&member.uri) == address)?;
        member.kill();
        Some(())
    }

    /// Starts a member again that was killed.
    pub(super) async fn start_again(&mut self, address: &str) -> Result<(), LabError> {
        match self.own.iter_mut().find(|member| address_in(&member.uri) == address) {
            Some(member) => member.restart(Stop::Kill).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for SetMembers {
    fn drop(&mut self) {
        self.own.clear();
        if let Some(start) = &self.start {
            // Data of a measurement that is over; what cannot be removed is in the result directory for all to see.
            let _ = std::fs::remove_dir_all(start.scratch.join("log"));
        }
    }
}

/// What `hello` says of a set.
pub(super) struct Standing {
    pub(super) primary: Option<String>,
    pub(super) members: Vec<String>,
}

impl Standing {
    /// Of the set that a client is connected to.
    pub(super) async fn of(client: &Client) -> Result<Standing, LabError> {
        let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
        let hello = hello.map_err(LabError::command("hello"))?;
        Ok(Standing { primary: hello.get_str("primary").ok().map(str::to_owned), members: hosts(&hello) })
    }

    /// Waits until the set has so many members and a primary.
    pub(super) async fn wait_for(client: &Client, members: usize) -> Result<Standing, LabError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Standing::of(client).await {
                Ok(standing) if standing.primary.is_some() && standing.members.len() >= members => return Ok(standing),
                Err(error) if Instant::now() > until => return Err(error),
                Ok(standing) if Instant::now() > until => {
                    let found = standing.members.len();
                    return Err(LabError::Unsupported(format!("the set has {found} members in place of {members}")));
                }
                _ => tokio::time::sleep(LOOK_PAUSE).await,
            }
        }
    }

    /// Those that do not lead.
    pub(super) fn secondaries(&self) -> impl Iterator<Item = &String> {
        self.members.iter().filter(|member| Some(*member) != self.primary.as_ref())
    }
}

/// The process of a member, if it runs on this machine.
pub(super) fn process_of(address: &str) -> Option<ServerProcess> {
    ServerProcess::find(&ServerAddress::parse(address).ok()?, None)
}

/// A process that stands still until this is dropped.
pub(super) struct StandsStill(Pid);

impl StandsStill {
    /// SIGSTOP; `None` if it is not ours to stop.
    pub(super) fn begin(process: ServerProcess) -> Option<StandsStill> {
        let pid = Pid::from_raw(process.pid as i32)?;
        kill_process(pid, Signal::STOP).ok()?;
        Some(StandsStill(pid))
    }
}

impl Drop for StandsStill {
    fn drop(&mut self) {
        // It may have ended meanwhile.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

fn hosts(hello: &Document) -> Vec<String> {
    let hosts = hello.get_array("hosts").into_iter().flatten();
    hosts.filter_map(|host| host.as_str().map(str::to_owned)).collect()
}

fn address_in(uri: &str) -> &str {
    let rest = uri.strip_prefix("mongodb://").unwrap_or(uri);
    rest.split('/').next().unwrap_or(rest)
}
