//! The keys of a directory while it is open: one for each session that has written, and the running one's numbers.
//!
//! Called by `disk` and `file`. A session begins with the first write: its row in `encryption.keys` is durable before its
//! key is used. So no nonce comes twice under a key, whatever crashes. A directory that is only read gets no session.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use ring::aead::LessSafeKey;

use super::key_file::{EncryptionError, Keys, SessionSalt, cipher};
use crate::{Disk, Random};

pub(super) struct Keychain {
    keys: Mutex<Keys>,
    ciphers: RwLock<HashMap<u32, Arc<LessSafeKey>>>,
    running: Mutex<Option<Arc<Session>>>,
    disk: Arc<dyn Disk>,
    random: Arc<dyn Random>,
}

/// What the process writes with.
pub(super) struct Session {
    pub(super) number: u32,
    pub(super) cipher: Arc<LessSafeKey>,
    next: AtomicU64,
}

impl Session {
    /// The first of so many numbers that no sector has had yet.
    pub(super) fn take(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::Relaxed)
    }
}

impl Keychain {
    pub(super) fn new(keys: Keys, disk: Arc<dyn Disk>, random: Arc<dyn Random>) -> Keychain {
        let (keys, running) = (Mutex::new(keys), Mutex::new(None));
        Keychain { keys, ciphers: RwLock::default(), running, disk, random }
    }

    /// The session that writes; it begins with the first call.
    pub(super) fn session(&self) -> io::Result<Arc<Session>> {
        let mut running = self.running.lock();
        if let Some(session) = &*running {
            return Ok(Arc::clone(session));
        }
        let mut keys = self.keys.lock();
        let number = keys.add_session(&*self.disk, &*self.random)?;
        let salt = keys.sessions[keys.sessions.len() - 1];
        let cipher = Arc::new(derived(&keys, number, &salt)?);
        self.ciphers.write().insert(number, Arc::clone(&cipher));
        let session = Arc::new(Session { number, cipher, next: AtomicU64::new(0) });
        *running = Some(Arc::clone(&session));
        Ok(session)
    }

    /// The key of a session; `None`: there has been no such session.
    pub(super) fn cipher(&self, session: u32) -> io::Result<Option<Arc<LessSafeKey>>> {
        if let Some(cipher) = self.ciphers.read().get(&session) {
            return Ok(Some(Arc::clone(cipher)));
        }
        let keys = self.keys.lock();
        let place = usize::try_from(session).ok().and_then(|number| number.checked_sub(1));
        let Some(salt) = place.and_then(|place| keys.sessions.get(place)) else { return Ok(None) };
        let cipher = Arc::new(derived(&keys, session, salt)?);
        self.ciphers.write().insert(session, Arc::clone(&cipher));
        Ok(Some(cipher))
    }

    pub(super) fn random(&self) -> &dyn Random {
        &*self.random
    }
}

fn derived(keys: &Keys, number: u32, salt: &SessionSalt) -> Result<LessSafeKey, EncryptionError> {
    cipher(&keys.data_key, &[b"plimsoll session", &number.to_le_bytes(), salt])
}
