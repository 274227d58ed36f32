//! Clients that try nothing again, beside those that overload the server: what the server says to a client whose turn does not come.
//!
//! A driver tries again by itself what was refused with error 462, several times and with pauses, so that refusals hardly ever reach who calls
//! it. These clients have no driver: each update is sent once, and whatever comes back counts.

use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, rawdoc};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::raw_client::RawClient;
use super::rig::{DATABASE, Rig};

/// The driver specification's error of a server that refuses work, and its labels.
pub(super) const OVERLOAD_CODE: i32 = 462;
pub(super) const OVERLOAD_LABELS: [&str; 2] = ["SystemOverloadedError", "RetryableError"];
const CLIENTS: u64 = 16;
/// Between an answer and the next update: they add nearly nothing to the load.
const PAUSE: Duration = Duration::from_millis(20);

/// What they were told.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusals {
    /// Updates done.
    pub(super) done: u64,
    /// Updates answered with error 462.
    pub(super) refused: u64,
    /// Of these, those without one of the labels.
    pub(super) unlabelled: u64,
    /// Other failures, and what the last was.
    pub(super) failed: u64,
    pub(super) last_failure: Option<String>,
}

/// Clients that run until they are asked to stop.
pub(super) struct RefusalProbe {
    stop: watch::Sender<bool>,
    clients: JoinSet<Refusals>,
}

impl RefusalProbe {
    /// Connects; fails when the server cannot be spoken to without a driver.
    pub(super) async fn start(rig: &Rig) -> std::io::Result<RefusalProbe> {
        let address = rig.description.addresses.split(',').next().unwrap_or_default().to_owned();
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let mut connection = RawClient::connect(&address).await?;
            let (stopped, documents) = (stopped.clone(), rig.documents.max(1));
            clients.spawn(async move {
                let mut seen = Refusals::default();
                for round in 0.. {
                    if *stopped.borrow() {
                        break;
                    }
                    // All over the working set, without a generator.
                    let id = (round * CLIENTS + client).wrapping_mul(2_654_435_761) % documents;
                    let answer = connection.run(&update(id)).await;
                    let is_lost = answer.is_err();
                    seen.count(answer);
                    if is_lost {
                        break;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                seen
            });
        }
        Ok(RefusalProbe { stop, clients })
    }

    /// Ends them, and adds up what they saw.
    pub(super) async fn finish(self) -> Refusals {
        self.stop.send_replace(true);
        let seen = self.clients.join_all().await;
        seen.into_iter().fold(Refusals::default(), Refusals::add)
    }
}

impl Refusals {
    pub(super) fn add(self, other: Refusals) -> Refusals {
        Refusals {
            done: self.done + other.done,
            refused: self.refused + other.refused,
            unlabelled: self.unlabelled + other.unlabelled,
            failed: self.failed + other.failed,
            last_failure: self.last_failure.or(other.last_failure),
        }
    }

    fn count(&mut self, answer: std::io::Result<Document>) {
        match answer {
            Ok(reply) if is_done(&reply) => self.done += 1,
            Ok(reply) if reply.get("code").and_then(Bson::as_i32) == Some(OVERLOAD_CODE) => {
                self.refused += 1;
                self.unlabelled += u64::from(!is_labelled(&reply));
            }
            Ok(reply) => self.fail(reply.to_string()),
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        self.last_failure = Some(why);
    }
}

fn update(id: u64) -> RawDocumentBuf {
    let change = rawdoc! { "q": { "_id": id as i64 }, "u": { "$inc": { "counter": 1 } } };
    rawdoc! { "update": "working_set", "updates": [change], "$db": DATABASE }
}

fn is_done(reply: &Document) -> bool {
    reply.get("ok").is_some_and(|ok| *ok == Bson::Double(1.0)) && !reply.contains_key("writeErrors")
}

fn is_labelled(reply: &Document) -> bool {
    let labels = reply.get_array("errorLabels").map(Vec::as_slice).unwrap_or_default();
    OVERLOAD_LABELS.iter().all(|label| labels.iter().any(|found| found.as_str() == Some(label)))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let mut seen = Refusals::default();
        seen.count(Ok(doc! { "ok": 1.0, "n": 1 }));
        let labels = ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"];
        seen.count(Ok(doc! { "ok": 0.0, "code": 462, "errorLabels": labels.to_vec() }));
        seen.count(Ok(doc! { "ok": 0.0, "code": 462, "errorLabels": ["RetryableError"] }));
        seen.count(Ok(doc! { "ok": 0.0, "code": 462 }));
        seen.count(Ok(doc! { "ok": 0.0, "code": 11600 }));
        seen.count(Ok(doc! { "ok": 1.0, "writeErrors": [] }));
        assert_eq!((seen.done, seen.refused, seen.unlabelled, seen.failed), (1, 3, 2, 2));
    }
}
