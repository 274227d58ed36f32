//! What a command needs that its declaration cannot say without its fields.
//!
//! A command's declaration names a function that is given its request and tells what that needs, one thing after the other
//! ([`Requirements::need`]). `dispatcher` asks whether each is allowed; the tests of the registry write them down.

use authentication::Target;

use crate::request::command_request::CommandRequest;
use crate::request::error::Result;
use crate::request::privileges::Action;

/// Takes what is needed.
pub(crate) struct Requirements<'a> {
    take: &'a mut dyn FnMut(Target<'_>, Action),
}

/// Tells what a request needs.
pub(crate) type Computed = fn(&CommandRequest<'_>, &mut Requirements<'_>) -> Result<()>;

impl<'a> Requirements<'a> {
    pub(crate) fn new(take: &'a mut dyn FnMut(Target<'_>, Action)) -> Self {
        Self { take }
    }

    /// An action is needed.
    pub(crate) fn need(&mut self, target: Target<'_>, action: Action) {
        (self.take)(target, action);
    }

    /// An action is needed on a collection.
    pub(crate) fn need_on(&mut self, database: &str, collection: &str, action: Action) {
        self.need(Target::Collection(database, collection), action);
    }
}
