//! The server as a member of a replica set: its role, its configuration, its term.
//!
//! A member of a set without a shared log is alone in it, and the primary as soon as there is a configuration. With one, `members` says who leads. Nothing is claimed
//! that is not kept: the configuration and the term are durable before anybody is told of them, and each start as the primary begins a term of its own, so that
//! clients can tell an earlier life of the server, and another primary. What is stored of the set is in the oplog, so every member has it.
//!
//! ```text
//! NotInitiated ── replSetInitiate, or by itself at the first start ──▶ Primary (term 1) ── restart, or another one leads ──▶ Primary (term + 1)
//! Secondary ── it has come to lead, and taken office ──▶ Primary ── it has lost or given up the lead ──▶ Secondary
//! ```
//!
//! Held by `ServerContext`. `dispatcher` asks whether a command may run (`role`), `hello` what to say, `write_concern` what can be satisfied, `oplog_entries` which term an entry is of.

pub(crate) mod configuration;
pub(crate) mod members;
pub(crate) mod role;
pub(crate) mod stored;
pub(crate) mod terms;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use oplog::Oplog;
use parking_lot::{Mutex, RwLock};
use platform::Timestamp;
use transaction::Store;

use self::configuration::Configuration;
use self::members::SetMembers;
use self::terms::Terms;
use crate::request::error::{CommandError, Result};
use crate::state::writing::Writing;

/// How long who asks for the times waits for the disk.
const DURABLE_WAIT: Duration = Duration::from_millis(200);

/// When a server that was told the name of its set becomes its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initiation {
    /// By itself, at its first start.
    Automatic,
    /// When a client sends `replSetInitiate`.
    OnCommand,
}

/// What a server is told of its replica set when it starts.
#[derive(Debug, Clone)]
pub struct ReplicaSetFacts {
    /// The set's name.
    pub name: String,
    /// The address that clients are told, `HOST:PORT`, if it was given: it goes before what is stored.
    pub advertised: Option<String>,
    /// The address that they are told otherwise.
    pub address: String,
    /// When the set begins.
    pub initiation: Initiation,
}

/// What a primary knows of its set.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    pub(crate) configuration: Configuration,
    pub(crate) term: i64,
    /// When its term began.
    pub(crate) elected: Timestamp,
    pub(crate) elected_millis: i64,
}

/// What the server is.
pub(crate) enum Identity {
    /// No member of any set.
    Alone,
    /// A member of a set that has no configuration yet.
    NotInitiated,
    /// The primary.
    Primary(Arc<Membership>),
    /// A member that follows the primary, or would, if there were one.
    Secondary(Arc<Membership>),
}

/// See the module's head.
pub(crate) struct ReplicaSet {
    facts: Option<ReplicaSetFacts>,
    /// Of a set with a shared log.
    members: Option<Arc<dyn SetMembers>>,
    membership: RwLock<Option<Arc<Membership>>>,
    terms: RwLock<Arc<Terms>>,
    /// The timestamp of a commit up to which all is known to be durable.
    durable: AtomicU64,
    /// Held while the configuration changes.
    changing: Mutex<()>,
}

impl Membership {
    /// By which drivers know the newer of two primaries.
    pub(crate) fn election_id(&self) -> ObjectId {
        let mut bytes = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&self.term.to_be_bytes());
        ObjectId::from_bytes(bytes)
    }
}

impl ReplicaSet {
    pub(crate) fn new(facts: Option<ReplicaSetFacts>, members: Option<Arc<dyn SetMembers>>) -> Self {
        Self {
            facts,
            members,
            membership: RwLock::default(),
            terms: RwLock::default(),
            durable: AtomicU64::new(0),
            changing: Mutex::default(),
        }
    }

    /// What the server is now.
    pub(crate) fn identity(&self) -> Identity {
        if self.facts.is_none() {
            return Identity::Alone;
        }
        match &*self.membership.read() {
            Some(membership) if self.is_secondary() => Identity::Secondary(membership.clone()),
            Some(membership) => Identity::Primary(membership.clone()),
            None => Identity::NotInitiated,
        }
    }

    /// The members, if the set has a shared log.
    pub(crate) fn members(&self) -> Option<&dyn SetMembers> {
        self.members.as_deref()
    }

    /// Whether another member is the primary, or nobody.
    pub(crate) fn is_secondary(&self) -> bool {
        self.members.as_ref().is_some_and(|members| !members.leads())
    }

    /// Whether it belongs to no set.
    pub(crate) fn is_alone(&self) -> bool {
        self.facts.is_none()
    }

    /// Whether it is to be a member of a set that has no configuration yet.
    pub(crate) fn is_uninitiated(&self) -> bool {
        self.facts.is_some() && self.membership.read().is_none()
    }

    /// What it knows of its set as the primary.
    pub(crate) fn membership(&self) -> Option<Arc<Membership>> {
        self.membership.read().clone()
    }

    /// Which entries of the oplog are of which term.
    pub(crate) fn terms(&self) -> Arc<Terms> {
        self.terms.read().clone()
    }

    /// The newest commit that readers see, and one that is durable with all before it: the same, unless the disk stands still.
    pub(crate) fn times(&self, store: &Store) -> (Timestamp, Timestamp) {
        let (readable, end) = store.confirmed_end();
        if store.oplog().wait_durable_within(end, DURABLE_WAIT).unwrap_or(false) {
            self.durable.fetch_max(readable.0, Ordering::AcqRel);
        }
        (readable, Timestamp(self.durable.load(Ordering::Acquire)))
    }

    /// What the server was told of its set.
    ///
    /// # Errors
    /// NoReplicationEnabled.
    pub(crate) fn facts(&self) -> Result<&ReplicaSetFacts> {
        self.facts.as_ref().ok_or_else(|| {
            CommandError::named("NoReplicationEnabled", "This server was not started as a member of a replica set.")
        })
    }

    /// What it knows of its set, which has to be initiated.
    ///
    /// # Errors
    /// NoReplicationEnabled, NotYetInitialized.
    pub(crate) fn initiated(&self) -> Result<Arc<Membership>> {
        self.facts()?;
        self.membership().ok_or_else(|| CommandError::named("NotYetInitialized", "no replset config has been received"))
    }

    /// A member as it is after a start: the primary, if the set has a configuration or need not be told to begin; a secondary, if another one leads.
    pub(crate) fn begin(&self, writing: &Writing) -> Result<()> {
        if self.is_secondary() { self.follow(writing) } else { self.lead(writing) }
    }

    /// Takes up what the primary has stored of the set.
    pub(crate) fn follow(&self, writing: &Writing) -> Result<()> {
        let _changing = self.changing.lock();
        let facts = self.facts()?;
        *self.terms.write() = Arc::new(Terms::of_member(&stored::read_all(writing, stored::TERMS)?));
        let stored = stored::read(writing, stored::CONFIGURATION)?;
        let stored = stored.and_then(|stored| Configuration::parse(&stored).ok());
        // As soon as this member has read the log, it has one.
        let mut configuration = stored.unwrap_or_else(|| Configuration::of_one(&facts.name, facts.host()));
        configuration.member.host = self.host(facts).to_owned();
        self.stay(writing, configuration);
        Ok(())
    }

    /// Becomes the primary. The member has the lead.
    pub(crate) fn lead(&self, writing: &Writing) -> Result<()> {
        let _changing = self.changing.lock();
        let had_one = writing.store.catalog().lookup(stored::CONFIGURATION).is_some();
        let stored = stored::read(writing, stored::CONFIGURATION)?;
        let Some(facts) = &self.facts else {
            if stored.is_some() {
                tracing::warn!("the data is that of a member of a replica set, and the server is started without one");
            }
            return Ok(());
        };
        *self.terms.write() = Arc::new(Terms::of_member(&stored::read_all(writing, stored::TERMS)?));
        let stored = stored.and_then(|stored| match Configuration::parse(&stored) {
            Ok(configuration) => Some(configuration),
            Err(error) => {
                stored::tell_replaced(writing, stored::CONFIGURATION, error.to_string());
                None
            }
        });
        match (stored, facts.initiation) {
            (Some(stored), _) if writing.store.writes_stopped().is_some() => {
                self.stay(writing, stored);
                Ok(())
            }
            (None, _) if writing.store.writes_stopped().is_some() => Ok(()),
            (Some(stored), _) => self.go_on(writing, facts, stored),
            (None, initiation) if had_one || initiation == Initiation::Automatic => {
                self.take_office(writing, Configuration::of_one(&facts.name, self.host(facts)))
            }
            (None, _) => {
                tracing::info!(set = facts.name, "the replica set waits for replSetInitiate");
                Ok(())
            }
        }
    }

    /// Nothing can be written from the start on: what was stored is told, so that clients find what can be read.
    fn stay(&self, writing: &Writing, configuration: Configuration) {
        let (term, elected) = (configuration.term, writing.store.visible_timestamp());
        let elected_millis = writing.clock.wall_millis();
        self.install(Membership { configuration, term, elected, elected_millis });
    }

    /// Becomes the primary of the set that is stored.
    fn go_on(&self, writing: &Writing, facts: &ReplicaSetFacts, mut configuration: Configuration) -> Result<()> {
        if configuration.name != facts.name {
            return Err(configuration::invalid(format!(
                "the data is that of a member of the replica set '{}', and the server is started as one of '{}'",
                configuration.name, facts.name
            )));
        }
        let own = self.members.as_ref().map(|members| members.address()).or(facts.advertised.as_deref());
        if let Some(own) = own.filter(|host| *host != configuration.member.host) {
            tracing::info!(before = configuration.member.host, now = own, "the member has another address");
            configuration.member.host = own.to_owned();
            configuration.version = configuration.version.saturating_add(1);
        }
        self.take_office(writing, configuration)
    }

    /// Initiates the set with a configuration.
    ///
    /// # Errors
    /// NoReplicationEnabled, AlreadyInitialized, InvalidReplicaSetConfig; those of the store.
    pub(crate) fn initiate(&self, writing: &Writing, configuration: Configuration) -> Result<()> {
        let _changing = self.changing.lock();
        self.check_name(&configuration)?;
        if self.membership.read().is_some() {
            return Err(CommandError::named("AlreadyInitialized", "already initialized"));
        }
        if configuration.version != 1 {
            let found = configuration.version;
            let message = format!("new replica set configuration versions must be 1 at initiation, not {found}");
            return Err(configuration::invalid(message));
        }
        if configuration.id().is_some() {
            return Err(configuration::invalid("replica set ID must not be specified when the set is initiated"));
        }
        self.take_office(writing, configuration)
    }

    /// Replaces the configuration, in the same term.
    ///
    /// # Errors
    /// NewReplicaSetConfigurationIncompatible, InvalidReplicaSetConfig; those of the store.
    pub(crate) fn reconfigure(
        &self,
        writing: &Writing,
        change: impl FnOnce(&Configuration) -> Result<Configuration>,
    ) -> Result<()> {
        let _changing = self.changing.lock();
        let before = self.initiated()?;
        let mut configuration = change(&before.configuration)?;
        self.check_name(&configuration)?;
        configuration.term = before.term;
        stored::put(writing, stored::CONFIGURATION, &configuration.to_document()?)?;
        writing.store.log_note(&note("Reconfig set"))?;
        self.install(Membership { configuration, ..(*before).clone() });
        Ok(())
    }

    fn check_name(&self, configuration: &Configuration) -> Result<()> {
        let facts = self.facts()?;
        if configuration.name == facts.name {
            return Ok(());
        }
        Err(configuration::invalid(format!(
            "the configuration is of a replica set named '{}', and the server was started as a member of '{}'",
            configuration.name, facts.name
        )))
    }

    /// Begins a new term as the primary. The term is on disk before anything is done in it.
    fn take_office(&self, writing: &Writing, configuration: Configuration) -> Result<()> {
        let voted = stored::read(writing, stored::ELECTION)?;
        let last = voted.as_ref().and_then(|vote| document::get_field(vote, "term")?.as_i64()).unwrap_or(0);
        let led = self.members.as_ref().map_or(0, |members| members.term().min(i64::MAX as u64) as i64);
        let term = (last.max(configuration.term) + 1).max(led);
        let id = voted.and_then(|vote| document::get_field(&vote, "_id")?.as_object_id());
        let vote =
            rawdoc! { "_id": id.unwrap_or_else(|| writing.new_object_id()), "term": term, "candidateIndex": 0i64 };
        stored::put(writing, stored::ELECTION, &vote)?;
        if configuration.id().is_none() {
            writing.store.log_note(&note("initiating set"))?;
        }
        let mut configuration = configuration.with_id(writing.new_object_id());
        configuration.term = term;
        stored::put(writing, stored::CONFIGURATION, &configuration.to_document()?)?;
        let elected = writing.store.log_note(&note("new primary"))?.timestamp;
        self.remember_term(writing, elected, term)?;
        let elected_millis = writing.clock.wall_millis();
        tracing::info!(
            log_id = 21331,
            set = configuration.name,
            member = configuration.member.host,
            term,
            "Transition to primary complete; database writes are now permitted"
        );
        self.install(Membership { configuration, term, elected, elected_millis });
        Ok(())
    }

    /// Notes when a term began, and forgets those that ended before the oplog begins.
    fn remember_term(&self, writing: &Writing, began: Timestamp, term: i64) -> Result<()> {
        stored::put(writing, stored::TERMS, &terms::document(began, term)?)?;
        let known = self.terms().and(began, term);
        // Where the oldest entry is damaged, all terms stay.
        if let Some(oldest) =
            writing.store.oldest_logged().or_else(|error| if error.is_damage() { Ok(None) } else { Err(error) })?
        {
            let is_gone =
                |document: &RawDocument| terms::term_of(document).is_some_and(|term| known.ended_before(term, oldest));
            stored::retain(writing, stored::TERMS, |document| !is_gone(document))?;
        }
        *self.terms.write() = Arc::new(known);
        Ok(())
    }

    fn host<'h>(&'h self, facts: &'h ReplicaSetFacts) -> &'h str {
        self.members.as_ref().map_or(facts.host(), |members| members.address())
    }

    /// Makes it known; who has called this tells the clients that wait (`ServerContext::topology_changed`).
    fn install(&self, membership: Membership) {
        *self.membership.write() = Some(Arc::new(membership));
    }
}

impl ReplicaSetFacts {
    /// The address that clients are told unless the configuration says another.
    pub fn host(&self) -> &str {
        self.advertised.as_ref().unwrap_or(&self.address)
    }
}

/// What a note in the oplog says.
fn note(message: &str) -> RawDocumentBuf {
    rawdoc! { "msg": message }
}
