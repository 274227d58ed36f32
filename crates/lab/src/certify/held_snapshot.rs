//! A snapshot that is held by a transaction that nobody goes on with: G8 and G9 look at what it costs.

use bson::spec::BinarySubtype;
use bson::{Bson, Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions};
use mongodb::{Client, ClientSession, SessionCursor};

use super::rig::{DATABASE, Rig};
use crate::error::LabError;

/// Documents that are changed after the snapshot was taken.
pub(super) const WITNESSES: u32 = 5000;
const COLLECTION: &str = "witnesses";
/// By which its owner is to be recognised.
const COMMENT: &str = "plimsoll certify: an idle snapshot";

/// A transaction that has read one document.
pub(super) struct HeldSnapshot {
    session: ClientSession,
    cursor: SessionCursor<Document>,
    /// Of every document when it was taken.
    counter: i32,
    read: u32,
    _client: Client,
}

/// Makes the documents.
pub(super) async fn write_witnesses(rig: &Rig) -> Result<(), LabError> {
    let collection = rig.client.database(DATABASE).collection::<Document>(COLLECTION);
    collection.drop().await.map_err(LabError::command("drop"))?;
    let documents: Vec<Document> =
        (0..WITNESSES).map(|number| doc! { "_id": number as i32, "counter": 0, "text": "x".repeat(100) }).collect();
    collection.insert_many(documents).await.map(drop).map_err(LabError::command("insertMany"))
}

/// Changes every document.
pub(super) async fn change_witnesses(rig: &Rig) -> Result<(), LabError> {
    let change = doc! { "q": {}, "u": { "$inc": { "counter": 1 } }, "multi": true };
    rig.command(doc! { "update": COLLECTION, "updates": [change] }).await.map(drop)
}

impl HeldSnapshot {
    /// Begins the transaction and reads the first document.
    pub(super) async fn take(rig: &Rig) -> Result<Self, LabError> {
        let client = rig.new_client(2).await?;
        let mut session = client.start_session().await.map_err(LabError::command("startSession"))?;
        let options = TransactionOptions::builder().read_concern(ReadConcern::snapshot()).build();
        let begun = session.start_transaction().with_options(options).await;
        begun.map_err(LabError::command("startTransaction"))?;
        let collection = client.database(DATABASE).collection::<Document>(COLLECTION);
        let find = collection.find(doc! {}).batch_size(2).comment(Bson::String(COMMENT.to_owned()));
        let find = find.session(&mut session).await;
        let mut cursor = find.map_err(LabError::command("find in a transaction with a snapshot"))?;
        cursor.advance(&mut session).await.map_err(LabError::command("find in a transaction"))?;
        let counter = cursor.current().get_i32("counter").unwrap_or(i32::MIN);
        Ok(Self { session, cursor, counter, read: 1, _client: client })
    }

    /// Whether the server tells, where an administrator looks, whose the snapshot is: by its comment or its session.
    pub(super) async fn is_named(&self, rig: &Rig) -> bool {
        let session = self.session.id().get_binary_generic("id").cloned().ok();
        let session = session.or_else(|| match self.session.id().get("id") {
            Some(Bson::Binary(binary)) if binary.subtype == BinarySubtype::Uuid => Some(binary.bytes.clone()),
            _ => None,
        });
        let stage = doc! { "$currentOp": { "allUsers": true, "idleCursors": true, "idleSessions": true } };
        let commands = [
            doc! { "serverStatus": 1 },
            doc! { "aggregate": 1, "pipeline": [stage], "cursor": {} },
            doc! { "currentOp": 1, "$all": true },
        ];
        for command in commands {
            let Ok(reply) = rig.admin(command).await else { continue };
            if mentions(&Bson::Document(reply), session.as_deref().unwrap_or_default()) {
                return true;
            }
        }
        false
    }

    /// Reads the next batch.
    pub(super) async fn read_on(&mut self) -> Result<Option<i32>, LabError> {
        let is_there = self.cursor.advance(&mut self.session).await;
        if !is_there.map_err(LabError::command("getMore in a transaction"))? {
            return Ok(None);
        }
        self.read += 1;
        Ok(Some(self.cursor.current().get_i32("counter").unwrap_or(i32::MIN)))
    }

    /// Reads to the end, ends the transaction, and counts the documents that were not as they were when it was taken.
    pub(super) async fn let_go(mut self) -> Result<u64, LabError> {
        let mut changed = 0;
        while let Some(counter) = self.read_on().await? {
            changed += u64::from(counter != self.counter);
        }
        let missing = u64::from(self.read.abs_diff(WITNESSES));
        self.session.commit_transaction().await.map_err(LabError::command("commitTransaction"))?;
        Ok(changed + missing)
    }
}

fn mentions(value: &Bson, session: &[u8]) -> bool {
    match value {
        Bson::String(text) => text.contains(COMMENT),
        Bson::Binary(binary) => !session.is_empty() && binary.bytes == session,
        Bson::Document(document) => document.values().any(|value| mentions(value, session)),
        Bson::Array(values) => values.iter().any(|value| mentions(value, session)),
        _ => false,
    }
}
