//! The end of a set's run: all is well again, the members come together, and everything that was promised is looked for.
//!
//! Called by `world`. Then the primary is killed, and then all lose their power: what is there afterwards must be the same.

use std::sync::Arc;
use std::time::Duration;

use oplog::Oplog;
use platform::Random;
use replication::Standpoint;
use shared_log::Faults;
use transaction::Leadership;

use super::client::{Outcome, Wish};
use super::connection::Cut;
use super::equality;
use super::machine::Running;
use super::readers::read_all;
use super::world::{MEMBERS, World};
use super::writes::COMES_AND_GOES;

/// Turns in which members that can do all they want must have come together.
const TURNS_MAX: u32 = 6_000;
const TURN: Duration = Duration::from_millis(20);

impl World {
    pub(super) fn come_to_an_end(&self) {
        self.say(format_args!("all is well from now on"));
        self.make_well();
        self.log.set_faults(Faults::none());
        for machine in &self.machines {
            machine.pause(0);
            machine.cut_off(0, Cut::Not);
            machine.disk.clear_faults();
            machine.disk.power_on();
            // One whose disk has failed writes nothing any more.
            if let Some(running) = machine.running().filter(|_| machine.is_disk_bad()) {
                running.doom();
            }
        }
        self.bury_the_dead();
        let members = self.come_together();
        self.check_end(&members);
        let primary = members.iter().position(|member| member.store.leadership() == Leadership::Held);
        drop(members);
        primary.into_iter().for_each(|primary| self.kill(primary));
        let members = self.come_together();
        self.check_retries(&members);
        self.check_end(&members);
        drop(members);
        for place in 0..MEMBERS {
            self.kill(place);
            self.machines[place].disk.power_loss();
        }
        let members = self.come_together();
        self.check_end(&members);
    }

    /// Until there is one primary, everybody has been told, and all have all.
    fn come_together(&self) -> Vec<Arc<Running>> {
        for _ in 0..TURNS_MAX {
            for place in 0..MEMBERS {
                self.start_if_down(place);
                self.turn(place);
                if self.chance(0.05) {
                    self.background_step(place);
                }
            }
            if self.chance(0.5) {
                self.finish_a_write();
            }
            self.let_time_pass(TURN);
            self.log.deliver_all();
            self.bury_the_dead();
            if let Some(members) = self.together() {
                return members;
            }
        }
        let standpoints = self.machines.iter().map(|machine| {
            let running = machine.running()?;
            let standpoint = running.member.lock().standpoint();
            Some((standpoint, running.store.oplog().end_position()))
        });
        self.fail(format_args!("the members do not come together: {:?}", standpoints.collect::<Vec<_>>()))
    }

    /// A client goes on with what it has begun.
    fn finish_a_write(&self) {
        let chosen = self.random.below(self.clients.len() as u64) as usize;
        let Some(mut client) = self.clients[chosen].lock().take() else { return };
        self.go_on(&mut client);
        *self.clients[chosen].lock() = Some(client);
    }

    fn together(&self) -> Option<Vec<Arc<Running>>> {
        let is_told = |client: &parking_lot::Mutex<Option<super::client::Client>>| {
            client.lock().as_ref().is_some_and(|client| client.write.is_none())
        };
        if !self.clients.iter().all(is_told) {
            return None;
        }
        let members: Option<Vec<Arc<Running>>> = self.machines.iter().map(|machine| machine.idle()).collect();
        let members = members.filter(|members| members.iter().all(|member| member.serves()))?;
        let led = members.iter().filter(|member| matches!(member.member.lock().standpoint(), Standpoint::Leads { .. }));
        let end = members[0].store.oplog().end_position();
        let has_all = |member: &Arc<Running>| {
            member.store.oplog().end_position() == end
                && member.store.is_confirmed(end)
                && (member.store.leadership() != Leadership::Held || member.store.interrupted_builds().is_empty())
        };
        (led.count() == 1 && members.iter().all(has_all)).then_some(members)
    }

    fn check_end(&self, members: &[Arc<Running>]) {
        self.say(format_args!("check everything"));
        for (place, member) in members.iter().enumerate() {
            self.look(place);
            if let Err(problem) = equality::check_member(&member.store) {
                self.fail(format_args!("member {place}: {problem}"));
            }
            if let Err(problem) = equality::compare(&members[0].store, &member.store) {
                self.fail(format_args!("member {place} is not as member 0: {problem}"));
            }
        }
        let store = &members[0].store;
        let found = read_all(store, &store.read_view());
        let found = found.unwrap_or_else(|error| self.fail(format_args!("{error}")));
        let all = store.catalog().all_collections();
        let numbers = all.iter().filter_map(|collection| {
            let namespace = collection.namespace();
            let number = namespace.as_str().strip_prefix(COMES_AND_GOES)?;
            number.trim_end_matches(".renamed").parse().ok()
        });
        let truth = self.truth.lock();
        let checked = truth
            .check_end(&found.lists, &found.items, &numbers.collect())
            .and_then(|()| truth.check_ring(&found.ring));
        drop(truth);
        if let Err(problem) = checked {
            self.fail(format_args!("{problem}"));
        }
    }

    /// Whoever leads now, and all others, know what each session has done last.
    fn check_retries(&self, members: &[Arc<Running>]) {
        for client in &self.clients {
            let client = client.lock();
            let Some(client) = client.as_ref() else { continue };
            let Some((wish, Outcome::Done)) = client.told else { continue };
            let is_statement = !wish.is_definition() && !matches!(wish, Wish::Transaction { .. });
            for (place, member) in members.iter().enumerate() {
                let session = member.store.sessions().find(client.session);
                let is_known = match &session {
                    Some(session) if is_statement => session.executed(0).is_some(),
                    Some(session) if matches!(wish, Wish::Transaction { .. }) => {
                        let committed = member.store.commit_transaction(session, client.txn_number);
                        matches!(committed, Ok(None))
                    }
                    found => found.is_some() || wish.is_definition(),
                };
                if !is_known {
                    self.fail(format_args!("member {place} does not know that {wish:?} was done"));
                }
            }
        }
    }
}
