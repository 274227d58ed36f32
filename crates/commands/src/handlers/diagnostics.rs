//! Commands about the server itself: what it is, what it is doing, and how it is told to stop.

use bson::{RawDocument, RawDocumentBuf};

use crate::request::arguments::Arguments;
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::state::context::ServerFacts;

pub(crate) mod build_info;
pub(crate) mod conn_pool_stats;
pub(crate) mod connection_status;
pub(crate) mod current_op;
mod engine_figures;
pub(crate) mod feature_compatibility;
pub(crate) mod features;
pub(crate) mod finished_operation;
pub(crate) mod fsync;
pub(crate) mod get_cmd_line_opts;
pub(crate) mod get_log;
pub(crate) mod get_parameter;
pub(crate) mod hello;
pub(crate) mod host_info;
pub(crate) mod isdbgrid;
pub(crate) mod kill_op;
pub(crate) mod list_commands;
pub(crate) mod lock_info;
pub(crate) mod log_rotate;
pub(crate) mod ping;
pub(crate) mod plimsoll_backup;
pub(crate) mod plimsoll_figures;
pub(crate) mod plimsoll_profile;
pub(crate) mod profile;
#[cfg(test)]
mod queue_tests;
pub(crate) mod repl_set_resize_oplog;
mod replica_set_figures;
pub(crate) mod rotate_certificates;
pub(crate) mod server_status;
mod server_status_sections;
pub(crate) mod set_parameter;
pub(crate) mod shutdown;
pub(crate) mod startup_log;
#[cfg(test)]
mod tests;
pub(crate) mod top;
pub(crate) mod whatsmyuri;

pub(crate) use finished_operation::finished;

/// The port that goes without saying.
const DEFAULT_PORT: u16 = 27017;

/// The server's address with its port.
pub(crate) fn host_and_port(facts: &ServerFacts) -> String {
    format!("{}:{}", facts.host_name, facts.port)
}

/// The server's address; the port only if it is not the usual one.
fn short_host(facts: &ServerFacts) -> String {
    if facts.port == DEFAULT_PORT { facts.host_name.clone() } else { host_and_port(facts) }
}

/// For commands that have no fields of their own.
fn only_generic(arguments: &mut Arguments<'_>) -> Result<()> {
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    Ok(())
}

/// A document made of some fields of a command.
pub(crate) fn document_of_fields(fields: &[crate::request::arguments::Field<'_>]) -> Result<RawDocumentBuf> {
    document_of(|document| fields.iter().for_each(|field| document.element(field.element)))
}

/// The first string in a command document: the collection for most commands.
pub(crate) fn first_string(command: &RawDocument) -> Option<&str> {
    match document::elements(command).next()?.value() {
        bson::RawBsonRef::String(text) => Some(text),
        _ => None,
    }
}
