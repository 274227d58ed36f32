//! Read concern: from which point in time a command reads.
//!
//! Read by `dispatcher` (through `operation_session`) before the command runs. On one server everything visible is what a majority has, so `local`, `available` and
//! `majority` are the same; `linearizable` also waits, before it replies, until what it has seen is durable; `snapshot` reads one point in time, which the reply
//! tells and later commands may name.

use bson::{RawBsonRef, RawDocument, rawdoc};
use document::elements;
use oplog::Oplog;
use platform::Timestamp;
use transaction::{ReadView, Store};

use crate::request::declaration::{CursorUse, Declaration};
use crate::request::error::{CommandError, Result};
use crate::request::field::Field;
pub(crate) use crate::request::read_level::Level;

/// How long a point in time that a client was told of can be read from, as in MongoDB (`minSnapshotHistoryWindowInSeconds`).
pub(crate) const SNAPSHOT_WINDOW: std::time::Duration = std::time::Duration::from_secs(300);

/// Stages that look at this server as it is, and at no data.
const LOCAL_STAGES: [&str; 9] = [
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
];

/// The fields.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadConcern {
    pub(crate) level: Level,
    pub(crate) after_cluster_time: Option<Timestamp>,
    pub(crate) at_cluster_time: Option<Timestamp>,
}

fn invalid(message: impl Into<String>) -> CommandError {
    CommandError::named("InvalidOptions", message)
}

impl ReadConcern {
    /// Parses `{level, afterClusterTime, atClusterTime}`.
    pub(crate) fn parse(source: &RawDocument) -> Result<Self> {
        let mut parsed = Self::default();
        for element in elements(source) {
            let field = Field::of("readConcern", element);
            match field.name() {
                "level" => parsed.level = parse_level(field)?,
                "provenance" => {}
                "afterClusterTime" => parsed.after_cluster_time = Some(timestamp(field)?),
                "atClusterTime" => parsed.at_cluster_time = Some(timestamp(field)?),
                "afterOpTime" => field.refuse_unless_null()?,
                _ => return Err(field.unknown()),
            }
        }
        if parsed.at_cluster_time.is_some() && parsed.after_cluster_time.is_some() {
            return Err(invalid(
                "Specifying a timestamp for readConcern atClusterTime and afterClusterTime together is not allowed",
            ));
        }
        if parsed.at_cluster_time.is_some() && parsed.level != Level::Snapshot {
            return Err(invalid("readConcern level must be 'snapshot' to use atClusterTime"));
        }
        Ok(parsed)
    }

    /// Refuses what commands or transactions do not take.
    pub(crate) fn check(&self, command: &Declaration, is_in_transaction: bool) -> Result<()> {
        if is_in_transaction {
            if self.at_cluster_time.is_some() {
                return Err(CommandError::not_implemented("readConcern atClusterTime in a transaction"));
            }
            if matches!(self.level, Level::Linearizable | Level::Available) {
                return Err(invalid(
                    "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a transaction",
                ));
            }
            return Ok(());
        }
        if matches!(self.level, Level::Default | Level::Local) || command.read_concerns.contains(&self.level) {
            return Ok(());
        }
        Err(self.not_supported(command.name, "read concern not supported"))
    }

    /// Refuses a level that a stage of a pipeline does not take.
    pub(crate) fn check_stage(&self, stage: &str) -> Result<()> {
        let level = self.level;
        let why = match stage {
            "$changeStream" if !matches!(level, Level::Default | Level::Majority) => format!(
                "Aggregation stage {stage} cannot run with a readConcern other than 'majority'. Current readConcern: {}",
                level.name()
            ),
            "$out" | "$merge" if level == Level::Linearizable => {
                format!("{stage} cannot be used with a 'linearizable' read concern level")
            }
            _ if LOCAL_STAGES.contains(&stage) && !matches!(level, Level::Default | Level::Local) => format!(
                "Aggregation stage {stage} cannot run with a readConcern other than 'local'. Current readConcern: {}",
                level.name()
            ),
            _ => return Ok(()),
        };
        Err(self.not_supported("aggregate", &why))
    }

    fn not_supported(&self, command: &str, why: &str) -> CommandError {
        invalid(format!(
            "Command {command} does not support {{ readConcern: {{ level: \"{}\", provenance: \"clientSupplied\" }} }} :: caused by :: {why}",
            self.level.name()
        ))
    }

    /// Waits until a read sees what happened up to the time that the client was told of.
    pub(crate) fn wait(&self, store: &Store, is_over: &dyn Fn() -> bool) -> Result<()> {
        for (name, time) in [("afterClusterTime", self.after_cluster_time), ("atClusterTime", self.at_cluster_time)] {
            let Some(time) = time else { continue };
            if store.readable_timestamp() < time && !store.wait_until_readable(time, is_over)? {
                return Err(invalid(format!(
                    "readConcern {name} value must not be greater than the current clusterTime. Requested clusterTime: {time:?}; current \
                     clusterTime: {:?}",
                    store.readable_timestamp()
                )));
            }
        }
        Ok(())
    }

    /// The one point in time that a snapshot read reads from. What goes on with a cursor does so in that one's snapshot.
    pub(crate) fn view(&self, store: &Store, command: &Declaration) -> Result<Option<ReadView>> {
        if self.level != Level::Snapshot || command.cursor == CursorUse::GoesOn {
            return Ok(None);
        }
        match (store.retained_view(self.at_cluster_time), self.at_cluster_time) {
            (Some(view), _) => Ok(Some(view)),
            (None, time) => {
                let time = time.map(|time| format!(" {time:?}")).unwrap_or_default();
                let message = format!("Read timestamp{time} is older than the oldest available timestamp.");
                Err(CommandError::named("SnapshotTooOld", message))
            }
        }
    }

    /// What a linearizable read waits for before its reply.
    pub(crate) fn confirm(&self, store: &Store) -> Result<()> {
        if self.level == Level::Linearizable && store.is_confirming() {
            // That it leads still is known once a record of its own counts. The dispatcher waits for it.
            store.log_note(&rawdoc! { "msg": "a linearizable read" })?;
        } else if self.level == Level::Linearizable {
            store.oplog().wait_durable(store.oplog().end_position())?;
        }
        Ok(())
    }
}

fn parse_level(field: Field<'_>) -> Result<Level> {
    let Some(level) = field.string()? else { return Ok(Level::Default) };
    match level {
        "local" => Ok(Level::Local),
        "available" => Ok(Level::Available),
        "majority" => Ok(Level::Majority),
        "linearizable" => Ok(Level::Linearizable),
        "snapshot" => Ok(Level::Snapshot),
        _ => Err(CommandError::failed_to_parse(format!(
            "Enumeration value '{level}' for field 'readConcern.level' is not a valid value."
        ))),
    }
}

fn timestamp(field: Field<'_>) -> Result<Timestamp> {
    match field.value() {
        RawBsonRef::Timestamp(time) => Ok(Timestamp::new(time.time, time.increment)),
        _ => Err(field.wrong_type("type 'timestamp'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::declaration::Needs;

    const READS: Declaration =
        Declaration { read_concerns: Level::ALL, ..Declaration::new("find", "", Needs::Data, &[]) };
    const COUNTS: Declaration =
        Declaration { read_concerns: &[Level::Majority], ..Declaration::new("count", "", Needs::Data, &[]) };
    const WRITES: Declaration = Declaration::new("insert", "", Needs::Primary, &[]);

    #[test]
    fn times_and_levels_must_fit() {
        let time = bson::Timestamp { time: 5, increment: 1 };
        let code = |source: bson::RawDocumentBuf| ReadConcern::parse(&source).unwrap_err().code;
        assert_eq!(code(rawdoc! {"level": "snapshot", "atClusterTime": time, "afterClusterTime": time}), 72);
        assert_eq!(code(rawdoc! {"level": "local", "atClusterTime": time}), 72);
        assert_eq!(code(rawdoc! {"level": "newest"}), 9);
        assert_eq!(code(rawdoc! {"afterClusterTime": 5}), 14);
        assert_eq!(code(rawdoc! {"x": 5}), 40415);
        let snapshot = ReadConcern::parse(&rawdoc! {"level": "snapshot", "atClusterTime": time}).unwrap();
        assert_eq!(snapshot.at_cluster_time, Some(Timestamp::new(5, 1)));
        assert!(snapshot.check(&READS, false).is_ok());
        assert_eq!(snapshot.check(&COUNTS, false).unwrap_err().code, 72);
        assert_eq!(snapshot.check(&READS, true).unwrap_err().code, 238);
    }

    #[test]
    fn stages_take_the_levels_that_they_can_keep() {
        let of = |level: &str| ReadConcern::parse(&rawdoc! {"level": level}).unwrap();
        for level in ["local", "available", "linearizable", "snapshot"] {
            assert_eq!(of(level).check_stage("$changeStream").unwrap_err().code, 72);
        }
        assert!(of("majority").check_stage("$changeStream").is_ok());
        assert!(ReadConcern::default().check_stage("$changeStream").is_ok());
        assert_eq!(of("linearizable").check_stage("$out").unwrap_err().code, 72);
        assert!(of("majority").check_stage("$merge").is_ok() && of("linearizable").check_stage("$match").is_ok());
        assert_eq!(of("majority").check_stage("$currentOp").unwrap_err().code, 72);
        assert_eq!(of("available").check(&READS, true).unwrap_err().code, 72);
        assert_eq!(of("majority").check(&WRITES, false).unwrap_err().code, 72);
        assert!(of("majority").check(&WRITES, true).is_ok() && of("local").check(&WRITES, false).is_ok());
    }
}
