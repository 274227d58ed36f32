//! The same operations through the official Rust driver.

use bson::{RawDocumentBuf, doc};
use mongodb::Collection;

use super::{Operation, message};
use crate::error::LabError;

/// Does an operation once and checks its result.
pub(super) async fn operate(
    collection: &Collection<RawDocumentBuf>,
    operation: Operation,
    id: u32,
) -> Result<(), LabError> {
    let filter = doc! { "_id": id as i32 };
    let failed = LabError::command(operation.name());
    let right = match operation {
        Operation::FindOne => {
            let found = collection.find_one(filter).await.map_err(failed)?;
            found.is_some_and(|document| document.get_i32("_id").ok() == Some(id as i32))
        }
        Operation::InsertOne => {
            collection.insert_one(message::document(id)).await.map_err(failed)?;
            true
        }
        Operation::UpdateOne => {
            let updated = collection.update_one(filter, doc! { "$inc": { "counter": 1 } }).await.map_err(failed)?;
            (updated.matched_count, updated.modified_count) == (1, 1)
        }
        Operation::DeleteOne => collection.delete_one(filter).await.map_err(failed)?.deleted_count == 1,
    };
    if right {
        Ok(())
    } else {
        Err(LabError::WrongReply(format!("{} of _id {id} did not concern one document", operation.name())))
    }
}
