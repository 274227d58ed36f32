//! What a request that waited without a thread is told, and takes with it to where it runs.
//!
//! Made by `ServerContext::call_back`, handed to the connection's state by `ClientContext::permit`, used by `dispatcher` in place of waiting.

use std::sync::Arc;

use super::{Admission, Ticket};
use crate::request::declaration::Class;
use crate::request::error::{CommandError, Result};
use crate::state::operations::Queued;

/// What a request needs before it may run; `Dispatcher::need`.
pub struct Need {
    pub(crate) class: Class,
    /// It is listed as waiting.
    pub(crate) queued: Queued,
}

/// A place, or why there was none. A place that is not used is given back. Small, as every connection has room for one.
pub struct Permission {
    outcome: std::result::Result<Place, Box<CommandError>>,
    queued: Queued,
}

/// A place, or why there was none, for a request that is listed by what runs it.
pub(crate) struct Granted(std::result::Result<Place, Box<CommandError>>);

/// A place at a gate, taken for a request that has no thread yet.
struct Place {
    admission: Arc<Admission>,
    class: Class,
}

impl Permission {
    pub(crate) fn new(admission: Arc<Admission>, need: Need, outcome: Result<()>) -> Permission {
        let Need { class, queued } = need;
        Permission { outcome: outcome.map(|()| Place { admission, class }).map_err(Box::new), queued }
    }

    /// Whether there is a place.
    pub fn is_granted(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The request among those listed as waiting, and its place.
    pub(crate) fn into_parts(self) -> (Queued, Granted) {
        (self.queued, Granted(self.outcome))
    }
}

impl Granted {
    /// The ticket of a command of this class, for which the place was taken.
    pub(crate) fn into_ticket(self, admission: &Admission, class: Class) -> Result<Option<Ticket<'_>>> {
        let mut place = self.0.map_err(|error| *error)?;
        if place.class != class {
            return Err(CommandError::named("InternalError", "a place at another gate"));
        }
        place.class = Class::Exempt;
        Ok(admission.gate(class).map(Ticket::new))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(gate) = self.admission.gate(self.class) {
            gate.release();
        }
    }
}
