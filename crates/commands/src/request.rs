//! What a command says, before anything is done about it: its fields, and those that any command may have.
//!
//! The lowest layer of this crate: it imports nothing from `state`, `handlers`, `registry` and `dispatcher`.

pub(crate) mod arguments;
pub(crate) mod audit_events;
pub(crate) mod client_metadata;
pub(crate) mod cluster_time;
pub(crate) mod command_request;
pub(crate) mod declaration;
pub(crate) mod document_writer;
pub(crate) mod error;
pub(crate) mod error_codes;
pub(crate) mod field;
pub(crate) mod outcome;
pub(crate) mod privileges;
pub(crate) mod query_shape;
pub(crate) mod read_concern;
pub(crate) mod read_level;
pub(crate) mod read_preference;
pub(crate) mod redaction;
pub(crate) mod requirements;
pub(crate) mod secrets;
pub(crate) mod session_fields;
pub(crate) mod stable_api;
pub(crate) mod statement_ids;
pub(crate) mod write_concern;
