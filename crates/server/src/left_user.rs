//! A user whom the operator has left in the data directory (`plimsoll user add`): taken in by the server, without a login.
//!
//! Called by `database` at the start, and by its service now and then. Who may write into the data directory may do everything, so that is all the
//! proof there is.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bson::RawDocument;
use commands::ServerContext;

/// The file with the user's document, credentials and no password.
pub const REQUEST: &str = "user-to-add";
/// The file with what the server says to it.
pub const ANSWER: &str = "user-to-add.answer";
/// What it says when the user is there.
pub const TAKEN_IN: &str = "ok";
/// Bytes of a request: more is none.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// Takes in the user whom the operator has left, if there is one.
#[allow(clippy::disallowed_methods, reason = "a request beside the data, which no simulation has")]
pub(crate) fn take_in(data: &Path, server: &ServerContext) {
    let request = data.join(REQUEST);
    let Ok(found) = std::fs::metadata(&request) else { return };
    let answer =
        if found.len() > REQUEST_BYTES_MAX { Err("it is too large".to_owned()) } else { read(&request, server) };
    if let Err(reason) = &answer {
        tracing::warn!(target: "access", reason, "a user who was left in the data directory was not taken in");
    }
    let text = answer.map_or_else(|reason| reason, |()| TAKEN_IN.to_owned());
    let partial = data.join(format!("{ANSWER}.partial"));
    let mut file = std::fs::OpenOptions::new();
    let written = file.write(true).create(true).truncate(true).mode(0o600).open(&partial);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    // First the request goes, so that a failure in between does not repeat it for ever.
    let ended = std::fs::remove_file(&request).and(written).and_then(|()| std::fs::rename(&partial, data.join(ANSWER)));
    if let Err(error) = ended {
        tracing::warn!(target: "access", %error, "who has left a user in the data directory cannot be answered");
    }
}

#[allow(clippy::disallowed_methods, reason = "a request beside the data, which no simulation has")]
fn read(request: &Path, server: &ServerContext) -> Result<(), String> {
    let bytes = std::fs::read(request).map_err(|error| error.to_string())?;
    let document = RawDocument::from_bytes(&bytes).map_err(|error| error.to_string())?;
    server.take_in_user(document).map_err(|error| error.message)
}
