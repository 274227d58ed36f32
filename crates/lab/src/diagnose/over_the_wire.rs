//! The files of the flight recorder of a running server, asked for by the command `plimsollFigures`. Called by `diagnose`.

use bson::{Document, doc};
use mongodb::{Client, Database};

use super::Files;
use crate::error::LabError;

const COMMAND: &str = "plimsollFigures";

/// All files. Their sizes are bounded by the server's `--flight-recorder-size`.
pub(super) async fn read(uri: &str) -> Result<Files, LabError> {
    let client = Client::with_uri_str(uri).await.map_err(|error| LabError::BadTarget(Box::new(error)))?;
    let admin = client.database("admin");
    let listed = admin.run_command(doc! { COMMAND: 1 }).await.map_err(LabError::command(COMMAND))?;
    let mut files = Files::new();
    for file in listed.get_array("files").map_err(wrong_access)?.iter().filter_map(bson::Bson::as_document) {
        let name = file.get_str("name").map_err(wrong_access)?;
        files.push((name.to_owned(), read_file(&admin, name).await?));
    }
    Ok(files)
}

async fn read_file(admin: &Database, name: &str) -> Result<Vec<u8>, LabError> {
    let mut bytes = Vec::new();
    loop {
        let command = doc! { COMMAND: 1, "file": name, "offset": bytes.len() as i64 };
        let reply: Document = match admin.run_command(command).await {
            Ok(reply) => reply,
            // The recorder removes old files, and replaces the newest.
            Err(error) if is_gone(&error) => return Ok(bytes),
            Err(error) => return Err(LabError::command(COMMAND)(error)),
        };
        let piece = reply.get_binary_generic("data").map_err(wrong_access)?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(piece);
    }
}

fn wrong_access(error: impl std::fmt::Display) -> LabError {
    LabError::WrongReply(format!("{COMMAND}: {error}"))
}

fn is_gone(error: &mongodb::error::Error) -> bool {
    matches!(&*error.kind, mongodb::error::ErrorKind::Command(refusal) if refusal.message.contains("there are no figures"))
}
