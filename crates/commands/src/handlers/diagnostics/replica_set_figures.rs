//! The section `plimsoll.replicaSet` of `serverStatus`: what this member is, how far it is, and what it knows of the others.
//!
//! Written for members of a set only. What is said of others is what their notices say, which is up to a second old. Positions are those of the oplog, the same
//! on all members. Read by `--metrics`, by the warnings (`flight_recorder::patterns`) and by the console.

use bson::DateTime;
use oplog::Oplog;
use transaction::{Leadership, Store};

use crate::DocumentWriter;
use crate::state::replica_set::members::{MemberLook, SetLook, SetMembers, state_numbers};
use crate::state::replica_set::{Identity, ReplicaSet};

/// States of members, with their names here.
const STARTUP: (i32, &str) = (state_numbers::STARTUP, "startup");
const PRIMARY: (i32, &str) = (state_numbers::PRIMARY, "primary");
const SECONDARY: (i32, &str) = (state_numbers::SECONDARY, "secondary");
/// It has not had all of the log yet.
const RECOVERING: (i32, &str) = (state_numbers::RECOVERING, "recovering");
const DOWN: (i32, &str) = (state_numbers::DOWN, "down");

/// Writes the section's fields.
pub(super) fn write(replica_set: &ReplicaSet, store: &Store, section: &mut DocumentWriter<'_>) {
    let members = replica_set.members();
    let look = members.map(SetMembers::look);
    if let Ok(facts) = replica_set.facts() {
        section.string("set", &facts.name);
    }
    let (code, name) = own_state(replica_set, look.as_deref());
    section.string("state", name);
    section.int32("stateCode", code);
    let stored_term = replica_set.membership().map_or(0, |membership| membership.term);
    section.int64("term", members.map_or(stored_term, |members| members.term().min(i64::MAX as u64) as i64));
    write_positions(store, section);
    if let Some(look) = look {
        write_others(store, &look, section);
    }
}

fn own_state(replica_set: &ReplicaSet, look: Option<&SetLook>) -> (i32, &'static str) {
    let mut known = look.into_iter().flat_map(|look| look.members.iter().chain(&look.joining));
    let is_behind = known.any(|member| member.is_self && member.is_catching_up);
    match replica_set.identity() {
        Identity::Primary(_) => PRIMARY,
        _ if is_behind => RECOVERING,
        Identity::Secondary(_) => SECONDARY,
        Identity::Alone | Identity::NotInitiated => STARTUP,
    }
}

fn write_positions(store: &Store, section: &mut DocumentWriter<'_>) {
    let (_, applied) = store.confirmed_end();
    section.document("positions", |positions| {
        positions.size("logged", store.oplog().end_position().0);
        positions.size("durable", store.oplog().durable_position().0);
        positions.size("applied", applied.0);
        // A member that follows is told what the log has as it applies it.
        if let Some(confirmed) = store.confirmed_position() {
            positions.size("confirmed", confirmed.0.max(applied.0));
        }
    });
}

fn write_others(store: &Store, look: &SetLook, section: &mut DocumentWriter<'_>) {
    // One that has died is still the last that has claimed the lead.
    let primary = look.members.iter().find(|member| member.leads && member.is_alive);
    section.boolean("hasPrimary", primary.is_some());
    if let Some(primary) = primary {
        section.string("primary", &primary.host);
    }
    section.document("confirmations", |confirmations| {
        let (waits, waited) = store.confirmation_waits();
        confirmations.size("waits", waits);
        confirmations.size("waitedMicros", waited.as_micros() as u64);
        confirmations.boolean("logAnswers", store.leadership() != Leadership::Stalled);
    });
    section.document("log", |log| {
        log.size("nextRecord", look.next_record);
        log.size("neededRecord", look.needed_record);
        log.array("complaints", |list| look.log_complaints.iter().for_each(|text| list.push_string(text)));
        let trimming = &look.trimming;
        if let Some(first) = trimming.first_record {
            log.size("firstRecord", first);
        }
        log.document("trimmed", |trimmed| {
            trimmed.size("times", trimming.trims);
            trimmed.size("records", trimming.records);
            trimmed.size("copies", trimming.copies);
        });
        log.array("keptBecause", |list| trimming.kept_because.iter().for_each(|text| list.push_string(text)));
    });
    let is_silent = |member: &&MemberLook| !member.is_alive;
    let lags = look.members.iter().filter(|member| member.is_alive).map(|member| member.lag);
    section.double("lagSecondsMax", lags.max().unwrap_or_default().as_secs_f64());
    section.size("silentMembers", look.members.iter().filter(is_silent).count() as u64);
    section.document("members", |members| {
        for member in look.members.iter().chain(&look.joining) {
            members.document(&member.host, |fields| write_member(member, fields));
        }
    });
    section.array("waitForCopy", |list| look.wait_for_copy.iter().for_each(|host| list.push_string(host)));
}

fn write_member(member: &MemberLook, fields: &mut DocumentWriter<'_>) {
    let (code, name) = match member {
        member if !member.is_alive => DOWN,
        member if member.is_catching_up => RECOVERING,
        member if member.leads => PRIMARY,
        _ => SECONDARY,
    };
    fields.string("state", name);
    fields.int32("stateCode", code);
    fields.boolean("isSelf", member.is_self);
    fields.boolean("isAlive", member.is_alive);
    fields.boolean("isFrozen", member.is_frozen);
    fields.size("appliedPosition", member.applied_position);
    fields.size("durablePosition", member.durable_position);
    fields.date("appliedTime", DateTime::from_millis(member.applied.seconds_millis()));
    fields.double("lagSeconds", member.lag.as_secs_f64());
    fields.date("heard", DateTime::from_millis(member.heard_millis));
}
