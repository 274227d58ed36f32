//! The members of a set that follow one shared log, as this server's program knows them.
//!
//! [`SetMembers`] is implemented by `server`, which drives this server's member. Asked by `replica_set` (who leads), `hello` and `replSetGetStatus` (who is there),
//! `acknowledgement` (how far the others are), and by the commands that change who leads. A set of one member without a shared log has none.

use std::sync::Arc;
use std::time::Duration;

use platform::Timestamp;

/// What commands ask of the program about the members.
pub trait SetMembers: Send + Sync {
    /// Whether this server is the primary, and all that it has found at its start is confirmed.
    fn leads(&self) -> bool;
    /// How often that has changed. Whoever has found that it does not lead finds a greater number than whoever found that it does.
    fn role_changes(&self) -> u64;
    /// Where clients find this server.
    fn address(&self) -> &str;
    /// The newest term that this server's member knows.
    fn term(&self) -> u64;
    /// Who is there. Cheap.
    fn look(&self) -> Arc<SetLook>;
    /// How many members have applied everything before this position of the oplog; this one has.
    fn have_applied(&self, position: u64) -> usize;
    /// Waits for news of the others, not longer than that.
    fn wait_for_news(&self, longest: Duration);
    /// Gives up the lead. Returns when it is given up.
    ///
    /// # Errors
    /// Why it is not.
    fn step_down(&self, how: &StepDown) -> Result<(), StepDownRefused>;
    /// Does not claim the lead for so long.
    fn freeze(&self, longest: Duration);
    /// Forgets a member that is gone for good; an error text when that cannot be.
    ///
    /// # Errors
    /// The log cannot be reached.
    fn withdraw(&self, host: &str) -> Result<(), String>;
}

/// How the lead is to be given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepDown {
    /// For so long this server does not claim it again.
    pub longest: Duration,
    /// So long it waits for another member to catch up.
    pub patience: Duration,
    /// Even if there is none that could take it.
    pub is_forced: bool,
}

/// Why the lead is not given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDownRefused {
    /// This server does not have it.
    NotPrimary,
    /// Nobody else could take it.
    NobodyElse,
    /// A commit goes on for too long.
    StillWriting,
}

/// States of members, by MongoDB's numbers.
pub(crate) mod state_numbers {
    pub(crate) const STARTUP: i32 = 0;
    pub(crate) const PRIMARY: i32 = 1;
    pub(crate) const SECONDARY: i32 = 2;
    pub(crate) const RECOVERING: i32 = 3;
    pub(crate) const DOWN: i32 = 8;
}

/// Who is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetLook {
    /// Who leads, if that is known.
    pub primary: Option<String>,
    /// All that clients may be told of, by address.
    pub members: Vec<MemberLook>,
    /// Those that have never caught up: clients are not told of them.
    pub joining: Vec<MemberLook>,
    /// The addresses of new members that wait for a copy of a member's data.
    pub wait_for_copy: Vec<String>,
    /// The record of the log that this member reads next.
    pub next_record: u64,
    /// The record from which it would have to read on if it were started again.
    pub needed_record: u64,
    /// In what the log is not set up as its promises need, as it was last looked at.
    pub log_complaints: Vec<String>,
    /// What has become of the log's beginning.
    pub trimming: LogTrimming,
}

/// What a member that leads has removed of the log by itself, since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogTrimming {
    /// The oldest record, as it was last looked at; `None`: nobody has looked here.
    pub first_record: Option<u64>,
    /// How often something was removed.
    pub trims: u64,
    /// Records that were removed.
    pub records: u64,
    /// Copies beside the log that were removed.
    pub copies: u64,
    /// Why the log keeps much more than it is to, if it does.
    pub kept_because: Option<String>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberLook {
    /// Where clients find it.
    pub host: String,
    /// Whether it is this server.
    pub is_self: bool,
    /// Whether it leads.
    pub leads: bool,
    /// Whether anything was heard of it lately.
    pub is_alive: bool,
    /// The newest commit that its readers see.
    pub applied: Timestamp,
    /// Its oplog is applied up to here.
    pub applied_position: u64,
    /// Its oplog is on its disk up to here.
    pub durable_position: u64,
    /// How far its readers are behind the newest commit that is known of.
    pub lag: Duration,
    /// Whether it does not claim the lead for a while.
    pub is_frozen: bool,
    /// Whether it has not had all of the log since its start: nobody is to read from it yet.
    pub is_catching_up: bool,
    /// When it was heard of, in milliseconds since 1970.
    pub heard_millis: i64,
    /// Names and values by which clients choose members.
    pub tags: Vec<(String, String)>,
}

impl SetLook {
    /// The number of a member: its place by address.
    pub(crate) fn number(&self, host: &str) -> i32 {
        self.members.iter().position(|member| member.host == host).map_or(0, |place| place as i32)
    }
}
