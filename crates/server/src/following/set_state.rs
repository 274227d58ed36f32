//! What the threads of a member and the commands know of each other: the role, the other members, and what is asked of the member's thread.
//!
//! Written by the member's thread and by `role_changes`; read by commands through [`SetMembers`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use commands::{LogTrimming, MemberLook, SetLook, SetMembers, StepDown, StepDownRefused};
use parking_lot::{Condvar, Mutex, RwLock};
use platform::{Clock, SystemClock};
use replication::Standpoint;
use shared_log::{Leader, Notice, Offset, SharedLog};
use transaction::{Leadership, Store};

/// How long a step-down waits for its answer, and then until it is through.
const STEP_DOWN_PATIENCE: Duration = Duration::from_secs(30);
/// How long is waited at a time for a member to catch up.
const CATCH_UP_LOOK: Duration = Duration::from_millis(20);

/// What is asked of the member's thread.
pub(super) enum Asked {
    /// Give up the lead, for this member.
    StepDown { successor: Option<u64> },
    /// Do not claim it for so long.
    Freeze(Duration),
}

/// See the module's head.
pub(super) struct SetState {
    log: Arc<dyn SharedLog>,
    me: Leader,
    tags: Vec<(String, String)>,
    pub(super) store: Arc<Store>,
    /// How often it has come into office or lost it, twice; and one more while it is in office: clients may write.
    office: AtomicU64,
    /// It has once had all of the log.
    caught_up: AtomicBool,
    /// It would claim the lead if nobody had it.
    may_lead: AtomicBool,
    /// The record from which it would read the log after a start.
    needs: AtomicU64,
    /// The record of the log that it reads next.
    next_record: AtomicU64,
    /// The addresses of new members that wait for a copy of a member's data.
    wait_for_copy: RwLock<Vec<String>>,
    /// In what the log is not set up as its promises need.
    log_complaints: RwLock<Vec<String>>,
    /// What has become of the log's beginning.
    trimming: RwLock<LogTrimming>,
    /// The server stops: nothing long is begun, and what has begun ends.
    closing: AtomicBool,
    look: RwLock<Arc<SetLook>>,
    notices: RwLock<Vec<Notice>>,
    /// Those who wait for news of others.
    waiting: AtomicUsize,
    shared: Mutex<Shared>,
    changed: Condvar,
}

struct Shared {
    standpoint: Standpoint,
    asked: Vec<Asked>,
    /// Of the last step-down that was asked for.
    step_down: Option<bool>,
    /// Counts what `hello` says differently.
    news: u64,
}

impl SetState {
    pub(super) fn new(
        log: Arc<dyn SharedLog>,
        me: Leader,
        tags: Vec<(String, String)>,
        store: Arc<Store>,
        leads: bool,
    ) -> SetState {
        let standpoint = Standpoint::Follows { term: 0, leader: None };
        SetState {
            log,
            me,
            tags,
            store,
            office: AtomicU64::new(u64::from(leads)),
            caught_up: AtomicBool::new(leads),
            may_lead: AtomicBool::new(true),
            needs: AtomicU64::new(0),
            next_record: AtomicU64::new(0),
            wait_for_copy: RwLock::default(),
            log_complaints: RwLock::default(),
            trimming: RwLock::default(),
            closing: AtomicBool::new(false),
            look: RwLock::default(),
            notices: RwLock::default(),
            waiting: AtomicUsize::new(0),
            shared: Mutex::new(Shared { standpoint, asked: Vec::new(), step_down: None, news: 0 }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn log(&self) -> &dyn SharedLog {
        &*self.log
    }

    /// The same, to be kept.
    pub(super) fn shared_log(&self) -> Arc<dyn SharedLog> {
        self.log.clone()
    }

    pub(super) fn me(&self) -> &Leader {
        &self.me
    }

    /// Names and values by which clients choose members.
    pub(super) fn tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// What the member is, as far as its thread knows.
    pub(super) fn standpoint(&self) -> Standpoint {
        self.shared.lock().standpoint.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.standpoint() == Standpoint::IsOver
    }

    /// Whether clients may read from this member.
    pub(super) fn has_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::Acquire)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(super) fn may_lead(&self) -> bool {
        self.may_lead.load(Ordering::Acquire)
    }

    pub(super) fn set_may_lead(&self, may_lead: bool) {
        self.may_lead.store(may_lead, Ordering::Release);
    }

    pub(super) fn needs(&self) -> Offset {
        Offset(self.needs.load(Ordering::Acquire))
    }

    pub(super) fn set_needs(&self, needs: Offset) {
        self.needs.store(needs.0, Ordering::Release);
    }

    pub(super) fn next_record(&self) -> Offset {
        Offset(self.next_record.load(Ordering::Acquire))
    }

    pub(super) fn set_next_record(&self, next: Offset) {
        self.next_record.store(next.0, Ordering::Release);
    }

    pub(super) fn wait_for_copy(&self) -> Vec<String> {
        self.wait_for_copy.read().clone()
    }

    pub(super) fn log_complaints(&self) -> Vec<String> {
        self.log_complaints.read().clone()
    }

    pub(super) fn set_log_complaints(&self, complaints: Vec<String>) {
        *self.log_complaints.write() = complaints;
    }

    pub(super) fn trimming(&self) -> LogTrimming {
        self.trimming.read().clone()
    }

    pub(super) fn set_trimming(&self, trimming: LogTrimming) {
        *self.trimming.write() = trimming;
    }

    pub(super) fn set_wait_for_copy(&self, addresses: Vec<String>) {
        *self.wait_for_copy.write() = addresses;
    }

    /// Somebody wants to know soon how far the others are.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// The member's thread has had a turn. The lead is gone for clients as soon as it is gone.
    pub(super) fn note(&self, standpoint: Standpoint) {
        let mut shared = self.shared.lock();
        if shared.standpoint == standpoint {
            return;
        }
        if !matches!(standpoint, Standpoint::Leads { .. }) {
            self.set_leads(false);
        }
        shared.standpoint = standpoint;
        shared.news += 1;
        self.changed.notify_all();
    }

    pub(super) fn note_caught_up(&self) {
        self.caught_up.store(true, Ordering::Release);
    }

    /// The member is in office.
    pub(super) fn take_office(&self, term: u64) {
        let mut shared = self.shared.lock();
        if shared.standpoint == (Standpoint::Leads { term }) {
            self.set_leads(true);
            shared.news += 1;
        }
    }

    /// Who is there, as the notices say.
    pub(super) fn set_look(&self, look: SetLook, notices: Vec<Notice>) {
        *self.notices.write() = notices;
        let hosts = |look: &SetLook| {
            let told = |member: &MemberLook| (member.host.clone(), member.tags.clone(), member.is_catching_up);
            let members = look.members.iter().map(told);
            (look.primary.clone(), members.collect::<Vec<_>>())
        };
        let is_news = hosts(&self.look.read()) != hosts(&look);
        *self.look.write() = Arc::new(look);
        let mut shared = self.shared.lock();
        shared.news += u64::from(is_news);
        self.changed.notify_all();
    }

    /// Waits until `hello` has something else to say than at `news`.
    pub(super) fn wait_for_change(&self, news: u64, longest: Duration) -> u64 {
        let mut shared = self.shared.lock();
        self.changed.wait_while_for(&mut shared, |shared| shared.news == news, longest);
        shared.news
    }

    pub(super) fn wake(&self) {
        let mut shared = self.shared.lock();
        shared.news += 1;
        self.changed.notify_all();
    }

    pub(super) fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.lock().asked)
    }

    /// Whether clients may write. Who is refused finds that this has changed since he was told otherwise.
    pub(super) fn set_leads(&self, leads: bool) {
        let change = |before: u64| {
            let differs = (before & 1 == 1) != leads;
            differs.then_some(((before >> 1) + 1) << 1 | u64::from(leads))
        };
        // An error says that it is so already.
        let _ = self.office.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    pub(super) fn answer_step_down(&self, is_begun: bool, led: bool) {
        // It goes on as it was.
        if !is_begun && led {
            self.set_leads(true);
        }
        let mut shared = self.shared.lock();
        shared.step_down = Some(is_begun);
        self.changed.notify_all();
    }

    /// The member that has applied most, if it has all before `position`.
    fn successor(&self, position: u64) -> Option<u64> {
        let look = self.look();
        let is_alive = |notice: &Notice| {
            let mut others = look.members.iter().filter(|member| !member.is_self);
            others.any(|member| member.host == notice.address && member.is_alive)
        };
        let notices = self.notices.read();
        let is_able = |notice: &&Notice| notice.is_listed && !notice.is_frozen && notice.applied >= position;
        let able = notices.iter().filter(is_able).filter(|notice| is_alive(notice));
        able.max_by_key(|notice| notice.applied).map(|notice| notice.node)
    }
}

impl SetMembers for SetState {
    fn leads(&self) -> bool {
        self.office.load(Ordering::Acquire) & 1 == 1
    }

    fn role_changes(&self) -> u64 {
        self.office.load(Ordering::Acquire) >> 1
    }

    fn address(&self) -> &str {
        &self.me.address
    }

    fn term(&self) -> u64 {
        match self.standpoint() {
            Standpoint::Leads { term } | Standpoint::Follows { term, .. } => term,
            Standpoint::IsOver => 0,
        }
    }

    fn look(&self) -> Arc<SetLook> {
        self.look.read().clone()
    }

    fn have_applied(&self, position: u64) -> usize {
        let notices = self.notices.read();
        let others = notices.iter().filter(|notice| notice.node != self.me.node && notice.applied >= position);
        1 + others.count()
    }

    fn wait_for_news(&self, longest: Duration) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut shared = self.shared.lock();
        self.changed.wait_for(&mut shared, longest);
        drop(shared);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    fn step_down(&self, how: &StepDown) -> Result<(), StepDownRefused> {
        let clock = SystemClock::new();
        if !self.leads() {
            return Err(StepDownRefused::NotPrimary);
        }
        // Others follow within moments; what is written meanwhile they get by the log before they lead.
        let (_, position) = self.store.confirmed_end();
        let successor = loop {
            match self.successor(position.0) {
                Some(found) => break Some(found),
                None if clock.monotonic() < how.patience => self.wait_for_news(CATCH_UP_LOOK),
                None if how.is_forced => break None,
                None => return Err(StepDownRefused::NobodyElse),
            }
        };
        let mut shared = self.shared.lock();
        shared.step_down = None;
        shared.asked.push(Asked::StepDown { successor });
        shared.asked.push(Asked::Freeze(how.longest));
        let waits = |shared: &mut Shared| shared.step_down.is_none();
        self.changed.wait_while_for(&mut shared, waits, STEP_DOWN_PATIENCE);
        match shared.step_down {
            Some(true) => {}
            Some(false) if !matches!(shared.standpoint, Standpoint::Leads { .. }) => {
                return Err(StepDownRefused::NotPrimary);
            }
            _ => return Err(StepDownRefused::StillWriting),
        }
        // What waits at a log that does not answer is not given up for now, and nobody is told that it is done.
        let is_silent = || self.store.leadership() == Leadership::Stalled;
        let waits = |shared: &mut Shared| matches!(shared.standpoint, Standpoint::Leads { .. }) && !is_silent();
        self.changed.wait_while_for(&mut shared, waits, STEP_DOWN_PATIENCE);
        Ok(())
    }

    fn freeze(&self, longest: Duration) {
        self.shared.lock().asked.push(Asked::Freeze(longest));
    }

    fn withdraw(&self, host: &str) -> Result<(), String> {
        let nodes: Vec<u64> =
            self.notices.read().iter().filter(|notice| notice.address == host).map(|notice| notice.node).collect();
        nodes.into_iter().try_for_each(|node| self.log.withdraw(node)).map_err(|error| error.to_string())
    }
}
