//! Stays connected with the Rust driver for some seconds, under load, and prints what its event handlers heard.
//!
//! Run by `tests/drivers/test_staying_connected.py`, with the server's address, the seconds, and the heartbeat's milliseconds (0: the driver's
//! default).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, missing_docs, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::cmap::CmapEvent;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection, ServerType};

const WORKERS: i32 = 6;

#[derive(Default)]
struct Heard {
    cleared: AtomicU64,
    unknown: AtomicU64,
    failed_heartbeats: AtomicU64,
    awaited_heartbeats: AtomicU64,
}

fn add(counter: &AtomicU64, occurred: bool) {
    counter.fetch_add(u64::from(occurred), Ordering::Relaxed);
}

impl Heard {
    fn pool(&self, event: &CmapEvent) {
        add(&self.cleared, matches!(event, CmapEvent::PoolCleared(_)));
    }

    fn server(&self, event: &SdamEvent) {
        match event {
            SdamEvent::ServerDescriptionChanged(change) => {
                let is_unknown = |kind: ServerType| kind == ServerType::Unknown;
                let was_known = !is_unknown(change.previous_description.server_type());
                add(&self.unknown, was_known && is_unknown(change.new_description.server_type()));
            }
            SdamEvent::ServerHeartbeatFailed(_) => add(&self.failed_heartbeats, true),
            SdamEvent::ServerHeartbeatSucceeded(heartbeat) => add(&self.awaited_heartbeats, heartbeat.awaited),
            _ => {}
        }
    }
}

async fn work(things: Collection<Document>, worker: i32, end: Instant) -> Result<u64, mongodb::error::Error> {
    let mut operations = 0;
    while Instant::now() < end {
        things.update_one(doc! { "_id": worker }, doc! { "$inc": { "n": 1 } }).upsert(true).await?;
        things.find_one(doc! { "_id": worker }).await?;
        operations += 2;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(operations)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (seconds, heartbeat): (f64, u64) = (arguments[2].parse().unwrap(), arguments[3].parse().unwrap());
    let heard = Arc::new(Heard::default());
    let mut options = ClientOptions::parse(&arguments[1]).await.unwrap();
    let (of_pool, of_server) = (heard.clone(), heard.clone());
    options.cmap_event_handler = Some(EventHandler::callback(move |event| of_pool.pool(&event)));
    options.sdam_event_handler = Some(EventHandler::callback(move |event| of_server.server(&event)));
    if heartbeat > 0 {
        options.heartbeat_freq = Some(Duration::from_millis(heartbeat));
    }
    let client = Client::with_options(options).unwrap();
    let things = client.database("staying_connected").collection::<Document>("rust");
    things.drop().await.unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let workers: Vec<_> = (0..WORKERS).map(|worker| tokio::spawn(work(things.clone(), worker, end))).collect();
    let (mut operations, mut errors) = (0, Vec::new());
    for worker in workers {
        match worker.await.unwrap() {
            Ok(done) => operations += done,
            Err(error) => errors.push(error.to_string()),
        }
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let printed = serde_json::json!({
        "operations": operations, "errors": errors, "cleared": count(&heard.cleared), "unknown": count(&heard.unknown),
        "failed_heartbeats": count(&heard.failed_heartbeats), "awaited_heartbeats": count(&heard.awaited_heartbeats),
    });
    println!("{printed}");
}
