//! Transactions of several documents that another member has logged, and those of them that this one has to commit.

use collection::{
    CollectionError, Entry, LoggedStatement, SessionReplay, TransactionCommit, TransactionEncoder, TransactionEntry,
    TransactionStep,
};
use oplog::{Oplog, OplogPosition, ReceivedEntry};
use storage_engine::Timestamp;

use super::{Decision, PARTS_KEPT, Source, State};
use crate::commit_order::{Effect, tell_why_stopped};
use crate::error::Result;
use crate::store::Store;

impl Store {
    pub(super) fn apply_transaction(
        &self,
        state: &mut State,
        entry: &ReceivedEntry<'_>,
        transaction: &TransactionEntry<'_>,
    ) -> Result<()> {
        match &transaction.step {
            TransactionStep::Part => {
                let now = self.clock.monotonic();
                while state.parts.pop_front_if(|(_, came)| now.saturating_sub(*came) > PARTS_KEPT).is_some() {}
                state.parts.push_back((entry.position, now));
                // Before it is there to be given up.
                self.commits.keep_received(state.needed_from());
                self.oplog.append_one_received(entry, &mut |_, _| {})?;
                Ok(())
            }
            TransactionStep::Decision(commit) => {
                let first = commit.parts.iter().copied().min().unwrap_or(entry.position);
                let decided = &mut |_, position| self.commits.note_decided(position, first);
                let appended = self.oplog.append_one_received(entry, decided)?;
                state.parts.retain(|(position, _)| !commit.parts.contains(position));
                state.decided.push(Decision { commit: commit.clone(), position: Some(appended.position) });
                self.commits.keep_received(state.needed_from());
                Ok(())
            }
            TransactionStep::Commit(commit) => {
                self.commit_received(state, &Source::Received(entry), commit, entry.payload)
            }
        }
    }

    /// Commits what was decided in the term before, as recovery does.
    pub(super) fn commit_decided(&self, state: &mut State, commit: &TransactionCommit) -> Result<()> {
        let mut entry = TransactionEncoder::new();
        let payload = entry.finish_commit(&commit.parts, commit.transaction, self.clock.wall_millis());
        self.commit_received(state, &Source::Own(payload), commit, payload)
    }

    fn commit_received(
        &self,
        state: &mut State,
        source: &Source<'_, '_>,
        commit: &TransactionCommit,
        payload: &[u8],
    ) -> Result<()> {
        // What cannot be read is found before anything is logged.
        let parts = commit.parts.iter().map(|part| self.read_part(*part)).collect::<Result<Vec<_>>>()?;
        let (appended, in_flight) = self.append(source)?;
        let mut effects = Vec::new();
        let all = parts.iter().map(Vec::as_slice).chain([payload]);
        let applied =
            all.into_iter().try_for_each(|part| self.apply_operations(state, part, appended.timestamp, &mut effects));
        applied.inspect_err(tell_why_stopped)?;
        if commit.transaction.is_none() {
            commit.parts.iter().zip(&parts).for_each(|(position, part)| self.tell_statements(*position, part));
        }
        self.tell_commit(commit.transaction);
        if effects.iter().any(Effect::is_of_definitions) {
            self.commits.note_definition(appended.end);
        }
        let reveals = state.take_decision(&commit.parts);
        self.commits.keep_received(state.needed_from());
        in_flight.complete_revealing(appended.end, effects, reveals);
        self.received.count_decided(state);
        Ok(())
    }

    /// A part of a transaction, which is somewhere before its commit.
    fn read_part(&self, position: OplogPosition) -> Result<Vec<u8>> {
        let mut reader = self.oplog.read_from(position)?;
        let missing = || CollectionError::Damaged(format!("the part of a transaction at {position} is not there"));
        let entry = reader.next_entry()?.ok_or_else(missing)?;
        match Entry::decode(entry.payload)? {
            Entry::Transaction(part) if part.step == TransactionStep::Part => Ok(entry.payload.to_vec()),
            _ => Err(missing().into()),
        }
    }

    fn apply_operations(
        &self,
        state: &mut State,
        payload: &[u8],
        timestamp: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        let Entry::Transaction(transaction) = Entry::decode(payload)? else { return Ok(()) };
        for operation in transaction.operations() {
            match Entry::decode(operation)? {
                Entry::Document(change) => self.apply_change(state, &change, timestamp, effects)?,
                _ => {
                    let message = "a transaction with something else than documents".to_owned();
                    return Err(CollectionError::Damaged(message).into());
                }
            }
        }
        Ok(())
    }

    fn tell_statements(&self, position: OplogPosition, part: &[u8]) {
        let Ok(Entry::Transaction(transaction)) = Entry::decode(part) else { return };
        for operation in transaction.operations() {
            if let Ok(Entry::Document(change)) = Entry::decode(operation)
                && let Some(statement) = LoggedStatement::of(&change, position)
            {
                (&mut &self.sessions).statement(statement);
            }
        }
    }
}
