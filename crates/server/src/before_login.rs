//! What a client may do on a connection until it has logged in, where it has to. Held by the connection's `read_buffer`.
//!
//! ```text
//! opened ── first request answered ──▶ greeted ── a login begins ──▶ logging in ── it ends ──▶ gone
//!    │ too slow                           │ a message begins             │ too slow
//!    └──────────────▶ closed ◀────────────┴── and does not end ──────────┘
//! ```
//!
//! Who is greeted may stay: drivers watch a server by connections that never log in, and ask now and then.

use std::sync::Arc;
use std::time::Duration;

use platform::{Clock, SystemClock};

use crate::service::Standing;

/// Bytes of a message, also of what is compressed in it.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// For the first request from the connection's beginning, for each message, and for a login.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(10);
/// Requests within [`PERIOD`]. Drivers that watch a server send one twice a second at most.
const REQUESTS_MAX: u32 = 200;
const PERIOD: Duration = Duration::from_secs(10);

/// Why the connection of a client that has not logged in is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    #[error("a message of {0} bytes before a login, which may have {MESSAGE_BYTES_MAX}")]
    Length(usize),
    #[error("no whole message, or no login, within {} seconds", TIME_MAX.as_secs())]
    Time,
    #[error("more than {REQUESTS_MAX} requests within {} seconds before a login", PERIOD.as_secs())]
    Requests,
}

/// See the module's head.
pub(crate) struct BeforeLogin {
    clock: Arc<dyn Clock>,
    standing: Standing,
    /// When what is waited for must be there.
    until: Option<Duration>,
    period_began: Duration,
    requests: u32,
}

impl BeforeLogin {
    /// Of a connection that has just been opened.
    pub(crate) fn opened() -> Self {
        Self::by_clock(Arc::new(SystemClock::new()))
    }

    fn by_clock(clock: Arc<dyn Clock>) -> Self {
        let now = clock.monotonic();
        Self { clock, standing: Standing::Unknown, until: Some(now + TIME_MAX), period_began: now, requests: 0 }
    }

    /// A request has been answered, and the client is this now.
    pub(crate) fn answered(&mut self, standing: Standing) {
        match standing {
            Standing::LoggingIn if self.standing == Standing::LoggingIn && self.until.is_some() => {}
            Standing::LoggingIn => self.until = Some(self.clock.monotonic() + TIME_MAX),
            Standing::Unknown | Standing::Known => self.until = None,
        }
        self.standing = standing;
    }

    /// Something has come of a message.
    pub(crate) fn begins_message(&mut self) {
        if self.until.is_none() {
            self.until = Some(self.clock.monotonic() + TIME_MAX);
        }
    }

    /// For how long may still be waited; `None`: for as long as the client likes.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(self.clock.monotonic()))
    }

    pub(crate) fn check_time(&self) -> Result<(), Excess> {
        if self.time_left() == Some(Duration::ZERO) { Err(Excess::Time) } else { Ok(()) }
    }

    /// Counts a request that has come.
    pub(crate) fn count_request(&mut self) -> Result<(), Excess> {
        let now = self.clock.monotonic();
        if now.saturating_sub(self.period_began) >= PERIOD {
            (self.period_began, self.requests) = (now, 0);
        }
        self.requests += 1;
        if self.requests > REQUESTS_MAX { Err(Excess::Requests) } else { Ok(()) }
    }
}

/// Looks at how long a message is.
pub(crate) fn check_length(length: usize) -> Result<(), Excess> {
    if length > MESSAGE_BYTES_MAX { Err(Excess::Length(length)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use platform::SimulatedClock;

    use super::*;

    fn opened() -> (Arc<SimulatedClock>, BeforeLogin) {
        let clock = Arc::new(SimulatedClock::new(0));
        (clock.clone(), BeforeLogin::by_clock(clock))
    }

    #[test]
    fn who_is_greeted_may_stay_and_who_begins_something_must_end_it() {
        let (clock, mut client) = opened();
        clock.sleep(TIME_MAX / 2);
        assert_eq!((client.time_left(), client.check_time()), (Some(TIME_MAX / 2), Ok(())));
        clock.sleep(TIME_MAX / 2);
        assert_eq!(client.check_time(), Err(Excess::Time));
        client.answered(Standing::Unknown);
        assert_eq!((client.time_left(), client.check_time()), (None, Ok(())));
        client.begins_message();
        assert_eq!(client.time_left(), Some(TIME_MAX));
        client.answered(Standing::LoggingIn);
        clock.sleep(TIME_MAX);
        // More of a login gives no more time.
        client.begins_message();
        client.answered(Standing::LoggingIn);
        assert_eq!(client.check_time(), Err(Excess::Time));
        // A login that has failed is over.
        client.answered(Standing::Unknown);
        assert_eq!(client.time_left(), None);
    }

    #[test]
    fn requests_are_counted_by_time() {
        let (clock, mut client) = opened();
        for _ in 0..2 {
            assert!((0..REQUESTS_MAX).all(|_| client.count_request().is_ok()));
            assert_eq!(client.count_request(), Err(Excess::Requests));
            clock.sleep(PERIOD);
        }
    }
}
