//! One command as it came in.
//!
//! Made by `server` for each message, and by `dispatcher` for a command inside another; read by everything that is
//! about a request.

use bson::RawDocument;

/// Where the documents of a message's document sequences come from.
pub trait SequenceSource {
    /// The documents of the sequence with this name; `None` when the message has none.
    fn documents<'a>(&'a self, name: &str) -> Option<Box<dyn Iterator<Item = &'a RawDocument> + 'a>>;
    /// The names of all sequences.
    fn names(&self) -> Vec<&str>;
}

/// Those of a message without any.
pub struct NoSequences;

impl SequenceSource for NoSequences {
    fn documents<'a>(&'a self, _name: &str) -> Option<Box<dyn Iterator<Item = &'a RawDocument> + 'a>> {
        None
    }

    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// One command as it came in.
pub struct CommandRequest<'a> {
    /// The body's first field.
    pub name: &'a str,
    /// The database it is for.
    pub database: &'a str,
    /// The command document, not yet validated.
    pub body: &'a RawDocument,
    /// Documents beside the body.
    pub sequences: &'a dyn SequenceSource,
    /// Which time this request is run.
    pub attempt: Attempt,
    /// Whether it came as a legacy OP_QUERY.
    pub is_legacy: bool,
}

/// Which time a request is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The first.
    First,
    /// Again after [`crate::Outcome::WaitForTopologyChange`]: the same run goes on.
    AfterWait,
    /// Again after [`crate::Outcome::ReplyAndMore`]: a run of its own, for the next reply.
    Following,
}
