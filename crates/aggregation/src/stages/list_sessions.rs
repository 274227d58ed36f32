//! `$listLocalSessions` and `$listSessions`: the sessions that there are, a document for each.
//!
//! There is one server, which keeps its sessions itself: both give the same. The first is for a database as a whole, the
//! second for `config.system.sessions`, where MongoDB stores them.

use std::sync::Arc;

use bson::raw::{CStr, RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use super::{check_whole_database, type_of};
use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, ListedSessions, source_of};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct ListSessions {
    name: &'static CStr,
    options: RawDocumentBuf,
    wanted: ListedSessions,
}

pub(crate) fn parse_local(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    check_whole_database("$listLocalSessions", context)?;
    parse(cstr!("$listLocalSessions"), argument)
}

pub(crate) fn parse_stored(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let namespace = &context.namespace;
    if namespace.database != "config" || namespace.collection != "system.sessions" {
        let message = "$listSessions may only be run against config.system.sessions";
        return Err(AggregationError::new(ErrorKind::InvalidNamespace, message));
    }
    parse(cstr!("$listSessions"), argument)
}

fn parse(name: &'static CStr, argument: RawBsonRef<'_>) -> Result<Vec<Stage>> {
    let stage = name.as_str();
    let wrong = |field: &str, value: RawBsonRef<'_>, expected: &str| {
        let found = type_of(value);
        let message = format!("BSON field '{stage}{field}' is the wrong type '{found}', expected type '{expected}'");
        AggregationError::new(ErrorKind::TypeMismatch, message)
    };
    let RawBsonRef::Document(options) = argument else { return Err(wrong("", argument, "object")) };
    let (mut all, mut users) = (false, Vec::new());
    for element in options {
        let (field, value) = element?;
        match (field.as_str(), value) {
            ("allUsers", RawBsonRef::Boolean(given)) => all = given,
            ("users", RawBsonRef::Array(given)) => {
                for user in given {
                    let user = user?;
                    users.push(user_of(user).ok_or_else(|| wrong(".users", user, "object of 'user' and 'db'"))?);
                }
            }
            ("allUsers", other) => return Err(wrong(".allUsers", other, "bool")),
            ("users", other) => return Err(wrong(".users", other, "array")),
            (other, _) => {
                let message = format!("BSON field '{stage}.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    let wanted = match (all, users.is_empty()) {
        (true, false) => {
            let message = format!("{stage} may not specify {{allUsers:true}} and {{users:[...]}} at the same time");
            return Err(AggregationError::new(ErrorKind::InvalidOptions, message));
        }
        (true, true) => ListedSessions::OfAll,
        (false, false) => ListedSessions::Of(users),
        (false, true) => ListedSessions::OwnOnly,
    };
    Ok(vec![Stage::other(ListSessions { name, options: options.to_owned(), wanted })])
}

fn user_of(value: RawBsonRef<'_>) -> Option<(String, String)> {
    let user = value.as_document()?;
    let part = |name| document::get_field(user, name).and_then(|part| part.as_str()).map(str::to_owned);
    Some((part("user")?, part("db")?))
}

impl PipelineStage for ListSessions {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(source_of(run.host.sessions(&self.wanted)?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(self.name, self.options.clone()))
    }
}
