//! Who may come in and what each may do: users and roles as they are stored, and what follows from them.
//!
//! Held by `ServerContext`. Users are documents of `admin.system.users`, roles of `admin.system.roles`, in MongoDB's shape, so
//! whatever writes those collections changes users: commands, `insert`, `applyOps`, a restore. A change makes a new
//! *generation* before it is answered ([`AccessControl::note_changes`]). A connection holds what its user may do with the
//! generation that it was found in, and finds it anew before its next command once that is over.

pub(crate) mod added_user;
pub(crate) mod failed_logins;
pub(crate) mod login;
pub(crate) mod login_figures;
pub(crate) mod names;
pub(crate) mod resolve;
pub(crate) mod restrictions;
pub(crate) mod stored_role;
pub(crate) mod stored_user;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use authentication::{Action, ActionSet, PrivilegeSet, Resource};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Namespace, RecordId, access_change_count};
use executor::IdLookup;
use parking_lot::Mutex;
use platform::Random;
use transaction::Acknowledgement;

use self::failed_logins::FailedLogins;
use self::login_figures::LoginFigures;
use self::names::UserName;
use self::resolve::Access;
use crate::request::error::Result;
use crate::state::writing::Writing;

/// Where users are.
pub(crate) const USERS: &str = "admin.system.users";
/// Where roles are.
pub(crate) const ROLES: &str = "admin.system.roles";

/// Users whose access is kept resolved. Beyond these it is found in the store again.
pub(crate) const RESOLVED_MAX: usize = 1000;

/// Whether users are asked who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Users may log in, and everybody may do everything.
    #[default]
    Disabled,
    /// Everybody may do what his roles say. While there is nobody, who comes from the machine itself may make the first user.
    Enabled,
    /// The same without that exception.
    EnabledForAll,
}

/// What users may do, as resolved in one generation.
#[derive(Default)]
struct Resolved {
    generation: u64,
    users: HashMap<UserName, Arc<Access>>,
}

/// See the module's head.
pub(crate) struct AccessControl {
    authorization: Authorization,
    /// Whether there ever was a user since the start: the exception is over then.
    has_had_users: AtomicBool,
    generation: AtomicU64,
    /// From which nonces and salts are derived.
    secret: [u8; 32],
    /// From which the salts and keys of users who do not exist are derived: the same ones at each start.
    decoy_secret: [u8; 32],
    derived: AtomicU64,
    resolved: Mutex<Resolved>,
    /// Held while a user or a role is read, changed and written.
    pub(crate) changing: Mutex<()>,
    pub(crate) failed: FailedLogins,
    pub(crate) logins: LoginFigures,
}

impl AccessControl {
    pub(crate) fn new(authorization: Authorization, random: &dyn Random, decoy_secret: Option<[u8; 32]>) -> Self {
        let mut drawn = [[0; 32]; 2];
        drawn.iter_mut().for_each(|secret| random.fill(secret));
        let [secret, own] = drawn;
        Self {
            authorization,
            has_had_users: AtomicBool::new(false),
            generation: AtomicU64::new(1),
            secret,
            decoy_secret: decoy_secret.unwrap_or(own),
            derived: AtomicU64::new(0),
            resolved: Mutex::default(),
            changing: Mutex::default(),
            failed: FailedLogins::new(random.next_u64()),
            logins: LoginFigures::default(),
        }
    }

    /// Whether what a command needs is asked for.
    pub(crate) fn is_enforced(&self) -> bool {
        self.authorization != Authorization::Disabled
    }

    /// `enableLocalhostAuthBypass`.
    pub(crate) fn allows_localhost_exception(&self) -> bool {
        self.authorization != Authorization::EnabledForAll
    }

    /// Runs a command, and begins a new generation if it has changed users or roles.
    pub(crate) fn note_changes<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = access_change_count();
        let result = run();
        if access_change_count() != before {
            self.begin_generation();
        }
        result
    }

    /// Has everything found anew.
    pub(crate) fn begin_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Of what is stored now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Bytes that nobody can guess, and that come once.
    pub(crate) fn unguessable(&self, length: usize) -> Vec<u8> {
        let number = self.derived.fetch_add(1, Ordering::Relaxed);
        let mut bytes = authentication::keyed_hash(&self.secret, &number.to_le_bytes());
        bytes.truncate(length);
        bytes
    }

    /// By which the keys of users who do not exist are made.
    pub(crate) fn decoy_secret(&self) -> &[u8] {
        &self.decoy_secret
    }

    /// What a user may do; `None`: there is no such user (any more).
    pub(crate) fn access(&self, writing: &Writing, user: &UserName) -> Result<Option<Arc<Access>>> {
        let generation = self.generation();
        {
            let mut resolved = self.resolved.lock();
            if resolved.generation != generation || resolved.users.len() >= RESOLVED_MAX {
                *resolved = Resolved { generation, users: HashMap::new() };
            }
            if let Some(found) = resolved.users.get(user) {
                return Ok(Some(found.clone()));
            }
        }
        let Some(stored) = stored_user::StoredUser::find(writing, user)? else { return Ok(None) };
        self.has_had_users.store(true, Ordering::Relaxed);
        let access = Arc::new(resolve::access_of(writing, &stored)?);
        let mut resolved = self.resolved.lock();
        if resolved.generation == generation {
            resolved.users.insert(user.clone(), access.clone());
        }
        Ok(Some(access))
    }

    /// Users whose access is kept.
    #[cfg(test)]
    pub(crate) fn resolved_count(&self) -> usize {
        self.resolved.lock().users.len()
    }

    /// What who has not logged in may do where there is nobody yet: make the first user, from the machine itself.
    pub(crate) fn localhost_exception(&self, writing: &Writing, is_local: bool) -> Result<Option<PrivilegeSet>> {
        if !self.allows_localhost_exception() || !is_local || self.has_had_users.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if has_any(writing, USERS)? || has_any(writing, ROLES)? {
            self.has_had_users.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let mut privileges = PrivilegeSet::default();
        let first = [Action::CreateUser, Action::CreateRole, Action::GrantRole];
        let admin = Resource::Named { database: "admin".to_owned(), collection: String::new() };
        privileges.add(&admin, &ActionSet::of(&first));
        let set = [Action::ReplSetConfigure, Action::ReplSetGetConfig, Action::ReplSetGetStatus];
        privileges.add(&Resource::Cluster, &ActionSet::of(&set));
        Ok(Some(privileges))
    }
}

/// Whether a collection has a document.
pub(crate) fn has_any(writing: &Writing, namespace: &str) -> Result<bool> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(false) };
    let mut cursor = writing.store.newest_view().record_cursor(&collection);
    cursor.seek_first()?;
    Ok(cursor.next()?.is_some())
}

/// The document of an `_id`.
pub(crate) fn find(writing: &Writing, namespace: &str, id: &str) -> Result<Option<RawDocumentBuf>> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(None) };
    let view = writing.store.newest_view();
    let mut lookup = IdLookup::default();
    Ok(lookup.fetch(&view, &collection, RawBsonRef::String(id))?.map(|(_, document)| document.to_owned()))
}

/// The first document there is.
pub(crate) fn first(writing: &Writing, namespace: &str) -> Result<Option<RawDocumentBuf>> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(None) };
    let mut cursor = writing.store.newest_view().record_cursor(&collection);
    cursor.seek_first()?;
    match cursor.next()? {
        Some(_) => Ok(Some(cursor.document()?.to_owned())),
        None => Ok(None),
    }
}

/// Shows `each` every document in its turn, until that says that it has enough.
pub(crate) fn for_each(
    writing: &Writing,
    namespace: &str,
    mut each: impl FnMut(&RawDocument) -> Result<()>,
) -> Result<()> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(()) };
    let mut cursor = writing.store.newest_view().record_cursor(&collection);
    cursor.seek_first()?;
    while cursor.next()?.is_some() {
        each(cursor.document()?)?;
    }
    Ok(())
}

/// Puts a document in the place of the one that has its `_id`, or beside the others.
pub(crate) fn put(writing: &Writing, namespace: &str, id: &str, document: &RawDocument) -> Result<()> {
    let collection = writing.store.collection_or_create(&Namespace::parse(namespace)?)?;
    let place = place_of(writing, &collection, id)?;
    let commit = writing.put_at(&collection, place, document)?;
    writing.acknowledge(commit, Acknowledgement::Visible)
}

/// Removes the document of an `_id`; false: there is none.
pub(crate) fn remove(writing: &Writing, namespace: &str, id: &str) -> Result<bool> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(false) };
    let Some(place) = place_of(writing, &collection, id)? else { return Ok(false) };
    let commit = writing.remove_at(&collection, place)?;
    let is_removed = commit.is_some();
    writing.acknowledge(commit, Acknowledgement::Visible)?;
    Ok(is_removed)
}

fn place_of(writing: &Writing, collection: &collection::Collection, id: &str) -> Result<Option<RecordId>> {
    Ok(IdLookup::default().find(&writing.store.newest_view(), collection, RawBsonRef::String(id))?)
}
