//! The levels of `readConcern`.
//!
//! Declared by the commands that take them, read in `read_concern`.

/// `readConcern.level`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// None was given: `local`, or what the command needs.
    #[default]
    Default,
    /// `local`.
    Local,
    /// `available`.
    Available,
    /// `majority`.
    Majority,
    /// `linearizable`.
    Linearizable,
    /// `snapshot`.
    Snapshot,
}

impl Level {
    /// All beside `local`.
    pub(crate) const ALL: &[Level] = &[Level::Available, Level::Majority, Level::Linearizable, Level::Snapshot];

    /// Its name in commands.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Default | Level::Local => "local",
            Level::Available => "available",
            Level::Majority => "majority",
            Level::Linearizable => "linearizable",
            Level::Snapshot => "snapshot",
        }
    }
}
