//! How a running query learns that it is to stop: killOp, maxTimeMS, shutdown.

use std::fmt;

/// Asked about every hundred units of work.
pub trait Interrupt {
    /// Fails when the operation is to stop.
    ///
    /// # Errors
    /// Why.
    fn check(&self) -> Result<(), Interruption>;
}

/// Why an operation was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// MongoDB's error code.
    pub code: i32,
    /// Its name.
    pub code_name: &'static str,
    /// The text for the client.
    pub message: String,
}

impl fmt::Display for Interruption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uninterrupted;

impl Interrupt for Uninterrupted {
    fn check(&self) -> Result<(), Interruption> {
        Ok(())
    }
}
