//! The read and write concerns of commands that name none: what `setDefaultRWConcern` has set, or what goes without saying.
//!
//! Held by `ServerContext`; `dispatcher` gives the write concern to each command, and the commands `getDefaultRWConcern` and `setDefaultRWConcern` are about it. Kept in
//! `config.settings`, where MongoDB has it; a plain server does not list that collection, so that dumps can be restored ([`is_unlisted`]). A default read concern is kept and told, and needs nothing else: of the levels that it may have, all read the same here.

use std::sync::Arc;

use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};
use parking_lot::RwLock;
use platform::Timestamp;

use crate::DocumentWriter;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::write_concern::WriteConcern;
use crate::state::query_settings;
use crate::state::replica_set::ReplicaSet;
use crate::state::replica_set::stored;
use crate::state::writing::Writing;

/// Where they are stored, and as which document.
const NAMESPACE: &str = "config.settings";
const ID: &str = "ReadWriteConcernDefaults";

/// Whether `listCollections` is silent about a collection that is there. A plain server plays a router, into which `mongorestore` restores nothing at all
/// when the dump of a whole server has anything of `config`; and `mongodump` takes `config.settings` along wherever it is listed. It can be read by its name.
pub(crate) fn is_unlisted(replica_set: &ReplicaSet, namespace: &str) -> bool {
    [NAMESPACE, query_settings::NAMESPACE].contains(&namespace) && replica_set.is_alone()
}

/// What has been set.
#[derive(Debug, Clone, Default)]
pub(crate) struct SetConcerns {
    pub(crate) read_level: Option<String>,
    pub(crate) write: Option<(RawDocumentBuf, WriteConcern)>,
    /// When it was set last.
    updated: Option<(Timestamp, DateTime)>,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct DefaultConcerns {
    set: RwLock<Arc<SetConcerns>>,
}

impl DefaultConcerns {
    /// Reads what was set before the start.
    pub(crate) fn load(&self, writing: &Writing) -> Result<()> {
        let stored = stored::read_all(writing, NAMESPACE)?;
        let found = stored.iter().find(|document| document::document_id(document) == Some(RawBsonRef::String(ID)));
        if let Some(found) = found {
            match SetConcerns::decode(found) {
                Ok(concerns) => *self.set.write() = Arc::new(concerns),
                // Those that go without saying are used, until others are set.
                Err(error) => stored::tell_replaced(writing, NAMESPACE, error.to_string()),
            }
        }
        Ok(())
    }

    /// What has been set.
    pub(crate) fn set(&self) -> Arc<SetConcerns> {
        self.set.read().clone()
    }

    /// Keeps other defaults, durably.
    pub(crate) fn change(&self, writing: &Writing, mut concerns: SetConcerns) -> Result<()> {
        let now = DateTime::from_millis(writing.clock.wall_millis());
        concerns.updated = Some((writing.store.visible_timestamp(), now));
        stored::put(writing, NAMESPACE, &concerns.encode()?)?;
        *self.set.write() = Arc::new(concerns);
        Ok(())
    }

    /// The write concern of a command that names none.
    pub(crate) fn write_concern(&self, replica_set: &ReplicaSet) -> WriteConcern {
        match &self.set.read().write {
            Some((_, concern)) => concern.clone(),
            // As in MongoDB, where what a set acknowledges is what it keeps.
            None if !replica_set.is_alone() => WriteConcern::majority(),
            None => WriteConcern::default(),
        }
    }

    /// Writes what `getDefaultRWConcern` says.
    pub(crate) fn write(&self, replica_set: &ReplicaSet, now: DateTime, reply: &mut DocumentWriter<'_>) {
        let set = self.set();
        let source = |is_set| if is_set { "global" } else { "implicit" };
        let level = set.read_level.as_deref().unwrap_or("local");
        reply.document("defaultReadConcern", |concern| concern.string("level", level));
        match &set.write {
            Some((concern, _)) => reply.embed("defaultWriteConcern", concern),
            None => reply.document("defaultWriteConcern", |concern| {
                if replica_set.is_alone() {
                    concern.int32("w", 1);
                } else {
                    concern.string("w", "majority");
                }
                concern.int32("wtimeout", 0);
            }),
        }
        if let Some((time, date)) = set.updated {
            reply.timestamp("updateOpTime", crate::request::cluster_time::bson_timestamp(time));
            reply.date("updateWallClockTime", date);
        }
        reply.string("defaultWriteConcernSource", source(set.write.is_some()));
        reply.string("defaultReadConcernSource", source(set.read_level.is_some()));
        reply.date("localUpdateWallClockTime", now);
    }
}

impl SetConcerns {
    fn encode(&self) -> Result<RawDocumentBuf> {
        document_of(|document| {
            document.string("_id", ID);
            if let Some(level) = &self.read_level {
                document.document("defaultReadConcern", |concern| concern.string("level", level));
            }
            if let Some((concern, _)) = &self.write {
                document.embed("defaultWriteConcern", concern);
            }
            if let Some((time, date)) = self.updated {
                document.timestamp("updateOpTime", crate::request::cluster_time::bson_timestamp(time));
                document.date("updateWallClockTime", date);
            }
        })
    }

    fn decode(stored: &RawDocument) -> Result<Self> {
        let embedded = |name| document::get_field(stored, name).and_then(|value| value.as_document());
        let level = embedded("defaultReadConcern").and_then(|concern| document::get_field(concern, "level")?.as_str());
        let write = embedded("defaultWriteConcern")
            .map(|concern| Ok::<_, CommandError>((concern.to_owned(), WriteConcern::parse(concern)?)));
        let time = match document::get_field(stored, "updateOpTime") {
            Some(RawBsonRef::Timestamp(time)) => Some(Timestamp::new(time.time, time.increment)),
            _ => None,
        };
        let date = match document::get_field(stored, "updateWallClockTime") {
            Some(RawBsonRef::DateTime(date)) => Some(date),
            _ => None,
        };
        Ok(Self { read_level: level.map(str::to_owned), write: write.transpose()?, updated: time.zip(date) })
    }
}
