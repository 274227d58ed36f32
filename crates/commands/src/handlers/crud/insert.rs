//! `insert`: stores documents.
//!
//! Documents come in the body or as a document sequence. Each is checked on its own; a bad one is a write error at its
//! position and the others are stored (all before it when `ordered`, which is the default).

use std::borrow::Cow;
use std::slice::from_ref;
use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, Namespace, StatementDetails, Validation};
use document::{EmptyTimestamps, Limits, prepare_for_storage, validate_document};
use transaction::{CommitInfo, InsertOrder, InsertOutcome};

use super::query_arguments::empty_timestamps;
use super::write_statements::{StatementOrder, WriteStatements, written_series};
use super::{measurement_inserts, needed_privileges};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, required};
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::changing::Changing;
use crate::state::operation_counts::count;
use crate::state::operations::before_allocating;
use crate::state::write_command::WriteCommand;

/// Documents inserted before a command that inserts many looks whether it should give way.
const DOCUMENTS_PER_PART: usize = 128;

/// A document of this size is copied only if there is memory for it.
const LARGE_BYTES: usize = 64 << 10;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.write_command(), arguments, reply),
    Declaration {
        computed: Some(needed_privileges::of_write),
        counts_as_command: false,
        sequences: &["documents"],
        class: Class::Write,
        changes: Changes::Stored,
        session_use: SessionUse::RetryableWrite,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new("insert", "Inserts documents.", Needs::Primary, &[on_collection(Action::Insert)])
    },
);

/// Runs the command.
pub(crate) fn run(
    command: &WriteCommand<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let WriteCommand { changing, counts, .. } = command;
    let namespace = Namespace::new(changing.reading.database, arguments.collection_name()?)?;
    let (mut order, mut validation) = (InsertOrder::Ordered, Validation::Enforce);
    let mut timestamps = EmptyTimestamps::Replace;
    let mut documents: Option<Vec<&RawDocument>> = command.sequences.documents("documents").map(Iterator::collect);
    for field in arguments.fields() {
        match field.name() {
            "documents" => documents = field.documents()?,
            "ordered" => order = if field.boolean_or(true)? { InsertOrder::Ordered } else { InsertOrder::Unordered },
            "bypassDocumentValidation" => {
                validation = if field.boolean()? { Validation::Bypass } else { Validation::Enforce };
            }
            "bypassEmptyTsReplacement" => timestamps = empty_timestamps(field)?,
            _ => arguments.generic(field)?,
        }
    }
    let documents = required(documents, "insert.documents")?;
    let statement_order = match order {
        InsertOrder::Ordered => StatementOrder::Ordered,
        InsertOrder::Unordered => StatementOrder::Unordered,
    };
    let mut writes =
        WriteStatements::begin(changing, &mut arguments, from_ref(&namespace), documents.len(), statement_order)?;
    let is_retryable = changing.session.is_retryable_write();
    let executed: Vec<bool> = match is_retryable {
        true => (0..documents.len()).map(|at| changing.session.executed(writes.id(at)).is_some()).collect(),
        false => Vec::new(),
    };
    let is_executed = |position: usize| executed.get(position).copied().unwrap_or(false);
    (0..executed.len()).filter(|position| is_executed(*position)).for_each(|done| writes.add_retried(writes.id(done)));
    let (prepared, positions, mut errors) = prepare(changing, &namespace, &documents, (order, timestamps), is_executed);
    let stored: Vec<&RawDocument> = prepared.iter().filter_map(|bytes| RawDocument::from_bytes(bytes).ok()).collect();
    let ids: Option<Vec<i32>> = is_retryable.then(|| positions.iter().map(|position| writes.id(*position)).collect());
    // Each document is a statement.
    stored.iter().try_for_each(|_| changing.before_write())?;
    let (inserted, failed, commit) = insert_by_name(changing, &namespace, &stored, ids.as_deref(), order, validation)?;
    let at = |position: usize| positions.get(position).copied().unwrap_or(position);
    errors.extend(failed.into_iter().map(|(position, error)| (at(position), error)));
    errors.sort_by_key(|(position, _)| *position);
    if order == InsertOrder::Ordered {
        errors.truncate(1);
    }
    // As MongoDB counts: those that were tried.
    count(&counts.insert, inserted + errors.len() as u64);
    changing.noting.notes.inserted.add(inserted);
    errors.into_iter().try_for_each(|(position, error)| writes.fail(changing, position, error))?;
    reply.count("n", inserted + writes.retried());
    writes.set_commit(commit);
    writes.finish(&command.acknowledging, &arguments.generic.write_concern, reply);
    Ok(())
}

/// How many were inserted, which were not (by position), and the last commit.
type Inserted = (u64, Vec<(usize, CommandError)>, Option<CommitInfo>);

/// Inserts into what a name stands for: a time-series collection, or a collection.
fn insert_by_name(
    changing: &Changing<'_>,
    namespace: &Namespace,
    documents: &[&RawDocument],
    statement_ids: Option<&[i32]>,
    order: InsertOrder,
    validation: Validation,
) -> Result<Inserted> {
    if let Some(series) = written_series(changing, namespace)? {
        let done = measurement_inserts::insert(changing, &series, documents, statement_ids, order);
        return Ok((done.count as u64, done.errors, done.commit));
    }
    let outcome = insert_somewhere(changing, namespace, documents, statement_ids, order, validation)?;
    let errors = outcome.errors.into_iter().map(|(position, error)| (position, CommandError::from(error)));
    Ok((outcome.inserted as u64, errors.collect(), outcome.commit))
}

/// Inserts into the collection of a name, which is created if there is none and there is something to insert; again, when it is dropped meanwhile.
fn insert_somewhere(
    changing: &Changing<'_>,
    namespace: &Namespace,
    documents: &[&RawDocument],
    statement_ids: Option<&[i32]>,
    order: InsertOrder,
    validation: Validation,
) -> Result<InsertOutcome> {
    let mut outcome = InsertOutcome::default();
    let mut first = 0;
    while let Some(left @ [_, ..]) = documents.get(first..) {
        let collection = changing.collection_or_create(namespace)?;
        let ids = statement_ids.and_then(|ids| ids.get(first..));
        let mut done = insert_in_parts(changing, &collection, left, ids, order, validation);
        let dropped = done.errors.pop_if(|(_, error)| error.is_dropped() && !changing.reading.is_in_transaction());
        outcome.add(done, first, order);
        match dropped {
            Some((position, _)) => first += position,
            None => break,
        }
    }
    Ok(outcome)
}

/// Inserts one document, as an operation of `bulkWrite`.
pub(super) fn insert_one(
    changing: &Changing<'_>,
    namespace: &Namespace,
    document: &RawDocument,
    statement: i32,
    validation: Validation,
    timestamps: EmptyTimestamps,
) -> Result<Option<CommitInfo>> {
    let (prepared, _, errors) =
        prepare(changing, namespace, &[document], (InsertOrder::Ordered, timestamps), |_| false);
    if let Some((_, error)) = errors.into_iter().next() {
        return Err(error);
    }
    let stored: Vec<&RawDocument> = prepared.iter().filter_map(|bytes| RawDocument::from_bytes(bytes).ok()).collect();
    changing.before_write()?;
    let ids = [statement];
    let ids = changing.session.is_retryable_write().then_some(&ids[..]);
    let (_, errors, commit) = insert_by_name(changing, namespace, &stored, ids, InsertOrder::Ordered, validation)?;
    match errors.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(commit),
    }
}

/// Inserts part by part, so that a command that inserts many can give way between them.
fn insert_in_parts(
    changing: &Changing<'_>,
    collection: &Arc<Collection>,
    documents: &[&RawDocument],
    statement_ids: Option<&[i32]>,
    order: InsertOrder,
    validation: Validation,
) -> InsertOutcome {
    let store = &changing.writing.store;
    changing.write(0, StatementDetails::None, |write| {
        let mut outcome = InsertOutcome::default();
        for (part, documents) in documents.chunks(DOCUMENTS_PER_PART).enumerate() {
            let first = part * DOCUMENTS_PER_PART;
            if let Some(ids) = statement_ids {
                write.set_statement_ids(ids.iter().skip(first).copied());
            }
            let done = store.insert_documents(write, collection, documents, order, validation);
            let ends_all = outcome.add(done, first, order);
            if ends_all {
                break;
            }
            changing.operation.turn().look_around();
        }
        outcome
    })
}

type Prepared<'a> = (Vec<Cow<'a, [u8]>>, Vec<usize>, Vec<(usize, CommandError)>);

/// Checks the documents, but for those inserted before, and gives each an `_id`; an ordered insert ends at the first bad one.
fn prepare<'a>(
    changing: &Changing<'_>,
    namespace: &Namespace,
    documents: &[&'a RawDocument],
    (order, timestamps): (InsertOrder, EmptyTimestamps),
    is_executed: impl Fn(usize) -> bool,
) -> Prepared<'a> {
    let mut prepared = Vec::with_capacity(documents.len());
    let mut positions = Vec::with_capacity(documents.len());
    let mut errors = Vec::new();
    let Changing { writing, timestamps: issued, .. } = changing;
    let millis = writing.clock.wall_millis();
    for (position, document) in documents.iter().enumerate().filter(|(position, _)| !is_executed(*position)) {
        if document.as_bytes().len() > LARGE_BYTES
            && let Err(error) = before_allocating(document.as_bytes().len())
        {
            errors.push((position, error));
            break;
        }
        let mut bytes = Vec::new();
        let now = || issued.next(millis);
        let checked = validate_document(document.as_bytes(), &Limits::USER)
            .and_then(|()| prepare_for_storage(document, timestamps, || writing.new_object_id(), now, &mut bytes))
            .map_err(CommandError::from)
            .and_then(|is_changed| {
                Ok((is_changed, measurement_inserts::check_bucket(changing.reading, namespace, document)?))
            });
        match checked {
            Ok((is_changed, bucket)) => {
                prepared.push(match bucket {
                    Some(bucket) => Cow::Owned(bucket.into_bytes()),
                    None if is_changed => Cow::Owned(bytes),
                    None => Cow::Borrowed(document.as_bytes()),
                });
                positions.push(position);
            }
            Err(error) => {
                errors.push((position, error));
                if order == InsertOrder::Ordered {
                    break;
                }
            }
        }
    }
    (prepared, positions, errors)
}
