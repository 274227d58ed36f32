//! Who is at a browser: a session for each, found by a cookie that no script can read.
//!
//! A session holds a client of the service who has logged in, and makes further ones of it for commands at the same time. It ends when it is not used
//! for [`IDLE_MAX`], after [`LIFE_MAX`], when its user is gone, or by the button.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use platform::{Clock, MemoryReservation, Random, SystemRandom};
use tokio::sync::Semaphore;

/// After so long without a request it ends.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// After so long it ends, however much it is used.
const LIFE_MAX: Duration = Duration::from_secs(12 * 3600);
/// At once. Of more, the one that has been idle for longest ends.
pub(super) const SESSIONS_MAX: usize = 64;
/// Commands of one at once; others wait.
pub(super) const CALLS_MAX: usize = 8;
/// What is counted for each: its clients, with what they say of themselves.
pub(super) const SESSION_BYTES: u64 = 32 * 1024;
const TOKEN_BYTES: usize = 32;

/// One browser.
pub(super) struct Session<C> {
    /// As whom it acts. Runs no commands itself.
    known: Mutex<C>,
    /// Those that run none now, with their connections' numbers.
    idle: Mutex<Vec<(u64, C)>>,
    pub(super) calls: Semaphore,
    began: Duration,
    /// Nanoseconds of the clock.
    used: AtomicU64,
    _memory: MemoryReservation,
}

impl<C> Session<C> {
    /// A client that runs nothing, or a new one.
    pub(super) fn take(&self, make: impl FnOnce(&C) -> (u64, C)) -> (u64, C) {
        self.idle.lock().pop().unwrap_or_else(|| make(&self.known.lock()))
    }

    pub(super) fn give_back(&self, connection: u64, client: C) {
        self.idle.lock().push((connection, client));
    }
}

/// See the module's head.
pub(super) struct Sessions<C> {
    open: Mutex<HashMap<String, Arc<Session<C>>>>,
    clock: Arc<dyn Clock>,
    cookie: String,
    is_encrypted: bool,
}

impl<C> Sessions<C> {
    /// Cookies are of a host, whatever the port: the name keeps several servers of one apart.
    pub(super) fn new(clock: Arc<dyn Clock>, port: u16, is_encrypted: bool) -> Self {
        Self { open: Mutex::default(), clock, cookie: format!("plimsoll-console-{port}"), is_encrypted }
    }

    /// Begins one. Gives what the browser is told to keep.
    pub(super) fn begin(&self, known: C, memory: MemoryReservation) -> String {
        let mut token = [0; TOKEN_BYTES];
        SystemRandom.fill(&mut token);
        let token = hex::encode(token);
        let now = self.clock.monotonic();
        let session = Session {
            known: Mutex::new(known),
            idle: Mutex::default(),
            calls: Semaphore::new(CALLS_MAX),
            began: now,
            used: AtomicU64::new(now.as_nanos() as u64),
            _memory: memory,
        };
        let mut open = self.open.lock();
        self.end_old(&mut open, now);
        if open.len() >= SESSIONS_MAX {
            let longest = open.iter().min_by_key(|(_, session)| session.used.load(Ordering::Relaxed));
            let longest = longest.map(|(token, _)| token.clone());
            longest.map(|token| open.remove(&token));
        }
        open.insert(token.clone(), Arc::new(session));
        self.set_cookie(&token, None)
    }

    fn set_cookie(&self, token: &str, age: Option<u64>) -> String {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        let age = age.map(|age| format!("; Max-Age={age}")).unwrap_or_default();
        format!("{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{age}", self.cookie)
    }

    fn end_old(&self, open: &mut HashMap<String, Arc<Session<C>>>, now: Duration) {
        open.retain(|_, session| {
            let used = Duration::from_nanos(session.used.load(Ordering::Relaxed));
            now.saturating_sub(used) < IDLE_MAX && now.saturating_sub(session.began) < LIFE_MAX
        });
    }

    /// The one that a request names.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<Arc<Session<C>>> {
        let now = self.clock.monotonic();
        let mut open = self.open.lock();
        self.end_old(&mut open, now);
        let session = open.get(self.token(headers)?)?;
        session.used.store(now.as_nanos() as u64, Ordering::Relaxed);
        Some(Arc::clone(session))
    }

    /// Ends the one that a request names. Gives what the browser is told to forget, and as whom it has acted.
    pub(super) fn end(&self, headers: &HeaderMap) -> (String, Option<Arc<Session<C>>>) {
        let ended = self.token(headers).and_then(|token| self.open.lock().remove(token));
        (self.set_cookie("", Some(0)), ended)
    }

    fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let named = |cookie: &'h str| cookie.trim().split_once('=').filter(|(name, _)| *name == self.cookie);
        cookies.flat_map(|cookies| cookies.split(';')).find_map(named).map(|(_, token)| token)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use platform::{MemoryBudget, MemoryUse, SimulatedClock};

    use super::*;

    fn sessions() -> (Arc<SimulatedClock>, Sessions<u32>) {
        let clock = Arc::new(SimulatedClock::new(0));
        (clock.clone(), Sessions::new(clock, 8080, false))
    }

    fn begin(sessions: &Sessions<u32>, client: u32) -> HeaderMap {
        let memory = MemoryBudget::unlimited();
        let kept = sessions.begin(client, memory.reservation(MemoryUse::Connections));
        assert!(kept.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{kept}");
        let cookie = format!("other=1; {}", kept.split(';').next().unwrap());
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&cookie).unwrap())])
    }

    #[test]
    fn a_session_is_found_by_its_cookie_until_it_ends() {
        let (clock, sessions) = sessions();
        let (first, second) = (begin(&sessions, 1), begin(&sessions, 2));
        let client = |headers: &HeaderMap| sessions.find(headers).map(|session| session.take(|known| (9, *known)).1);
        assert_eq!((client(&first), client(&second), client(&HeaderMap::new())), (Some(1), Some(2), None));
        clock.sleep(IDLE_MAX / 2);
        assert!(client(&first).is_some());
        clock.sleep(IDLE_MAX / 2);
        assert_eq!((client(&first), client(&second)), (Some(1), None));
        let (forget, ended) = sessions.end(&first);
        assert!(ended.is_some() && forget.ends_with("; Max-Age=0") && client(&first).is_none());
    }

    #[test]
    fn none_lives_for_ever_and_the_longest_idle_makes_room() {
        let (clock, sessions) = sessions();
        let used = begin(&sessions, 1);
        for _ in 0..LIFE_MAX.as_secs() / IDLE_MAX.as_secs() * 2 - 1 {
            clock.sleep(IDLE_MAX / 2);
            assert!(sessions.find(&used).is_some());
        }
        clock.sleep(IDLE_MAX / 2);
        assert!(sessions.find(&used).is_none());
        let all: Vec<_> = (0..=SESSIONS_MAX as u32)
            .map(|client| {
                clock.sleep(Duration::from_millis(1));
                begin(&sessions, client)
            })
            .collect();
        let is_open: Vec<bool> = all.iter().map(|headers| sessions.find(headers).is_some()).collect();
        assert!(!is_open[0] && is_open[1..].iter().all(|open| *open));
    }
}
