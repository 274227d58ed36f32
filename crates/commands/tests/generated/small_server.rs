//! A server without a network on a simulated disk, as small as one can be.

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use commands::{
    Attempt, BuildFacts, ClientContext, CommandRequest, DiagnosticLog, Dispatcher, LogVerbosity, NetworkFigures,
    NoSequences, Outcome, ServerContext, ServerFacts, ServerHooks,
};
use platform::{SeededRandom, SimulatedClock, SimulatedDisk, WorkingMemory};
use storage_engine::EngineOptions;
use transaction::{Store, StoreOptions};

/// The server, one client of it, and what it is on.
pub(crate) struct SmallServer {
    dispatcher: Dispatcher,
    client: ClientContext,
    disk: Arc<SimulatedDisk>,
    /// Time passes only by it, over all lives.
    pub(crate) clock: Arc<SimulatedClock>,
}

const CACHE_BYTES: usize = 8 << 20;
const STAGE_BYTES: u64 = 16 << 20;

struct Hooks;

impl ServerHooks for Hooks {
    fn shut_down(&self) {}

    fn topology_changed(&self) {}

    fn connections(&self) -> (u64, u64) {
        (1, 5)
    }

    fn network(&self) -> NetworkFigures {
        NetworkFigures::default()
    }

    fn set_log_verbosity(&self, _: &LogVerbosity) -> Result<(), String> {
        Ok(())
    }

    fn rotate_certificates(&self) -> Result<(), String> {
        Err("there are no certificates".to_owned())
    }

    fn rotate_log(&self) -> Result<(), String> {
        Err("there is no log file".to_owned())
    }

    fn sample_profile(&self, _: std::time::Duration, _: u32) -> Result<String, String> {
        Err("there is no profile".to_owned())
    }

    fn set_wall_clock_ahead(&self, _: i64) {}
}

impl DiagnosticLog for Hooks {
    fn recent(&self) -> (Vec<String>, u64) {
        (Vec::new(), 0)
    }

    fn startup_warnings(&self) -> (Vec<String>, u64) {
        (Vec::new(), 0)
    }
}

impl SmallServer {
    pub(crate) fn new() -> Self {
        Self::with_memory(CACHE_BYTES, STAGE_BYTES)
    }

    /// One with so much memory for pages, and for stages.
    pub(crate) fn with_memory(cache_bytes: usize, stage_bytes: u64) -> Self {
        let (disk, clock) = (SimulatedDisk::new(7), SimulatedClock::new(1_790_000_000_000));
        Self::on(Arc::new(disk), Arc::new(clock), cache_bytes, stage_bytes)
    }

    /// Stopped in order, and started again.
    pub(crate) fn restarted(self) -> Self {
        let Self { dispatcher, client, disk, clock } = self;
        drop(client);
        dispatcher.server().store().shutdown().unwrap();
        drop(dispatcher);
        Self::on(disk, clock, CACHE_BYTES, STAGE_BYTES)
    }

    fn on(disk: Arc<SimulatedDisk>, clock: Arc<SimulatedClock>, cache_bytes: usize, stage_bytes: u64) -> Self {
        let random = Arc::new(SeededRandom::new(7));
        let engine = EngineOptions { cache_bytes, ..EngineOptions::default() };
        let options = StoreOptions { engine, engine_threads: false, replay_threads: 0, ..StoreOptions::default() };
        let store = Store::open(disk.clone(), clock.clone(), random.clone(), options).unwrap();
        let memory = WorkingMemory::simulated(stage_bytes).unwrap();
        let server =
            ServerContext::new(store, clock.clone(), &*random, facts(), Arc::new(Hooks), Arc::new(Hooks), memory);
        server.begin().unwrap();
        let client = server.connect(1, "127.0.0.1:50000".to_owned());
        Self { dispatcher: Dispatcher::new(server), client, disk, clock }
    }

    /// Runs a command; `None` where it has no reply.
    pub(crate) fn send(&mut self, command: &Document) -> Option<Document> {
        let body = RawDocumentBuf::try_from(command).ok()?;
        let name = command.keys().next()?;
        let database = command.get_str("$db").unwrap_or("test");
        let attempt = Attempt::First;
        let request =
            CommandRequest { name, database, body: &body, sequences: &NoSequences, attempt, is_legacy: false };
        let mut reply = Vec::new();
        match self.dispatcher.run(&request, &mut self.client, &mut reply) {
            Outcome::Reply | Outcome::ReplyAndMore(_) => {
                Some(Document::try_from(RawDocument::from_bytes(&reply).unwrap()).unwrap())
            }
            Outcome::WaitForTopologyChange(_) | Outcome::CloseConnection => None,
        }
    }

    /// Every record against every index, and the pages.
    pub(crate) fn check(&mut self) {
        let listed = self.send(&doc! { "listCollections": 1, "nameOnly": true }).unwrap();
        let collections = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
        for collection in collections {
            let name = collection.as_document().unwrap().get_str("name").unwrap().to_owned();
            let report = self.send(&doc! { "validate": &name, "full": true }).unwrap();
            assert!(report.get_bool("valid").unwrap_or(false), "{name}: {report}");
        }
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
        cache_bytes: 8 << 20,
        compressors: vec!["snappy", "zstd", "zlib"],
        connections_max: 100,
        has_test_commands: false,
        has_scripting: true,
        replica_set: None,
        authorization: commands::Authorization::Disabled,
    }
}
