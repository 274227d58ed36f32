//! `plimsoll health`: whether a server serves, as an exit code for whoever watches it (a container's health check, a service manager).
//!
//! Called by the `plimsoll` binary. It asks `hello` and prints what is wrong: 0, reads and writes are served; 1, writes are not; 2, nobody answers.

use std::process::ExitCode;
use std::time::Duration;

use bson::{Document, doc};
use clap::Args;
use mongodb::Client;
use mongodb::options::ClientOptions;

use crate::error::LabError;

const WRITES_STOPPED: u8 = 1;
const NO_ANSWER: u8 = 2;

/// Which server.
#[derive(Debug, Args)]
pub struct HealthArguments {
    /// Its connection string
    #[arg(default_value = "mongodb://127.0.0.1:27017/?directConnection=true", value_name = "URI")]
    uri: String,
    /// How long it may take to answer
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    timeout: u64,
}

/// Asks, prints, and gives the exit code.
///
/// # Errors
/// When the connection string is none.
pub async fn run(arguments: HealthArguments) -> Result<ExitCode, LabError> {
    let mut options =
        ClientOptions::parse(&arguments.uri).await.map_err(|error| LabError::BadTarget(Box::new(error)))?;
    let patience = Duration::from_secs(arguments.timeout);
    options.server_selection_timeout = Some(patience);
    options.connect_timeout = Some(patience);
    options.direct_connection = Some(true);
    let client = Client::with_options(options).map_err(|error| LabError::BadTarget(Box::new(error)))?;
    let database = client.database("admin");
    let hello = database.run_command(doc! { "hello": 1 });
    let (line, code) = match tokio::time::timeout(patience, hello).await {
        Ok(Ok(hello)) => judge(&hello),
        Ok(Err(error)) => (format!("no answer: {error}"), NO_ANSWER),
        Err(_) => (format!("no answer within {} s", arguments.timeout), NO_ANSWER),
    };
    println!("{line}");
    Ok(ExitCode::from(code))
}

fn judge(hello: &Document) -> (String, u8) {
    if hello.get_bool("isWritablePrimary").unwrap_or(false) {
        return ("reads and writes are served".to_owned(), 0);
    }
    (hello.get_str("info").unwrap_or("the server is no primary").to_owned(), WRITES_STOPPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_write_is_not_healthy() {
        assert_eq!(judge(&doc! { "isWritablePrimary": true }).1, 0);
        let stopped = doc! { "isWritablePrimary": false, "info": "writes have stopped: the disk" };
        assert_eq!(judge(&stopped), ("writes have stopped: the disk".to_owned(), 1));
        assert_eq!(judge(&doc! {}).1, 1);
    }
}
