//! `replSetGetStatus`: the set as this member sees it.
//!
//! What is visible is applied; what the oplog has durably is durable. What readers see is confirmed, so a majority has it. Of other members it is told what their
//! notices say, which is up to a second old.

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
use crate::state::replica_set::members::state_numbers::{DOWN, PRIMARY, RECOVERING, SECONDARY};
use crate::state::replica_set::members::{MemberLook, SetMembers};
use crate::state::replica_set::{Membership, ReplicaSet};

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.replica_set, &server.store, (&*server.clock, server.uptime()), arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "replSetGetStatus",
            "The replica set as this member sees it.",
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
    let members = replica_set.members();
    let look = members.map(SetMembers::look);
    let my_state = if replica_set.is_secondary() { SECONDARY } else { PRIMARY };
    let count = look.as_ref().map_or(1, |look| look.members.len() as i32);
    write_set(clock, &membership, (my_state, count), reply);
    reply.document("optimes", |optimes| times.write(membership.term, optimes));
    reply.timestamp("lastStableRecoveryTimestamp", bson_timestamp(times.durable));
    reply.document("electionCandidateMetrics", |metrics| write_election(&membership, metrics));
    reply.array("members", |members| match &look {
        None => members.push_document(|member| write_member(uptime, &membership, &times, (PRIMARY, "PRIMARY"), member)),
        Some(look) => {
            for known in &look.members {
                let number = look.number(&known.host);
                members.push_document(|member| match known.is_self {
                    true => {
                        let state = match my_state {
                            PRIMARY => (PRIMARY, "PRIMARY"),
                            _ if known.is_catching_up => (RECOVERING, "RECOVERING"),
                            _ => (SECONDARY, "SECONDARY"),
                        };
                        write_member(uptime, &membership, &times, state, member);
                    }
                    false => write_other(&membership, known, number, member),
                });
            }
        }
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

fn write_set(
    clock: &dyn Clock,
    membership: &Membership,
    (my_state, members): (i32, i32),
    reply: &mut DocumentWriter<'_>,
) {
    let configuration = &membership.configuration;
    reply.string("set", &configuration.name);
    reply.date("date", DateTime::from_millis(clock.wall_millis()));
    reply.int32("myState", my_state);
    reply.int64("term", membership.term);
    reply.string("syncSourceHost", "");
    reply.int32("syncSourceId", -1);
    reply.int64("heartbeatIntervalMillis", configuration.heartbeat_interval_millis());
    for count in ["majorityVoteCount", "writeMajorityCount", "votingMembersCount", "writableVotingMembersCount"] {
        // Who leads is decided by the log, which no member has a vote in: one is enough for what follows.
        reply.int32(count, if count.contains("otingMembers") { members } else { 1 });
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

/// What is known of another member.
fn write_other(membership: &Membership, known: &MemberLook, number: i32, fields: &mut DocumentWriter<'_>) {
    let (state, name) = match known {
        known if !known.is_alive => (DOWN, "(not reachable/healthy)"),
        known if known.leads => (PRIMARY, "PRIMARY"),
        known if known.is_catching_up => (RECOVERING, "RECOVERING"),
        _ => (SECONDARY, "SECONDARY"),
    };
    let date = DateTime::from_millis(known.applied.seconds_millis());
    fields.int32("_id", number);
    fields.string("name", &known.host);
    fields.double("health", if known.is_alive { 1.0 } else { 0.0 });
    fields.int32("state", state);
    fields.string("stateStr", name);
    fields.count("uptime", 0);
    fields.document("optime", |time| write_op_time(time, known.applied, membership.term));
    fields.date("optimeDate", date);
    fields.date("lastAppliedWallTime", date);
    fields.date("lastHeartbeatRecv", DateTime::from_millis(known.heard_millis));
    fields.int64("appliedPosition", known.applied_position as i64);
    fields.int64("durablePosition", known.durable_position as i64);
    fields.string("lastHeartbeatMessage", "");
    fields.string("syncSourceHost", "");
    fields.int32("syncSourceId", -1);
    fields.string("infoMessage", "");
    fields.int32("configVersion", membership.configuration.version);
    fields.int64("configTerm", membership.configuration.term);
}

fn write_member(
    uptime: Duration,
    membership: &Membership,
    times: &Times,
    (state, state_name): (i32, &str),
    fields: &mut DocumentWriter<'_>,
) {
    let member = &membership.configuration.member;
    fields.int32("_id", member.id());
    fields.string("name", &member.host);
    fields.double("health", 1.0);
    fields.int32("state", state);
    fields.string("stateStr", state_name);
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
