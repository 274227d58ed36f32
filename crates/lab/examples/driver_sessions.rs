//! Sessions, transactions and retryable writes with the Rust driver, against the server whose address is given. Prints "done"; panics at the first surprise.
//!
//! Run by `tests/drivers/test_other_drivers.py`.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a test")]

use bson::{Document, doc};
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;
use mongodb::{Client, Collection};

/// The next command of this name loses its connection.
async fn cut(client: &Client, command: &str) {
    let data = doc! { "failCommands": [command], "closeConnection": true };
    let fail = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    client.database("admin").run_command(fail).await.unwrap();
}

async fn count(things: &Collection<Document>) -> u64 {
    things.count_documents(doc! {}).await.unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let uri = std::env::args().nth(1).expect("the server's address");
    let client = Client::with_uri_str(uri).await.unwrap();
    let things = client.database("rust_driver").collection::<Document>("things");
    things.drop().await.unwrap();
    cut(&client, "insert").await;
    things.insert_one(doc! { "_id": 1, "n": 0 }).await.unwrap();
    cut(&client, "update").await;
    let increment = doc! { "$inc": { "n": 1 } };
    things.update_one(doc! { "_id": 1 }, increment.clone()).await.unwrap();
    assert_eq!(count(&things).await, 1, "inserted once");

    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    things.insert_one(doc! { "_id": 2 }).session(&mut session).await.unwrap();
    assert_eq!(things.count_documents(doc! {}).session(&mut session).await.unwrap(), 2, "its own write");
    assert_eq!(count(&things).await, 1, "nobody else's view of it");
    things.update_one(doc! { "_id": 1 }, increment.clone()).session(&mut session).await.unwrap();
    cut(&client, "commitTransaction").await;
    session.commit_transaction().await.unwrap();
    assert_eq!(count(&things).await, 2, "committed");

    session.start_transaction().await.unwrap();
    things.delete_many(doc! {}).session(&mut session).await.unwrap();
    session.abort_transaction().await.unwrap();
    assert_eq!(count(&things).await, 2, "aborted");

    // Another transaction that writes the same document is in conflict, and may be tried again.
    session.start_transaction().await.unwrap();
    things.update_one(doc! { "_id": 1 }, increment.clone()).session(&mut session).await.unwrap();
    let mut other = client.start_session().await.unwrap();
    other.start_transaction().await.unwrap();
    let conflict = things.update_one(doc! { "_id": 1 }, increment).session(&mut other).await.unwrap_err();
    assert!(conflict.contains_label(TRANSIENT_TRANSACTION_ERROR), "{conflict}");
    other.abort_transaction().await.unwrap();
    session.commit_transaction().await.unwrap();
    let found = things.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
    assert_eq!(found.get_i32("n").unwrap(), 3, "increments");

    let mut snapshot = client.start_session().snapshot(true).await.unwrap();
    assert_eq!(things.count_documents(doc! {}).session(&mut snapshot).await.unwrap(), 2);
    things.delete_many(doc! {}).await.unwrap();
    assert_eq!(things.count_documents(doc! {}).session(&mut snapshot).await.unwrap(), 2, "of the snapshot, later");
    assert_eq!(count(&things).await, 0);
    println!("done");
}
