//! `bulkWrite`: inserts, updates and deletes in several collections, in one list.
//!
//! Each operation is the statement of `insert`, `update` or `delete` that it would be by itself, driven by
//! `write_statements`. What became of each is a document of a cursor.

use std::sync::atomic::AtomicU64;

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Namespace, Validation};
use document::{Number, elements, get_field};
use transaction::{CommitInfo, ExecutedStatement};

use super::delete::{self, Deletions};
use super::insert::insert_one;
use super::needed_privileges::is_true;
use super::query_arguments::empty_timestamps;
use super::update::{self, StatementOptions, Updates};
use super::write_statements::{StatementOrder, Statements, WriteStatements, is_dropped_outside, validated};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::write_list;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{
    Changes, Class, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
use crate::state::changing::Changing;
use crate::state::client_cursors::CursorWork;
use crate::state::execution_notes::ExecutionNotes;
use crate::state::operation_counts::OperationCounts;
use crate::state::reading::Reading;
use crate::state::write_command::WriteCommand;

/// What the cursor is called.
const CURSOR: &str = "admin.$cmd.bulkWrite";

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.write_command(), &context.cursor_work(), arguments, reply),
    Declaration {
        counts_as_command: false,
        is_admin_only: true,
        sequences: &["nsInfo", "ops"],
        class: Class::Write,
        changes: Changes::Stored,
        session_use: SessionUse::RetryableWrite,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        computed: Some(needs),
        ..Declaration::new(
            "bulkWrite",
            "Inserts, updates and deletes documents of several collections.",
            Needs::Primary,
            &[],
        )
    },
);

/// The documents of a field, wherever they came; none when there are none.
fn documents<'a>(request: &'a CommandRequest<'_>, name: &str) -> Vec<&'a RawDocument> {
    if let Some(documents) = request.sequences.documents(name) {
        return documents.collect();
    }
    let array = get_field(request.body, name).and_then(|array| array.as_array());
    array.into_iter().flat_map(document::array_elements).filter_map(|item| item.value().as_document()).collect()
}

/// The fields of the command beside its operations.
#[derive(Default)]
struct Options<'a> {
    is_unordered: bool,
    only_errors: bool,
    batch_size: Option<u64>,
    statements: StatementOptions<'a>,
}

/// What it needs: what each operation needs on its collection.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let is_bypassing = is_true(request.body, "bypassDocumentValidation");
    let names = documents(request, "nsInfo");
    for operation in documents(request, "ops") {
        let Some(first) = elements(operation).next() else { continue };
        let position = Number::from_bson(first.value()).and_then(Number::to_i64_exact);
        let info = position.and_then(|position| names.get(usize::try_from(position).ok()?));
        let Some(RawBsonRef::String(full)) = info.and_then(|info| get_field(info, "ns")) else { continue };
        let Some((database, collection)) = full.split_once('.') else { continue };
        let mut need = |action| needs.need_on(database, collection, action);
        match first.name() {
            "insert" => need(Action::Insert),
            "update" => {
                need(Action::Update);
                if is_true(operation, "upsert") {
                    need(Action::Insert);
                }
            }
            "delete" => need(Action::Remove),
            // What is none is refused.
            _ => {}
        }
        if is_bypassing {
            need(Action::BypassDocumentValidation);
        }
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run(
    command: &WriteCommand<'_>,
    cursors: &CursorWork<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let WriteCommand { changing, sequences, .. } = command;
    let mut ops: Option<Vec<&RawDocument>> = sequences.documents("ops").map(Iterator::collect);
    let mut infos: Option<Vec<&RawDocument>> = sequences.documents("nsInfo").map(Iterator::collect);
    let mut options = Options::default();
    for field in arguments.fields() {
        match field.name() {
            "ops" => ops = field.documents()?,
            "nsInfo" => infos = field.documents()?,
            "ordered" => options.is_unordered = !field.boolean_or(true)?,
            "errorsOnly" => options.only_errors = field.boolean()?,
            "let" => options.statements.declared = field.document()?,
            "bypassDocumentValidation" => {
                options.statements.validation = if field.boolean()? { Validation::Bypass } else { Validation::Enforce };
            }
            "bypassEmptyTsReplacement" => options.statements.empty_timestamps = empty_timestamps(field)?,
            "cursor" => options.batch_size = batch_size(field)?,
            _ => arguments.generic(field)?,
        }
    }
    let ops = required(ops, "bulkWrite.ops")?;
    let namespaces = namespaces(&required(infos, "bulkWrite.nsInfo")?)?;
    check_in_transaction(changing.reading, &namespaces)?;
    let order = if options.is_unordered { StatementOrder::Unordered } else { StatementOrder::Ordered };
    let mut writes = WriteStatements::begin(changing, &mut arguments, &namespaces, ops.len(), order)?;
    let operations = ops.iter().map(|op| Operation::read(op, &namespaces)).collect::<Result<Vec<_>>>()?;
    let mut bulk = BulkWrite::new(&operations, &options.statements);
    writes.run(command, operations.len(), &mut bulk)?;
    bulk.note(changing.noting.notes);
    let errors = writes.take_errors();
    let results = bulk.results(&errors, options.only_errors)?;
    write_list(cursors, &arguments, CURSOR.to_owned(), options.batch_size, results, reply)?;
    bulk.counts.write(errors.len(), reply);
    writes.finish(&command.acknowledging, &arguments.generic.write_concern, reply);
    Ok(())
}

/// The databases of the server's own are in no transaction.
fn check_in_transaction(reading: Reading<'_>, namespaces: &[Namespace]) -> Result<()> {
    let is_own = |namespace: &&Namespace| ["admin", "config", "local"].contains(&namespace.database());
    match namespaces.iter().find(is_own) {
        Some(namespace) if reading.is_in_transaction() => {
            let database = namespace.database();
            let message = format!("Cannot run command against the '{database}' database in a transaction.");
            Err(CommandError::named("OperationNotSupportedInTransaction", message))
        }
        _ => Ok(()),
    }
}

fn batch_size(cursor: Field<'_>) -> Result<Option<u64>> {
    let mut size = None;
    for option in cursor.fields_of("bulkWrite.cursor")? {
        match option.name() {
            "batchSize" => size = option.unsigned()?,
            _ => return Err(option.unknown()),
        }
    }
    Ok(size)
}

fn namespaces(infos: &[&RawDocument]) -> Result<Vec<Namespace>> {
    let mut namespaces = Vec::with_capacity(infos.len());
    for info in infos {
        validated(info)?;
        let mut full = None;
        for element in elements(info) {
            let field = Field::of("bulkWrite.nsInfo", element);
            match field.name() {
                "ns" => full = field.string()?,
                "collectionUUID" | "encryptionInformation" | "isTimeseriesNamespace" => field.refuse_unless_null()?,
                _ => return Err(field.unknown()),
            }
        }
        namespaces.push(Namespace::parse(required(full, "bulkWrite.nsInfo.ns")?)?);
    }
    Ok(namespaces)
}

/// One operation, read.
enum Operation<'a> {
    Insert(&'a Namespace, &'a RawDocument),
    Update(&'a Namespace, update::StatementFields<'a>),
    Delete(&'a Namespace, delete::StatementFields<'a>),
}

impl<'a> Operation<'a> {
    fn read(source: &'a RawDocument, namespaces: &'a [Namespace]) -> Result<Self> {
        validated(source)?;
        let Some(first) = elements(source).next() else {
            return Err(CommandError::failed_to_parse("an operation of bulkWrite is empty"));
        };
        let kind = first.name();
        if !matches!(kind, "insert" | "update" | "delete") {
            let message = format!("Unrecognized or missing operation in bulkWrite.ops: '{kind}'");
            return Err(CommandError::failed_to_parse(message));
        }
        let position = Number::from_bson(first.value()).and_then(Number::to_i64_exact);
        let position = position.and_then(|position| usize::try_from(position).ok());
        let Some(namespace) = position.and_then(|position| namespaces.get(position)) else {
            let message = format!("BulkWrite ops entry '{kind}' has an invalid nsInfo index.");
            return Err(CommandError::bad_value(message));
        };
        Ok(match kind {
            "insert" => Operation::Insert(namespace, inserted(source)?),
            "update" => Operation::Update(namespace, update::StatementFields::read_in_bulk(source)?),
            _ => Operation::Delete(namespace, delete::StatementFields::read_in_bulk(source)?),
        })
    }
}

/// The document of an insert.
fn inserted(source: &RawDocument) -> Result<&RawDocument> {
    let mut document = None;
    for element in elements(source).skip(1) {
        let field = Field::of("bulkWrite.ops", element);
        match field.name() {
            "document" => document = field.document()?,
            _ => return Err(field.unknown()),
        }
    }
    required(document, "bulkWrite.ops.document")
}

/// How many documents all operations have touched.
#[derive(Default)]
struct Counts {
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

impl Counts {
    fn write(&self, errors: usize, reply: &mut DocumentWriter<'_>) {
        reply.count("nErrors", errors as u64);
        reply.count("nInserted", self.inserted);
        reply.count("nMatched", self.matched);
        reply.count("nModified", self.modified);
        reply.count("nUpserted", self.upserted);
        reply.count("nDeleted", self.deleted);
    }
}

/// What became of one operation that did not fail.
struct Done {
    position: usize,
    n: u64,
    modified: Option<u64>,
    upserted: Option<RawBson>,
}

/// The operations, and what they have done.
struct BulkWrite<'a> {
    operations: &'a [Operation<'a>],
    options: &'a StatementOptions<'a>,
    counts: Counts,
    done: Vec<Done>,
    /// Whether the last one may be tried again after some error is the statement's to say.
    tries_again: bool,
}

impl<'a> BulkWrite<'a> {
    fn new(operations: &'a [Operation<'a>], options: &'a StatementOptions<'a>) -> Self {
        Self { operations, options, counts: Counts::default(), done: Vec::new(), tries_again: false }
    }

    fn note(&self, notes: &ExecutionNotes) {
        let counts = &self.counts;
        notes.inserted.add(counts.inserted);
        notes.matched.add(counts.matched);
        notes.modified.add(counts.modified);
        notes.upserted.add(counts.upserted);
        notes.deleted.add(counts.deleted);
    }

    fn add_update(&mut self, position: usize, totals: &mut update::Totals) {
        let upserted = totals.upserted.pop().map(|(_, id)| id);
        self.counts.matched += totals.matched;
        self.counts.modified += totals.modified;
        self.counts.upserted += u64::from(upserted.is_some());
        let n = totals.matched + u64::from(upserted.is_some());
        self.done.push(Done { position, n, modified: Some(totals.modified), upserted });
    }

    fn add_deleted(&mut self, position: usize, deleted: u64) {
        self.counts.deleted += deleted;
        self.done.push(Done { position, n: deleted, modified: None, upserted: None });
    }

    fn add_inserted(&mut self, position: usize) {
        self.counts.inserted += 1;
        self.done.push(Done { position, n: 1, modified: None, upserted: None });
    }

    /// A document for each operation that was run, in their order.
    fn results(&self, errors: &[(usize, CommandError)], only_errors: bool) -> Result<Vec<RawDocumentBuf>> {
        let mut results = Vec::new();
        if !only_errors {
            for done in &self.done {
                results.push((done.position, done.describe()?));
            }
        }
        for (position, error) in errors {
            results.push((*position, describe_error(*position, error)?));
        }
        results.sort_by_key(|(position, _)| *position);
        Ok(results.into_iter().map(|(_, document)| document).collect())
    }
}

impl Done {
    fn describe(&self) -> Result<RawDocumentBuf> {
        document_of(|result| {
            result.double("ok", 1.0);
            result.count("idx", self.position as u64);
            result.count("n", self.n);
            if let Some(modified) = self.modified {
                result.count("nModified", modified);
            }
            if let Some(id) = &self.upserted {
                let mut upserted = RawDocumentBuf::new();
                upserted.append(cstr!("_id"), id.clone());
                result.embed("upserted", &upserted);
            }
        })
    }
}

fn describe_error(position: usize, error: &CommandError) -> Result<RawDocumentBuf> {
    document_of(|result| {
        result.double("ok", 0.0);
        result.count("idx", position as u64);
        result.int32("code", error.code);
        result.string("errmsg", &error.message);
        error.write_details(result);
        result.count("n", 0);
    })
}

impl Statements for BulkWrite<'_> {
    fn counter<'c>(&self, position: usize, counts: &'c OperationCounts) -> &'c AtomicU64 {
        match self.operations.get(position) {
            Some(Operation::Insert(..)) | None => &counts.insert,
            Some(Operation::Update(..)) => &counts.update,
            Some(Operation::Delete(..)) => &counts.delete,
        }
    }

    fn add_executed(&mut self, changing: &Changing<'_>, position: usize, executed: &ExecutedStatement) -> Result<()> {
        match self.operations.get(position) {
            Some(Operation::Insert(..)) => self.add_inserted(position),
            Some(Operation::Update(namespace, fields)) => {
                let mut updates = Updates::new(namespace, std::slice::from_ref(fields), self.options);
                updates.add_executed(changing, 0, executed)?;
                self.add_update(position, &mut updates.totals);
            }
            Some(Operation::Delete(..)) => self.add_deleted(position, 1),
            None => {}
        }
        Ok(())
    }

    fn run(
        &mut self,
        changing: &Changing<'_>,
        position: usize,
        id: i32,
        commit: &mut Option<CommitInfo>,
    ) -> Result<()> {
        self.tries_again = false;
        match self.operations.get(position) {
            Some(Operation::Insert(namespace, document)) => {
                let &StatementOptions { validation, empty_timestamps, .. } = self.options;
                let made = insert_one(changing, namespace, document, id, validation, empty_timestamps)?;
                *commit = made.or(commit.take());
                self.add_inserted(position);
            }
            Some(Operation::Update(namespace, fields)) => {
                let mut updates = Updates::new(namespace, std::slice::from_ref(fields), self.options);
                let outcome = updates.run(changing, 0, id, commit);
                if let Err(error) = outcome {
                    self.tries_again = updates.progress() == 0 && updates.may_try_again(changing, &error);
                    // What it has changed before it failed stays.
                    self.counts.matched += updates.totals.matched;
                    self.counts.modified += updates.totals.modified;
                    return Err(error);
                }
                self.add_update(position, &mut updates.totals);
            }
            Some(Operation::Delete(namespace, fields)) => {
                let declared = self.options.declared;
                let statements = std::slice::from_ref(fields);
                let mut deletions = Deletions { namespace, statements, declared, deleted: 0 };
                let outcome = deletions.run(changing, 0, id, commit);
                if let Err(error) = outcome {
                    self.tries_again = deletions.deleted == 0 && is_dropped_outside(changing, &error);
                    self.counts.deleted += deletions.deleted;
                    return Err(error);
                }
                self.add_deleted(position, deletions.deleted);
            }
            None => {}
        }
        Ok(())
    }

    fn progress(&self) -> u64 {
        let Counts { inserted, matched, upserted, deleted, .. } = self.counts;
        inserted + matched + upserted + deleted
    }

    fn may_try_again(&self, _: &Changing<'_>, _: &CommandError) -> bool {
        self.tries_again
    }
}
