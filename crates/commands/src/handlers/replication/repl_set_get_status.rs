//! `replSetGetStatus`: the set as its only member sees it.
//!
//! What is visible is applied; what the oplog has durably is durable, and being all of the set, a majority has it, too.

use std::time::Duration;

use bson::DateTime;
use platform::{Clock, Timestamp};
use transaction::Store;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::diagnostics::hello::write_op_time;
use crate::request::arguments::Arguments;
use crate::request::cluster_time::bson_timestamp;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::replica_set::{Membership, ReplicaSet};

/// The state of a primary.
const PRIMARY: i32 = 1;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.replica_set, &server.store, (&*server.clock, server.uptime()), arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "replSetGetStatus",
            "The replica set as its only member sees it.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetGetStatus)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    store: &Store,
    (clock, uptime): (&dyn Clock, Duration),
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        match field.name() {
            // 0 leaves out the initial sync, of which there is none; 1 asks for it.
            "initialSync" => drop(field.integer()?),
            _ => arguments.generic(field)?,
        }
    }
    let membership = replica_set.initiated()?;
    let (applied, durable) = replica_set.times(store);
    let times = Times { applied, durable };
    write_set(clock, &membership, reply);
    reply.document("optimes", |optimes| times.write(membership.term, optimes));
    reply.timestamp("lastStableRecoveryTimestamp", bson_timestamp(times.durable));
    reply.document("electionCandidateMetrics", |metrics| write_election(&membership, metrics));
    reply.array("members", |members| {
        members.push_document(|member| write_member(uptime, &membership, &times, member));
    });
    Ok(())
}

/// How far it is.
struct Times {
    applied: Timestamp,
    durable: Timestamp,
}

impl Times {
    fn write(&self, term: i64, optimes: &mut DocumentWriter<'_>) {
        let date = |time: Timestamp| DateTime::from_millis(time.seconds_millis());
        optimes.document("lastCommittedOpTime", |time| write_op_time(time, self.durable, term));
        optimes.date("lastCommittedWallTime", date(self.durable));
        optimes.document("readConcernMajorityOpTime", |time| write_op_time(time, self.applied, term));
        optimes.document("appliedOpTime", |time| write_op_time(time, self.applied, term));
        optimes.document("durableOpTime", |time| write_op_time(time, self.durable, term));
        optimes.date("lastAppliedWallTime", date(self.applied));
        optimes.date("lastDurableWallTime", date(self.durable));
    }
}

fn write_set(clock: &dyn Clock, membership: &Membership, reply: &mut DocumentWriter<'_>) {
    let configuration = &membership.configuration;
    reply.string("set", &configuration.name);
    reply.date("date", DateTime::from_millis(clock.wall_millis()));
    reply.int32("myState", PRIMARY);
    reply.int64("term", membership.term);
    reply.string("syncSourceHost", "");
    reply.int32("syncSourceId", -1);
    reply.int64("heartbeatIntervalMillis", configuration.heartbeat_interval_millis());
    for count in ["majorityVoteCount", "writeMajorityCount", "votingMembersCount", "writableVotingMembersCount"] {
        reply.int32(count, 1);
    }
}

fn write_election(membership: &Membership, metrics: &mut DocumentWriter<'_>) {
    let elected = DateTime::from_millis(membership.elected_millis);
    metrics.string("lastElectionReason", "electionTimeout");
    metrics.date("lastElectionDate", elected);
    metrics.int64("electionTerm", membership.term);
    metrics.int32("numVotesNeeded", 1);
    metrics.double("priorityAtElection", membership.configuration.member.priority);
    metrics.int64("electionTimeoutMillis", membership.configuration.election_timeout_millis());
    metrics.date("newTermStartDate", elected);
    metrics.date("wMajorityWriteAvailabilityDate", elected);
}

fn write_member(uptime: Duration, membership: &Membership, times: &Times, fields: &mut DocumentWriter<'_>) {
    let member = &membership.configuration.member;
    fields.int32("_id", member.id());
    fields.string("name", &member.host);
    fields.double("health", 1.0);
    fields.int32("state", PRIMARY);
    fields.string("stateStr", "PRIMARY");
    fields.count("uptime", uptime.as_secs());
    fields.document("optime", |time| write_op_time(time, times.applied, membership.term));
    fields.date("optimeDate", DateTime::from_millis(times.applied.seconds_millis()));
    fields.date("lastAppliedWallTime", DateTime::from_millis(times.applied.seconds_millis()));
    fields.date("lastDurableWallTime", DateTime::from_millis(times.durable.seconds_millis()));
    fields.string("syncSourceHost", "");
    fields.int32("syncSourceId", -1);
    fields.string("infoMessage", "");
    fields.timestamp("electionTime", bson_timestamp(membership.elected));
    fields.date("electionDate", DateTime::from_millis(membership.elected_millis));
    fields.int32("configVersion", membership.configuration.version);
    fields.int64("configTerm", membership.configuration.term);
    fields.boolean("self", true);
    fields.string("lastHeartbeatMessage", "");
}
