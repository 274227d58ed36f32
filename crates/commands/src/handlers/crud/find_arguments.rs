//! The fields of `find`, and the query that they describe.
//!
//! Read by `find`, by `explain`, and by who runs one on something else than a collection: `oplog_view` and `views`.

use bson::RawDocument;
use document::{Number, elements};
use planner::{CanonicalQuery, DiskUse, Hint, ScanDirection};
use query_language::expression::ParseContext;
use query_language::expression::sort_pattern::SortPattern;
use query_language::projection::{Projection, ProjectionKind};

use super::query_arguments::{hint, query, variables};
use super::query_memory::check_memory_for;
use crate::handlers::tail::Tailing;
use crate::request::arguments::{Arguments, Field};
use crate::request::error::{CommandError, Result};
use crate::state::reading::Reading;

/// What MongoDB wants where it takes no null from `find`.
const OBJECT: &str = "type 'object'";

/// The fields of `find`.
#[derive(Default)]
pub(crate) struct FindArguments<'a> {
    pub(crate) filter: Option<&'a RawDocument>,
    pub(crate) projection: Option<&'a RawDocument>,
    pub(crate) sort: Option<&'a RawDocument>,
    pub(crate) declared: Option<&'a RawDocument>,
    pub(crate) hint: Option<Field<'a>>,
    pub(crate) min: Option<&'a RawDocument>,
    pub(crate) max: Option<&'a RawDocument>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
    pub(crate) batch_size: Option<u64>,
    pub(crate) is_single_batch: bool,
    pub(crate) return_key: bool,
    pub(crate) is_tailable: bool,
    pub(crate) awaits_data: bool,
    pub(crate) show_record_id: bool,
    pub(crate) has_no_timeout: bool,
    /// Allowed unless the client forbids it, as MongoDB's parameter `allowDiskUseByDefault` has it since 6.0.
    pub(crate) forbids_disk_use: bool,
}

/// Reads the fields.
pub(crate) fn parse<'a>(arguments: &mut Arguments<'a>) -> Result<FindArguments<'a>> {
    let mut parsed = FindArguments::default();
    for field in arguments.fields() {
        match field.name() {
            "filter" => parsed.filter = field.given(OBJECT)?.document()?,
            "projection" => parsed.projection = field.document()?,
            "sort" => parsed.sort = field.document()?,
            "let" => parsed.declared = field.document()?,
            "hint" => parsed.hint = Some(field),
            "min" => parsed.min = field.given(OBJECT)?.document()?.filter(|bound| !bound.is_empty()),
            "max" => parsed.max = field.given(OBJECT)?.document()?.filter(|bound| !bound.is_empty()),
            "skip" => parsed.skip = field.unsigned()?.unwrap_or_default(),
            "limit" => parsed.limit = field.unsigned()?.unwrap_or_default(),
            "batchSize" => parsed.batch_size = field.unsigned()?,
            "singleBatch" => parsed.is_single_batch = field.boolean()?,
            "returnKey" => parsed.return_key = field.boolean()?,
            "showRecordId" => parsed.show_record_id = field.boolean()?,
            "noCursorTimeout" => parsed.has_no_timeout = field.boolean()?,
            "allowDiskUse" => parsed.forbids_disk_use = !field.boolean_or(true)?,
            // All data is on this server, and the oplog flag has had no effect since 4.4.
            "allowPartialResults" | "oplogReplay" => {
                field.boolean()?;
            }
            "collation" => drop(field.document()?),
            "tailable" => parsed.is_tailable = field.boolean()?,
            "awaitData" => parsed.awaits_data = field.boolean()?,
            "resumeAfter" | "requestResumeToken" | "startAt" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    parsed.check_tailing()?;
    Ok(parsed)
}

impl FindArguments<'_> {
    fn check_tailing(&self) -> Result<()> {
        if self.awaits_data && !self.is_tailable {
            return Err(CommandError::failed_to_parse("Cannot set 'awaitData' without also setting 'tailable'"));
        }
        if !self.is_tailable {
            return Ok(());
        }
        if self.is_single_batch {
            return Err(CommandError::failed_to_parse("Cannot set 'tailable' together with 'singleBatch'"));
        }
        let is_natural = |sort: &RawDocument| {
            let first = elements(sort).next();
            first.is_none_or(|first| {
                first.name() == "$natural" && Number::from_bson(first.value()).and_then(Number::to_i64_exact) == Some(1)
            })
        };
        if !self.sort.is_none_or(is_natural) {
            let message = "cannot use tailable option with a sort other than {$natural: 1}";
            return Err(CommandError::bad_value(message));
        }
        Ok(())
    }

    pub(crate) fn tailing(&self) -> Tailing {
        match (self.is_tailable, self.awaits_data) {
            (false, _) => Tailing::No,
            (true, false) => Tailing::AtEnd,
            (true, true) => Tailing::Awaiting,
        }
    }
}

/// The query that the fields describe.
pub(crate) fn canonical_query(reading: Reading<'_>, parsed: &FindArguments<'_>) -> Result<CanonicalQuery> {
    let variables = variables(reading, parsed.declared)?;
    let mut query = query(parsed.filter, &variables)?;
    if let Some(field) = parsed.hint {
        query.hint = hint(field)?;
    }
    if let Some(sort) = parsed.sort {
        apply_sort(&mut query, sort)?;
    }
    if let Some(projection) = parsed.projection.filter(|projection| !projection.is_empty()) {
        let context = ParseContext::for_variables(&variables);
        check_memory_for([projection].into_iter())?;
        query.projection = Some(Projection::parse(projection, ProjectionKind::Find, &context)?);
    }
    query.skip = parsed.skip;
    query.limit = Some(parsed.limit).filter(|limit| *limit > 0);
    query.min = parsed.min.map(ToOwned::to_owned);
    query.max = parsed.max.map(ToOwned::to_owned);
    query.return_key = parsed.return_key;
    query.show_record_id = parsed.show_record_id;
    query.disk_use = if parsed.forbids_disk_use { DiskUse::Forbidden } else { DiskUse::Allowed };
    Ok(query)
}

/// Sets a query's sort; `{$natural: ±1}` is a hint in disguise.
pub(crate) fn apply_sort(query: &mut CanonicalQuery, sort: &RawDocument) -> Result<()> {
    match natural_hint(sort)? {
        Some(hint) => query.hint = hint,
        None if sort.is_empty() => {}
        None => query.sort = Some(SortPattern::parse(sort)?),
    }
    Ok(())
}

/// The hint that a sort by `$natural` is; nothing for other sorts.
pub(crate) fn natural_hint(sort: &RawDocument) -> Result<Option<Hint>> {
    let Some(first) = elements(sort).next().filter(|first| first.name() == "$natural") else { return Ok(None) };
    if elements(sort).count() > 1 {
        return Err(CommandError::bad_value("$natural sort cannot be set to a value other than -1 or 1."));
    }
    Ok(Some(Hint::Natural(match Number::from_bson(first.value()).and_then(Number::to_i64_exact) {
        Some(1) => ScanDirection::Forward,
        Some(-1) => ScanDirection::Backward,
        _ => return Err(CommandError::bad_value("$natural sort cannot be set to a value other than -1 or 1.")),
    })))
}
