//! Trimming the shared log without being told: what is older than the window goes, once a copy of the data stands for it.
//!
//! A thread of its own in each member, begun by `following`; it does something only while its member leads. The rule is that of `plimsoll log trim` (`log_care`), with two
//! differences. What is needed by members that are there is kept, however old it is; for those that are away there is the window, and who is away for longer gets a copy
//! (`fetching`). And a copy need only be read back: nobody has room to restore it.
//!
//! ```text
//! look ──> is anything older than the window? ──> is the newest copy read back, and young enough? ──> trim, and remove copies
//!                                                     └─ no: want one, as a new member does; look again when it is given
//! ```
//!
//! Two primaries may look at once, of whom one does not know yet that it leads no longer: what the rule gives up is needed by nobody, whoever asks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use backup::BackupError;
use commands::{LogTrimming, SetMembers};
use platform::{Clock, SystemClock, WorkClass, WorkScope, spawn_named};
use shared_log::{Notice, Offset, Window, WindowBegin};

use super::copies::{Copies, Proof};
use super::log_care::{self, COPIES_KEPT, LogCare, Needs, TrimRule};
use super::log_opening::open_beside;
use super::set_state::SetState;
use crate::configuration::{KeySource, LogPlace, LogWindow};

/// The longest between two looks. A short window is looked at more often: so many times within it.
const LOOK: Duration = Duration::from_secs(3600);
const LOOKS_A_WINDOW: u32 = 8;
/// How often it is seen whether it is time for a look, and whether a copy that is wanted was given.
const TICK: Duration = Duration::from_secs(1);

/// What the thread goes by.
pub(super) struct Trimming {
    pub(super) place: LogPlace,
    pub(super) key: Option<KeySource>,
    pub(super) window: LogWindow,
    pub(super) state: Arc<SetState>,
    pub(super) stop: Arc<AtomicBool>,
}

/// Starts the thread; none where the log is not to be trimmed.
pub(super) fn begin(trimming: Trimming) -> io::Result<Option<JoinHandle<()>>> {
    if trimming.window == LogWindow::Off {
        return Ok(None);
    }
    spawn_named("log-trimmer", move || Trimmer::new(trimming).run()).map(Some)
}

struct Trimmer {
    with: Trimming,
    copies: Option<Copies>,
    clock: SystemClock,
    /// When it was looked last, and how long the oplog was then.
    looked: Option<(Duration, u64)>,
    /// When it began to lead, or trimmed last.
    since: Option<Duration>,
    /// A copy is wanted that was not given yet.
    is_waiting: bool,
    told: LogTrimming,
}

impl Trimmer {
    fn new(with: Trimming) -> Trimmer {
        let copies = Copies::of_log(&with.place, with.key.clone());
        let (looked, since, is_waiting, told) = (None, None, false, LogTrimming::default());
        Trimmer { with, copies, clock: SystemClock::new(), looked, since, is_waiting, told }
    }

    fn run(mut self) {
        // It may have been killed while it wanted one.
        self.want_nothing();
        while !self.is_over() {
            // Who ends the thread wakes it.
            std::thread::park_timeout(TICK);
            if !self.with.state.leads() {
                self.leave();
            } else if self.is_due() && !self.is_over() {
                self.looked = Some((self.clock.monotonic(), self.oplog_end()));
                let kept_because = self.look().unwrap_or_else(Some);
                if let Some(why) = kept_because.as_ref().filter(|_| self.told.kept_because != kept_because) {
                    tracing::warn!(target: "replication", why, "the shared log keeps much more than its window");
                }
                self.told.kept_because = kept_because;
                self.with.state.set_trimming(self.told.clone());
            }
        }
    }

    fn is_over(&self) -> bool {
        self.with.stop.load(Ordering::Acquire) || self.with.state.is_closing()
    }

    fn oplog_end(&self) -> u64 {
        self.with.state.store.confirmed_end().1.0
    }

    /// Another member leads: what was wanted for trimming is its business now.
    fn leave(&mut self) {
        if self.is_waiting {
            self.want_nothing();
        }
        self.since = None;
        if self.looked.take().is_some() {
            (self.told.first_record, self.told.kept_because) = (None, None);
            self.with.state.set_trimming(self.told.clone());
        }
    }

    fn want_nothing(&mut self) {
        self.is_waiting = false;
        // One that stays has a copy made that nobody has asked for, once.
        let node = self.with.state.me().node;
        if let Some(copies) = self.copies.as_ref().filter(|copies| copies.is_there()) {
            let _ = copies.want_nothing(node);
        }
    }

    fn is_due(&mut self) -> bool {
        let Some((looked, end)) = self.looked else { return true };
        if self.is_waiting {
            let given = self.copies.as_ref().map(|copies| copies.given_to(self.with.state.me().node));
            if matches!(given, Some(Ok(Some(_)))) {
                self.want_nothing();
                return true;
            }
        }
        let since = self.clock.monotonic().saturating_sub(looked);
        match self.with.window {
            LogWindow::Time(window) => since >= LOOK.min(window / LOOKS_A_WINDOW),
            LogWindow::Bytes(bytes) => {
                let grown = self.oplog_end().saturating_sub(end);
                since >= LOOK || grown >= bytes / u64::from(LOOKS_A_WINDOW)
            }
            LogWindow::Off => false,
        }
    }

    /// Trims what can be. Returns why the log keeps more than twice its window, if it does.
    fn look(&mut self) -> Result<Option<String>, String> {
        let Trimming { place, key, state, .. } = &self.with;
        let log = open_beside(place, key.as_ref(), state.shared_log()).map_err(|error| error.to_string())?;
        let care = LogCare::of_member(place.clone(), log, key.clone())?;
        let first = care.range().start;
        self.told.first_record = Some(first.0);
        let (window, double) = self.windows();
        let begins = care.window_begins(window)?;
        // Most looks end here.
        if begins.first <= first || (begins.behind <= first && !self.is_silence_old()) {
            return Ok(None);
        }
        // What is trimmed cannot be looked at any more.
        let double_begins = care.window_begins(double)?.behind;
        let (began, why) = match &self.copies {
            None => (
                first,
                "no directory is named for copies of the data: the option copies in the URL of --log does so"
                    .to_owned(),
            ),
            Some(copies) => match self.trim(&care, &copies.clone(), begins) {
                Ok(done) => done,
                Err(why) => (first, why),
            },
        };
        self.told.first_record = Some(began.0);
        let keeps_much = double_begins > began;
        Ok(keeps_much.then_some(why))
    }

    /// Whether it is time for what only says that a primary was there, where nothing else is older than the window: once in each.
    fn is_silence_old(&mut self) -> bool {
        let now = self.clock.monotonic();
        let since = *self.since.get_or_insert(now);
        match self.with.window {
            LogWindow::Time(window) => now.saturating_sub(since) >= window,
            LogWindow::Bytes(_) | LogWindow::Off => false,
        }
    }

    /// The window as it is now, and one of twice its length.
    fn windows(&self) -> (Window, Window) {
        match self.with.window {
            LogWindow::Bytes(bytes) => (Window::Bytes(bytes), Window::Bytes(bytes.saturating_mul(2))),
            LogWindow::Time(time) => {
                let now = self.clock.wall_millis();
                (log_care::since(time, now), log_care::since(time.saturating_mul(2), now))
            }
            LogWindow::Off => (Window::Since(0), Window::Since(0)),
        }
    }

    /// Where the log begins afterwards, and what it was that kept more of it.
    fn trim(&mut self, care: &LogCare, copies: &Copies, window: WindowBegin) -> Result<(Offset, String), String> {
        let mut why = self.read_back(care, copies)?;
        let alive: Vec<String> = {
            let look = self.with.state.look();
            let all = look.members.iter().chain(&look.joining);
            all.filter(|member| member.is_alive).map(|member| member.host.clone()).collect()
        };
        let is_there = |notice: &Notice| alive.contains(&notice.address);
        let needs = care.needs(&TrimRule { window, proof: Proof::ReadBack, is_waited_for: &is_there })?;
        if self.is_copy_old(&needs, copies)? {
            self.want_copy(copies)?;
            why.get_or_insert_with(|| "no member has made a copy of the data that is young enough".to_owned());
        }
        let first = care.range().start;
        let Some(target) = needs.target else { return Ok((first, why.unwrap_or_default())) };
        let held = needs.behind.iter().map(|behind| behind.needs.unwrap_or(first)).min();
        let target = held.map_or(target, |held| held.min(target));
        let mut began = first;
        if target > first {
            began = care.trim(target)?;
            self.since = Some(self.clock.monotonic());
            let records = began.0.saturating_sub(first.0);
            if records > 0 {
                (self.told.trims, self.told.records) = (self.told.trims + 1, self.told.records + records);
                tracing::info!(target: "replication", first = began.0, records, "trimmed the shared log");
            }
            self.prune(care);
        }
        let behind = needs.behind.into_iter().map(|behind| behind.why);
        Ok((began, why.into_iter().chain(behind).collect::<Vec<_>>().join("; ")))
    }

    /// Whether the newest good copy holds the log back. Of what only says that a primary was there nothing is lost with an old copy; but it is to go, too, once in each window.
    fn is_copy_old(&self, needs: &Needs, copies: &Copies) -> Result<bool, String> {
        let Some(copy) = &needs.copy else { return Ok(true) };
        let next = copy.standing.next;
        let LogWindow::Time(window) = self.with.window else { return Ok(next < needs.window.behind) };
        if next < needs.window.behind || next >= needs.window.first {
            return Ok(next < needs.window.behind);
        }
        let manifest = copies.manifest(&copy.id).map_err(|error| error.to_string())?;
        let made = manifest.map_or(0, |manifest| manifest.ended_millis);
        Ok(self.clock.wall_millis().saturating_sub(made) >= window.as_millis() as i64)
    }

    /// Reads the newest copy through, if nobody has. Returns what is wrong with it: another one is wanted then.
    fn read_back(&self, care: &LogCare, copies: &Copies) -> Result<Option<String>, String> {
        let Some(newest) = care.kept()?.pop().filter(|copy| copy.proof == Proof::None) else { return Ok(None) };
        // Clients go first.
        let _long = WorkScope::begin(WorkClass::Long);
        let objects = copies.place().open_existing().map_err(|error| error.to_string())?;
        let key = copies.outer_key()?;
        match backup::read_back(&*objects, &newest.id, key.as_ref(), &|| self.is_over()) {
            Ok(true) => {
                tracing::info!(target: "replication", copy = newest.id, "has read a copy of the data back");
                copies.note_proof(&newest.id, Proof::ReadBack).map_err(|error| error.to_string()).map(|()| None)
            }
            Ok(false) => Err("the server stops".to_owned()),
            Err(error @ (BackupError::Damaged { .. } | BackupError::Missing(_))) => {
                copies.note_damaged(&newest.id).map_err(|error| error.to_string())?;
                Ok(Some(format!("the copy {} is not what it should be: {error}", newest.id)))
            }
            Err(error) => Err(format!("the copy {} cannot be read: {error}", newest.id)),
        }
    }

    fn want_copy(&mut self, copies: &Copies) -> Result<(), String> {
        if !self.is_waiting {
            // The log itself may be on that file system, and must not run out of space.
            let available = copies.available_bytes().map_err(|error| error.to_string())?;
            let statistics = self.with.state.store.engine().statistics().map_err(|error| error.to_string())?;
            let data = statistics.store.live_bytes;
            if available / 2 < data {
                return Err(format!(
                    "there is no room for a copy of the data beside the log: {data} bytes are to be copied, and may take half of the {available} that are free"
                ));
            }
            let me = self.with.state.me();
            copies.want(me.node, &me.address).map_err(|error| error.to_string())?;
            self.is_waiting = true;
            tracing::info!(target: "replication", "wants a copy of the data, so that the shared log can be trimmed");
        }
        Ok(())
    }

    /// Removes copies that are not needed. What cannot be removed now, as one is being made, can be later.
    fn prune(&mut self, care: &LogCare) {
        match care.prune(COPIES_KEPT as usize, Proof::ReadBack) {
            Ok(pruned) => {
                self.told.copies += pruned.backups.len() as u64;
                for copy in pruned.backups {
                    tracing::info!(target: "replication", copy, "removed a copy of the data");
                }
            }
            Err(why) => tracing::info!(target: "replication", why, "copies of the data are not removed now"),
        }
    }
}
