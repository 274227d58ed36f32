//! What is to be done when a command has run.
//!
//! Returned by handlers and `dispatcher`; acted on by `server`.

use std::time::Duration;

/// What is to be done when a command has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Send the reply.
    Reply,
    /// Send the reply; to a client that takes several replies to one request, say that another follows, and run the
    /// request again for that.
    ReplyAndMore(Next),
    /// Send nothing and close the connection: the server stops, or a fail point says so.
    CloseConnection,
    /// Send nothing yet: run the request again after at most this long.
    WaitForTopologyChange(Duration),
}

/// When a request is run again for its next reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// As soon as its reply is sent.
    AtOnce,
    /// When the topology changes, or after this long.
    OnTopologyChange(Duration),
}
