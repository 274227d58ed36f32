//! Telling the server's state when its member comes to lead, follows, or hears of others.
//!
//! A thread of its own: taking office writes, which the member's thread has confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use commands::{ServerContext, SetMembers};
use platform::{Clock, SystemClock, spawn_named};
use replication::Standpoint;

use super::set_state::SetState;

/// How long is waited at a time for a change.
const LOOK: Duration = Duration::from_millis(500);
/// Before an office that could not be taken is tried again.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn begin(
    state: Arc<SetState>,
    stop: Arc<AtomicBool>,
    context: Arc<ServerContext>,
) -> std::io::Result<JoinHandle<()>> {
    spawn_named("set-roles", move || {
        let mut news = 0;
        // What was known when the server's state was made.
        let mut was_leading = state.leads();
        while !stop.load(Ordering::Acquire) {
            let found = state.wait_for_change(news, LOOK);
            if found == news {
                continue;
            }
            news = found;
            match state.standpoint() {
                Standpoint::Leads { term } if !state.leads() => {
                    if let Err(error) = context.take_office() {
                        tracing::warn!(target: "replication", %error, term, "the office of a primary could not be taken");
                        SystemClock::new().sleep(PAUSE);
                        // It may have been lost; then that is found next.
                        state.wake();
                        continue;
                    }
                    state.take_office(term);
                    was_leading = state.leads();
                    context.topology_changed();
                    if let Err(error) = context.store_own_documents() {
                        tracing::warn!(target: "replication", %error, "the document of the feature compatibility version could not be stored");
                    }
                }
                Standpoint::Leads { .. } => {
                    was_leading = true;
                    context.topology_changed();
                }
                Standpoint::Follows { .. } => {
                    if was_leading {
                        tracing::info!(target: "replication", "this server is a secondary now");
                        was_leading = false;
                    }
                    if let Err(error) = context.follow_set() {
                        tracing::warn!(target: "replication", %error, "what is stored of the replica set could not be read");
                    }
                }
                Standpoint::IsOver => context.topology_changed(),
            }
        }
    })
}
