//! Operations in one transaction. What the server asks to be tried again is tried again, as the driver's convenient
//! transaction API does: from the start after a conflict, the commit alone when its outcome is unknown.

use mongodb::ClientSession;
use mongodb::error::{Error as DriverError, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};

use super::{Done, Moment, Operation, Sender};
use crate::error::LabError;

/// Attempts before a transaction is given up.
const ATTEMPTS_MAX: u32 = 100;

/// Steps, and how often they are repeated inside the transaction.
#[derive(Debug)]
pub(crate) struct TransactionOperation {
    pub(super) repeat: u64,
    pub(super) steps: Vec<Operation>,
}

impl TransactionOperation {
    pub(super) async fn execute(&self, sender: &Sender<'_>, moment: &mut Moment<'_>) -> Result<Done, LabError> {
        let mut session = sender.client.start_session().await.map_err(LabError::command("start a session"))?;
        let mut attempt = 1;
        loop {
            match self.attempt(sender, moment, &mut session).await {
                Err(error) if attempt < ATTEMPTS_MAX && has_label(&error, TRANSIENT_TRANSACTION_ERROR) => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    async fn attempt(
        &self,
        sender: &Sender<'_>,
        moment: &mut Moment<'_>,
        session: &mut ClientSession,
    ) -> Result<Done, LabError> {
        session.start_transaction().await.map_err(LabError::command("startTransaction"))?;
        let mut total = Done::default();
        for _ in 0..self.repeat {
            for step in &self.steps {
                // Boxed, because an operation can be a transaction as far as the compiler knows.
                match Box::pin(step.execute_in(sender, moment, Some(session))).await {
                    Ok(done) => total.documents += done.documents,
                    Err(error) => {
                        // The step's error is what matters; the server forgets the transaction in any case.
                        let _ = session.abort_transaction().await;
                        return Err(error);
                    }
                }
            }
        }
        commit(session).await?;
        Ok(total)
    }
}

async fn commit(session: &mut ClientSession) -> Result<(), LabError> {
    for _ in 1..ATTEMPTS_MAX {
        match session.commit_transaction().await {
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {}
            outcome => return outcome.map_err(LabError::command("commitTransaction")),
        }
    }
    session.commit_transaction().await.map_err(LabError::command("commitTransaction"))
}

fn has_label(error: &LabError, label: &str) -> bool {
    let labelled = |error: &DriverError| error.contains_label(label);
    matches!(error, LabError::Command { source, .. } if labelled(source))
}
