//! `applyOps`: does what entries of an oplog say, as `mongorestore` sends them.
//!
//! The operations are done one after the other, each for good; the first that fails ends the command, whose error says how many were done. Changes of documents are in
//! `documents`, of definitions in `definitions`. What only members of a set send to each other (parts of transactions, index builds in two steps) is refused by name.

mod definitions;
mod documents;
#[cfg(test)]
mod tests;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Uuid};
use document::elements;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Changes, Class, Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::EVERYTHING;
use crate::state::acknowledgement::Acknowledging;
use crate::state::changing::Changing;
use crate::state::command_table::CommandTable;

/// How deep `applyOps` may be in `applyOps`.
const DEPTH_MAX: usize = 10;

/// What operations are done with.
pub(crate) struct Applying<'a> {
    /// Those on documents.
    changing: Changing<'a>,
    /// Those on definitions.
    commands: &'a dyn CommandTable,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let applying = Applying { changing: context.changing(), commands: context.commands };
        run(&applying, &context.acknowledging(), arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        audit: Some(audit_events::as_named),
        class: Class::Write,
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new("applyOps", "Does what entries of an oplog say.", Needs::Primary, &[EVERYTHING])
    },
);

/// Runs the command.
pub(crate) fn run(
    applying: &Applying<'_>,
    acknowledging: &Acknowledging<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    for field in arguments.fields() {
        match field.name() {
            "allowAtomic" if !field.boolean()? => {}
            // One operation is done or not done in any case.
            "allowAtomic" if target.required(Field::documents)?.len() < 2 => {}
            "allowAtomic" | "alwaysUpsert" | "preCondition" | "oplogApplicationMode" => {
                return Err(field.not_implemented());
            }
            // They are done without validation, as they were valid where they came from.
            "bypassDocumentValidation" => drop(field.boolean()?),
            _ => arguments.generic(field)?,
        }
    }
    applying.changing.operation.set_time_limit(arguments.generic.max_time)?;
    let operations = target.required(Field::documents)?;
    let mut done = 0;
    let applied = apply_all(applying, &operations, 0, &mut done);
    write_results(reply, done, operations.len(), applied.is_err());
    match applied {
        Ok(()) => {
            write_concern_error(
                arguments.generic.write_concern.wait_for_all(acknowledging.store, acknowledging.replica_set),
                reply,
            );
            Ok(())
        }
        Err(error) => Err(error.with_details(document_of(|details| write_results(details, done, done + 1, true))?)),
    }
}

fn write_results(reply: &mut DocumentWriter<'_>, done: usize, tried: usize, has_failed: bool) {
    reply.count("applied", done as u64);
    reply.array("results", |results| {
        (0..tried).for_each(|position| results.push_value(RawBsonRef::Boolean(!has_failed || position < done)));
    });
}

fn apply_all(applying: &Applying<'_>, operations: &[&RawDocument], depth: usize, done: &mut usize) -> Result<()> {
    for operation in operations {
        applying.changing.operation.check_interrupt()?;
        Operation::read(operation)?.apply(applying, depth)?;
        *done += 1;
    }
    Ok(())
}

/// One operation.
struct Operation<'a> {
    kind: &'a str,
    namespace: &'a str,
    /// The collection's identity.
    uuid: Option<Uuid>,
    object: &'a RawDocument,
    /// Which document an update is of.
    second: Option<&'a RawDocument>,
}

impl<'a> Operation<'a> {
    fn read(source: &'a RawDocument) -> Result<Self> {
        let (mut kind, mut namespace, mut uuid, mut object, mut second) = (None, None, None, None, None);
        for element in elements(source) {
            let field = Field::of("applyOps", element);
            match field.name() {
                "op" => kind = field.string()?,
                "ns" => namespace = field.string()?,
                "ui" => uuid = Some(uuid_of(field)?),
                "o" => object = field.document()?,
                "o2" => second = field.document()?,
                // When, where and for whom it was done there is nothing to who does it here; an update inserts what is missing in any case (`b`).
                "b" | "ts" | "t" | "h" | "v" | "wall" | "lsid" | "txnNumber" | "stmtId" | "prevOpTime"
                | "preImageOpTime" | "postImageOpTime" | "needsRetryImage" | "fromMigrate" | "$db" => {}
                _ => return Err(field.unknown()),
            }
        }
        let missing = |name: &str| CommandError::failed_to_parse(format!("an operation needs the field '{name}'"));
        Ok(Self {
            kind: kind.ok_or_else(|| missing("op"))?,
            namespace: namespace.ok_or_else(|| missing("ns"))?,
            uuid,
            object: object.ok_or_else(|| missing("o"))?,
            second,
        })
    }

    fn apply(&self, applying: &Applying<'_>, depth: usize) -> Result<()> {
        let changing = &applying.changing;
        let collection = || self.collection(&changing.writing.store);
        match self.kind {
            "n" => Ok(()),
            "i" => documents::insert(changing, &collection()?, self.object),
            "u" => documents::update(changing, &collection()?, self.object, self.second),
            "d" => documents::delete(changing, &collection()?, self.object),
            "c" => match elements(self.object).next() {
                Some(first) if first.name() == "applyOps" => self.apply_nested(applying, first.value(), depth + 1),
                _ => definitions::apply(applying, self.namespace, self.uuid, self.object),
            },
            other => Err(CommandError::failed_to_parse(format!("invalid op type '{other}'"))),
        }
    }

    fn apply_nested(&self, applying: &Applying<'_>, operations: RawBsonRef<'_>, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(CommandError::failed_to_parse("Too many nested applyOps"));
        }
        if document::get_field(self.object, "prepare").is_some()
            || document::get_field(self.object, "partialTxn").is_some()
        {
            return Err(CommandError::named(
                "CommandNotSupported",
                "a part of a transaction, of which the rest is elsewhere, cannot be applied alone",
            ));
        }
        let RawBsonRef::Array(operations) = operations else {
            return Err(CommandError::type_mismatch("'applyOps' inside applyOps must be an array"));
        };
        let listed: Result<Vec<&RawDocument>> = document::array_elements(operations)
            .map(|operation| match operation.value() {
                RawBsonRef::Document(operation) => Ok(operation),
                _ => Err(CommandError::failed_to_parse("an operation has to be a document")),
            })
            .collect();
        apply_all(applying, &listed?, depth, &mut 0)
    }
}

fn uuid_of(field: Field<'_>) -> Result<Uuid> {
    match field.value() {
        RawBsonRef::Binary(binary) if binary.bytes.len() == 16 => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(binary.bytes);
            Ok(Uuid::from_bytes(bytes))
        }
        _ => Err(CommandError::named("InvalidUUID", "'ui' of an operation has to be a UUID")),
    }
}

/// A document without some of its fields.
fn without(source: &RawDocument, left_out: &[&str]) -> Result<RawDocumentBuf> {
    document_of(|document| {
        elements(source)
            .filter(|element| !left_out.contains(&element.name()))
            .for_each(|field| document.element(field));
    })
}
