//! Tailable cursors: staying at the end, and being woken when more comes.
//!
//! Used by `find` on capped collections, by `oplog_view` and by change streams. Waiting costs nothing: `transaction`'s feed asks whether an
//! entry concerns the cursor, and wakes it.

use std::sync::Arc;
use std::time::Duration;

use transaction::{FeedEntry, Store, Subscription, Topic};

/// What reading a document or an entry takes, roughly.
const ENTRY_COST: Duration = Duration::from_micros(1);

/// Whether a cursor stays at the end, and whether getMore waits there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tailing {
    No,
    AtEnd,
    Awaiting,
}

/// What a tailable cursor has beside its results.
pub(crate) struct Tail {
    subscription: Option<Subscription>,
}

impl Tail {
    /// Follows the documents of a collection.
    pub(crate) fn of_collection(store: &Arc<Store>, namespace: &str, tailing: Tailing) -> Tail {
        let (name, namespace) = (format!("documents of {namespace}"), namespace.to_owned());
        let concerns = move |entry: &Arc<FeedEntry>| match collection::entry_subject(&entry.payload) {
            // Changes of definitions and transactions concern everybody.
            Some((b'c', _)) => true,
            Some((_, about)) => about == namespace,
            None => true,
        };
        Tail::new(store, Topic { name, interest: Box::new(concerns), delivers: false, cost: ENTRY_COST }, tailing)
    }

    /// Follows every entry.
    pub(crate) fn of_oplog(store: &Arc<Store>, tailing: Tailing) -> Tail {
        let name = "everything".to_owned();
        let topic = Topic { name, interest: Box::new(|_| true), delivers: false, cost: ENTRY_COST };
        Tail::new(store, topic, tailing)
    }

    /// Follows a topic.
    pub(crate) fn new(store: &Arc<Store>, topic: Topic, tailing: Tailing) -> Tail {
        Tail { subscription: (tailing == Tailing::Awaiting).then(|| store.subscribe(topic)) }
    }

    /// What wakes it.
    pub(crate) fn subscription(&self) -> Option<&Subscription> {
        self.subscription.as_ref()
    }

    /// Whether a getMore waits for more.
    pub(crate) fn awaits(&self) -> bool {
        self.subscription.is_some()
    }

    /// Waits until there may be more.
    pub(crate) fn wait(&self, longest: Duration) {
        if let Some(subscription) = &self.subscription {
            subscription.wait(longest);
        }
    }
}
