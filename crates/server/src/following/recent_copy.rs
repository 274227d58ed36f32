//! Whether a copy beside the log does for a new member, so that none need be made for it: what is behind it in the log has to be read.
//!
//! Called by `fetching`. Making a copy takes what making the last one took. Reading what is behind it takes less than the time in which it was logged, as members that follow
//! keep up; so where the copy is younger than that, reading is the shorter way. It is, too, where the log behind it is as short as one that is read from its beginning.

use platform::{Clock, SystemClock};
use shared_log::{Notice, SharedLog};

use super::copies::{Copies, KeptCopy};

/// A log with more of the oplog than this is not read from its beginning where another member can give a copy: that has less to do.
pub(super) const READ_BYTES_MAX: u64 = 64 << 20;

/// How much of the log may be behind a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Less than what takes as long as another copy.
    Short,
    /// Everything that the log has.
    Any,
}

impl Copies {
    /// The newest copy, if it can be gone on from.
    ///
    /// # Errors
    /// What cannot be read.
    pub(super) fn recent(&self, log: &dyn SharedLog, reach: Reach) -> Result<Option<KeptCopy>, String> {
        let (identity, bounds) =
            log.identity().and_then(|identity| Ok((identity, log.bounds()?))).map_err(|error| error.to_string())?;
        let kept = self.kept().map_err(|error| error.to_string())?;
        let newest = kept.into_iter().rfind(|copy| copy.standing.log == identity && copy.standing.next >= bounds.first);
        let Some(newest) = newest else { return Ok(None) };
        if reach == Reach::Any {
            return Ok(Some(newest));
        }
        let notices = log.notices().map_err(|error| error.to_string())?;
        let listed = notices.iter().filter_map(|notice| Notice::decode(notice)).filter(|notice| notice.is_listed);
        let Some(applied) = listed.map(|notice| notice.applied).max() else { return Ok(None) };
        let manifest = self.manifest(&newest.id).map_err(|error| error.to_string())?;
        let Some(manifest) = manifest else { return Ok(None) };
        let behind = applied.saturating_sub(newest.standing.whole.position);
        Ok(is_short(behind, (manifest.began_millis, manifest.ended_millis), SystemClock::new().wall_millis())
            .then_some(newest))
    }
}

/// Whether so many bytes of the oplog are read in less time than another copy takes. Behind that one would be what is logged while it is made, as behind this one.
fn is_short(behind: u64, (began, ended): (i64, i64), now: i64) -> bool {
    let (took, age) = (ended.saturating_sub(began), now.saturating_sub(ended));
    behind <= READ_BYTES_MAX || (0..=took).contains(&age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_that_is_young_or_has_little_behind_it() {
        let much = READ_BYTES_MAX + 1;
        assert!(is_short(READ_BYTES_MAX, (0, 10), 1_000));
        assert!(is_short(much, (1_000, 5_000), 9_000));
        assert!(!is_short(much, (1_000, 5_000), 9_001));
        // A clock that is behind says nothing.
        assert!(!is_short(much, (1_000, 5_000), 4_000));
    }
}
