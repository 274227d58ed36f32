//! Looking again and again whether the shared log is set up as its promises need: somebody may change it while members serve.
//!
//! A thread of its own, begun by `following`. What is found does not stop the member, which has been serving: it is told by `serverStatus`, and as a warning
//! (`flight_recording`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use platform::{Clock, SystemClock, spawn_named};

use super::set_state::SetState;

/// How often the log is looked at.
const EVERY: Duration = Duration::from_secs(3600);

pub(super) fn begin(state: Arc<SetState>, stop: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    spawn_named("log-watch", move || {
        // It was looked at when it was opened.
        let (clock, mut looked) = (SystemClock::new(), Duration::ZERO);
        while !stop.load(Ordering::Acquire) {
            let since = clock.monotonic().saturating_sub(looked);
            if since < EVERY {
                // Who ends the thread wakes it.
                std::thread::park_timeout(EVERY - since);
                continue;
            }
            looked = clock.monotonic();
            if let Some(complaints) = heard(state.log().check()) {
                state.set_log_complaints(complaints);
            }
        }
    })
}

/// What the log says of itself; `None`: it did not answer, so nothing is known anew.
fn heard(checked: shared_log::Result<Vec<String>>) -> Option<Vec<String>> {
    match checked {
        Ok(complaints) => Some(complaints),
        Err(error) if error.is_passing() => None,
        Err(error) => Some(vec![error.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use shared_log::SharedLogError;

    use super::*;

    #[test]
    fn a_log_that_does_not_answer_says_nothing_of_its_settings() {
        let wrong = vec!["retention.ms of the topic rs0 is 1".to_owned()];
        assert_eq!(heard(Ok(wrong.clone())), Some(wrong));
        assert_eq!(heard(Err(SharedLogError::Unreachable { cause: "nobody".to_owned() })), None);
        assert_eq!(heard(Err(SharedLogError::Absent)).unwrap().len(), 1);
    }
}
