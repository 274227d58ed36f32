//! Commands as others may see them: without passwords and what follows from them, and the error of who may not run one.
//!
//! Used by everything that shows a command: `currentOp`, the profiler, the error for who is not allowed.

use bson::RawDocument;
use document::elements_of_bytes;

use crate::DocumentWriter;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::Declaration;
use crate::request::error::CommandError;

/// What stands for a secret.
const HIDDEN: &str = "xxx";
/// Characters of a command in a message.
const SHOWN_MAX: usize = 1024;

/// Writes a command without its secrets.
pub(crate) fn write_without_secrets(secrets: &[&str], command: &[u8], kept: &mut Vec<u8>) {
    let mut writer = DocumentWriter::begin(kept);
    for element in elements_of_bytes(command) {
        match secrets.contains(&element.name()) {
            true => writer.string(element.name(), HIDDEN),
            false => writer.element(element),
        }
    }
    writer.finish();
}

/// The error of a command that somebody may not run.
pub(crate) fn unauthorized(command: &Declaration, request: &CommandRequest<'_>) -> CommandError {
    let mut shown = Vec::new();
    write_without_secrets(command.secrets, request.body.as_bytes(), &mut shown);
    let shown = RawDocument::from_bytes(&shown)
        .map(|shown| query_language::expression::show_value(bson::RawBsonRef::Document(shown)).to_string())
        .unwrap_or_default();
    let end = shown.char_indices().nth(SHOWN_MAX).map_or(shown.len(), |(at, _)| at);
    let shown = shown.get(..end).unwrap_or_default();
    let message = format!("not authorized on {} to execute command {shown}", request.database);
    CommandError::named("Unauthorized", message)
}
