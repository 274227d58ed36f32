//! Bytes on disk of the scenario's database, as the server's `dbStats` counts them.

use std::time::Duration;

use bson::doc;
use mongodb::Client;

use super::whole_number;

/// A server that takes longer says nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Nothing from a server that does not say it.
pub(super) async fn bytes(client: &Client, database: &str) -> Option<u64> {
    let database = client.database(database);
    let stats = tokio::time::timeout(PATIENCE, async { database.run_command(doc! { "dbStats": 1 }).await });
    let stats = stats.await.ok()?.ok()?;
    let bytes = |name: &str| stats.get(name).and_then(whole_number);
    bytes("totalSize").or_else(|| Some(bytes("storageSize")? + bytes("indexSize")?))
}
