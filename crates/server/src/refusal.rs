//! Requests that are whole frames but no command: what they are answered, with MongoDB's codes. Called by `exchange`.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use wire_protocol::{OpMsg, OpQuery};

use crate::service::{Attempt, Protocol, ReplyWanted, Request};

/// An error reply that `server` gives itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: i32,
    code_name: &'static str,
    message: String,
}

impl Refusal {
    pub(crate) fn internal_error(message: String) -> Self {
        Self { code: 1, code_name: "InternalError", message }
    }

    pub(crate) fn reply_too_large(message: String) -> Self {
        Self { code: 10334, code_name: "BSONObjectTooLarge", message }
    }

    pub(crate) fn no_memory(message: String) -> Self {
        Self { code: 146, code_name: "ExceededMemoryLimit", message }
    }

    fn invalid_bson(message: String) -> Self {
        Self { code: 22, code_name: "InvalidBSON", message }
    }

    fn unsupported_query(message: String) -> Self {
        Self { code: 352, code_name: "UnsupportedOpQueryCommand", message }
    }

    /// The reply document. A legacy query's also has `$err`, where old clients look.
    pub(crate) fn to_document(&self, protocol: Protocol) -> RawDocumentBuf {
        let (message, code, name) = (self.message.as_str(), self.code, self.code_name);
        match protocol {
            Protocol::Msg => rawdoc! { "ok": 0.0, "errmsg": message, "code": code, "codeName": name },
            Protocol::Query => {
                rawdoc! { "$err": message, "ok": 0.0, "errmsg": message, "code": code, "codeName": name }
            }
        }
    }
}

/// The command in an `OP_MSG`.
pub(crate) fn command_of_msg<'a>(msg: &OpMsg<'a>, attempt: Attempt) -> Result<Request<'a>, Refusal> {
    let mut command = None;
    let mut database = None;
    for element in msg.body.iter_elements() {
        let element = element.map_err(|error| Refusal::invalid_bson(error.to_string()))?;
        let name = element.key().as_str();
        if command.is_none() {
            command = Some(name);
        }
        if name == "$db" {
            database = Some(element.value().map_err(|error| Refusal::invalid_bson(error.to_string()))?);
        }
        if !msg.sequences.is_empty() && msg.sequences.get(name).is_some() {
            return Err(Refusal {
                code: 40433,
                code_name: "Location40433",
                message: format!("Duplicate field between body and document sequence {name}"),
            });
        }
    }
    let database = match database {
        Some(RawBsonRef::String(database)) => database,
        Some(other) => {
            let kind = format!("{:?}", other.element_type()).to_lowercase();
            return Err(Refusal {
                code: 14,
                code_name: "TypeMismatch",
                message: format!("BSON field 'OP_MSG.$db' is the wrong type '{kind}', expected type 'string'"),
            });
        }
        None => {
            return Err(Refusal {
                code: 40571,
                code_name: "Location40571",
                message: "OP_MSG requests require a $db argument".to_owned(),
            });
        }
    };
    let reply_wanted = if msg.flags.more_to_come { ReplyWanted::No } else { ReplyWanted::Yes };
    Ok(Request {
        command: command.unwrap_or_default(),
        database,
        body: msg.body,
        sequences: msg.sequences,
        protocol: Protocol::Msg,
        attempt,
        reply_wanted,
        request_id: msg.header.request_id,
    })
}

/// The command in an `OP_QUERY`: a handshake, everything else is refused.
pub(crate) fn command_of_query<'a>(query: &OpQuery<'a>, attempt: Attempt) -> Result<Request<'a>, Refusal> {
    let Some(database) = query.command_database() else {
        let message = "OP_QUERY is no longer supported. The client driver may require an upgrade.".to_owned();
        return Err(Refusal::unsupported_query(message));
    };
    let body: &'a RawDocument = query.command();
    let command = match body.iter_elements().next() {
        Some(Ok(element)) => element.key().as_str(),
        Some(Err(error)) => return Err(Refusal::invalid_bson(error.to_string())),
        None => "",
    };
    if !["hello", "isMaster", "ismaster"].contains(&command) {
        return Err(Refusal::unsupported_query(format!(
            "Unsupported OP_QUERY command: {command}. The client driver may require an upgrade."
        )));
    }
    Ok(Request {
        command,
        database,
        body,
        sequences: Default::default(),
        protocol: Protocol::Query,
        attempt,
        reply_wanted: ReplyWanted::Yes,
        request_id: query.header.request_id,
    })
}
