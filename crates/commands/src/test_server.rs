//! A server without a network on a simulated disk, for the tests of the commands.

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use parking_lot::Mutex;
use platform::{SeededRandom, SimulatedClock, SimulatedDisk, WorkingMemory};
use storage_engine::EngineOptions;
use transaction::{Store, StoreOptions};

use crate::SetMembers;
use crate::state::access_control::names::UserName;
use crate::{
    Attempt, Authorization, BuildFacts, ClientContext, CommandRequest, DiagnosticLog, Dispatcher, LogVerbosity,
    NetworkFigures, NoSequences, Outcome, ReplicaSetFacts, ServerContext, ServerFacts, ServerHooks,
};

/// The server and one client of it.
pub(crate) struct TestServer {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) client: ClientContext,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) hooks: Arc<TestHooks>,
    disk: Arc<SimulatedDisk>,
}

/// Notes what commands asked for.
#[derive(Default)]
pub(crate) struct TestHooks {
    pub(crate) shutdowns: Mutex<u32>,
    pub(crate) topology_changes: Mutex<u32>,
    pub(crate) verbosities: Mutex<Vec<LogVerbosity>>,
    members: Option<Arc<dyn SetMembers>>,
}

impl ServerHooks for TestHooks {
    fn set_members(&self) -> Option<Arc<dyn SetMembers>> {
        self.members.clone()
    }

    fn shut_down(&self) {
        *self.shutdowns.lock() += 1;
    }

    fn topology_changed(&self) {
        *self.topology_changes.lock() += 1;
    }

    fn connections(&self) -> (u64, u64) {
        (1, 5)
    }

    fn network(&self) -> NetworkFigures {
        NetworkFigures { bytes_in: 100, physical_bytes_in: 90, requests: 3, ..NetworkFigures::default() }
    }

    fn set_log_verbosity(&self, verbosity: &LogVerbosity) -> Result<(), String> {
        self.verbosities.lock().push(verbosity.clone());
        Ok(())
    }

    fn rotate_certificates(&self) -> Result<(), String> {
        Err("there are no certificates".to_owned())
    }

    fn rotate_log(&self) -> Result<(), String> {
        Err("there is no log file".to_owned())
    }

    fn sample_profile(&self, length: std::time::Duration, hertz: u32) -> Result<String, String> {
        Ok(format!("thread;main;work {}\n", length.as_secs() * u64::from(hertz)))
    }

    fn set_wall_clock_ahead(&self, _millis: i64) {
        panic!("the tests here move the simulated clock themselves");
    }
}

struct TestLog;

impl DiagnosticLog for TestLog {
    fn recent(&self) -> (Vec<String>, u64) {
        (vec!["{\"msg\":\"started\"}".to_owned()], 12)
    }

    fn startup_warnings(&self) -> (Vec<String>, u64) {
        (vec!["{\"msg\":\"open to all\"}".to_owned()], 1)
    }
}

impl TestServer {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(SimulatedDisk::new(7)), None).unwrap()
    }

    /// One whose clients have to log in.
    pub(crate) fn with_logins() -> Self {
        Self::try_on(Arc::new(SimulatedDisk::new(7)), ServerFacts { authorization: Authorization::Enabled, ..facts() })
            .unwrap()
    }

    /// The client is this user from now on, as if it had logged in.
    pub(crate) fn log_in(&mut self, user: &str, database: &str) {
        self.client = self.dispatcher.server().connect(1, "127.0.0.1:50000".to_owned());
        self.client.login.log_in(UserName::new(user, database));
    }

    /// The client is nobody from now on, from another machine.
    pub(crate) fn log_out(&mut self) {
        self.client = self.dispatcher.server().connect(1, "10.0.0.9:50000".to_owned());
    }

    /// A member of a replica set.
    pub(crate) fn of_replica_set(facts: ReplicaSetFacts) -> Self {
        Self::on(Arc::new(SimulatedDisk::new(7)), Some(facts)).unwrap()
    }

    /// A member of a set with others.
    pub(crate) fn of_members(set: ReplicaSetFacts, members: Arc<dyn SetMembers>) -> Self {
        let facts = ServerFacts { replica_set: Some(set), ..facts() };
        let hooks = TestHooks { members: Some(members), ..TestHooks::default() };
        Self::try_with(Arc::new(SimulatedDisk::new(7)), facts, hooks).unwrap()
    }

    /// Stopped in order, and started again on the same disk.
    pub(crate) fn restarted(self) -> Self {
        let facts = self.dispatcher.server().facts.replica_set.clone();
        self.try_restarted(facts).unwrap()
    }

    /// Started again on what its disk has when the power fails.
    pub(crate) fn after_power_loss(self) -> Self {
        let facts = self.dispatcher.server().facts.replica_set.clone();
        let Self { disk, dispatcher, client, .. } = self;
        disk.power_loss();
        drop((dispatcher, client));
        disk.power_on();
        Self::on(disk, facts).unwrap()
    }

    /// Somebody takes the data directory away, and the background notices.
    pub(crate) fn take_directory_away(&self) {
        self.disk.take_directory_away();
        self.clock.advance(std::time::Duration::from_secs(1));
        let server = self.dispatcher.server();
        assert!(!server.store().watch_writes());
        server.look_at_writes();
    }

    /// As `restarted`, as a member of another replica set; how that fails.
    pub(crate) fn try_restarted(self, facts: Option<ReplicaSetFacts>) -> crate::Result<Self> {
        self.dispatcher.server().store().shutdown().unwrap();
        Self::on(self.disk, facts)
    }

    fn on(disk: Arc<SimulatedDisk>, replica_set: Option<ReplicaSetFacts>) -> crate::Result<Self> {
        Self::try_on(disk, ServerFacts { replica_set, ..facts() })
    }

    fn try_on(disk: Arc<SimulatedDisk>, facts: ServerFacts) -> crate::Result<Self> {
        Self::try_with(disk, facts, TestHooks::default())
    }

    fn try_with(disk: Arc<SimulatedDisk>, facts: ServerFacts, hooks: TestHooks) -> crate::Result<Self> {
        let clock = Arc::new(SimulatedClock::new(1_790_000_000_000));
        let random = Arc::new(SeededRandom::new(7));
        let engine = EngineOptions { cache_bytes: 16 << 20, ..EngineOptions::default() };
        let options = StoreOptions { engine, engine_threads: false, replay_threads: 0, ..StoreOptions::default() };
        let store = Store::open(disk.clone(), clock.clone(), random.clone(), options).unwrap();
        let hooks = Arc::new(hooks);
        let server = ServerContext::new(
            store,
            clock.clone(),
            &*random,
            facts,
            hooks.clone(),
            Arc::new(TestLog),
            WorkingMemory::simulated(8 << 20).unwrap(),
        );
        server.begin()?;
        let client = server.connect(1, "127.0.0.1:50000".to_owned());
        Ok(Self { dispatcher: Dispatcher::new(server), client, clock, hooks, disk })
    }

    /// Runs a command and gives its reply; `None` when there is none: it waits for a change of topology, or closes the connection.
    pub(crate) fn send(&mut self, database: &str, command: Document, attempt: Attempt) -> Option<Document> {
        let body = RawDocumentBuf::try_from(&command).unwrap();
        send_as(&self.dispatcher, &mut self.client, database, &body, attempt)
    }

    /// Runs a command that must succeed; gives its reply without the times that all replies have.
    #[track_caller]
    pub(crate) fn run(&mut self, database: &str, command: Document) -> Document {
        let mut reply = self.send(database, command, Attempt::First).unwrap();
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
        let times = (reply.remove("$clusterTime"), reply.remove("operationTime"));
        assert!(matches!(times, (Some(_), Some(_))), "{reply}");
        reply
    }

    /// Runs a command that must fail; gives the code and the message.
    #[track_caller]
    pub(crate) fn fail(&mut self, database: &str, command: Document) -> (i32, String) {
        let reply = self.send(database, command, Attempt::First).unwrap();
        assert_eq!(reply.get_f64("ok").unwrap(), 0.0, "{reply}");
        (reply.get_i32("code").unwrap(), reply.get_str("errmsg").unwrap().to_owned())
    }

    /// Stores a document for each number, as `{_id: number, a: number}`.
    #[track_caller]
    pub(crate) fn insert(&mut self, database: &str, collection: &str, numbers: std::ops::Range<i32>) {
        let documents: Vec<Document> = numbers.map(|number| doc! {"_id": number, "a": number}).collect();
        self.run(database, doc! {"insert": collection, "documents": documents});
    }
}

/// Runs a command of any client, as `TestServer::send` does.
pub(crate) fn send_as(
    dispatcher: &Dispatcher,
    client: &mut ClientContext,
    database: &str,
    body: &RawDocument,
    attempt: Attempt,
) -> Option<Document> {
    let name = body.iter().next().unwrap().unwrap().0.to_string();
    let request = CommandRequest { name: &name, database, body, sequences: &NoSequences, attempt, is_legacy: false };
    let mut reply = Vec::new();
    match dispatcher.run(&request, client, &mut reply) {
        Outcome::Reply | Outcome::ReplyAndMore(_) => {
            Some(Document::try_from(RawDocument::from_bytes(&reply).unwrap()).unwrap())
        }
        Outcome::WaitForTopologyChange(_) | Outcome::CloseConnection => None,
    }
}

fn facts() -> ServerFacts {
    ServerFacts {
        build: BuildFacts { version: "0.1.0", git_version: "abc" },
        arguments: vec!["plimsoll".to_owned()],
        configuration: RawDocumentBuf::new(),
        host_name: "machine".to_owned(),
        port: 27018,
        memory_bytes: 1 << 30,
        cache_bytes: 16 << 20,
        compressors: vec!["snappy", "zstd", "zlib"],
        connections_max: 100,
        has_test_commands: false,
        has_scripting: true,
        replica_set: None,
        authorization: Authorization::Disabled,
    }
}
