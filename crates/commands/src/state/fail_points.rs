//! Failures made on purpose, for the tests of drivers: fail points, set by `configureFailPoint`.
//!
//! Asked by `dispatcher` before a command runs, by write commands around each retryable statement, by `getMore`, and where a time limit is
//! set; one relaxed load when nothing is set, which is always so unless the server was started with `--enable-test-commands`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::RawDocument;
use parking_lot::{Condvar, Mutex};

use crate::request::client_metadata::application_name;
use crate::request::error::CommandError;

/// When a fail point strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every time.
    Always,
    /// So many times more.
    Times(u64),
    /// Every time after so many times more.
    Skip(u64),
}

/// What happens to a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fault {
    /// It waits for so long first.
    pub(crate) block: Option<Duration>,
    /// The connection is closed without a reply, and nothing is done.
    pub(crate) closes_connection: bool,
    /// It fails with this code, and nothing is done.
    pub(crate) error_code: Option<i32>,
    /// It is run, and the reply has this beside.
    pub(crate) write_concern_error: Option<bson::RawDocumentBuf>,
    /// The labels of the error; `None`: those that the server would give it.
    pub(crate) labels: Option<Vec<String>>,
}

/// Which commands a fault is for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Target {
    pub(crate) commands: Vec<String>,
    /// Of clients of this name alone.
    pub(crate) app_name: Option<String>,
    /// On this collection alone.
    pub(crate) namespace: Option<String>,
}

/// What happens to a getMore that has found its cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CursorFault {
    pub(crate) error_code: i32,
    pub(crate) closes_connection: bool,
}

/// What happens to a statement of a retryable write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteFault {
    /// It fails with this code, and nothing is done; otherwise it is done.
    pub(crate) error_code: Option<i32>,
    /// The connection is closed, then.
    pub(crate) closes_connection: bool,
}

/// A fail point as it is set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Setting {
    /// `failCommand`.
    Command(Target, Fault),
    /// `failGetMoreAfterCursorCheckout`.
    GetMore(CursorFault),
    /// `onPrimaryTransactionalWrite`.
    RetryableWrite(WriteFault),
    /// `maxTimeAlwaysTimeOut`: every time limit is over at once.
    EveryTimeIsOver,
    /// `maxTimeNeverTimeOut`: no time limit is ever over.
    NoTimeIsOver,
    /// `wallClockIsAhead`, which is ours: somebody has set the machine's clock. So many milliseconds.
    WallClock(i64),
}

/// The names of the fail points, in the order of [`FailPoint`].
pub(crate) const NAMES: [&str; 6] = [
    "failCommand",
    "failGetMoreAfterCursorCheckout",
    "onPrimaryTransactionalWrite",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    "wallClockIsAhead",
];

/// Which fail point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailPoint {
    Command,
    GetMore,
    RetryableWrite,
    EveryTimeIsOver,
    NoTimeIsOver,
    WallClock,
}

impl FailPoint {
    const ALL: [FailPoint; NAMES.len()] = [
        FailPoint::Command,
        FailPoint::GetMore,
        FailPoint::RetryableWrite,
        FailPoint::EveryTimeIsOver,
        FailPoint::NoTimeIsOver,
        FailPoint::WallClock,
    ];

    /// The fail point of that name.
    pub(crate) fn named(name: &str) -> Option<FailPoint> {
        let position = NAMES.iter().position(|known| *known == name)?;
        FailPoint::ALL.get(position).copied()
    }
}

#[derive(Default)]
struct State {
    active: [Option<(Mode, Setting)>; NAMES.len()],
    times_struck: [u64; NAMES.len()],
}

/// The fail points of the server.
#[derive(Default)]
pub(crate) struct FailPoints {
    is_active: AtomicBool,
    state: Mutex<State>,
    struck: Condvar,
}

impl FailPoints {
    /// Sets a fail point, or switches it off; gives how often it has struck since the server started.
    pub(crate) fn set(&self, point: FailPoint, setting: Option<(Mode, Setting)>) -> u64 {
        let mut state = self.state.lock();
        if let Some(active) = state.active.get_mut(point as usize) {
            *active = setting;
        }
        self.is_active.store(state.active.iter().any(Option::is_some), Ordering::Release);
        state.times_struck.get(point as usize).copied().unwrap_or_default()
    }

    /// Whether any is set.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// What is to happen to a command of a client.
    #[inline]
    pub(crate) fn strike(&self, command: &Struck<'_>) -> Option<Fault> {
        if !self.is_active() {
            return None;
        }
        self.strike_if(FailPoint::Command, |setting| match setting {
            Setting::Command(target, fault) if target.matches(command) => Some(fault.clone()),
            _ => None,
        })
    }

    /// What is to happen to a getMore that has found its cursor.
    pub(crate) fn strike_get_more(&self) -> Option<CursorFault> {
        self.strike_if(FailPoint::GetMore, |setting| match setting {
            Setting::GetMore(fault) => Some(*fault),
            _ => None,
        })
    }

    /// What is to happen to a statement of a retryable write, before it is done or after it.
    pub(crate) fn strike_write(&self, is_done: bool) -> Option<WriteFault> {
        self.strike_if(FailPoint::RetryableWrite, |setting| match setting {
            Setting::RetryableWrite(fault) if fault.error_code.is_none() == is_done => Some(*fault),
            _ => None,
        })
    }

    /// Whether a time limit that was just set is over in spite of the clock, or never is.
    pub(crate) fn strike_time_limit(&self) -> Option<FailPoint> {
        let strikes = |point: FailPoint| self.strike_if(point, |_| Some(point));
        strikes(FailPoint::EveryTimeIsOver).or_else(|| strikes(FailPoint::NoTimeIsOver))
    }

    /// Strikes if it is set, concerns what happens now, and its turn has come.
    fn strike_if<T>(&self, point: FailPoint, concerns: impl FnOnce(&Setting) -> Option<T>) -> Option<T> {
        if !self.is_active() {
            return None;
        }
        let mut state = self.state.lock();
        let (mode, setting) = state.active.get_mut(point as usize)?.as_mut()?;
        let fault = concerns(setting)?;
        if !mode.strikes() {
            return None;
        }
        if let Some(times) = state.times_struck.get_mut(point as usize) {
            *times += 1;
        }
        self.struck.notify_all();
        Some(fault)
    }

    /// Waits until a fail point has struck so often since the server started, at most so long; whether it has.
    pub(crate) fn wait_until_struck(&self, point: FailPoint, times: u64, longest: Duration) -> bool {
        let mut state = self.state.lock();
        let has_struck = |state: &State| state.times_struck.get(point as usize).is_some_and(|struck| *struck >= times);
        if !has_struck(&state) {
            self.struck.wait_for(&mut state, longest);
        }
        has_struck(&state)
    }
}

impl Mode {
    /// Counts; whether it is the turn.
    fn strikes(&mut self) -> bool {
        match self {
            Mode::Always | Mode::Skip(0) => true,
            Mode::Skip(left) => {
                *left -= 1;
                false
            }
            Mode::Times(0) => false,
            Mode::Times(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// The command that a fault may be for, as it came: not yet validated.
pub(crate) struct Struck<'a> {
    /// Its name as the registry has it.
    pub(crate) name: &'a str,
    pub(crate) database: &'a str,
    pub(crate) body: &'a RawDocument,
    /// What its client has said of itself.
    pub(crate) metadata: Option<&'a RawDocument>,
}

impl Target {
    fn matches(&self, command: &Struck<'_>) -> bool {
        let is_named = self.commands.iter().any(|name| name.eq_ignore_ascii_case(command.name));
        is_named && self.is_of_application(command) && self.is_on_namespace(command)
    }

    fn is_of_application(&self, command: &Struck<'_>) -> bool {
        let Some(wanted) = self.app_name.as_deref() else { return true };
        // The first hello of a connection says it itself.
        let said = match command.name {
            "hello" | "isMaster" => document_field(command.body, "client"),
            _ => None,
        };
        command.metadata.or(said).and_then(application_name) == Some(wanted)
    }

    fn is_on_namespace(&self, command: &Struck<'_>) -> bool {
        let Some(wanted) = self.namespace.as_deref() else { return true };
        let named = match command.name {
            "getMore" => document::get_field(command.body, "collection").and_then(|value| value.as_str()),
            _ => document::elements(command.body).next().and_then(|element| element.value().as_str()),
        };
        named.is_some_and(|collection| wanted.split_once('.') == Some((command.database, collection)))
    }
}

fn document_field<'a>(source: &'a RawDocument, name: &str) -> Option<&'a RawDocument> {
    match document::get_field(source, name)? {
        bson::RawBsonRef::Document(found) => Some(found),
        _ => None,
    }
}

/// The error of a fail point.
pub(crate) fn error_of(code: i32, point: &str) -> CommandError {
    CommandError::of_code(code, format!("made to fail by the fail point '{point}'"))
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn strike(points: &FailPoints, name: &str, body: &RawDocument, metadata: Option<&RawDocument>) -> bool {
        points.strike(&Struck { name, database: "d", body, metadata }).is_some()
    }

    fn set(points: &FailPoints, mode: Mode, target: Target) {
        points.set(FailPoint::Command, Some((mode, Setting::Command(target, Fault::default()))));
    }

    #[test]
    fn it_strikes_as_often_as_it_was_told() {
        let points = FailPoints::default();
        let target = || Target { commands: vec!["insert".to_owned()], ..Target::default() };
        let nothing = RawDocumentBuf::new();
        let struck = |points: &FailPoints| (0..5).filter(|_| strike(points, "insert", &nothing, None)).count();
        assert_eq!(struck(&points), 0);
        set(&points, Mode::Times(2), target());
        assert!(!strike(&points, "find", &nothing, None));
        assert_eq!(struck(&points), 2);
        set(&points, Mode::Skip(2), target());
        assert_eq!(struck(&points), 3);
        set(&points, Mode::Always, target());
        assert_eq!(struck(&points), 5);
        assert_eq!(points.set(FailPoint::Command, None), 10);
        assert_eq!(struck(&points), 0);
        assert!(points.wait_until_struck(FailPoint::Command, 10, Duration::ZERO));
        assert!(!points.wait_until_struck(FailPoint::Command, 11, Duration::ZERO));
    }

    #[test]
    fn it_may_be_for_one_application_or_collection() {
        let points = FailPoints::default();
        let of_app = |app: &str| Some(app.to_owned());
        let commands = || vec!["ping".to_owned(), "hello".to_owned(), "find".to_owned()];
        set(&points, Mode::Always, Target { commands: commands(), app_name: of_app("a"), namespace: None });
        let metadata = |name: &str| rawdoc! { "application": { "name": name } };
        let ping = rawdoc! { "ping": 1 };
        assert!(strike(&points, "ping", &ping, Some(&metadata("a"))));
        assert!(!strike(&points, "ping", &ping, Some(&metadata("b"))));
        assert!(!strike(&points, "ping", &ping, None));
        for (app, strikes) in [("a", true), ("b", false)] {
            let first = rawdoc! { "hello": 1, "client": metadata(app) };
            assert_eq!(strike(&points, "hello", &first, None), strikes, "{app}");
        }
        set(&points, Mode::Always, Target { commands: commands(), app_name: None, namespace: Some("d.c".to_owned()) });
        assert!(strike(&points, "find", &rawdoc! { "find": "c" }, None));
        assert!(!strike(&points, "find", &rawdoc! { "find": "b" }, None));
    }
}
