//! `filemd5`: the MD5 hash of a file in GridFS, read chunk by chunk in their order.

use std::sync::Arc;

use bson::{RawBsonRef, rawdoc};
use collection::Namespace;
use document::{Number, get_field};
use executor::QueryExecutor;
use md5::{Digest, Md5};
use query_language::expression::sort_pattern::SortPattern;

use super::needed_privileges;
use super::query_arguments::{query, variables};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::read_source::ReadSource;
use crate::handlers::schema::db_hash::hex;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Class, Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::state::noting::Noting;
use crate::state::operations::Operation;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), &context.operation, context.noting(), arguments, reply),
    Declaration {
        class: Class::Read,
        computed: Some(needed_privileges::of_file),
        ..Declaration::new("filemd5", "The MD5 hash of a file in GridFS.", Needs::Data, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    reading: Reading<'_>,
    operation: &Operation<'_>,
    noting: Noting<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let Some(file) = arguments.target() else { return Err(CommandError::bad_value("an empty command")) };
    let mut root = "fs";
    for field in arguments.fields() {
        match field.name() {
            "root" => root = field.string()?.unwrap_or(root),
            "partialOk" if !field.boolean()? => {}
            "partialOk" => return Err(field.not_implemented()),
            "md5state" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let namespace = Namespace::new(reading.database, &format!("{root}.chunks"))?;
    let mut filter = bson::RawDocumentBuf::new();
    filter.append(bson::raw::cstr!("files_id"), file.value());
    let mut chunks = query(Some(&filter), &variables(reading, None)?)?;
    chunks.sort = Some(SortPattern::parse(&rawdoc! { "files_id": 1, "n": 1 })?);
    let target = ReadSource::of(reading, namespace)?.target_for("filemd5")?;
    let (services, view) = (reading.queries.services(), reading.view());
    let mut found = QueryExecutor::new(&services, view, target, Arc::new(chunks), operation)?;
    let (mut hash, mut number) = (Md5::new(), 0);
    while let Some(row) = found.next(operation)? {
        let found = get_field(row.document, "n").and_then(Number::from_bson).and_then(Number::to_i64_exact);
        if found != Some(number) {
            let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
            return Err(CommandError::numbered(50985, format!("chunk number {number} is missing, found {found}")));
        }
        match get_field(row.document, "data") {
            Some(RawBsonRef::Binary(data)) => hash.update(data.bytes),
            _ => {
                return Err(CommandError::numbered(
                    50849,
                    "The element that calls binDataClean() must be type of BinData",
                ));
            }
        }
        number += 1;
    }
    noting.note_executor(&found);
    reply.count("numChunks", number as u64);
    reply.string("md5", &hex(&hash.finalize()));
    Ok(())
}
