//! An open database: its address, its direct calls, its end.
//!
//! ```text
//! open ─▶ with an address: a thread serves it ─┐
//!         without: nothing runs beside it ─────┴─ close, or dropped ─▶ closed: commands end, the address refuses, the directory is free
//! ```

use std::thread::JoinHandle;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use platform::{Clock, SystemClock};
use server::{Caller, DirectClient, EndError, ServerHandle};

use crate::errors::{CloseError, CommandError, OpenError};
use crate::options::Options;

/// Between two looks at whether clients are let in.
const LOOK: Duration = Duration::from_millis(1);

/// An open database. Closed when dropped, which waits until it is.
pub struct Database {
    caller: Caller,
    address: Option<String>,
    /// Until it is closed.
    state: Option<State>,
}

enum State {
    Served {
        handle: ServerHandle,
        thread: JoinHandle<Result<(), EndError>>,
    },
    /// Without an address.
    Held(Box<server::Database>),
}

impl Database {
    /// Opens a directory with the usual options: [`Options`] has others.
    ///
    /// # Errors
    /// Those of [`Options::open`].
    pub fn open(directory: impl Into<std::path::PathBuf>) -> Result<Self, OpenError> {
        Options::new(directory).open()
    }

    pub(crate) fn begin(
        database: server::Database,
        handle: ServerHandle,
        address: Option<String>,
    ) -> Result<Self, OpenError> {
        let caller = database.caller();
        let state = match &address {
            None => State::Held(Box::new(database)),
            Some(_) => {
                let thread = platform::spawn_named("plimsoll", move || database.serve());
                let thread = thread.map_err(|error| OpenError::Failed(format!("cannot start a thread: {error}")))?;
                wait_until_served(&handle, thread)?
            }
        };
        Ok(Self { caller, address, state: Some(state) })
    }

    /// The connection string for drivers; `None` if it listens nowhere.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// For direct calls, as a connection is for a driver's. Nobody has to log in.
    ///
    /// # Errors
    /// `Closed`: a client has shut it down.
    pub fn connect(&self) -> Result<Connection, CommandError> {
        Ok(Connection { client: self.caller.connect("direct calls")? })
    }

    /// Ends what runs, makes the last checkpoint, and lets go of the directory.
    ///
    /// # Errors
    /// It did not end well; it is closed all the same.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), CloseError> {
        match self.state.take() {
            None => Ok(()),
            Some(State::Held(database)) => Ok(database.close()?),
            Some(State::Served { handle, thread }) => {
                handle.request_stop();
                Ok(joined(thread)?)
            }
        }
    }
}

/// Before that a client would be refused.
fn wait_until_served(handle: &ServerHandle, thread: JoinHandle<Result<(), EndError>>) -> Result<State, OpenError> {
    let clock = SystemClock::new();
    while !handle.has_begun_to_serve() {
        if thread.is_finished() {
            let reason = joined(thread).err().map_or_else(|| "it has ended".to_owned(), |error| error.to_string());
            return Err(OpenError::Address(reason));
        }
        clock.sleep(LOOK);
    }
    Ok(State::Served { handle: handle.clone(), thread })
}

fn joined(thread: JoinHandle<Result<(), EndError>>) -> Result<(), EndError> {
    let died = || Err(EndError::NotInOrder("its thread has died".to_owned()));
    thread.join().unwrap_or_else(|_| died())
}

impl Drop for Database {
    fn drop(&mut self) {
        // Whoever wants to know closes it; `tracing` has it.
        let _ = self.end();
    }
}

/// Runs commands, one after the other. Each thread has its own.
pub struct Connection {
    client: DirectClient,
}

impl Connection {
    /// Runs a command in the database of this name and gives its reply. Blocks for as long as the command lasts.
    ///
    /// # Errors
    /// Those of [`CommandError`].
    pub fn run(&mut self, database: &str, command: &RawDocument) -> Result<RawDocumentBuf, CommandError> {
        CommandError::of_reply(self.client.run(database, command)?)
    }
}
