//! Where positions come from.

use std::path::Path;

use bson::{Bson, Document, doc};
use mongodb::Client;

use crate::error::LabError;

/// Documents of a batch.
const BATCH_DOCUMENTS: i32 = 100_000;
/// Bytes of an MMAPv1 data file, for positions of the form FILE:OFFSET.
const DATA_FILE_BYTES: u64 = 2 << 30;

/// Asks a server.
pub(crate) async fn from_server(uri: &str, namespace: &str) -> Result<Vec<u64>, LabError> {
    let Some((database, collection)) = namespace.split_once('.') else {
        return Err(LabError::Unsupported("the collection must be given as DATABASE.COLLECTION".to_owned()));
    };
    let client = Client::with_uri_str(uri).await.map_err(|error| LabError::BadTarget(Box::new(error)))?;
    let database = client.database(database);
    let first = doc! { "plimsollPositions": collection, "cursor": { "batchSize": BATCH_DOCUMENTS } };
    let mut reply = database.run_command(first).await.map_err(LabError::command("plimsollPositions"))?;
    let mut positions = Vec::new();
    loop {
        let Ok(cursor) = reply.get_document("cursor") else { return Ok(positions) };
        take(cursor, &mut positions);
        match cursor.get_i64("id") {
            Ok(id) if id != 0 => {
                let more = doc! { "getMore": id, "collection": collection, "batchSize": BATCH_DOCUMENTS };
                reply = database.run_command(more).await.map_err(LabError::command("getMore"))?;
            }
            _ => return Ok(positions),
        }
    }
}

fn take(cursor: &Document, positions: &mut Vec<u64>) {
    for name in ["firstBatch", "nextBatch"] {
        let Ok(batch) = cursor.get_array(name) else { continue };
        let documents = batch.iter().filter_map(Bson::as_document);
        positions.extend(documents.filter_map(|document| document.get_i64("position").ok()).map(|at| at.max(0) as u64));
    }
}

/// Reads a list.
pub(crate) fn from_file(path: &Path) -> Result<Vec<u64>, LabError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| LabError::Input { path: path.to_owned(), reason: error.to_string() })?;
    let mut positions = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match parse(line.trim()) {
            Some(position) => positions.push(position),
            None => {
                let message = format!("line {}: '{line}' is no position", number + 1);
                return Err(LabError::Input { path: path.to_owned(), reason: message });
            }
        }
    }
    Ok(positions)
}

fn parse(line: &str) -> Option<u64> {
    match line.split_once([':', ' ', '\t', ',']) {
        Some((file, offset)) => Some(parse_number(file)?.checked_mul(DATA_FILE_BYTES)? + parse_number(offset)?),
        None => parse_number(line),
    }
}

fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok().or_else(|| text.parse::<f64>().ok().map(|number| number as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("layout");
        std::fs::write(&path, "4096\n0x2000\n\n1:16\n").unwrap();
        assert_eq!(from_file(&path).unwrap(), [4096, 8192, DATA_FILE_BYTES + 16]);
        std::fs::write(&path, "here").unwrap();
        assert!(from_file(&path).is_err());
    }
}
