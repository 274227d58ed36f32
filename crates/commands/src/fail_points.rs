//! Failures made on purpose, for the tests of drivers: the fail point `failCommand`, set by `configureFailPoint`.
//!
//! Asked by `dispatcher` before a command runs; one relaxed load when nothing is set, which is always so unless the server was started with
//! `--enable-test-commands`.

pub(crate) mod configure_fail_point;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::RawDocument;
use parking_lot::Mutex;

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
}

struct Active {
    mode: Mode,
    target: Target,
    fault: Fault,
}

/// The fail points of the server.
#[derive(Default)]
pub(crate) struct FailPoints {
    is_active: AtomicBool,
    fail_command: Mutex<Option<Active>>,
    times_struck: std::sync::atomic::AtomicU64,
}

impl FailPoints {
    /// Sets `failCommand`, or switches it off; gives how often it has struck since the server started.
    pub(crate) fn set(&self, setting: Option<(Mode, Target, Fault)>) -> u64 {
        let mut fail_command = self.fail_command.lock();
        *fail_command = setting.map(|(mode, target, fault)| Active { mode, target, fault });
        self.is_active.store(fail_command.is_some(), Ordering::Release);
        self.times_struck.load(Ordering::Relaxed)
    }

    /// What is to happen to a command of a client.
    #[inline]
    pub(crate) fn strike(&self, command: &str, metadata: Option<&RawDocument>) -> Option<Fault> {
        if !self.is_active.load(Ordering::Relaxed) { None } else { self.strike_active(command, metadata) }
    }

    fn strike_active(&self, command: &str, metadata: Option<&RawDocument>) -> Option<Fault> {
        let mut fail_command = self.fail_command.lock();
        let active = fail_command.as_mut()?;
        if !active.target.matches(command, metadata) {
            return None;
        }
        match &mut active.mode {
            Mode::Always => {}
            Mode::Skip(0) => {}
            Mode::Skip(left) => {
                *left -= 1;
                return None;
            }
            Mode::Times(0) => return None,
            Mode::Times(left) => *left -= 1,
        }
        self.times_struck.fetch_add(1, Ordering::Relaxed);
        Some(active.fault.clone())
    }
}

impl Target {
    fn matches(&self, command: &str, metadata: Option<&RawDocument>) -> bool {
        let is_named = self.commands.iter().any(|name| name.eq_ignore_ascii_case(command));
        is_named && self.app_name.as_deref().is_none_or(|wanted| app_name(metadata) == Some(wanted))
    }
}

fn app_name(metadata: Option<&RawDocument>) -> Option<&str> {
    let bson::RawBsonRef::Document(application) = document::get_field(metadata?, "application")? else { return None };
    document::get_field(application, "name")?.as_str()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn it_strikes_as_often_as_it_was_told() {
        let points = FailPoints::default();
        let target = || Target { commands: vec!["insert".to_owned()], app_name: None };
        let struck = |points: &FailPoints| (0..5).filter(|_| points.strike("insert", None).is_some()).count();
        assert_eq!(struck(&points), 0);
        points.set(Some((Mode::Times(2), target(), Fault::default())));
        assert!(points.strike("find", None).is_none());
        assert_eq!(struck(&points), 2);
        points.set(Some((Mode::Skip(2), target(), Fault::default())));
        assert_eq!(struck(&points), 3);
        points.set(Some((Mode::Always, target(), Fault::default())));
        assert_eq!(struck(&points), 5);
        assert_eq!(points.set(None), 10);
        assert_eq!(struck(&points), 0);
    }

    #[test]
    fn it_may_be_for_one_application() {
        let points = FailPoints::default();
        let target = Target { commands: vec!["ping".to_owned()], app_name: Some("a".to_owned()) };
        points.set(Some((Mode::Always, target, Fault::default())));
        let metadata = |name: &str| rawdoc! { "application": { "name": name } };
        assert!(points.strike("ping", Some(&metadata("a"))).is_some());
        assert!(points.strike("ping", Some(&metadata("b"))).is_none());
        assert!(points.strike("ping", None).is_none());
    }
}
