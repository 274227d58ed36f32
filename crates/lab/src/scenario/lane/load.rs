//! Filling collections with their documents, by `insertMany` in batches.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bson::Document;

use super::{Ended, LabError, Moment, RunningClient, copies_of};
use crate::scenario::plan::LoadTarget;

impl RunningClient {
    /// Fills this client's share of the targets; where there are fewer targets than clients, several fill one together.
    pub(super) async fn load(&mut self, targets: &[LoadTarget], batch: u64) -> Result<(), LabError> {
        for target in copies_of(self.seat.thread, self.seat.group.threads, targets.len()) {
            let Some(target) = targets.get(target as usize) else { continue };
            while !self.state.shared.has_stopped() && self.load_batch(target, batch).await? {}
        }
        Ok(())
    }

    /// Inserts the next batch of a target; false when there is none.
    async fn load_batch(&mut self, target: &LoadTarget, batch: u64) -> Result<bool, LabError> {
        let total = target.collection.documents;
        let from = target.next.fetch_add(batch, Ordering::Relaxed);
        let (Some(template), true) = (&target.collection.document, from < total) else { return Ok(false) };
        let thread = self.seat.thread;
        let mut make = |number: u64| {
            let copy = target.copy as u32;
            template.make_document(&mut Moment { random: &mut self.random, number, thread, copy, round: 0 })
        };
        let documents: Vec<Document> = (from..from.saturating_add(batch).min(total)).map(&mut make).collect();
        let name = target.collection.names.get(target.copy).map_or("", String::as_str);
        let collection = self.state.database.collection::<Document>(name);
        let sent = Instant::now();
        self.state.set_in_flight(self.place, Some(sent));
        let outcome = collection.insert_many(&documents).await;
        self.state.set_in_flight(self.place, None);
        let ended = Ended { step: self.seat.first_step, intended: sent, sent, ended: Instant::now(), left_out: None };
        let outcome = outcome.map_err(LabError::command(format!("insertMany into {name}"))).and_then(|inserted| {
            match inserted.inserted_ids.len() {
                count if count == documents.len() => Ok(count as u64),
                count => {
                    Err(LabError::WrongReply(format!("insertMany inserted {count} of {} documents", documents.len())))
                }
            }
        });
        self.note(ended, outcome).await?;
        Ok(true)
    }
}
