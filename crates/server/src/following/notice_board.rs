//! Putting up this member's notice beside the log, and reading those of the others.
//!
//! A turn of the member's thread. A notice that says nothing new is put up once a second, so that others see that it lives; one that says that more is applied sooner,
//! as somebody may wait for that. While a member is there that has not caught up, the others look often: it is listed, or read from again, as soon as it has.
//!
//! A member is listed once it has caught up for the first time, and then until it is left out: one that starts again finds that in its last notice. Otherwise
//! who writes for three members would be told that there are two.

use std::collections::HashMap;
use std::time::Duration;

use commands::{MemberLook, SetLook, SetMembers};
use oplog::Oplog;
use platform::{Clock, Timestamp};
use replication::Standpoint;
use shared_log::Notice;
use transaction::Store;

use super::set_state::SetState;

/// An idle member shows itself so often.
const BEAT: Duration = Duration::from_secs(1);
/// And so often when it has applied more.
const PROGRESS: Duration = Duration::from_millis(20);
/// How often the others' notices are read, and when somebody waits for them.
const LOOK: Duration = Duration::from_millis(500);
const HASTY_LOOK: Duration = Duration::from_millis(10);
/// And while one is there that has not caught up.
const JOINING_LOOK: Duration = Duration::from_millis(50);
/// A member that has not shown itself for so long is down.
const SILENT_AFTER: Duration = Duration::from_secs(10);

/// What was last seen of a member, and when.
struct Seen {
    mark: (u64, u64),
    at: Duration,
    wall_millis: i64,
    /// When it was last seen with everything that anybody had.
    level_at: Option<Duration>,
}

/// The newest that any member has.
#[derive(Clone, Copy)]
struct Newest {
    position: u64,
    timestamp: Timestamp,
}

impl Newest {
    fn of(notices: &[Notice]) -> Newest {
        let newest = notices.iter().max_by_key(|notice| notice.applied);
        let (position, timestamp) = newest.map_or((0, 0), |notice| (notice.applied, notice.applied_timestamp));
        Newest { position, timestamp: Timestamp(timestamp) }
    }

    /// How far a member is behind it by the clock of the commits; but no longer than since it was not behind: before the newest commit there may have been none for hours.
    fn lag_of(self, notice: &Notice, seen: &mut Seen, now: Duration) -> Duration {
        if notice.applied >= self.position {
            seen.level_at = Some(now);
            return Duration::ZERO;
        }
        let behind =
            self.timestamp.seconds_millis().saturating_sub(Timestamp(notice.applied_timestamp).seconds_millis());
        let behind = Duration::from_millis(behind.max(0) as u64);
        seen.level_at.map_or(behind, |level_at| behind.min(now.saturating_sub(level_at)))
    }
}

/// See the module's head.
pub(super) struct NoticeBoard {
    number: u64,
    posted: Option<Notice>,
    /// Whether it was listed in an earlier life; `None`: it has not been looked yet.
    was_listed: Option<bool>,
    posted_at: Duration,
    looked_at: Option<Duration>,
    /// What this member was then.
    looked_as: Option<(Standpoint, bool)>,
    seen: HashMap<u64, Seen>,
    /// A member that lives has not caught up.
    is_one_behind: bool,
    is_silent: bool,
}

impl NoticeBoard {
    pub(super) fn new() -> NoticeBoard {
        let (posted, posted_at, looked_at, seen) = (None, Duration::ZERO, None, HashMap::new());
        NoticeBoard {
            number: 0,
            posted,
            was_listed: None,
            posted_at,
            looked_at,
            looked_as: None,
            seen,
            is_one_behind: false,
            is_silent: false,
        }
    }

    pub(super) fn turn(&mut self, state: &SetState, store: &Store, clock: &dyn Clock) {
        let now = clock.monotonic();
        let told = self.post(state, store, clock, now).and_then(|()| self.look(state, clock, now));
        let is_silent = told.is_err();
        if let Err(error) = told
            && !self.is_silent
        {
            tracing::warn!(target: "replication", %error, "the notices of members cannot be put up or read");
        }
        self.is_silent = is_silent;
    }

    fn post(&mut self, state: &SetState, store: &Store, clock: &dyn Clock, now: Duration) -> shared_log::Result<()> {
        let mut notice = notice(state, store);
        notice.is_listed |= self.was_listed(state)?;
        let since = now.saturating_sub(self.posted_at);
        let is_due = match &mut self.posted {
            None => true,
            Some(posted) => {
                (notice.number, notice.wall_millis, notice.durable) =
                    (posted.number, posted.wall_millis, posted.durable);
                since >= BEAT || (since >= PROGRESS && *posted != notice)
            }
        };
        if !is_due {
            return Ok(());
        }
        self.number += 1;
        notice.number = self.number;
        notice.wall_millis = clock.wall_millis();
        notice.durable = store.oplog().durable_position().0;
        state.log().post(notice.node, &notice.encode())?;
        (self.posted, self.posted_at) = (Some(notice), now);
        Ok(())
    }

    fn was_listed(&mut self, state: &SetState) -> shared_log::Result<bool> {
        if let Some(known) = self.was_listed {
            return Ok(known);
        }
        let notices = state.log().notices()?;
        let mut notices = notices.iter().filter_map(|notice| Notice::decode(notice));
        let found = notices.any(|notice| notice.node == state.me().node && notice.is_listed);
        self.was_listed = Some(found);
        Ok(found)
    }

    fn look(&mut self, state: &SetState, clock: &dyn Clock, now: Duration) -> shared_log::Result<()> {
        let pause = match self.is_one_behind {
            _ if state.is_waited_for() => HASTY_LOOK,
            true => JOINING_LOOK,
            false => LOOK,
        };
        let looks_as = Some((state.standpoint(), state.leads()));
        if self.looked_at.is_some_and(|looked| now.saturating_sub(looked) < pause) && self.looked_as == looks_as {
            return Ok(());
        }
        let mut notices: Vec<Notice> =
            state.log().notices()?.iter().filter_map(|notice| Notice::decode(notice)).collect();
        notices.sort_by(|one, other| one.address.cmp(&other.address));
        (self.looked_at, self.looked_as) = (Some(now), looks_as);
        let standpoint = state.standpoint();
        let leader = match &standpoint {
            Standpoint::Leads { .. } => state.leads().then(|| state.me().address.clone()),
            Standpoint::Follows { leader, .. } => leader.as_ref().map(|leader| leader.address.clone()),
            Standpoint::IsOver => None,
        };
        let newest = Newest::of(&notices);
        let (mut members, mut joining) = (Vec::new(), Vec::new());
        for notice in &notices {
            let member = self.member(notice, newest, state, leader.as_deref(), (clock, now));
            if notice.is_listed { members.push(member) } else { joining.push(member) }
        }
        self.is_one_behind = members.iter().chain(&joining).any(|member| member.is_alive && member.is_catching_up);
        let (wait_for_copy, next_record) = (state.wait_for_copy(), state.next_record().0);
        let (needed_record, log_complaints) = (state.needs().0, state.log_complaints());
        let (primary, trimming) = (leader, state.trimming());
        let look =
            SetLook { primary, members, joining, wait_for_copy, next_record, needed_record, log_complaints, trimming };
        state.set_look(look, notices);
        Ok(())
    }

    fn member(
        &mut self,
        notice: &Notice,
        newest: Newest,
        state: &SetState,
        leader: Option<&str>,
        (clock, now): (&dyn Clock, Duration),
    ) -> MemberLook {
        let mark = (notice.incarnation, notice.number);
        // One that is seen for the first time may be of long ago, by its own clock.
        let age = Duration::from_millis(clock.wall_millis().saturating_sub(notice.wall_millis).max(0) as u64);
        let (first_at, wall_millis) = (now.saturating_sub(age.min(SILENT_AFTER)), notice.wall_millis);
        let first = || Seen { mark, at: first_at, wall_millis, level_at: None };
        let seen = self.seen.entry(notice.node).or_insert_with(first);
        if seen.mark != mark {
            *seen = Seen { mark, at: now, wall_millis: clock.wall_millis(), level_at: seen.level_at };
        }
        let lag = newest.lag_of(notice, seen, now);
        let is_self = notice.node == state.me().node;
        MemberLook {
            host: notice.address.clone(),
            is_self,
            leads: leader == Some(&*notice.address),
            is_alive: is_self || now.saturating_sub(seen.at) < SILENT_AFTER,
            applied: Timestamp(notice.applied_timestamp),
            applied_position: notice.applied,
            durable_position: notice.durable,
            lag,
            is_frozen: notice.is_frozen,
            // An earlier build says it in one.
            is_catching_up: notice.is_catching_up || !notice.is_listed,
            heard_millis: seen.wall_millis,
            tags: notice.tags.clone(),
        }
    }
}

/// What is to be told of this member now.
fn notice(state: &SetState, store: &Store) -> Notice {
    let (applied_timestamp, applied) = store.confirmed_end();
    let (term, leads) = match state.standpoint() {
        Standpoint::Leads { term } => (term, true),
        Standpoint::Follows { term, .. } => (term, false),
        Standpoint::IsOver => (0, false),
    };
    Notice {
        node: state.me().node,
        incarnation: state.me().incarnation,
        term,
        leads,
        is_listed: state.has_caught_up(),
        is_catching_up: !state.has_caught_up(),
        is_frozen: !state.may_lead(),
        applied: applied.0,
        needs: Some(state.needs()),
        applied_timestamp: applied_timestamp.0,
        address: state.me().address.clone(),
        tags: state.tags().to_vec(),
        ..Notice::default()
    }
}
