//! What can go wrong, by what a program can do about it.

use std::path::PathBuf;

use bson::{RawDocument, RawDocumentBuf};

/// Why a database is not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A server, another program, or another database of this one has the directory.
    #[error("{} is in use (by process {process})", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The other's number, or "unknown".
        process: String,
    },
    /// An option cannot be.
    #[error("{0}")]
    Option(String),
    /// The address or the socket's file cannot be had.
    #[error("{0}")]
    Address(String),
    /// Something that was written is not there any more. Nothing was changed; `plimsoll repair` saves the rest.
    #[error("{0}")]
    Damaged(String),
    /// The machine's clock is too far ahead of the newest write. Nothing was changed.
    #[error("{0}")]
    ClockAhead(String),
    /// Anything else: the disk, a key that does not fit, a newer format.
    #[error("{0}")]
    Failed(String),
}

impl From<server::OpenError> for OpenError {
    fn from(error: server::OpenError) -> Self {
        use platform::DirectoryLockError;
        match error {
            server::OpenError::Lock(DirectoryLockError::InUse { directory, process }) => {
                OpenError::InUse { directory, process }
            }
            server::OpenError::Configuration(error) => OpenError::Option(error.to_string()),
            server::OpenError::Listen(error) => OpenError::Address(error.to_string()),
            server::OpenError::Damaged(reason) => OpenError::Damaged(reason),
            server::OpenError::ClockAhead(reason) => OpenError::ClockAhead(reason),
            error => OpenError::Failed(error.to_string()),
        }
    }
}

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It was run and failed. Errors of single writes are none: they are in the reply, in `writeErrors`.
    #[error("{name} ({code}): {message}")]
    Failed {
        /// MongoDB's number of the error.
        code: i32,
        /// Its name.
        name: String,
        /// What is wrong.
        message: String,
        /// The whole reply, labels of errors among it.
        reply: RawDocumentBuf,
    },
    /// The database is closed.
    #[error("the database is closed")]
    Closed,
    /// The command gives no reply.
    #[error("the command has no reply")]
    NoReply,
}

impl From<server::IsClosed> for CommandError {
    fn from(_: server::IsClosed) -> Self {
        CommandError::Closed
    }
}

impl CommandError {
    /// The reply, if it says that the command was successful.
    pub(crate) fn of_reply(reply: Option<RawDocumentBuf>) -> Result<RawDocumentBuf, CommandError> {
        let reply = reply.ok_or(CommandError::NoReply)?;
        if reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) {
            return Ok(reply);
        }
        let text = |reply: &RawDocument, name: &str| reply.get_str(name).unwrap_or_default().to_owned();
        Err(CommandError::Failed {
            code: reply.get_i32("code").unwrap_or_default(),
            name: text(&reply, "codeName"),
            message: text(&reply, "errmsg"),
            reply,
        })
    }
}

/// Why a database did not end well. It is closed all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// Its last checkpoint could not be made. Nothing is lost: the next start recovers from the log.
    #[error("{0}")]
    NotInOrder(String),
    /// It could not serve its address.
    #[error("{0}")]
    NotServed(String),
}

impl From<server::EndError> for CloseError {
    fn from(error: server::EndError) -> Self {
        match error {
            server::EndError::NotInOrder(_) => CloseError::NotInOrder(error.to_string()),
            server::EndError::Serve(error) => CloseError::NotServed(error.to_string()),
        }
    }
}
